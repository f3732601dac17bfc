// Words to the person, out of the way: they stay long enough to be read, errors until they are put away.

import { byId, icon, make } from "./dom.js";

const READ = 6000; // milliseconds

function show(text, kind, action = null) {
  const box = byId("messages");
  for (const old of box.children) if (old.dataset.text === text) old.remove();
  const note = make(
    "div",
    { class: `message ${kind}`, role: kind === "error" ? "alert" : null, "data-text": text },
    make("p", {}, text),
    action && make("button", { class: "small", onclick: () => (note.remove(), action.run()) }, action.label),
    make("button", { class: "icon small", "aria-label": "Put this message away", onclick: () => note.remove() }, icon("close")),
  );
  box.append(note);
  while (box.children.length > 3) box.firstChild.remove();
  if (kind !== "error") setTimeout(() => note.remove(), READ);
}

export const say = (text, action = null) => show(text, "note", action);
export const fail = (error) => show(error instanceof Error ? error.message : String(error), "error");

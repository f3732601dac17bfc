// Paintings: the bundled ones, the person's own, and how a region gets one.

import * as api from "./api.js";
import { byId, make } from "./dom.js";
import { fail, say } from "./messages.js";
import { edit, studio } from "./state.js";

export const bundled = []; // { id, name, url }
const own = []; // uploaded in this visit, newest first
const dialog = byId("gallery");
let wanted = null; // the key of the region that gets the painting

export function openGallery(key) {
  wanted = key;
  const region = studio.regions.find((other) => other.key === key);
  byId("gallery-title").textContent = `A painting for “${region.name}”`;
  const pictures = [...own, ...bundled];
  byId("gallery-list").replaceChildren(
    ...pictures.map((style) =>
      make(
        "li",
        {},
        make(
          "button",
          { class: "tile", "aria-pressed": String(region.style?.id === style.id), onclick: () => choose(style) },
          make("img", { src: `${style.url}?width=240`, alt: "", loading: "lazy" }),
          make("span", {}, style.name),
        ),
      ),
    ),
  );
  dialog.showModal();
}

function choose(style) {
  give(wanted, style);
  dialog.close();
}

function give(key, style) {
  edit(() => Object.assign(studio.regions.find((region) => region.key === key), { style, part: null }));
}

// A file or a pasted picture becomes the painting of a region.
export async function givePainting(key, file) {
  try {
    const { id, url, width, height } = await api.upload(file);
    const style = { id, url, width, height, name: plainName(file.name) };
    own.unshift(style);
    const region = studio.regions.find((other) => other.key === key);
    if (!region) return;
    give(key, style);
    say(`“${style.name}” is the painting of “${region.name}” now.`);
  } catch (error) {
    fail(new Error(`${file.name || "The pasted picture"}: ${error.message}`));
  }
}

export const plainName = (name) => (name ?? "pasted").replace(/\.[a-z0-9]+$/i, "").slice(0, 60) || "picture";

export function knownStyle(id) {
  return [...own, ...bundled].find((style) => style.id === id) ?? { id, url: `api/images/${id}`, name: "painting" };
}

export function wireGallery() {
  const input = byId("painting-file");
  byId("gallery-open").addEventListener("click", () => input.click());
  input.addEventListener("change", async () => {
    const [file] = input.files;
    input.value = "";
    if (!file) return;
    dialog.close();
    await givePainting(wanted, file);
  });
}

// From a link to the end: consent, instructions, practice, rating, thanks; and the researcher's overview.

import { ask } from "./api.js";
import { byId, make, prose, say, show } from "./dom.js";
import { Rating } from "./rating.js";

let start, session;

async function main() {
  start = await ask("/api/start");
  document.title = byId("title").textContent = start.title;
  if (start.role === "researcher") return overview();
  if (start.role !== "participant") return visitor();
  session = await ask("/api/session");
  return session.consented ? resume() : consent();
}

function arrive(...children) {
  const view = show(...children);
  byId("progress").hidden = true;
  view.className = "reading";
  scrollTo(0, 0);
  view.focus({ preventScroll: true });
}

function action(text, act) {
  return make("button", { type: "button", className: "main", textContent: text, on: { click: guarded(act) } });
}

function guarded(act) {
  return async () => {
    try {
      await act();
    } catch (error) {
      say(error.message, "problem");
    }
  };
}

function visitor() {
  if (!start.open) {
    const lost = location.search.includes("token=") ? "This link is not valid (any more)." : "This study is by invitation.";
    return arrive(make("h1", { textContent: start.title }), make("p", { textContent: `${lost} Open the link you were given, or ask the researcher for one.` }));
  }
  arrive(
    prose(start.texts.consent),
    action("I agree and want to take part", async () => {
      const joined = await ask("/api/join", {});
      sessionStorage.setItem("agreed", "yes"); // asked for here, so not asked for again behind the link
      location.assign(joined.link);
    }),
  );
}

async function consent() {
  if (sessionStorage.getItem("agreed")) {
    sessionStorage.removeItem("agreed");
    return agree();
  }
  arrive(prose(start.texts.consent), identity(), action("I agree and want to take part", agree));
}

async function agree() {
  session = await ask("/api/consent", {});
  instructions();
}

function instructions() {
  arrive(prose(start.texts.instructions), identity(), action(begun() ? "Go on" : "Begin", rate));
}

const begun = () => Object.keys(session.answers).length > 0;

function resume() {
  if (session.finished) return thanks();
  return begun() ? rate() : instructions();
}

function rate() {
  new Rating(start, session, { finish, instructions }).begin();
}

async function finish() {
  await ask("/api/finish", {});
  session.finished = true;
  thanks();
}

function thanks() {
  say("");
  arrive(prose(start.texts.thanks), identity(), make("button", { type: "button", textContent: "Look at my answers again", on: { click: rate } }));
}

// The link to come back by, and the code by which answers can be withdrawn.
function identity() {
  const link = make("input", { type: "text", readOnly: true, value: session.link, id: "link", on: { focus: () => link.select() } });
  const copy = make("button", {
    type: "button",
    textContent: "Copy",
    on: {
      click: async () => {
        link.select();
        try {
          await navigator.clipboard.writeText(session.link);
        } catch {
          document.execCommand("copy");
        }
        say("link copied");
      },
    },
  });
  return make(
    "div",
    { className: "identity" },
    make("label", { htmlFor: "link", textContent: "Your own link, to go on later or on another device" }),
    make("div", { className: "row" }, link, copy),
    make("p", {}, "Your code: ", make("strong", { textContent: session.code })),
  );
}

async function overview() {
  const found = await ask("/api/people");
  const when = (time) => (time ? new Date(time * 1000).toLocaleString() : "–");
  const rows = found.people.map((one) =>
    make("tr", {}, make("th", { scope: "row", textContent: one.code }), make("td", { textContent: one.label || "–" }), make("td", { textContent: when(one.consented) }), make("td", { textContent: `${one.answers} of ${found.questions}` }), make("td", { textContent: when(one.finished) })),
  );
  const heads = ["Code", "Label", "Agreed", "Answers", "Finished"].map((text) => make("th", { scope: "col", textContent: text }));
  const finished = found.people.filter((one) => one.finished).length;
  arrive(
    make("h1", { textContent: start.title }),
    make("p", { textContent: `${found.people.length} invited or joined, ${finished} finished.` }),
    make("p", {}, make("a", { href: "/api/answers.csv", textContent: "All answers as CSV" })),
    make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "People" }, make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows))),
  );
}

main().catch((error) => {
  arrive(make("h1", { textContent: "This page could not be opened" }), make("p", { textContent: error.message }), action("Try again", () => location.reload()));
});

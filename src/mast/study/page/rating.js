// One result at a time: pictures on one side, the questions on the other.

import { Sender } from "./api.js";
import { byId, make, say, show } from "./dom.js";

const LOOKS = { result: "Result", photo: "Photo" };

export class Rating {
  constructor(start, session, leave) {
    Object.assign(this, { criteria: start.criteria, scale: start.scale, session, leave });
    this.items = session.items;
    this.answers = session.answers;
    this.seconds = session.seconds;
    this.sender = new Sender((waiting, problem) => this.tell(waiting, problem));
    this.left = new AbortController();
    this.at = 0;
    this.since = null;
  }

  begin() {
    const open = this.items.findIndex((item) => !this.done(item));
    const until = { signal: this.left.signal };
    document.addEventListener("visibilitychange", () => this.clock(), until);
    document.addEventListener("keydown", (event) => this.key(event), until);
    this.go(open < 0 ? this.items.length - 1 : open);
  }

  done(item) {
    return this.criteria.every((one) => this.answers[item.id]?.[one.name] !== undefined);
  }

  // Seconds that the picture of this page was on the screen, over all visits.
  clock() {
    const now = performance.now();
    const item = this.items[this.at];
    if (this.since !== null) this.seconds[item.id] = (this.seconds[item.id] ?? 0) + (now - this.since) / 1000;
    this.since = document.visibilityState === "visible" ? now : null;
    return this.seconds[item.id] ?? 0;
  }

  go(place) {
    if (this.since !== null) this.clock();
    this.at = place;
    this.since = null;
    this.clock();
    const item = this.items[place];
    const view = show(make("h1", { textContent: this.heading() }), this.pictures(item), this.questions(item));
    view.className = "rating";
    this.ahead();
    byId("progress").hidden = false;
    byId("progress-text").textContent = place === 0 ? "Practice" : `Picture ${place} of ${this.items.length - 1}`;
    byId("progress-bar").max = this.items.length - 1;
    byId("progress-bar").value = this.items.slice(1).filter((one) => this.done(one)).length;
    scrollTo(0, 0);
    view.focus({ preventScroll: true });
  }

  heading() {
    return this.at === 0 ? "Practice: this page does not count" : `Picture ${this.at}`;
  }

  // The next result is fetched while this one is judged.
  ahead() {
    const next = this.items[this.at + 1];
    if (next) new Image().src = next.picture;
  }

  // ---------------------------------------------------------------------------------------------- pictures

  pictures(item) {
    const given = this.session.cases[item.case];
    const large = make("img", { src: item.picture, alt: "The result: the photo repainted", id: "result" });
    const caption = make("figcaption", { textContent: LOOKS.result });
    const swap = make("button", { type: "button", textContent: "Show the photo here", "aria-pressed": "false" });
    swap.addEventListener("click", () => {
      const photo = swap.getAttribute("aria-pressed") !== "true";
      swap.setAttribute("aria-pressed", String(photo));
      large.src = photo ? given.photo : item.picture;
      large.alt = photo ? "The photo" : "The result: the photo repainted";
      caption.textContent = photo ? LOOKS.photo : LOOKS.result;
    });
    const enlarge = make("button", { type: "button", className: "picture", "aria-label": "Enlarge the result", on: { click: () => this.enlarge(large.src, large.alt) } }, large);
    const small = [
      this.thumbnail(given.photo, "Photo"),
      this.thumbnail(given.overlay, "Its regions"),
      ...given.regions.map((one, i) => this.thumbnail(one.style, `Style ${i + 1}: ${one.name}`, one.colour)),
    ];
    return make(
      "section",
      { className: "pictures", "aria-label": "Pictures" },
      make("figure", { className: "large" }, enlarge, make("div", { className: "row" }, caption, swap)),
      make("div", { className: "strip" }, ...small),
    );
  }

  thumbnail(source, text, colour) {
    const image = make("img", { src: source, alt: "" });
    const button = make("button", { type: "button", className: "picture", "aria-label": `Enlarge: ${text}`, on: { click: () => this.enlarge(source, text) } }, image);
    const caption = make("figcaption", {}, text);
    if (colour) {
      button.style.borderColor = colour;
      const dot = make("span", { className: "dot" });
      dot.style.backgroundColor = colour;
      caption.prepend(dot);
    }
    return make("figure", {}, button, caption);
  }

  enlarge(source, text) {
    const close = make("button", { type: "button", textContent: "Close" });
    const dialog = make("dialog", { "aria-label": text }, make("div", { className: "row" }, make("p", { textContent: text }), close), make("img", { src: source, alt: text }));
    dialog.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }

  // ---------------------------------------------------------------------------------------------- questions

  questions(item) {
    const points = Array.from({ length: this.scale.points }, (_, i) => i + 1);
    const fields = this.criteria.map((one) => {
      const known = this.answers[item.id]?.[one.name];
      const choices = points.map((value) => {
        const input = make("input", { type: "radio", name: one.name, value: String(value), checked: known === value, on: { change: () => this.answer(item, one.name, value) } });
        const end = value === 1 ? `, ${this.scale.low}` : value === this.scale.points ? `, ${this.scale.high}` : "";
        return make("label", {}, input, make("span", { className: "number", textContent: value }), make("span", { className: "hidden", textContent: end }));
      });
      const field = make(
        "fieldset",
        { data: { criterion: one.name, state: known === undefined ? "open" : "saved" }, "aria-describedby": `about-${one.name}` },
        make("legend", { textContent: one.label }),
        make("p", { id: `about-${one.name}`, textContent: one.definition }),
        make("div", { className: "choices" }, ...choices),
        make("p", { className: "ends", ariaHidden: "true" }, make("span", { textContent: `1 = ${this.scale.low}` }), make("span", { textContent: `${this.scale.points} = ${this.scale.high}` })),
      );
      return field;
    });
    const last = this.at === this.items.length - 1;
    const back = this.at === 0 ? "Instructions" : "Back";
    return make(
      "form",
      { "aria-label": "Questions", on: { submit: (event) => this.next(event) } },
      make("p", { className: "key", textContent: `1 = ${this.scale.low}, ${this.scale.points} = ${this.scale.high}` }),
      ...fields,
      make(
        "div",
        { className: "moves" },
        make("button", { type: "button", id: "back", textContent: back, on: { click: () => this.back() } }),
        make("button", { type: "submit", id: "next", className: "main", textContent: last ? "Finish" : "Next" }),
      ),
    );
  }

  field(name) {
    return document.querySelector(`fieldset[data-criterion="${name}"]`);
  }

  answer(item, criterion, value) {
    this.field(criterion).dataset.state = "waiting";
    const given = { picture: item.id, criterion, value, seconds: Math.round(this.clock() * 10) / 10 };
    this.sender.send(given, (saved) => {
      (this.answers[saved.picture] ??= {})[saved.criterion] = saved.value;
      const field = this.items[this.at].id === saved.picture && this.field(saved.criterion);
      if (field && field.querySelector("input:checked")?.value === String(saved.value)) field.dataset.state = "saved";
    });
  }

  tell(waiting, problem) {
    say(problem ?? (waiting ? "saving …" : "saved"), problem ? "problem" : "");
    if (!waiting && this.wanted) {
      const go = this.wanted;
      this.wanted = null;
      go();
    }
  }

  // ---------------------------------------------------------------------------------------------- moving

  // Moves on only when everything on the page is confirmed.
  whenSaved(act) {
    if (this.sender.waiting.size) this.wanted = act;
    else act();
  }

  next(event) {
    event.preventDefault();
    const open = this.criteria.find((one) => !this.field(one.name).querySelector("input:checked"));
    if (open) {
      say(`still open: ${open.label}`, "problem");
      this.field(open.name).querySelector("input").focus();
      return;
    }
    this.whenSaved(() => {
      if (this.at < this.items.length - 1) return this.go(this.at + 1);
      const missed = this.items.findIndex((item) => !this.done(item));
      if (missed >= 0) return this.go(missed);
      this.leave.finish().then(() => this.left.abort(), (error) => say(error.message, "problem"));
    });
  }

  back() {
    this.whenSaved(() => {
      if (this.at > 0) return this.go(this.at - 1);
      this.left.abort();
      this.leave.instructions();
    });
  }

  // A digit answers the question that has the focus, or the first that is open, and goes on to the next.
  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || document.querySelector("dialog[open]")) return;
    const value = Number(event.key);
    if (event.target.type === "text" || !(value >= 1 && value <= this.scale.points)) return;
    const fields = [...document.querySelectorAll("fieldset")];
    const field = event.target.closest?.("fieldset") ?? fields.find((one) => !one.querySelector("input:checked"));
    if (!field) return;
    event.preventDefault();
    const input = field.querySelector(`input[value="${value}"]`);
    if (!input.checked) input.click();
    const following = fields[fields.indexOf(field) + 1];
    (following ? (following.querySelector("input:checked") ?? following.querySelector("input")) : byId("next")).focus();
  }
}

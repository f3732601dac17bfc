// The picture: before and after, what each style received, two of them side by side, and taking it home.

import { byId, icon, loadImage, make, press } from "./dom.js";
import { fail, say } from "./messages.js";
import * as stage from "./stage.js";
import { on, studio, tell } from "./state.js";

const split = byId("split");
const canvas = byId("canvas");
const pictures = new Map(); // address -> image
const shownMasses = new Set(); // places in the list of masses
let dragging = false;

export const here = (url) => url.replace(/^\//, "");

function picture(url) {
  if (!pictures.has(url)) {
    if (pictures.size > 40) pictures.delete(pictures.keys().next().value);
    pictures.set(url, null);
    loadImage(here(url)).then(
      (image) => {
        pictures.set(url, image);
        stage.redraw();
      },
      (error) => {
        pictures.delete(url);
        fail(error);
      },
    );
  }
  return pictures.get(url);
}

// --------------------------------------------------------------------------------- before / after

function drawSplit(pen) {
  const { result } = studio.result;
  const after = picture(result.url);
  const { x, y, width, height } = stage.frame();
  const at = x + (width * split.value) / 100;
  stage.place(studio.photo.image);
  if (after) {
    pen.save();
    pen.beginPath();
    pen.rect(at, y, x + width - at, height);
    pen.clip();
    stage.place(after);
    [...shownMasses].forEach((i, k) => {
      const map = picture(result.masses[i].url);
      pen.globalAlpha = 1 / (k + 1); // several are mixed evenly
      if (map) stage.place(map);
    });
    pen.restore();
  }
  pen.fillStyle = "#fff";
  pen.fillRect(at - 1, y, 2, height);
  handle(pen, at, y + height / 2);
  label(pen, "photo", x + 10, y + 10, "left");
  label(pen, shownMasses.size ? "mass" : "picture", x + width - 10, y + 10, "right");
}

function handle(pen, x, y) {
  pen.beginPath();
  pen.arc(x, y, 15, 0, 2 * Math.PI);
  pen.fillStyle = "#fff";
  pen.fill();
  if (document.activeElement === split) {
    pen.strokeStyle = "#0a84d0";
    pen.lineWidth = 4;
    pen.stroke();
  }
  pen.strokeStyle = "#222";
  pen.lineWidth = 2;
  pen.beginPath();
  for (const side of [-1, 1]) {
    pen.moveTo(x + side * 4, y - 5);
    pen.lineTo(x + side * 9, y);
    pen.lineTo(x + side * 4, y + 5);
  }
  pen.stroke();
}

function label(pen, text, x, y, align) {
  pen.font = "500 12px system-ui, sans-serif";
  const wide = pen.measureText(text).width + 14;
  pen.fillStyle = "rgb(10 12 16 / 70%)";
  pen.beginPath();
  pen.roundRect(align === "left" ? x : x - wide, y, wide, 22, 6);
  pen.fill();
  pen.fillStyle = "#fff";
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  pen.fillText(text, (align === "left" ? x : x - wide) + 7, y + 11.5);
}

// ------------------------------------------------------------------------------------ mass maps

function showMasses() {
  shownMasses.clear();
  const { masses = [] } = studio.result?.result ?? {};
  byId("masses").replaceChildren(
    ...masses.map(({ name }, i) => {
      const chip = make(
        "button",
        {
          class: "chip",
          "aria-pressed": "false",
          title: `How much of its painting “${name}” received, and where`,
          onclick: () => {
            if (!shownMasses.delete(i)) shownMasses.add(i);
            chip.setAttribute("aria-pressed", String(shownMasses.has(i)));
            stage.redraw();
          },
        },
        make("span", { class: "swatch" }),
        name || `region ${i + 1}`,
      );
      chip.style.setProperty("--region", studio.result.request.regions[i]?.colour ?? "#888888");
      return chip;
    }),
  );
  if (masses.length) byId("masses").prepend(make("span", { class: "lead" }, "Mass"));
}

// ---------------------------------------------------------------------------------- side by side

const finished = () => studio.jobs.filter((job) => job.state === "done" && job.result);
const chosenJob = (id) => finished().find((job) => job.id === byId(id).value);

function drawPair(pen, { width, height }) {
  const half = width / 2;
  ["compare-left", "compare-right"].forEach((id, side) => {
    const job = chosenJob(id);
    const image = job && picture(job.result.url);
    pen.save();
    pen.beginPath();
    pen.rect(side * half, 0, half, height);
    pen.clip();
    if (image) stage.place(image, side * half);
    const { x, y } = stage.frame();
    if (job) label(pen, titleOf(job), side * half + Math.max(12, x + 10), Math.max(12, y + 10), "left");
    pen.restore();
  });
  pen.fillStyle = "rgb(128 128 128 / 60%)";
  pen.fillRect(half - 1, 0, 2, height);
}

export function titleOf(job) {
  const time = new Date(job.finished ?? job.created).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const preset = job.request.settings?.preset ?? "";
  const method = job.request.method && job.request.method !== "mast" ? `${job.request.method}, ` : "";
  return `${method}${preset || "picture"}, ${time}`;
}

export function compareWith(job) {
  studio.view = "compare";
  const shown = studio.result?.id;
  fillPair(shown && shown !== job.id ? shown : finished().find((other) => other.id !== job.id)?.id, job.id);
  tell("view");
}

// Until somebody chooses, the one before the newest stands beside it.
function fillPair(left = finished()[1]?.id, right = finished()[0]?.id) {
  for (const [id, wanted] of [["compare-left", left], ["compare-right", right]]) {
    byId(id).replaceChildren(...finished().map((job) => make("option", { value: job.id }, titleOf(job))));
    byId(id).value = wanted ?? "";
  }
}

// ----------------------------------------------------------------------------------- taking home

function showActions() {
  const box = byId("actions");
  const result = studio.result?.result;
  box.hidden = studio.view !== "result" || !result;
  if (!result) return;
  const save = (url, name, text, title) =>
    make("a", { class: "button small", href: here(url), download: name, title }, icon("download"), text);
  const name = `${studio.photo.name}-${studio.result.id.slice(0, 6)}`;
  box.replaceChildren(
    save(result.url, `${name}.png`, "PNG", "The picture, with how it was made inside"),
    save(result.sheet, `${name}-sheet.png`, "Sheet", "Photo, regions, paintings and picture on one sheet"),
    save(result.jobfile, `${name}.zip`, "Job file", "All that is needed to run this again with mast stylize"),
    make("button", { class: "small", onclick: () => copy(result.command), title: result.command }, icon("copy"), "Copy as command line"),
    make("p", { class: "note" }, [spent(studio.result), ...studio.result.notes].filter(Boolean).join(" · ")),
  );
}

function spent({ started, finished }) {
  const seconds = (Date.parse(finished) - Date.parse(started)) / 1000;
  return Number.isFinite(seconds) ? `painted in ${Math.max(1, Math.round(seconds))} s` : "";
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    say("The command is on the clipboard.");
  } catch {
    say(text); // some browsers do not let a page write there
  }
}

// ------------------------------------------------------------------------------------- the views

export function showView(name) {
  studio.view = name;
  tell("view");
}

function update() {
  const buttons = [...document.querySelectorAll("[data-view]")];
  const allowed = { edit: true, result: Boolean(studio.result?.result && studio.photo), compare: finished().length > 1 && Boolean(studio.photo) };
  if (!allowed[studio.view]) studio.view = "edit";
  for (const button of buttons) button.disabled = !allowed[button.dataset.view];
  press(buttons, buttons.find((button) => button.dataset.view === studio.view));
  byId("options-result").hidden = studio.view !== "result";
  byId("options-compare").hidden = studio.view !== "compare";
  byId("peek").hidden = studio.view !== "edit";
  byId("under").hidden = studio.view !== "edit" || !studio.base;
  split.hidden = studio.view !== "result";
  canvas.dataset.scene = studio.view;
  stage.setScene(studio.view === "result" ? drawSplit : drawPair);
  showActions();
  stage.redraw();
}

function dragTo(event) {
  const { x, width } = stage.frame();
  split.value = String(((stage.pointOf(event).x - x) / width) * 100);
  stage.redraw();
}

export function wireResults() {
  for (const button of document.querySelectorAll("[data-view]")) {
    button.addEventListener("click", () => showView(button.dataset.view));
  }
  for (const kind of ["input", "focus", "blur"]) split.addEventListener(kind, stage.redraw);
  on("split-begin", () => (dragging = true));
  canvas.addEventListener("pointerdown", (event) => dragging && dragTo(event));
  canvas.addEventListener("pointermove", (event) => dragging && event.buttons && dragTo(event));
  for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, () => (dragging = false));
  for (const id of ["compare-left", "compare-right"]) byId(id).addEventListener("change", stage.redraw);
  on("result", showMasses);
  on("history", () => {
    if (studio.view !== "compare") fillPair();
  });
  on("result view photo history", update);
}

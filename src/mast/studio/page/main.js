// The start: everything is wired, then the server is asked what it has.

import * as api from "./api.js";
import { byId, make, wireDialogs } from "./dom.js";
import { wireGallery } from "./gallery.js";
import { wireHistory } from "./history.js";
import { fail } from "./messages.js";
import { wireParameters } from "./parameters.js";
import { wirePart } from "./part.js";
import { wirePhoto } from "./photo.js";
import { addRegion, wireRegions } from "./regions.js";
import { showView, wireResults } from "./results.js";
import { run, setReady, wireRun } from "./run.js";
import { fit, wireStage, zoom } from "./stage.js";
import { canRedo, canUndo, on, redo, studio, undo } from "./state.js";
import { chooseTool, nextRegion, resizeBrush, wireTools } from "./tools.js";

const KEYS = [
  ["B", "brush", () => chooseTool("brush")],
  ["E", "eraser", () => chooseTool("eraser")],
  ["L", "lasso", () => chooseTool("lasso")],
  ["C", "click an object", () => chooseTool("click")],
  ["H", "move the view", () => chooseTool("pan")],
  ["[", "smaller brush", () => resizeBrush(0.8)],
  ["]", "larger brush", () => resizeBrush(1.25)],
  ["N", "new region", () => studio.photo && addRegion()],
  ["J", "next region", () => nextRegion(1)],
  ["K", "region before", () => nextRegion(-1)],
  ["R", "colours of the regions on and off", () => byId("peek").click()],
  ["U", "photo or picture under the regions", () => byId("under").hidden || byId("under").click()],
  ["D", "draft", () => byId("draft").disabled || run(true)],
  ["P", "paint", () => byId("paint").disabled || run(false)],
  ["1", "regions", () => showView("edit")],
  ["2", "result, before and after", () => showView("result")],
  ["3", "two results side by side", () => showView("compare")],
  ["+", "zoom in", () => zoom(1.25)],
  ["-", "zoom out", () => zoom(0.8)],
  ["0", "fit the picture", fit],
  ["?", "this list", () => byId("shortcuts").showModal()],
];
const MORE = [
  ["Ctrl+Z", "undo; with Shift, redo"],
  ["Arrows, Enter", "on the picture: move the brush, paint or click; with Shift in small steps"],
  ["Space + drag", "move the view"],
  ["Ctrl+V", "paste a photo, or the painting of the chosen region"],
];

function wireKeys() {
  document.addEventListener("keydown", (event) => {
    if (document.querySelector("dialog[open]")) return;
    if (event.target.closest("input:not([type=range], [type=checkbox]), select, textarea")) return;
    const letter = event.key.toUpperCase();
    if ((event.ctrlKey || event.metaKey) && letter === "Z") {
      event.preventDefault();
      return event.shiftKey ? redo() : undo();
    }
    if ((event.ctrlKey || event.metaKey) && letter === "Y") {
      event.preventDefault();
      return redo();
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const found = KEYS.find(([key]) => key === letter || (key === "+" && letter === "="));
    if (!found) return;
    event.preventDefault();
    found[2]();
  });
  byId("keys").append(...[...KEYS, ...MORE].map(([key, about]) => make("div", {}, make("dt", {}, key), make("dd", {}, about))));
  byId("help").addEventListener("click", () => byId("shortcuts").showModal());
}

// --------------------------------------------------------------------------------- dark and light

function wireTheme() {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const kept = localStorage.getItem("mast-studio-theme");
  if (kept) root.dataset.theme = kept;
  byId("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
    root.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("mast-studio-theme", root.dataset.theme);
  });
}

// ------------------------------------------------------------------------------------- the model

async function watchModel() {
  let wait = 1000;
  try {
    const { model, segmenter } = await api.status();
    const words = { loading: "Model loading …", ready: `Model ready: ${model.name}`, failed: "The model could not be loaded" };
    const pill = byId("model");
    if (pill.dataset.state !== model.state) {
      pill.dataset.state = model.state;
      byId("model-text").textContent = words[model.state];
      pill.title = model.message || words[model.state];
      if (model.state === "failed") fail(new Error(model.message));
    }
    setReady(model.state === "ready");
    const note = segmenter.available ? "" : segmenter.message;
    for (const button of [byId("find"), document.querySelector("[data-tool=click]")]) if (note) button.title = note;
    if (model.state !== "loading") wait = 15000;
  } catch {
    byId("model").dataset.state = "lost";
    byId("model-text").textContent = "The studio does not answer";
    wait = 2000;
  }
  setTimeout(watchModel, wait);
}

wireDialogs();
wireTheme();
wireKeys();
wireStage();
wireTools();
wireRegions();
wireGallery();
wirePart();
wireRun();
wireResults();
on("undo", () => {
  byId("undo").disabled = !canUndo();
  byId("redo").disabled = !canRedo();
});
byId("undo").addEventListener("click", undo);
byId("redo").addEventListener("click", redo);
watchModel();
wireParameters();
wirePhoto().then(wireHistory);

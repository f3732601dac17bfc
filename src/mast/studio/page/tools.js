// Hands on the canvas: brush, eraser, lasso, clicks on objects, moving the view; mouse, pen, fingers and keys.

import { byId, press } from "./dom.js";
import * as masks from "./masks.js";
import { say } from "./messages.js";
import { clickObject, drawClicks, forgetClicks } from "./objects.js";
import { mix, setLive, strokeColour } from "./overlay.js";
import * as stage from "./stage.js";
import { on, select, selectedRegion, settle, studio, target, tell } from "./state.js";

const canvas = byId("canvas");
const HINTS = {
  lasso: "Draw around it, or click corner after corner; a double click or Enter closes the shape. Alt takes away.",
  click: "Click an object. Shift+click what it should leave out.",
  pan: "Drag to move, scroll or pinch to zoom.",
};
const KEY_STEP = 12; // pixels of the screen an arrow key moves the brush
let pointer = null; // where the brush hovers, in the world
let stroke = null; // { region, before, into, stroke, erase, last }
let lasso = null; // { points, free, erase }
const fingers = new Map();
let moving = null;
let spaceHeld = false;

const radius = () => Number(byId("brush-size").value) / 2 / stage.viewScale();
const softness = () => Number(byId("brush-soft").value) / 100;

export function chooseTool(name) {
  studio.tool = name;
  lasso = null;
  forgetClicks();
  const buttons = document.querySelectorAll("[data-tool]");
  press(buttons, [...buttons].find((button) => button.dataset.tool === name));
  canvas.dataset.hand = name;
  showOptions();
  stage.redraw();
}

function showOptions() {
  const editing = studio.view === "edit";
  byId("options-brush").hidden = !editing || !["brush", "eraser", "lasso"].includes(studio.tool);
  byId("options-hint").hidden = !editing || !(studio.tool in HINTS);
  byId("options-hint").textContent = HINTS[studio.tool] ?? "";
}

// ------------------------------------------------------------------------------------- the brush

function beginStroke(point, erase) {
  if (erase && (!selectedRegion() || selectedRegion().rest)) {
    say("Choose the region to erase from.");
    return;
  }
  const region = target();
  if (region.hidden) say(`“${region.name}” is hidden; it is painted on all the same.`);
  const before = region.mask.data;
  stroke = { region, before, into: before.slice(), stroke: new Uint8Array(before.length), erase, last: point };
  setLive(region.key, stroke.into);
  extendStroke(point);
}

function extendStroke(point) {
  const rect = masks.strokeTo(stroke.stroke, studio.grid, stroke.last, point, Math.max(0.5, radius()), softness());
  stroke.last = point;
  masks.apply(stroke.into, stroke.before, stroke.stroke, stroke.erase, studio.grid, rect);
  mix(rect);
  stage.redraw();
}

function endStroke(keep = true) {
  const { region, into } = stroke;
  stroke = null;
  setLive(null);
  if (keep) settle(region, into);
  else tell("regions");
}

// -------------------------------------------------------------------------------------- the lasso

function closeLasso() {
  const { points, erase } = lasso;
  lasso = null;
  stage.redraw();
  if (points.length < 3) return;
  const soft = softness() * Math.min(12, radius());
  const shape = masks.polygon(points, studio.grid, soft);
  if (erase) {
    const region = selectedRegion();
    if (region && !region.rest) settle(region, masks.giveWay(region.mask.data, shape));
  } else {
    const region = target();
    settle(region, masks.union(region.mask.data, shape));
  }
}

// --------------------------------------------------------------------------------------- pointers

function down(event) {
  if (!studio.photo) return;
  canvas.focus({ preventScroll: true });
  canvas.setPointerCapture(event.pointerId);
  fingers.set(event.pointerId, stage.pointOf(event));
  const point = stage.toWorld(stage.pointOf(event));
  if (fingers.size === 2) {
    if (stroke) endStroke(false); // two fingers move the view
    lasso = null;
    moving = pinch();
    return;
  }
  if (event.button === 1 || spaceHeld || studio.tool === "pan" || studio.view === "compare") moving = { drag: true };
  else if (studio.view === "result") tell("split-begin");
  else if (event.button === 0) begin(point, event);
}

function begin(point, event) {
  if (studio.tool === "brush" || studio.tool === "eraser") beginStroke(point, studio.tool === "eraser" || event.altKey);
  else if (studio.tool === "lasso") {
    if (lasso && !lasso.free) lasso.points.push(point);
    else lasso = { points: [point], free: false, erase: event.altKey };
    lasso.pressed = true;
  } else if (studio.tool === "click") clickObject(point, !event.shiftKey);
}

function pinch() {
  const [a, b] = [...fingers.values()];
  return { far: Math.hypot(a.x - b.x, a.y - b.y), x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
}

function move(event) {
  const before = fingers.get(event.pointerId);
  const now = stage.pointOf(event);
  if (before) fingers.set(event.pointerId, now);
  if (fingers.size === 2 && moving) {
    const next = pinch();
    stage.pan(next.x - moving.x, next.y - moving.y);
    stage.zoom(next.far / Math.max(1, moving.far), next);
    moving = next;
    return;
  }
  if (moving?.drag && before) return stage.pan(now.x - before.x, now.y - before.y);
  pointer = studio.photo && studio.view === "edit" ? stage.toWorld(now) : null;
  if (stroke) {
    for (const part of event.getCoalescedEvents?.() ?? []) extendStroke(stage.toWorld(stage.pointOf(part)));
    extendStroke(pointer);
  } else if (lasso?.pressed && event.buttons) {
    const last = stage.toScreen(lasso.points.at(-1));
    if (Math.hypot(now.x - last.x, now.y - last.y) > 4) {
      lasso.points.push(pointer);
      lasso.free = true;
    }
  }
  stage.redraw();
}

function up(event) {
  fingers.delete(event.pointerId);
  if (moving) {
    if (!fingers.size) moving = null;
  } else if (stroke) endStroke(event.type !== "pointercancel");
  else if (lasso) {
    lasso.pressed = false;
    if (lasso.free) closeLasso();
  }
}

// ------------------------------------------------------------------------------------------- keys

function keys(event) {
  if (!studio.photo || studio.view !== "edit" || event.ctrlKey || event.metaKey) return;
  const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  if (event.key in arrows) {
    const step = (event.shiftKey ? 1 : KEY_STEP) / stage.viewScale();
    const [dx, dy] = arrows[event.key];
    pointer ??= { x: studio.grid.width / 2, y: studio.grid.height / 2 };
    pointer = { x: pointer.x + dx * step, y: pointer.y + dy * step };
    event.preventDefault();
  } else if (event.key === "Enter") {
    pointer ??= { x: studio.grid.width / 2, y: studio.grid.height / 2 };
    if (studio.tool === "lasso" && lasso && lasso.points.length > 2 && !event.shiftKey) closeLasso();
    else {
      begin(pointer, event);
      if (stroke) endStroke();
    }
    event.preventDefault();
  } else if (event.key === "Escape") {
    lasso = null;
    forgetClicks();
    pointer = null;
  } else return;
  stage.redraw();
}

// ---------------------------------------------------------------------------------------- drawing

function drawTools(pen) {
  if (lasso) {
    pen.beginPath();
    [...lasso.points, ...(pointer && !lasso.free ? [pointer] : [])].forEach((point, i) => {
      const { x, y } = stage.toScreen(point);
      if (i) pen.lineTo(x, y);
      else pen.moveTo(x, y);
    });
    outline(pen, strokeColour());
  }
  drawClicks(pen, outline);
  if (pointer) {
    const { x, y } = stage.toScreen(pointer);
    pen.beginPath();
    const wide = studio.tool === "brush" || studio.tool === "eraser" ? radius() * stage.viewScale() : 4;
    pen.arc(x, y, wide, 0, 2 * Math.PI);
    outline(pen, studio.tool === "eraser" ? "#ffffff" : strokeColour());
  }
}

function outline(pen, colour) {
  pen.lineWidth = 3;
  pen.strokeStyle = "rgb(0 0 0 / 55%)";
  pen.stroke();
  pen.lineWidth = 1.5;
  pen.strokeStyle = colour;
  pen.stroke();
}

export function wireTools() {
  for (const button of document.querySelectorAll("[data-tool]")) {
    button.addEventListener("click", () => chooseTool(button.dataset.tool));
  }
  canvas.addEventListener("pointerdown", down);
  canvas.addEventListener("pointermove", move);
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", () => {
    if (!stroke && !lasso) pointer = null;
    stage.redraw();
  });
  canvas.addEventListener("dblclick", () => lasso && closeLasso());
  canvas.addEventListener("keydown", keys);
  for (const kind of ["keydown", "keyup"]) {
    document.addEventListener(kind, (event) => {
      if (event.code !== "Space") return;
      spaceHeld = kind === "keydown" && document.activeElement === canvas;
      if (spaceHeld) event.preventDefault();
    });
  }
  stage.drawExtra(drawTools);
  on("view", showOptions);
  on("photo", () => (lasso = null));
  chooseTool("brush");
}

export function resizeBrush(by) {
  const slider = byId("brush-size");
  slider.value = Number(slider.value) * by;
  stage.redraw();
}

export const nextRegion = (by) => {
  if (!studio.regions.length) return;
  const at = studio.regions.findIndex((region) => region.key === studio.selected);
  select(studio.regions[(at + by + studio.regions.length) % studio.regions.length].key);
};

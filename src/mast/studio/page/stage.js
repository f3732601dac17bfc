// The canvas: what is drawn on it, and the view that moves over it. World coordinates are the grid's pixels.

import { byId } from "./dom.js";
import { anchor, colours, mix, outlines } from "./overlay.js";
import { held, on, studio, tell } from "./state.js";

const canvas = byId("canvas");
const pen = canvas.getContext("2d");
const view = { scale: 1, x: 0, y: 0 };
let fitted = true;
let waiting = false;
const extras = []; // drawn over everything while regions are edited: (pen, view) => void
let scene = null; // how another view than the regions is drawn: (pen, size) => void
let anchors = [];

export const viewScale = () => view.scale;
export const drawExtra = (draw) => extras.push(draw);
export const setScene = (draw) => (scene = draw);

export function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    draw();
  });
}

// ------------------------------------------------------------------------------------------ view

const size = () => ({ width: canvas.clientWidth, height: canvas.clientHeight });

export function fit() {
  if (!studio.grid) return;
  const { width, height } = size();
  const margin = Math.min(28, width * 0.03);
  const wide = studio.view === "compare" ? width / 2 : width;
  view.scale = Math.max(0.01, Math.min((wide - 2 * margin) / studio.grid.width, (height - 2 * margin) / studio.grid.height));
  view.x = (wide - studio.grid.width * view.scale) / 2;
  view.y = (height - studio.grid.height * view.scale) / 2;
  fitted = true;
  redraw();
}

export function zoom(factor, at = null) {
  const { width, height } = size();
  const point = at ?? { x: width / 2, y: height / 2 };
  const scale = Math.min(40, Math.max(0.05, view.scale * factor));
  view.x = point.x - ((point.x - view.x) * scale) / view.scale;
  view.y = point.y - ((point.y - view.y) * scale) / view.scale;
  view.scale = scale;
  fitted = false;
  redraw();
}

export function pan(dx, dy) {
  view.x += dx;
  view.y += dy;
  fitted = false;
  redraw();
}

export const toWorld = (point) => ({ x: (point.x - view.x) / view.scale, y: (point.y - view.y) / view.scale });
export const toScreen = (point) => ({ x: point.x * view.scale + view.x, y: point.y * view.scale + view.y });

export function pointOf(event) {
  const box = canvas.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}

// --------------------------------------------------------------------------------------- drawing

// A picture at the photo's place, or at a viewport's.
export function place(image, left = 0) {
  pen.imageSmoothingEnabled = view.scale * (studio.grid.width / (image.width || 1)) < 3;
  pen.drawImage(image, view.x + left, view.y, studio.grid.width * view.scale, studio.grid.height * view.scale);
}

export function frame() {
  return { x: view.x, y: view.y, width: studio.grid.width * view.scale, height: studio.grid.height * view.scale };
}

function draw() {
  const { width, height } = size();
  const dense = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * dense) || canvas.height !== Math.round(height * dense)) {
    canvas.width = Math.round(width * dense);
    canvas.height = Math.round(height * dense);
  }
  pen.setTransform(dense, 0, 0, dense, 0, 0);
  pen.clearRect(0, 0, width, height);
  if (!studio.photo) return;
  pen.imageSmoothingQuality = "high";
  if (studio.view !== "edit" && scene) scene(pen, { width, height });
  else {
    place(under() ?? studio.photo.image);
    if (studio.overlay) drawRegions();
    for (const extra of extras) extra(pen, view);
  }
}

const under = () => (studio.showBase ? studio.base : null);

function drawRegions() {
  if (!colours()) return;
  if (!under()) place(colours()); // a picture is there to be seen: over it, only the edges
  place(outlines());
  for (const { number, colour, x, y } of anchors) badge(toScreen({ x, y }), number, colour);
}

// Dark figures on light colours and the other way round.
function badge(point, text, colour) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  pen.beginPath();
  pen.arc(point.x, point.y, 12, 0, 2 * Math.PI);
  pen.fillStyle = colour;
  pen.fill();
  pen.lineWidth = 2;
  pen.strokeStyle = "white";
  pen.stroke();
  pen.fillStyle = 0.299 * r + 0.587 * g + 0.114 * b > 125 ? "#111" : "#fff";
  pen.font = "600 13px system-ui, sans-serif";
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.fillText(text, point.x, point.y + 0.5);
}

function mixAll() {
  if (!studio.grid) return redraw();
  mix();
  anchors = studio.regions
    .map((region, i) => ({ region, number: String(i + 1) }))
    .filter(({ region }) => !region.hidden)
    .map(({ region, number }) => ({ number, colour: region.colour, ...anchor(held(region), studio.grid) }))
    .filter(({ x }) => x !== undefined);
  redraw();
}

// ------------------------------------------------------------------------------------- the start

export function wireStage() {
  new ResizeObserver(() => (fitted ? fit() : redraw())).observe(canvas);
  on("photo", () => {
    Object.assign(studio, { base: null, showBase: false });
    tell("picture");
    byId("welcome").hidden = Boolean(studio.photo);
    fit();
  });
  on("regions", mixAll);
  on("view", () => (fitted ? fit() : redraw()));
  on("picture", () => {
    byId("under").hidden = !studio.base || studio.view !== "edit";
    byId("under").setAttribute("aria-pressed", String(studio.showBase));
    redraw();
  });
  byId("under").addEventListener("click", () => {
    studio.showBase = !studio.showBase;
    tell("picture");
  });
  byId("zoom-in").addEventListener("click", () => zoom(1.25));
  byId("zoom-out").addEventListener("click", () => zoom(0.8));
  byId("zoom-fit").addEventListener("click", fit);
  byId("peek").addEventListener("click", () => {
    studio.overlay = !studio.overlay;
    byId("peek").setAttribute("aria-pressed", String(studio.overlay));
    tell("picture");
  });
  canvas.addEventListener(
    "wheel",
    (event) => {
      if (!studio.photo) return;
      event.preventDefault();
      zoom(Math.exp(-event.deltaY / (event.deltaMode ? 8 : 400)), pointOf(event));
    },
    { passive: false },
  );
}

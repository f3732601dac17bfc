// The part of a painting that counts: a frame or brush strokes over it, kept as a mask.

import * as api from "./api.js";
import { byId, loadImage, press } from "./dom.js";
import * as masks from "./masks.js";
import { fail } from "./messages.js";
import { edit, studio } from "./state.js";

const dialog = byId("part");
const canvas = byId("part-canvas");
const pen = canvas.getContext("2d");
const buttons = [...dialog.querySelectorAll("[data-how]")];
let how = "frame";
let open = null; // { key, image, grid, data }
let drag = null; // { from, last, before }

export async function openPart(key) {
  const region = studio.regions.find((other) => other.key === key);
  try {
    const image = await loadImage(region.style.url);
    const grid = masks.gridOf(image.naturalWidth, image.naturalHeight);
    const empty = new Uint8Array(grid.width * grid.height);
    const data = region.part ? region.part.data ?? masks.fromImage(await loadImage(`api/images/${region.part.id}`), grid) : empty;
    open = { key, image, grid, data };
  } catch (error) {
    return fail(error);
  }
  canvas.width = open.grid.width;
  canvas.height = open.grid.height;
  draw();
  dialog.showModal();
}

function draw() {
  const { image, grid, data } = open;
  pen.drawImage(image, 0, 0, grid.width, grid.height);
  const any = data.some((value) => value > 0);
  byId("part-use").disabled = !any;
  if (!any) return;
  const pixels = pen.getImageData(0, 0, grid.width, grid.height);
  for (let i = 0; i < data.length; i++) {
    const light = 0.25 + (0.75 * data[i]) / 255;
    for (let c = 0; c < 3; c++) pixels.data[4 * i + c] *= light;
  }
  pen.putImageData(pixels, 0, 0);
}

function pointOf(event) {
  const box = canvas.getBoundingClientRect();
  return {
    x: ((event.clientX - box.left) * open.grid.width) / box.width,
    y: ((event.clientY - box.top) * open.grid.height) / box.height,
  };
}

function frame(a, b) {
  const { grid } = open;
  const data = new Uint8Array(grid.width * grid.height);
  const clip = (value, most) => Math.round(Math.min(most, Math.max(0, value)));
  const [left, right] = [a.x, b.x].map((x) => clip(x, grid.width)).sort((p, q) => p - q);
  const [top, bottom] = [a.y, b.y].map((y) => clip(y, grid.height)).sort((p, q) => p - q);
  for (let row = top; row < bottom; row++) data.fill(255, row * grid.width + left, row * grid.width + right);
  return data;
}

function move(event) {
  if (!drag) return;
  const point = pointOf(event);
  if (how === "frame") open.data = frame(drag.from, point);
  else {
    const radius = (Number(byId("part-size").value) / 2) * (open.grid.width / canvas.clientWidth);
    const rect = masks.strokeTo(drag.stroke, open.grid, drag.last, point, radius, 0.2);
    masks.apply(open.data, drag.before, drag.stroke, how === "eraser", open.grid, rect);
    drag.last = point;
  }
  draw();
}

// Keys can choose too: the middle half, moved and resized by arrows.
const box = { x: 0.25, y: 0.25, w: 0.5, h: 0.5 };
function keys(event) {
  const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  if (!(event.key in arrows) && event.key !== "Enter") return;
  event.preventDefault();
  const [dx, dy] = (arrows[event.key] ?? [0, 0]).map((step) => step * 0.05);
  if (event.shiftKey) {
    box.w = Math.min(1 - box.x, Math.max(0.1, box.w + dx));
    box.h = Math.min(1 - box.y, Math.max(0.1, box.h + dy));
  } else {
    box.x = Math.min(1 - box.w, Math.max(0, box.x + dx));
    box.y = Math.min(1 - box.h, Math.max(0, box.y + dy));
  }
  const { width, height } = open.grid;
  open.data = frame({ x: box.x * width, y: box.y * height }, { x: (box.x + box.w) * width, y: (box.y + box.h) * height });
  draw();
}

function keep(part) {
  const { key } = open;
  if (studio.regions.some((region) => region.key === key)) {
    edit(() => Object.assign(studio.regions.find((region) => region.key === key), { part }));
  }
  dialog.close();
}

export function wirePart() {
  for (const button of buttons) {
    button.addEventListener("click", () => {
      how = button.dataset.how;
      press(buttons, button);
    });
  }
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    const from = pointOf(event);
    drag = { from, last: from, before: open.data, stroke: new Uint8Array(open.data.length) };
    open.data = open.data.slice();
    move(event);
  });
  canvas.addEventListener("pointermove", move);
  for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, () => (drag = null));
  canvas.addEventListener("keydown", keys);
  byId("part-all").addEventListener("click", () => keep(null));
  byId("part-use").addEventListener("click", async () => {
    try {
      const { id } = await api.upload(await masks.toPng(open.data, open.grid));
      keep({ id, data: open.data });
    } catch (error) {
      fail(error);
    }
  });
}

// The regions as colours over the photo, grey under them: one picture of the grid's size, mixed from all
// masks, and another of their edges. Each region has a number too, so that nobody has to tell colours apart.

import { rest } from "./masks.js";
import { studio, selectedRegion } from "./state.js";

const INK = 0.6; // of a region's colour over the grey photo
const OTHERS = 0.75; // of that, in regions that are not chosen

let tint = null; // pens of two pictures
let edges = null;
let grey = null; // { photo, levels }: how light the photo is, at the grid's size
let live = null; // { key, data }: the mask under the brush, not yet on the table

export const colours = () => tint?.canvas;
export const outlines = () => edges?.canvas;

export function setLive(key, data) {
  live = key === null ? null : { key, data };
}

const rgb = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

function layers() {
  const shown = studio.regions.filter((region) => !region.hidden);
  const data = (region) => (live?.key === region.key ? live.data : region.mask?.data);
  const masks = shown.filter((region) => !region.rest).map(data);
  // While a stroke is under way the others still hold what it takes from them: the chosen one comes first.
  return shown
    .map((region) => ({
      mask: region.rest ? rest(masks, studio.grid) : data(region),
      colour: rgb(region.colour),
      weight: region.key === studio.selected ? 1 : OTHERS,
      chosen: region.key === studio.selected,
    }))
    .sort((a, b) => Number(b.chosen) - Number(a.chosen));
}

const penOf = (grid) => new OffscreenCanvas(grid.width, grid.height).getContext("2d", { willReadFrequently: true });

function levels(grid) {
  if (grey?.photo !== studio.photo) {
    const pen = penOf(grid);
    pen.drawImage(studio.photo.image, 0, 0, grid.width, grid.height);
    const { data } = pen.getImageData(0, 0, grid.width, grid.height);
    const made = new Uint8Array(grid.width * grid.height);
    for (let i = 0; i < made.length; i++) made[i] = 0.299 * data[4 * i] + 0.587 * data[4 * i + 1] + 0.114 * data[4 * i + 2];
    grey = { photo: studio.photo, levels: made };
  }
  return grey.levels;
}

// Mixes the layers again, everywhere or inside a rectangle of the grid.
export function mix(rect = null) {
  const grid = studio.grid;
  if (!grid) return;
  if (tint?.canvas.width !== grid.width || tint.canvas.height !== grid.height) {
    tint = penOf(grid);
    edges = penOf(grid);
    rect = null;
  }
  const { left, top, right, bottom } = rect
    ? { left: Math.max(0, rect.left - 1), top: Math.max(0, rect.top - 1), right: rect.right, bottom: rect.bottom }
    : { left: 0, top: 0, right: grid.width - 1, bottom: grid.height - 1 };
  if (right < left || bottom < top) return;
  const all = layers();
  const light = levels(grid);
  const pixels = new ImageData(right - left + 1, bottom - top + 1);
  const lines = new ImageData(right - left + 1, bottom - top + 1);
  let out = 0;
  for (let row = top; row <= bottom; row++) {
    for (let column = left; column <= right; column++, out += 4) {
      const at = row * grid.width + column;
      let free = 255;
      let r = 0;
      let g = 0;
      let b = 0;
      for (const { mask, colour, weight, chosen } of all) {
        const amount = Math.min(mask[at], free);
        if (!amount) continue;
        free -= amount;
        const ink = weight * INK;
        const paper = (1 - ink) * light[at];
        r += amount * (ink * colour[0] + paper);
        g += amount * (ink * colour[1] + paper);
        b += amount * (ink * colour[2] + paper);
        if (amount > 127 && onEdge(mask, at, column, row, grid)) {
          const [red, green, blue] = chosen ? WHITE : colour;
          lines.data[out] = red;
          lines.data[out + 1] = green;
          lines.data[out + 2] = blue;
          lines.data[out + 3] = 255;
        }
      }
      const sum = 255 - free;
      if (!sum) continue;
      pixels.data[out] = r / sum;
      pixels.data[out + 1] = g / sum;
      pixels.data[out + 2] = b / sum;
      pixels.data[out + 3] = sum;
    }
  }
  tint.putImageData(pixels, left, top);
  edges.putImageData(lines, left, top);
}

const WHITE = [255, 255, 255];

function onEdge(mask, at, column, row, grid) {
  return (
    (column > 0 && mask[at - 1] < 128) ||
    (column < grid.width - 1 && mask[at + 1] < 128) ||
    (row > 0 && mask[at - grid.width] < 128) ||
    (row < grid.height - 1 && mask[at + grid.width] < 128)
  );
}

// Where to put a region's number: its point furthest inside, coarsely.
export function anchor(mask, grid) {
  const step = Math.max(1, Math.round(Math.max(grid.width, grid.height) / 64));
  const columns = Math.ceil(grid.width / step);
  const rows = Math.ceil(grid.height / step);
  const depth = new Float32Array(columns * rows);
  const inside = (c, r) => mask[Math.min(grid.height - 1, r * step) * grid.width + Math.min(grid.width - 1, c * step)] > 127;
  const of = (c, r) => (c < 0 || r < 0 || c >= columns || r >= rows ? 0 : depth[r * columns + c]);
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < columns; c++) {
      depth[r * columns + c] = inside(c, r) ? Math.min(of(c - 1, r), of(c, r - 1), of(c - 1, r - 1)) + 1 : 0;
    }
  }
  let best = null;
  for (let r = rows - 1; r >= 0; r--) {
    for (let c = columns - 1; c >= 0; c--) {
      if (!depth[r * columns + c]) continue;
      const back = Math.min(of(c + 1, r), of(c, r + 1), of(c + 1, r + 1)) + 1;
      depth[r * columns + c] = Math.min(depth[r * columns + c], back);
      if (!best || depth[r * columns + c] > best.depth) best = { depth: depth[r * columns + c], c, r };
    }
  }
  return best && { x: best.c * step, y: best.r * step };
}

export const strokeColour = () => selectedRegion()?.colour ?? "#ffffff";

// Clicks on objects: points go to the server, a mask comes back. More points say more about the same object.

import * as api from "./api.js";
import { byId, loadImage } from "./dom.js";
import * as masks from "./masks.js";
import { fail } from "./messages.js";
import * as stage from "./stage.js";
import { on, settle, studio, target } from "./state.js";

const canvas = byId("canvas");
let clicks = null; // { key, base, points }: the object under way, in which region, and what that held before

export function forgetClicks() {
  clicks = null;
}
on("restored photo", forgetClicks);

// point: in the world; positive: the object is there, not what it should leave out.
export async function clickObject(point, positive) {
  const { photo, grid } = studio;
  if (point.x < 0 || point.y < 0 || point.x >= grid.width || point.y >= grid.height) return;
  const region = target();
  if (clicks?.key !== region.key) clicks = { key: region.key, base: region.mask.data, points: [] };
  const mine = clicks;
  const place = [Math.floor((point.x * photo.width) / grid.width), Math.floor((point.y * photo.height) / grid.height)];
  mine.points.push([...place, positive ? 1 : 0]);
  const asked = mine.points.length;
  stage.redraw();
  canvas.setAttribute("aria-busy", "true");
  try {
    const answer = await api.segmentClick(photo.id, mine.points);
    const image = await loadImage(`api/images/${answer.mask}`);
    const still = studio.regions.find((other) => other.key === region.key);
    if (!still || studio.photo !== photo || mine.points.length !== asked) return; // a later click answers
    settle(still, masks.union(mine.base, masks.fromImage(image, grid)), `click ${region.key}`);
  } catch (error) {
    mine.points.pop();
    fail(error);
  } finally {
    canvas.removeAttribute("aria-busy");
    stage.redraw();
  }
}

export function drawClicks(pen, outline) {
  if (clicks?.key !== studio.selected) return;
  for (const [x, y, positive] of clicks.points) {
    const world = { x: (x * studio.grid.width) / studio.photo.width, y: (y * studio.grid.height) / studio.photo.height };
    const point = stage.toScreen(world);
    pen.beginPath();
    pen.arc(point.x, point.y, 5, 0, 2 * Math.PI);
    pen.fillStyle = positive ? "#fff" : "#111";
    pen.fill();
    outline(pen, positive ? "#111" : "#fff");
  }
}

// What is on the table, who wants to know when it changes, and the way back.
//
// Masks, paintings and photos are never changed in place: an edit puts new ones there. So a snapshot is a
// copy of a few references, and undo is putting the old ones back.

import { COLOURS, giveWay, gridOf, rest, share } from "./masks.js";

export const studio = {
  photo: null, // { id, name, url, width, height, image }
  grid: null, // { width, height } of all masks
  regions: [], // { key, name, colour, rest, mask: { data, id } | null, style, part, strength, hidden }
  selected: null, // key
  tool: "brush",
  view: "edit", // edit, result, compare
  overlay: true, // the regions' colours are shown
  base: null, // the latest picture or preview of this photo
  showBase: false, // it lies under the regions instead of the photo
  result: null, // the job that is shown
  jobs: [], // history, newest first
};

const listeners = new Map();
export function on(names, heard) {
  for (const name of names.split(" ")) listeners.set(name, [...(listeners.get(name) ?? []), heard]);
}
export function tell(...names) {
  for (const name of names) for (const heard of listeners.get(name) ?? []) heard();
}

// ---------------------------------------------------------------------------------------- undo

const DEEPEST = 60;
let past = [];
let future = [];

const snapshot = () => ({
  photo: studio.photo,
  grid: studio.grid,
  selected: studio.selected,
  regions: studio.regions.map((region) => ({ ...region })),
});

function restore(kept) {
  const other = studio.photo !== kept.photo;
  Object.assign(studio, { ...kept, regions: kept.regions.map((region) => ({ ...region })) });
  tell(...(other ? ["photo"] : []), "regions", "undo", "restored", "edited");
}

// Makes a change that can be taken back. merge: edits in a row under one word are one step (a slider).
export function edit(change, merge = null) {
  const before = snapshot();
  change();
  if (!(merge && past.at(-1)?.merge === merge)) past.push({ before, merge });
  past = past.slice(-DEEPEST);
  future = [];
  tell("regions", "undo", "edited");
}

export function undo() {
  const step = past.pop();
  if (!step) return;
  future.push(snapshot());
  restore(step.before);
}

export function redo() {
  const kept = future.pop();
  if (!kept) return;
  past.push({ before: snapshot(), merge: null });
  restore(kept);
}

export const canUndo = () => past.length > 0;
export const canRedo = () => future.length > 0;

// -------------------------------------------------------------------------------------- regions

let made = 0;

export const selectedRegion = () => studio.regions.find((region) => region.key === studio.selected) ?? null;

export function select(key) {
  studio.selected = key;
  tell("regions");
}

function freeColour() {
  const taken = new Set(studio.regions.map((region) => region.colour));
  return COLOURS.find((colour) => !taken.has(colour)) ?? COLOURS[studio.regions.length % COLOURS.length];
}

export function newRegion(given = {}) {
  const names = new Set(studio.regions.map((region) => region.name));
  let number = studio.regions.length + 1;
  while (names.has(`region ${number}`)) number++;
  return {
    key: `r${++made}`,
    name: given.rest ? "the rest" : `region ${number}`,
    colour: freeColour(),
    rest: false,
    mask: given.rest ? null : { data: new Uint8Array(studio.grid.width * studio.grid.height), id: null },
    style: null,
    part: null,
    strength: 1,
    hidden: false,
    ...given,
  };
}

// The region that paint goes to; made if there is none.
export function target() {
  const chosen = selectedRegion();
  if (chosen && !chosen.rest) return chosen;
  const region = newRegion();
  edit(() => insert(region));
  return region;
}

// Before the rest, and chosen.
export function insert(region) {
  const last = studio.regions.findIndex((other) => other.rest);
  studio.regions.splice(last < 0 || region.rest ? studio.regions.length : last, 0, region);
  studio.selected = region.key;
}

// A region gets a new mask, and the others give way.
export function settle(region, data, merge = null) {
  edit(() => {
    for (const other of painted()) {
      const left = other.key === region.key ? data : giveWay(other.mask.data, data);
      if (left !== other.mask.data) other.mask = { data: left, id: null };
    }
  }, merge);
}

export function usePhoto(photo) {
  studio.photo = photo;
  studio.grid = gridOf(photo.width, photo.height);
  studio.regions = [];
  studio.selected = null;
}

export const painted = () => studio.regions.filter((region) => !region.rest);

// The part of the photo that a region holds; of "the rest", what the others leave.
export function held(region) {
  if (!region.rest) return region.mask.data;
  return rest(painted().filter((other) => !other.hidden).map((other) => other.mask.data), studio.grid);
}

const counted = new WeakMap();
export function shareOf(region) {
  if (region.rest) return Math.max(0, 1 - painted().reduce((sum, r) => sum + (r.hidden ? 0 : shareOf(r)), 0));
  if (!counted.has(region.mask.data)) counted.set(region.mask.data, share(region.mask.data));
  return counted.get(region.mask.data);
}

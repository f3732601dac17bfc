// The list of regions: a card each, kept in place while one works on it.

import * as api from "./api.js";
import { byId, icon, iconButton, loadImage, make } from "./dom.js";
import { openGallery } from "./gallery.js";
import * as masks from "./masks.js";
import { fail, say } from "./messages.js";
import { openPart } from "./part.js";
import { edit, insert, newRegion, on, select, shareOf, studio } from "./state.js";

const list = byId("regions");
const cards = new Map(); // key -> { card, update }
const found = (key) => studio.regions.find((region) => region.key === key);
const change = (key, fields, merge = null) => edit(() => Object.assign(found(key), fields), merge);
export const percent = (share) => (share > 0 && share < 0.01 ? "<1 %" : `${Math.round(share * 100)} %`);

export function addRegion() {
  const region = newRegion();
  edit(() => insert(region));
  say("A new region: paint it with the brush, draw around it, or click an object.");
}

function addRest() {
  const region = newRegion({ rest: true });
  edit(() => insert(region));
}

function move(key, by) {
  const at = studio.regions.findIndex((region) => region.key === key);
  if (at + by < 0 || at + by >= studio.regions.length) return;
  edit(() => studio.regions.splice(at + by, 0, ...studio.regions.splice(at, 1)));
}

function remove(key) {
  const { name } = found(key);
  edit(() => {
    const at = studio.regions.findIndex((region) => region.key === key);
    studio.regions.splice(at, 1);
    if (studio.selected === key) studio.selected = studio.regions[Math.min(at, studio.regions.length - 1)]?.key ?? null;
  });
  say(`“${name}” was removed; Undo brings it back.`);
  byId("regions-title").focus();
}

export async function findRegions() {
  const photo = studio.photo;
  const button = byId("find");
  button.disabled = true;
  button.setAttribute("aria-busy", "true");
  byId("find-note").textContent = "Looking at the photo …";
  try {
    const { regions } = await api.segmentAuto(photo.id, Number(byId("find-n").value) || 3);
    const images = await Promise.all(regions.map(({ mask }) => loadImage(`api/images/${mask}`)));
    if (studio.photo !== photo) return;
    const kept = studio.regions; // their paintings stay, in order
    const taken = [];
    edit(() => {
      studio.regions = [];
      regions.forEach(({ name, mask }, i) => {
        const data = apart(masks.fromImage(images[i], studio.grid), taken);
        const { style = null, part = null, strength = 1 } = kept[i] ?? {};
        studio.regions.push(newRegion({ name, style, part, strength, mask: { ...data, id: data.whole ? mask : null } }));
      });
      studio.selected = studio.regions[0]?.key ?? null;
    });
    byId("find-note").textContent = "";
    if (!regions.length) say("No region stood out. Paint one, or click an object.");
  } catch (error) {
    byId("find-note").textContent = "";
    fail(error);
  } finally {
    button.removeAttribute("aria-busy");
    enable();
  }
}

// A mask without what earlier ones hold already; whole: nothing was taken from it.
export function apart(data, taken) {
  const left = taken.length ? masks.rest(taken, studio.grid) : null;
  let whole = true;
  const made = left
    ? data.map((value, i) => {
        if (value > left[i]) whole = false;
        return Math.min(value, left[i]);
      })
    : data;
  taken.push(made);
  return { data: made, whole };
}

// ------------------------------------------------------------------------------------------ cards

function makeCard(key) {
  const number = make("span", { class: "number" });
  const name = make("input", {
    class: "name",
    "aria-label": "Name of the region",
    onfocus: () => select(key),
    onchange: () => change(key, { name: name.value.trim() || found(key).name }),
    onkeydown: (event) => event.key === "Enter" && name.blur(),
  });
  const part = make("span", { class: "share" });
  const hide = iconButton("eye", "Hide", () => change(key, { hidden: !found(key).hidden }));
  const raise = iconButton("up", "Move up", () => move(key, -1));
  const lower = iconButton("down", "Move down", () => move(key, 1));
  const bin = iconButton("bin", "Remove", () => remove(key));
  const thumb = make("img", { alt: "" });
  const words = make("span", { class: "words" });
  const painting = make("button", { class: "painting", onclick: () => (select(key), openGallery(key)) }, thumb, words);
  const crop = iconButton("crop", "Use a part of the painting", () => openPart(key));
  const strength = make("input", {
    type: "range",
    min: "5",
    max: "100",
    step: "5",
    oninput: () => change(key, { strength: Number(strength.value) / 100 }, `strength ${key}`),
  });
  const strong = make("output", {});
  const card = make(
    "li",
    { class: "region", "data-key": key, onclick: (event) => event.target.closest("button, input") || select(key) },
    make("div", { class: "line" }, number, name, part, hide, raise, lower, bin),
    make("div", { class: "line" }, painting, crop),
    make("label", { class: "strength" }, make("span", {}, "Strength"), strength, strong),
  );
  const update = (region, index) => {
    const chosen = region.key === studio.selected;
    card.classList.toggle("chosen", chosen);
    card.classList.toggle("away", region.hidden);
    if (chosen) card.setAttribute("aria-current", "true");
    else card.removeAttribute("aria-current");
    card.style.setProperty("--region", region.colour);
    number.textContent = String(index + 1);
    if (document.activeElement !== name) name.value = region.name;
    part.textContent = percent(shareOf(region));
    part.title = "of the photo";
    hide.replaceChildren(icon(region.hidden ? "hidden" : "eye"));
    hide.setAttribute("aria-label", `${region.hidden ? "Show" : "Hide"} ${region.name}`);
    hide.title = region.hidden ? "Use this region again" : "Hide: the region is left out of the picture";
    raise.setAttribute("aria-label", `Move ${region.name} up`);
    lower.setAttribute("aria-label", `Move ${region.name} down`);
    raise.disabled = index === 0;
    lower.disabled = index === studio.regions.length - 1;
    bin.setAttribute("aria-label", `Remove ${region.name}`);
    const url = region.style ? `${region.style.url}?width=160` : null;
    if (url && thumb.getAttribute("src") !== url) thumb.src = url;
    thumb.hidden = !url;
    painting.classList.toggle("none", !url);
    words.textContent = region.style ? `${region.style.name}${region.part ? " (a part)" : ""}` : "Choose a painting";
    painting.setAttribute("aria-label", `Painting of ${region.name}: ${region.style?.name ?? "none yet"}`);
    crop.hidden = !region.style;
    crop.setAttribute("aria-label", `Use a part of the painting of ${region.name}`);
    crop.classList.toggle("on", Boolean(region.part));
    strength.value = String(Math.round(region.strength * 100));
    strength.setAttribute("aria-label", `Strength of ${region.name}`);
    strong.textContent = `${Math.round(region.strength * 100)} %`;
  };
  return { card, update };
}

function render() {
  const keys = new Set(studio.regions.map((region) => region.key));
  for (const [key, { card }] of cards) {
    if (keys.has(key)) continue;
    card.remove();
    cards.delete(key);
  }
  studio.regions.forEach((region, index) => {
    if (!cards.has(region.key)) cards.set(region.key, makeCard(region.key));
    const { card, update } = cards.get(region.key);
    if (list.children[index] !== card) {
      const focused = card.contains(document.activeElement) ? document.activeElement : null;
      list.insertBefore(card, list.children[index] ?? null);
      focused?.focus();
    }
    update(region, index);
  });
  byId("regions-empty").hidden = studio.regions.length > 0;
  const left = 1 - studio.regions.reduce((sum, region) => sum + (region.hidden ? 0 : shareOf(region)), 0);
  byId("uncovered").hidden = !studio.regions.length || left < 0.005;
  byId("uncovered").textContent = `${percent(left)} of the photo is in no region and stays as it is.`;
  enable();
}

function enable() {
  byId("add-region").disabled = !studio.photo;
  byId("add-rest").disabled = !studio.photo || studio.regions.some((region) => region.rest);
  byId("find").disabled = !studio.photo;
}

export function wireRegions() {
  on("regions photo", render);
  byId("add-region").addEventListener("click", addRegion);
  byId("add-rest").addEventListener("click", addRest);
  byId("find").addEventListener("click", findRegions);
}


// Photos come in: by a button, a drop, the clipboard, an example; and work goes on after a reload.

import * as api from "./api.js";
import { byId, later, loadImage, make } from "./dom.js";
import { bundled, givePainting, knownStyle, plainName } from "./gallery.js";
import * as masks from "./masks.js";
import { fail, say } from "./messages.js";
import { apart } from "./regions.js";
import { edit, newRegion, on, select, selectedRegion, studio, tell, usePhoto } from "./state.js";

const KEPT = "mast-studio-table";
const photos = []; // the examples

const withImage = async (photo) => {
  const image = await loadImage(photo.url);
  return { ...photo, image, width: photo.width ?? image.naturalWidth, height: photo.height ?? image.naturalHeight };
};

function show(photo, regions = () => []) {
  edit(() => {
    usePhoto(photo);
    for (const region of regions()) studio.regions.push(newRegion(region));
    studio.selected = studio.regions[0]?.key ?? null;
  });
  Object.assign(studio, { result: null, view: "edit" });
  tell("photo", "regions", "view");
}

export async function openPhoto(file) {
  byId("stage").setAttribute("aria-busy", "true");
  try {
    const { id, url, width, height } = await api.upload(file);
    show(await withImage({ id, url, width, height, name: plainName(file.name) }));
    say("Now make a region: paint it, draw around it, or click an object.");
  } catch (error) {
    fail(new Error(`${file.name || "The pasted picture"}: ${error.message}`));
  } finally {
    byId("stage").removeAttribute("aria-busy");
  }
}

// A photo with regions whose masks are known to the server. regions: as in a job's request.
export async function openKnown(photo, regions) {
  const example = photos.find(({ id }) => id === photo.id);
  const [shown, ...images] = await Promise.all([
    withImage(example ? { ...photo, name: example.name } : photo),
    ...regions.map(({ mask }) => (mask ? loadImage(`api/images/${mask}`) : null)),
  ]);
  const grid = masks.gridOf(shown.width, shown.height);
  const data = images.map((image) => (image ? masks.fromImage(image, grid) : null));
  const taken = [];
  show(shown, () =>
    regions.map(({ name, mask, style, strength = 1, style_mask: part, colour }, i) => {
      const fields = {
        style: style ? knownStyle(style) : null,
        part: part ? { id: part } : null,
        strength,
        rest: !mask,
        ...(name ? { name } : {}),
        ...(colour ? { colour } : {}),
      };
      if (!mask) return { ...fields, mask: null };
      const { data: own, whole } = apart(data[i], taken);
      return { ...fields, mask: { data: own, id: whole ? mask : null } };
    }),
  );
}

async function openExample(example) {
  byId("examples").close();
  try {
    const styled = example.regions.map((region, i) => ({ style: bundled[i % Math.max(1, bundled.length)]?.id, ...region }));
    await openKnown({ id: example.id, url: example.url, width: example.width, height: example.height, name: example.name }, styled);
  } catch (error) {
    fail(error);
  }
}

function exampleTile(example) {
  return make(
    "li",
    {},
    make(
      "button",
      { class: "tile", title: example.title, onclick: () => openExample(example) },
      make("img", { src: `${example.url}?width=320`, alt: "" }),
      make("span", {}, example.name),
    ),
  );
}

// ------------------------------------------------------------------------------- drop and paste

const picturesOf = (transfer) => [...(transfer?.files ?? [])];

function wireDrops() {
  const zone = byId("dropzone");
  const painting = zone.querySelector("[data-drop=painting]");
  let over = 0;
  const end = () => {
    over = 0;
    zone.hidden = true;
    for (const lit of document.querySelectorAll(".lit")) lit.classList.remove("lit");
  };
  document.addEventListener("dragenter", (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    over++;
    const region = selectedRegion();
    painting.hidden = !studio.photo || !region;
    if (region) byId("drop-name").textContent = `The painting of “${region.name}”`;
    zone.hidden = false;
  });
  document.addEventListener("dragleave", () => --over <= 0 && end());
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    for (const lit of document.querySelectorAll(".lit")) lit.classList.remove("lit");
    event.target.closest?.("[data-drop], .region")?.classList.add("lit");
  });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    const card = event.target.closest?.(".region");
    const place = event.target.closest?.("[data-drop]")?.dataset.drop;
    const [file] = picturesOf(event.dataTransfer);
    end();
    if (!file) return say("Drop a picture file here; a link to a picture has to be saved first.");
    if (card) {
      select(card.dataset.key);
      givePainting(card.dataset.key, file);
    } else if (place === "painting") givePainting(studio.selected, file);
    else openPhoto(file);
  });
  document.addEventListener("paste", (event) => {
    const [file] = picturesOf(event.clipboardData);
    if (!file) return;
    event.preventDefault();
    if (studio.photo && selectedRegion()) givePainting(studio.selected, file);
    else openPhoto(file);
  });
}

// --------------------------------------------------------------------------- kept over a reload

// Masks are kept as small PNGs in the browser; if there is no room, the table is simply not kept.
const keep = later(async () => {
  if (!studio.photo) return;
  const { id, url, name, width, height } = studio.photo;
  const regions = await Promise.all(
    studio.regions.map(async ({ name, colour, rest, style, part, strength, hidden, mask }) => ({
      name, colour, rest, style, strength, hidden,
      part: part && { id: part.id },
      mask: mask && { id: mask.id, png: await dataUrl(await masks.toPng(mask.data, studio.grid)) },
    })),
  );
  try {
    localStorage.setItem(KEPT, JSON.stringify({ photo: { id, url, name, width, height }, regions }));
  } catch {
    localStorage.removeItem(KEPT);
  }
}, 1500);

const dataUrl = (blob) =>
  new Promise((resolve) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.readAsDataURL(blob);
  });

async function restore() {
  const text = localStorage.getItem(KEPT);
  if (!text) return;
  try {
    const { photo, regions } = JSON.parse(text);
    const shown = await withImage(photo);
    const grid = masks.gridOf(shown.width, shown.height);
    const images = await Promise.all(regions.map(({ mask }) => (mask ? loadImage(mask.png) : null)));
    if (studio.photo) return; // something else was opened meanwhile
    const made = regions.map((region, i) => ({
      ...region,
      mask: region.mask && { id: region.mask.id, data: masks.fromImage(images[i], grid) },
    }));
    show(shown, () => made);
  } catch {
    localStorage.removeItem(KEPT); // another workspace, or another version of this page
  }
}

export async function wirePhoto() {
  const input = byId("photo-file");
  for (const id of ["open-photo", "welcome-open"]) byId(id).addEventListener("click", () => input.click());
  input.addEventListener("change", () => {
    const [file] = input.files;
    input.value = "";
    if (file) openPhoto(file);
  });
  byId("open-examples").addEventListener("click", () => byId("examples").showModal());
  wireDrops();
  on("edited", keep);
  try {
    const found = await api.examples();
    photos.push(...found.photos);
    bundled.push(...found.styles);
    byId("welcome-examples").replaceChildren(...photos.map(exampleTile));
    byId("examples-list").replaceChildren(...photos.map(exampleTile));
  } catch (error) {
    fail(error);
  }
  await restore();
}

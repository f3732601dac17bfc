// From the table to a picture: what is missing, sending, progress, previews, cancelling, drafts while one edits.

import * as api from "./api.js";
import { byId, later, loadImage } from "./dom.js";
import * as masks from "./masks.js";
import { fail, say } from "./messages.js";
import { requested } from "./parameters.js";
import { on, select, shareOf, studio, tell } from "./state.js";

const STAGES = { invert: "Reading the pictures", denoise: "Painting", paint: "Painting", prepare: "Getting ready" };
let running = null; // { id, photo: it is of the photo on the table, auto, asked: to stop, stop }
let sending = false;
let again = false; // an edit came while a draft was being sent
let ready = false; // the model

export const setReady = (is) => {
  ready = is;
  enable();
};

// What keeps the picture from being painted, in words; null if nothing does.
function missing() {
  if (!studio.photo) return "Open a photo first.";
  const used = studio.regions.filter((region) => !region.hidden);
  if (!used.length) return "Make a region first: paint it, draw around it, or click an object.";
  const bare = used.find((region) => !region.style);
  if (bare) return `Choose a painting for “${bare.name}”.`;
  const empty = used.find((region) => shareOf(region) === 0);
  if (empty) return `“${empty.name}” is empty: paint it, or remove it.`;
  return null;
}

async function request(draft) {
  const regions = [];
  for (const region of studio.regions.filter((other) => !other.hidden)) {
    const { mask } = region;
    if (mask && !mask.id) mask.id = (await api.upload(await masks.toPng(mask.data, studio.grid))).id;
    regions.push({
      name: region.name,
      colour: region.colour,
      style: region.style.id,
      mask: mask?.id ?? null,
      strength: region.strength,
      style_mask: region.part?.id ?? null,
    });
  }
  return { photo: studio.photo.id, regions, draft, ...requested(draft) };
}

export async function run(draft, auto = false) {
  const reason = missing();
  if (reason) {
    if (!auto) say(reason);
    const bare = studio.regions.find((region) => !region.hidden && !region.style);
    if (!auto && bare) select(bare.key);
    return;
  }
  if (sending) {
    again = auto || again;
    return;
  }
  sending = true;
  enable();
  try {
    const key = crypto.randomUUID?.() ?? String(Math.random()); // sent twice by a shaky line, it is one job
    const job = await api.submit({ ...(await request(draft)), key });
    watch(job, auto);
  } catch (error) {
    fail(error);
  } finally {
    sending = false;
    enable();
    if (again) {
      again = false;
      autoDraft();
    }
  }
}

// ------------------------------------------------------------------------------------- following

export function watch(job, auto = false) {
  running?.stop();
  running = { id: job.id, photo: studio.photo?.id === job.request.photo, auto, stop: () => {} };
  const mine = running;
  show(job);
  tell("jobs");
  running.stop = api.follow(job.id, {
    job: (now) => mine === running && (api.isOver(now) ? end(now, mine) : show(now)),
    preview: (url) => mine === running && preview(url, mine),
    lost: () => mine === running && (byId("progress-text").textContent = "The studio does not answer; trying again …"),
    gone: (error) => {
      close();
      fail(error);
    },
  });
}

async function preview(url, mine) {
  if (!mine.photo) return;
  try {
    const image = await loadImage(url.replace(/^\//, ""));
    if (mine !== running) return;
    Object.assign(studio, { base: image, showBase: true });
    if (studio.view !== "edit" && !mine.auto) {
      studio.view = "edit";
      tell("view");
    }
    tell("picture");
  } catch {
    // The next preview comes soon.
  }
}

const minutes = (seconds) =>
  seconds < 60 ? `${Math.max(1, Math.round(seconds))} s` : `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;

function show(job) {
  const { progress } = job;
  const bar = byId("progress-bar");
  byId("progress").hidden = false;
  byId("cancel").disabled = false;
  if (!progress) {
    bar.removeAttribute("value");
    const before = job.position > 1 ? `${job.position - 1} before this one` : "starting";
    byId("progress-text").textContent = job.state === "queued" ? `Waiting: ${ready ? before : "the model is loading"}` : "Getting ready";
    return;
  }
  const level = progress.levels > 1 ? `, level ${progress.level + 1} of ${progress.levels}` : "";
  const left = progress.seconds_left === null ? "" : ` · about ${minutes(progress.seconds_left)} left`;
  byId("progress-text").textContent = `${STAGES[progress.stage] ?? progress.stage}: step ${progress.done} of ${progress.total}${level}${left}`;
  bar.value = progress.total ? progress.done / progress.total : 0;
}

function close() {
  running = null;
  byId("progress").hidden = true;
  byId("progress-text").textContent = "";
  tell("jobs");
}

async function end(job, mine) {
  close();
  if (job.state === "done") {
    if (!mine.photo) return;
    studio.result = job;
    studio.showBase = mine.auto;
    tell("result");
    if (!mine.auto) {
      studio.view = "result";
      tell("view");
    }
    try {
      studio.base = await loadImage(job.result.url.replace(/^\//, ""));
    } catch (error) {
      fail(error);
    }
  } else {
    studio.showBase = false;
    if (job.state === "failed") fail(new Error(job.error ?? "The picture could not be made."));
    else if (mine.asked) say("Cancelled. What was read of the pictures is kept, so the next run is shorter.");
    else if (!mine.auto) say("A newer draft of another tab took its place.");
  }
  tell("picture");
}

async function cancel() {
  if (!running) return;
  running.asked = true;
  byId("cancel").disabled = true;
  byId("progress-text").textContent = "Stopping at the next step …";
  try {
    await api.cancel(running.id);
  } catch (error) {
    fail(error);
  }
}

// ------------------------------------------------------------------------------------ auto-draft

const autoDraft = later(() => {
  if (byId("auto").checked && ready && studio.view !== "compare") run(true, true);
}, 900);

function enable() {
  const reason = missing();
  for (const id of ["draft", "paint"]) {
    byId(id).disabled = !studio.photo || sending;
    byId(id).classList.toggle("waiting", Boolean(reason));
  }
}

export function wireRun() {
  byId("draft").addEventListener("click", () => run(true));
  byId("paint").addEventListener("click", () => run(false));
  byId("cancel").addEventListener("click", cancel);
  byId("auto").addEventListener("change", autoDraft);
  on("edited", autoDraft);
  on("regions photo", enable);
}

// What was painted before, newest first; any of it can be opened again with all its regions.

import * as api from "./api.js";
import { byId, iconButton, make } from "./dom.js";
import { fail, say } from "./messages.js";
import { recall } from "./parameters.js";
import { openKnown } from "./photo.js";
import { compareWith, here, showView, titleOf } from "./results.js";
import { watch } from "./run.js";
import { on, studio, tell } from "./state.js";

const WORDS = { queued: "waiting", running: "painting", failed: "failed", cancelled: "cancelled" };

export async function refresh() {
  try {
    studio.jobs = (await api.jobs()).jobs;
    render();
    tell("history");
  } catch (error) {
    fail(error);
  }
}

async function open(job) {
  const { request } = job;
  try {
    await openKnown({ id: request.photo, url: `api/images/${request.photo}`, name: "photo" }, request.regions);
    recall(request);
    if (job.state === "done") {
      studio.result = job;
      tell("result");
      showView("result");
    } else if (!api.isOver(job)) watch(job);
    else if (job.error) fail(new Error(job.error));
  } catch (error) {
    fail(error);
  }
}

async function forget(job) {
  try {
    await api.remove(job.id);
    say("Removed from the history.");
    await refresh();
    byId("history").focus();
  } catch (error) {
    fail(error);
  }
}

function tile(job) {
  const title = titleOf(job);
  const names = job.request.regions.map((region) => region.name).join(", ");
  const done = job.state === "done" && job.result;
  return make(
    "li",
    { class: `past ${job.state}`, "aria-current": studio.result?.id === job.id ? "true" : null },
    make(
      "button",
      { class: "open", "aria-label": `Open again: ${title}${done ? "" : `, ${WORDS[job.state]}`}; ${names}`, title: names, onclick: () => open(job) },
      done
        ? make("img", { src: here(job.result.thumbnail), alt: "", loading: "lazy" })
        : make("span", { class: "state" }, WORDS[job.state] ?? job.state),
      make("span", { class: "caption" }, title),
    ),
    make(
      "div",
      { class: "over" },
      done ? iconButton("compare", `Side by side: ${title}`, () => compareWith(job)) : null,
      api.isOver(job) ? iconButton("bin", `Remove from the history: ${title}`, () => forget(job)) : null,
    ),
  );
}

function render() {
  const list = byId("history");
  list.replaceChildren(...studio.jobs.map(tile));
  if (!studio.jobs.length) list.append(make("li", { class: "note" }, "Pictures you paint are kept here."));
}

export async function wireHistory() {
  on("jobs", refresh);
  on("result", render);
  await refresh();
  const busy = studio.jobs.find((job) => !api.isOver(job)); // of another tab, or from before a reload
  if (busy) watch(busy, true);
}

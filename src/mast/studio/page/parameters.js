// How the picture is made: quality, method, and the paper's parameters, each with a sentence.

import * as api from "./api.js";
import { byId, make, press } from "./dom.js";
import { fail } from "./messages.js";
import { tell } from "./state.js";

const chosen = { preset: "fast", method: "mast", values: {} }; // values: only what was changed
let known = { presets: [], parameters: [] };
let methods = [];

function belongs({ name, group }) {
  if (group !== "options") return true;
  const method = methods.find((other) => other.name === chosen.method);
  return method ? method.options.includes(name) : chosen.method === "mast";
}

export const preset = () => chosen.preset;

// As a job's request takes it: what is left alone is left out.
export function requested(draft) {
  const request = { method: chosen.method, settings: { preset: draft ? "draft" : chosen.preset }, options: {} };
  for (const parameter of known.parameters) {
    if (!(parameter.name in chosen.values) || !belongs(parameter)) continue;
    if (draft && ["size", "steps"].includes(parameter.name)) continue; // a draft is small, whatever is asked of the picture
    request[parameter.group][parameter.name] = chosen.values[parameter.name];
  }
  return request;
}

// Puts a former job's choices back.
export function recall({ method = "mast", settings = {}, options = {} }) {
  chosen.method = method;
  if (settings.preset && settings.preset !== "draft") chosen.preset = settings.preset;
  chosen.values = {};
  for (const { name, group } of known.parameters) {
    const value = (group === "options" ? options : settings)[name];
    if (value !== undefined && value !== null) chosen.values[name] = value;
  }
  showPresets();
  showParameters();
}

function changed() {
  tell("edited");
}

function showPresets() {
  const buttons = known.presets
    .filter(({ name }) => name !== "draft")
    .map(({ name, about }) =>
      make(
        "button",
        {
          "aria-pressed": String(name === chosen.preset),
          title: about,
          onclick: (event) => {
            chosen.preset = name;
            press(buttons, event.currentTarget);
            byId("preset-about").textContent = about;
          },
        },
        name[0].toUpperCase() + name.slice(1),
      ),
    );
  byId("presets").replaceChildren(...buttons);
  byId("preset-about").textContent = known.presets.find(({ name }) => name === chosen.preset)?.about ?? "";
}

function set(name, value) {
  if (value === null) delete chosen.values[name];
  else chosen.values[name] = value;
  changed();
}

function control(parameter) {
  const { name, kind, min, max, step, choices = [] } = parameter;
  const value = chosen.values[name] ?? parameter.default ?? null;
  const about = `about-${name}`;
  const shared = { id: `p-${name}`, "aria-describedby": about };
  if (kind === "switch") {
    return make("input", { ...shared, type: "checkbox", role: "switch", checked: Boolean(value), onchange: (e) => set(name, e.target.checked) });
  }
  if (kind === "choice") {
    const select = make(
      "select",
      { ...shared, onchange: () => set(name, select.value || null) },
      make("option", { value: "" }, "the preset's"),
      ...choices.map((choice) => make("option", { value: choice }, choice)),
    );
    select.value = value ?? "";
    return select;
  }
  return make("input", {
    ...shared,
    type: "number",
    min: String(min),
    max: String(max),
    step: String(step),
    value: value === null ? "" : String(value),
    placeholder: "auto",
    onchange: (event) => {
      const field = event.target;
      if (field.value === "") return set(name, null);
      const typed = Math.min(max, Math.max(min, Number(field.value)));
      field.value = String(typed);
      set(name, typed);
    },
  });
}

function showParameters() {
  const method = methods.find(({ name }) => name === chosen.method);
  const select = make(
    "select",
    {
      id: "p-method",
      "aria-describedby": "about-method",
      onchange: () => {
        chosen.method = select.value;
        showParameters();
        byId("p-method").focus();
        changed();
      },
    },
    ...[...new Set([...methods.map(({ name }) => name), chosen.method])].map((name) => make("option", { value: name }, name)),
  );
  select.value = chosen.method;
  const row = (label, symbol, field, about, id) =>
    make(
      "div",
      { class: "parameter" },
      make("label", { for: field.id }, label, symbol ? make("i", {}, ` ${symbol}`) : null),
      field,
      make("p", { class: "note", id }, about),
    );
  byId("parameters").replaceChildren(
    row("Method", "", select, method ? `${method.about}.` : "", "about-method"),
    ...known.parameters
      .filter(belongs)
      .map((parameter) => row(parameter.label, parameter.paper, control(parameter), parameter.about, `about-${parameter.name}`)),
    make(
      "button",
      {
        class: "small",
        onclick: () => {
          Object.assign(chosen, { method: "mast", values: {} });
          showParameters();
          changed();
        },
      },
      "All as they were",
    ),
  );
}

export async function wireParameters() {
  try {
    known = await api.parameters();
    showPresets();
    showParameters();
    methods = await api.methods(); // takes a while just after the start
    showParameters();
  } catch (error) {
    fail(error);
  }
}

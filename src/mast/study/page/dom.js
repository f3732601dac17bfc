// Elements from data. Text is always text: nothing that was typed or sent is read as HTML.

export function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "on") for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    else if (key === "data") Object.assign(element.dataset, value);
    else if (key in element && key !== "list" && key !== "form") element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

export const byId = (id) => document.getElementById(id);

// The researcher's Markdown, which the server has rendered with raw HTML turned off.
export function prose(html) {
  const element = make("div", { className: "prose" });
  element.innerHTML = html;
  return element;
}

export function show(...children) {
  const view = byId("view");
  view.replaceChildren(...children);
  return view;
}

export function say(text, kind = "") {
  const place = byId("saved");
  if (place.textContent !== text) place.textContent = text;
  place.dataset.kind = kind;
}

// Small tools for elements. Text is always set as text: nothing here or elsewhere writes markup.

export const $ = (id) => document.getElementById(id);

/** Create an element: properties by name, `dataset`, and attributes with a dash such as `aria-label`. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value == null || value === false) continue;
    if (name === "dataset") Object.assign(element.dataset, value);
    else if (name.includes("-") || name === "role" || name === "for") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.filter((one) => one != null && one !== ""));
  return element;
}

export const button = (textContent, onclick, properties = {}) =>
  make("button", { type: "button", textContent, onclick, ...properties });

/** A text of a document: its direction is that of its letters. */
export const words = (tag, textContent, className = "") => make(tag, { textContent, className, dir: "auto" });

const RIGHT_TO_LEFT = /^\P{L}*[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;
/** The direction of a whole list, table or quote, as `dir=auto` does not look into elements with a direction of their own. */
export const directionOf = (text) => (RIGHT_TO_LEFT.test(text) ? "rtl" : "ltr");

/** A bar for a value from 0 to 1; the style is set by script, which the policy allows, not by an attribute. */
export function bar(value, className = "") {
  const filled = make("span");
  filled.style.width = `${Math.round(100 * Math.min(1, Math.max(0, value ?? 0)))}%`;
  return make("span", { className: `bar ${className}`, "aria-hidden": "true" }, filled);
}

/** Show a message in an element of role alert or status; an empty one hides it. */
export function say(element, text) {
  element.textContent = text;
  element.hidden = !text;
}

export function save(name, type, text) {
  const href = URL.createObjectURL(text instanceof Blob ? text : new Blob([text], { type }));
  make("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}

/** Wait until calls have stopped for some time, then make the last one. */
export function debounce(work, milliseconds) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), milliseconds);
  };
}

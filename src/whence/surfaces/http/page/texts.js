// Words of the interface in the language of the browser: `texts.en.json`, `texts.de.json`.

const LANGUAGES = ["en", "de"];
export const language =
  navigator.languages.map((one) => one.slice(0, 2).toLowerCase()).find((one) => LANGUAGES.includes(one)) ?? "en";
const texts = await (await fetch(new URL(`texts.${language}.json`, import.meta.url))).json();

export const has = (key) => key in texts;

/** Return a text with its values; `{n|one|many}` chooses by number. */
export function t(key, values = {}) {
  const text = texts[key] ?? key;
  return text.replace(/\{(\w+)(?:\|([^|}]*)\|([^}]*))?\}/g, (_, name, one, many) => {
    const value = values[name] ?? "";
    if (one === undefined) return typeof value === "number" ? number(value) : value;
    return value === 1 ? one : many;
  });
}

/** Write the texts into the elements of the page that name one. */
export function translate(root = document) {
  document.documentElement.lang = language;
  for (const element of root.querySelectorAll("[data-t]")) element.textContent = t(element.dataset.t);
  for (const element of root.querySelectorAll("[data-label]")) element.setAttribute("aria-label", t(element.dataset.label));
  for (const element of root.querySelectorAll("[data-hint]")) element.placeholder = t(element.dataset.hint);
}

export const number = (value) => value.toLocaleString(language);
export const decimal = (value, digits = 2) =>
  value.toLocaleString(language, { minimumFractionDigits: digits, maximumFractionDigits: digits });
export const percent = (value) => value.toLocaleString(language, { style: "percent" });

/** Return the day of an ISO 8601 date in words. A date has no time zone; a moment is in that of the reader. */
export function dayOf(moment, options = { day: "numeric", month: "long", year: "numeric" }) {
  const isDate = moment.length <= 10;
  const day = new Date(isDate ? `${moment}T00:00:00Z` : moment);
  if (Number.isNaN(day.getTime())) return moment;
  return day.toLocaleDateString(language === "en" ? "en-GB" : language, isDate ? { ...options, timeZone: "UTC" } : options);
}

/** Return a moment as time for today, else as day. */
export function momentOf(moment) {
  const then = new Date(moment);
  if (Number.isNaN(then.getTime())) return moment;
  const isToday = then.toDateString() === new Date().toDateString();
  return isToday ? then.toLocaleTimeString(language === "en" ? "en-GB" : language, { hour: "2-digit", minute: "2-digit" }) : dayOf(moment);
}

// The page: chooses the view that the address names, and listens to keys.
//
// Views: `ask.js` (questions and answers), `inspect.js` (stages and candidates), `library.js` (documents),
// `history.js` (former answers). Shared: `reader.js` (sign-in), `source.js` (the pane of a source), `answer.js`
// (one answer), `home.js` (first look), `render.js` (text as elements), `api.js`, `texts.js`, `dom.js`.
// Text of documents is never inserted as markup.

import { BASE } from "./api.js";
import * as ask from "./ask.js";
import { $, button, make, say } from "./dom.js";
import * as home from "./home.js";
import * as history_ from "./history.js";
import * as inspect from "./inspect.js";
import * as library from "./library.js";
import * as reader from "./reader.js";
import * as source from "./source.js";
import { t, translate } from "./texts.js";

const VIEWS = { ask, inspect, library, history: history_ };

/** Return the view of an address and its value: `/a/ID`, `#ask=WORDS`, `#search=WORDS`, `#inspect=ID`, `#library` ... */
function routeOf(address) {
  const permalink = /\/a\/([0-9A-Za-z-]+)$/.exec(address.pathname);
  const [name, value] = [...new URLSearchParams(address.hash.slice(1))][0] ?? [];
  if (name === "search") return { view: "ask", search: value };
  if (name in VIEWS) return { view: name, value: value || "" };
  return permalink ? { view: "ask", answer: permalink[1] } : { view: "ask", value: "" };
}

async function show() {
  const route = routeOf(location);
  for (const name of Object.keys(VIEWS)) $(`view-${name}`).hidden = name !== route.view;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === route.view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = route.view === "ask" ? "Whence" : `${t(`nav.${route.view}`)} · Whence`;
  document.body.dataset.view = route.view;
  say($("error"), "");
  source.close();
  reader.check();
  try {
    await VIEWS[route.view].show(route);
  } catch (error) {
    if (error.name !== "AbortError") say($("error"), error.message);
  }
}

/** Go to an address of the page without loading it again. */
export function go(address) {
  history.pushState(null, "", new URL(address, BASE));
  show();
}

function followLink(event) {
  const link = event.target.closest("a[href]");
  if (!link || link.target || link.download || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  const address = new URL(link.href);
  const isOwn = address.href.startsWith(BASE.href) && /^(a\/[^/]+)?$/.test(address.pathname.slice(BASE.pathname.length));
  if (!isOwn || address.hash === "#main") return;
  event.preventDefault();
  go(address.href);
}

const isTyping = (target) => target.matches("input, textarea, select") || target.isContentEditable;

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && !$("dialog").open) source.close();
  if (isTyping(event.target)) return;
  if (event.key === "/") {
    event.preventDefault();
    if ($("view-ask").hidden) go("#ask");
    $("words").focus();
  } else if (event.key === "?") {
    event.preventDefault();
    showKeys();
  }
}

function showKeys() {
  const rows = ["/", "Enter", "Shift+Enter", "↑ ↓", "Esc", "?"].map((key) =>
    make("div", {}, make("dt", {}, make("kbd", { textContent: key })), make("dd", { textContent: t(`keys.${key}`) })));
  const dialog = $("dialog");
  dialog.replaceChildren(make("h2", { id: "dialog-title", textContent: t("keys.title") }), make("dl", { className: "keys" }, ...rows),
    make("p", { className: "row" }, button(t("close"), () => dialog.close())));
  dialog.showModal();
}

translate();
$("brand").href = BASE;
// The address becomes `/a/ID`, from where relative ones would lead elsewhere.
document.querySelector("link[rel=icon]").href = new URL("page/icon.svg", BASE);
for (const link of document.querySelectorAll("nav a")) link.href = new URL(`#${link.dataset.view}`, BASE);
document.addEventListener("click", followLink);
document.addEventListener("keydown", onKey);
$("keys").addEventListener("click", showKeys);
addEventListener("popstate", show);
// A browser opens a file that is dropped beside its place, and the page is gone.
for (const name of ["dragover", "drop"]) {
  addEventListener(name, (event) => { if (event.dataTransfer?.types.includes("Files")) event.preventDefault(); });
}
ask.start(go);
reader.start(() => {
  home.forget();
  return show();
});
await Promise.allSettled([reader.load(), show()]);
document.body.dataset.ready = "true";

// The pane of a source: the stored document with the cited words marked, a page as picture, the head of a mail.

import { answerPath, documentPath, json, url } from "./api.js";
import { $, button, make, say, words } from "./dom.js";
import { rendered } from "./render.js";
import { dayOf, t } from "./texts.js";

let opened = null; // element that the focus goes back to

export function close() {
  if ($("source").hidden) return;
  $("source").hidden = true;
  $("source").replaceChildren();
  document.body.classList.remove("has-source");
  if (opened?.isConnected) opened.focus();
  opened = null;
}

/** Open the source of a citation of an answer. */
export async function openCitation(answer, index) {
  const citation = answer.citations[index];
  const source = await open(() => json(`${answerPath(answer.answer_id)}/citations/${index}/source`));
  if (!source) return;
  const [whole] = source.marks;
  const isWhole = source.marks.length === 1 && whole[1] - whole[0] === [...citation.quote].length;
  const answers = isWhole ? citation.highlights.map(([start, end]) => [whole[0] + start, whole[0] + end, "b"]) : [];
  draw({ ...source, outdated: citation.outdated }, {
    place: placeOf(citation.location), answers, marker: citation.marker,
    picture: source.picture && { path: source.picture, pages: source.pages, page: source.page ?? 1 },
  });
}

/** Open a stored document, with a passage of it marked where one is named. */
export async function openDocument(collection, documentId, chunkId = "", facts = {}) {
  const found = await open(() => json(documentPath(collection, documentId)));
  if (!found) return;
  const chunk = found.chunks.find((one) => one.id === chunkId);
  const marks = chunk ? [[chunk.char_start, chunk.char_end]] : [];
  const original = /^https?:\/\//.test(found.source_url || "") ? found.source_url : null;
  draw({ ...facts, ...found, marks, original, path: found.source_file, headings: found.chunks.map((one) => one.heading) },
    { place: chunk ? placeOf(chunk.location) : "" });
}

/** Show the pane while a source is read; returns it, or null after saying why it cannot be shown. */
async function open(read) {
  if ($("source").hidden) opened = document.activeElement;
  document.body.classList.add("has-source");
  $("source").hidden = false;
  $("source").setAttribute("aria-busy", "true");
  $("source").replaceChildren(make("p", { role: "status", textContent: t("loading") }));
  try {
    return await read();
  } catch (error) {
    const problem = make("p", { role: "alert" });
    say(problem, error.message);
    $("source").replaceChildren(closing(), problem);
    return null;
  } finally {
    $("source").setAttribute("aria-busy", "false");
  }
}

const closing = () => button("×", close, { className: "close", "aria-label": t("source.close"), title: "Esc" });

function draw(source, { place, answers = [], marker = null, picture = null }) {
  const file = [source.root, source.path].filter(Boolean).join("/") || source.document_id;
  const title = make("h2", { tabIndex: -1 }, words("span", source.title || source.document_id));
  if (source.title) title.append(" ", words("small", file, "soft path"));
  const body = make("div", { className: picture ? "text below" : "text", tabIndex: 0, role: "group", "aria-label": t("source.text") },
    source.more_before ? make("p", { className: "soft", textContent: t("source.before") }) : "",
    ...textOf(source, answers),
    source.more_after ? make("p", { className: "soft", textContent: t("source.after") }) : "");
  $("source").replaceChildren(
    make("div", { className: "top" }, marker === null ? "" : make("span", { className: "marker", textContent: `[${marker}]` }), title, closing()),
    make("p", { className: "soft" }, ...factsOf(source, place)), ...statesOf(source),
    source.head && !/^From: /.test(source.text) ? headOf(source.head) : "", picture ? pictureOf(picture) : "", body);
  title.focus({ preventScroll: true });
  const mark = body.querySelector("mark");
  // `scrollIntoView` would also move the page. Below a picture the text moves, else the whole pane.
  const moved = picture ? body : $("source");
  if (mark) moved.scrollTop += mark.getBoundingClientRect().top - moved.getBoundingClientRect().top - moved.clientHeight / 3;
}

function textOf(source, answers) {
  const marks = [...source.marks.map(([start, end]) => [start, end, "mark"]), ...answers].sort((a, b) => a[0] - b[0] || b[1] - a[1]);
  if (source.media === "code") return [codeOf(source.text, marks)];
  return rendered(source.text, { marks, headings: new Set([source.title, ...(source.headings ?? [])]) });
}

function codeOf(text, marks) {
  const fence = "~~~\n";
  const moved = marks.map(([start, end, tag]) => [start + fence.length, end + fence.length, tag]);
  return rendered(`${fence}${text}`, { marks: moved })[0];
}

function factsOf(source, place) {
  const parts = [place && make("span", { textContent: place }),
    source.document_date && !source.head && make("span", { textContent: dayOf(source.document_date) }),
    source.indexed_at && make("span", { textContent: t("source.indexed", { day: dayOf(source.indexed_at) }) }),
    source.original && make("a", { href: linkOf(source.original), textContent: t("source.original"), target: "_blank", rel: "noopener noreferrer" })];
  return parts.filter(Boolean).flatMap((one, at) => (at ? [" · ", one] : [one]));
}

/** Return a link: an address of the web, or a path of this server; nothing else, such as a script, is one. */
const linkOf = (address) => (/^https?:\/\//.test(address) ? address : url(`./${address.replace(/^\/+/, "")}`));

function statesOf({ changed, outdated }) {
  const lines = [changed && t("source.changed"), outdated && t("source.outdated", { why: outdated })];
  return lines.filter(Boolean).map((textContent) => make("p", { className: "warn", textContent }));
}

function headOf(head) {
  const rows = ["from", "to", "date", "subject"].filter((name) => head[name]).map((name) =>
    make("div", {}, make("dt", { textContent: t(`mail.${name}`) }), words("dd", name === "date" ? dayOf(head[name]) : String(head[name]))));
  return make("dl", { className: "facts mail" }, ...rows);
}

/** Return the picture of a page of a PDF, in which the quote has boxes, and buttons to turn pages. */
function pictureOf({ path, pages, page: first }) {
  let page = first;
  const shown = make("img", {});
  const whole = make("a", { target: "_blank", className: "page" }, shown);
  const count = make("span", {});
  const turn = (by) => {
    page = Math.min(pages || page, Math.max(1, page + by));
    const address = new URL(linkOf(path));
    address.searchParams.set("page", page);
    shown.src = whole.href = address;
    shown.alt = t("source.page_picture", { page });
    count.textContent = pages ? t("source.page_of", { page, pages }) : t("place.page", { page });
    earlier.disabled = page <= 1;
    later.disabled = Boolean(pages) && page >= pages;
  };
  const earlier = button("‹", () => turn(-1), { className: "quiet", "aria-label": t("source.page_before") });
  const later = button("›", () => turn(1), { className: "quiet", "aria-label": t("source.page_after") });
  const figure = make("figure", {}, whole, make("figcaption", { className: "row" }, earlier, count, later));
  shown.addEventListener("error", () => { figure.hidden = true; });
  turn(0);
  return figure;
}

/** Return the place of a quote in words: sheet and rows, message, slide, page or line. */
export function placeOf(location) {
  if (!location) return "";
  const { sheet, row_start: first, row_end: last, message, slide, page, line_start: line } = location;
  if (sheet) {
    const rows = !first ? "" : last && last !== first ? t("place.rows", { first, last }) : t("place.row", { first });
    return [t("place.sheet", { sheet }), rows].filter(Boolean).join(", ");
  }
  if (message) return t("place.message", { day: dayOf(message) });
  if (slide) return t("place.slide", { slide });
  if (page) return t("place.page", { page });
  return line ? t("place.line", { line }) : "";
}


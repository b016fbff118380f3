// Text as elements: tables, lists, headings, quotes and code of Markdown, marked words and links of markers.
// Offsets of marks count code points, so a text is an array of characters throughout.

import { directionOf, make } from "./dom.js";

const ROW = /^\s*\|.*\|\s*$/;
const RULE = /^\s*\|(\s*:?-{3,}:?\s*\|)+\s*$/;
const FENCE = /^\s*(```|~~~)/;
const HEADING = /^(#{1,6})\s+\S/;
const ITEM = /^(\s*)([-*+•]|\d{1,4}[.)])\s+(?=\S)/;
const QUOTE = /^\s*>\s?/;

/**
 * Return nodes of a text.
 *
 * @param text The text.
 * @param options `marks`: `[start, end, tag, title]` in order, which may lie inside of one another as `mark` and `b`;
 *   `link`: makes the node of a marker `[n]`, or returns null; `isMarkup`: whether `**` and backticks are markup,
 *   as of language models; `headings`: lines that are headings.
 */
export function rendered(text, { marks = [], link = () => null, isMarkup = false, headings = new Set() } = {}) {
  const view = { characters: [...text], marks, link, isMarkup, headings };
  const lines = linesOf(view.characters);
  const nodes = [];
  for (let at = 0; at < lines.length;) {
    const [kind, end] = blockAt(lines, at, isMarkup);
    const block = lines.slice(at, end);
    if (kind !== blank) nodes.push(kind(view, block));
    at = end;
  }
  return nodes;
}

/** Return the lines of a text, each with the offset of its first character. */
function linesOf(characters) {
  let start = 0;
  return characters.join("").split("\n").map((text) => {
    const line = { text, start, end: start + [...text].length };
    start = line.end + 1;
    return line;
  });
}

/** Return what makes the block that begins at a line, and the line after it. */
function blockAt(lines, at, isMarkup) {
  const while_ = (test) => {
    let end = at + 1;
    while (end < lines.length && test(lines[end].text)) end += 1;
    return end;
  };
  const first = lines[at].text;
  if (!first.trim()) return [blank, at + 1];
  if (FENCE.test(first)) {
    const last = lines.findIndex((line, place) => place > at && FENCE.test(line.text));
    return [code, last < 0 ? lines.length : last + 1];
  }
  if (ROW.test(first)) return [table, while_((text) => ROW.test(text))];
  if (ITEM.test(first)) return [list, while_((text) => ITEM.test(text) || /^\s{2,}\S/.test(text))];
  if (isMarkup && HEADING.test(first)) return [heading, at + 1];
  if (isMarkup && QUOTE.test(first)) return [quote, while_((text) => QUOTE.test(text))];
  const isPlain = (text) => text.trim() && ![FENCE, ROW, ITEM].some((one) => one.test(text)) && !(isMarkup && HEADING.test(text));
  return [paragraph, while_(isPlain)];
}

const blank = () => null;

function paragraph(view, lines) {
  const isHeading = lines.length === 1 && view.headings.has(lines[0].text.trim());
  const properties = { dir: "auto", className: isHeading ? "heading" : "" };
  return make("p", properties, ...inline(view, lines[0].start, lines.at(-1).end));
}

function heading(view, [line]) {
  const level = HEADING.exec(line.text)[1].length;
  return make("p", { dir: "auto", className: "heading written" }, ...inline(view, line.start + level + 1, line.end));
}

function quote(view, lines) {
  const parts = lines.flatMap((line) => [...inline(view, line.start + QUOTE.exec(line.text)[0].length, line.end), "\n"]);
  return make("blockquote", { dir: "auto" }, ...parts);
}

function code(view, [, ...lines]) {
  const body = lines.length && FENCE.test(lines.at(-1).text) ? lines.slice(0, -1) : lines;
  const shown = make("code");
  if (body.length) shown.append(...marked(view, body[0].start, body.at(-1).end));
  return make("pre", { tabIndex: 0 }, shown);
}

/** Return a list; a line without a bullet belongs to the item above it, a deeper bullet to a list inside of it. */
function list(view, lines) {
  const items = [];
  for (const line of lines) {
    const bullet = ITEM.exec(line.text);
    if (bullet) items.push({ depth: bullet[1].length, sign: bullet[2], start: line.start + bullet[0].length, end: line.end });
    else items.at(-1).end = line.end;
  }
  return listOf(view, items);
}

function listOf(view, items) {
  const isNumbered = /\d/.test(items[0].sign);
  const made = make(isNumbered ? "ol" : "ul", { dir: directionOf(view.characters.slice(items[0].start, items.at(-1).end).join("")) });
  for (let at = 0; at < items.length;) {
    const item = items[at];
    let end = at + 1;
    while (end < items.length && items[end].depth > items[0].depth) end += 1;
    const entry = make("li", {}, ...inline(view, item.start, item.end));
    if (isNumbered) entry.value = Number.parseInt(item.sign, 10) || 0;
    if (end > at + 1) entry.append(listOf(view, items.slice(at + 1, end)));
    made.append(entry);
    at = end;
  }
  return made;
}

/** Return a table; a row with words that answer is marked. */
function table(view, lines) {
  const hasHeader = lines.length > 1 && RULE.test(lines[1].text);
  const head = make("thead");
  const body = make("tbody");
  for (const [place, line] of lines.entries()) {
    if (RULE.test(line.text)) continue;
    const isHead = hasHeader && place === 0;
    const answers = view.marks.some(([start, end]) => start < line.end && line.start < end);
    const row = make("tr", { className: answers && !isHead ? "cited" : "" });
    for (const [start, end] of cellsOf(view.characters, line)) {
      row.append(make(isHead ? "th" : "td", { scope: isHead ? "col" : null }, ...inline(view, start, end)));
    }
    (isHead ? head : body).append(row);
  }
  const dir = directionOf(lines.map((line) => line.text).join(""));
  return make("div", { className: "wide", tabIndex: 0 }, make("table", { dir }, ...[head, body].filter((one) => one.children.length)));
}

/** Return the offsets of the cells of a row; a bar inside of a cell has no space beside it. */
function cellsOf(characters, { start, end }) {
  const isSpace = (at) => at < start || at >= end || /\s/.test(characters[at]);
  const bars = [];
  for (let at = start; at < end; at += 1) {
    if (characters[at] === "|" && isSpace(at - 1) && isSpace(at + 1)) bars.push(at);
  }
  return bars.slice(1).map((bar, place) => trimmed(characters, bars[place] + 1, bar));
}

function trimmed(characters, start, end) {
  while (start < end && /\s/.test(characters[start])) start += 1;
  while (end > start && /\s/.test(characters[end - 1])) end -= 1;
  return [start, end];
}

const EMPHASIS = /(`[^`\n]+`|\*\*(?=\S)[^*\n]+(?<=\S)\*\*)/;
const MARKER = /(\[\d+\])/;

/** Return nodes of a stretch of text with markup inside of a line. */
function inline(view, from, to) {
  if (!view.isMarkup) return marked(view, from, to);
  const nodes = [];
  let at = from;
  for (const part of view.characters.slice(from, to).join("").split(EMPHASIS)) {
    const length = [...part].length;
    const sign = part.startsWith("**") ? 2 : part.startsWith("`") ? 1 : 0;
    if (sign && EMPHASIS.test(part)) nodes.push(make(sign === 2 ? "strong" : "code", {}, ...marked(view, at + sign, at + length - sign)));
    else nodes.push(...marked(view, at, at + length));
    at += length;
  }
  return nodes;
}

/** Return nodes of a stretch of text with its marks; one that reaches over its borders is cut there. */
function marked(view, from, to, marks = view.marks) {
  const nodes = [];
  let at = from;
  for (const [place, [start, end, tag, title]] of marks.entries()) {
    const [first, last] = [Math.max(start, at), Math.min(end, to)];
    if (first >= last) continue;
    nodes.push(...linked(view, at, first),
      make(tag, { title }, ...marked(view, first, last, marks.slice(place + 1).filter((one) => one[0] >= start && one[1] <= end))));
    at = last;
  }
  return [...nodes, ...linked(view, at, to)];
}

function linked(view, from, to) {
  const text = view.characters.slice(from, to).join("");
  return text.split(MARKER).filter(Boolean).map((part) => (MARKER.test(part) && view.link(Number(part.slice(1, -1)))) || part);
}

// Questions in a thread, each with its answer; and searches.

import { call, events, json, recorded, refusal, url } from "./api.js";
import { answerNodes, draftNodes, passageItem } from "./answer.js";
import { $, bar, button, make, say, words } from "./dom.js";
import { overview, showHome } from "./home.js";
import { check as checkReader } from "./reader.js";
import { decimal, t } from "./texts.js";

/** As many are asked at once. */
const MOST_COLLECTIONS = 32;
const STAGES = ["question", "grounding", "exploration", "focus", "synthesis"];

let thread = []; // answers of the thread, oldest first
let running = null; // AbortController of the current request
let go = () => {};

/** Return the last answer of the thread, which `Inspect` shows. */
export const lastAnswer = () => thread.at(-1) ?? null;
export const collectionOf = () => $("collection").value;

/** Show what an address names: an answer, a question, a search, or the first look. */
export async function show({ value, answer, search: query }) {
  fillCollections();
  if (answer) return showThread(answer);
  const chosen = new URLSearchParams(location.hash.slice(1)).get("in");
  if (chosen) await choose(chosen);
  if (query) return search(query);
  if (value) {
    clear();
    return ask(value);
  }
  if (thread.length) return draw();
  return first();
}

async function first() {
  draw();
  if (!document.activeElement || document.activeElement === document.body) $("words").focus();
  await showHome();
}

function draw() {
  const isEmpty = !$("thread").children.length;
  $("welcome").classList.toggle("unseen", !isEmpty);
  $("fresh").hidden = isEmpty;
  $("home").hidden = !isEmpty;
  $("words").placeholder = t(thread.length ? "ask.follow_hint" : "ask.hint");
}

/** Choose a collection, or several with commas between them, as an address names them. */
async function choose(name) {
  const isOffered = (one) => [...$("collection").options].some(({ value }) => value === one);
  await fillCollections();
  // It may be newer than what the page knows.
  if (!name.split(",").every(isOffered)) await overview(true).then(fillCollections);
  if (!isOffered(name) && name.split(",").every(isOffered)) $("collection").append(make("option", { value: name, textContent: name }));
  $("collection").value = name;
  if ($("collection").value !== name) throw new Error(t("ask.no_collection", { collection: name }));
}

/** Offer the collections when there are several. */
async function fillCollections() {
  const found = await overview().catch(() => null);
  if (!found) return;
  // Only a language model can ask for further searches.
  $("deep-label").hidden = found.models.writer === "extractive";
  const names = found.collections.map((one) => one.name);
  const chosen = $("collection").value;
  const first = chosen.includes(",") ? null : [chosen, found.default, names[0]].find((one) => names.includes(one));
  const all = names.length > 1 && names.length <= MOST_COLLECTIONS ? names.join(",") : "";
  const several = [...new Set([all, chosen.includes(",") ? chosen : ""])].filter(Boolean).map((value) =>
    make("option", { value, textContent: value === all ? t("ask.all_collections") : value, selected: value === chosen }));
  $("collection").replaceChildren(...names.map((name) => make("option", { value: name, textContent: name, selected: name === first })), ...several);
  $("collection-label").hidden = names.length < 2;
}

/** Show an answer, and the ones before it in its thread when this browser window still knows them. */
async function showThread(id) {
  const shown = document.querySelector(`[data-answer="${CSS.escape(id)}"]`);
  if (shown) {
    draw();
    return shown.scrollIntoView();
  }
  clear();
  const earlier = JSON.parse(sessionStorage.getItem(`thread:${id}`) ?? "[]");
  for (const one of [...earlier, id]) {
    const isLast = one === id;
    const answer = await recorded(one, "/answer").catch((error) => {
      if (isLast) throw error;
      return null;
    });
    if (answer) turn(answer.question).finish(answer);
  }
  return draw();
}

function clear() {
  running?.abort();
  thread = [];
  $("thread").replaceChildren();
}

/** Add a question to the thread; returns what shows its answer. */
function turn(question) {
  const stages = make("ol", { className: "stages", "aria-label": t("ask.stages") },
    ...STAGES.map((stage) => make("li", { textContent: t(`stage.${stage}`) })));
  const body = make("div", { "aria-live": "polite" });
  const stop = button(t("ask.stop"), () => running?.abort(), { className: "quiet" });
  const article = make("article", { className: "turn", "aria-busy": "true" }, words("h2", question), stages, body, stop);
  $("thread").append(article);
  let text = "";
  let isDrawn = true;
  const end = () => {
    article.setAttribute("aria-busy", "false");
    stop.remove();
  };
  return {
    article,
    stage: (name) => stages.children[STAGES.indexOf(name)]?.classList.add("done"),
    write: (piece) => {
      text += piece;
      if (!isDrawn) return;
      isDrawn = false;
      requestAnimationFrame(() => {
        isDrawn = true;
        if (article.ariaBusy === "true") body.replaceChildren(make("div", { className: "answer" }, ...draftNodes(text)));
      });
    },
    finish: (answer, collection) => {
      end();
      stages.remove();
      article.dataset.answer = answer.answer_id;
      thread.push(answer);
      body.replaceChildren(...answerNodes(answer, { onQuestion: askNext, collection: collection || collectionOf() }));
      if (thread.length > 1) article.scrollIntoView({ block: "start" });
    },
    fail: (error) => {
      end();
      stages.remove();
      if (error.name === "AbortError") body.append(make("p", { className: "soft", textContent: t("ask.stopped") }));
      else body.replaceChildren(make("p", { role: "alert", className: "problem", textContent: error.message }));
    },
  };
}

function askNext(question, { isWhole = false } = {}) {
  return ask(question, { follow: isWhole ? "" : thread.at(-1)?.answer_id ?? "" });
}

/** Ask a question, and show the answer while it is written. */
async function ask(question, { follow = "" } = {}) {
  running?.abort();
  const mine = running = new AbortController();
  const shown = turn(question);
  draw();
  shown.article.scrollIntoView({ block: "start" });
  const collection = collectionOf();
  checkReader();
  try {
    const body = { question, mode: $("mode").value, follow, deep: $("deep").checked, ...(collection ? { collection } : {}) };
    const response = await call("v1/ask", { body, accept: "text/event-stream", signal: mine.signal });
    for await (const { name, data } of events(response)) {
      if (name === "stage") shown.stage(data.stage);
      else if (name === "text") shown.write(data.text);
      else if (name === "error") throw refusal(data);
      else if (name === "answer") finish(shown, data, collection);
    }
  } catch (error) {
    shown.fail(await inWords(error, collection));
  }
  if (mine === running) running = null;
  draw();
}

/** Return an error; that of a collection which the reader does not have says what can be done on this page. */
async function inWords(error, collection) {
  if (error.document?.error?.code !== "not_found") return error;
  const found = await overview(true).catch(() => null);
  const names = found?.collections.map((one) => one.name);
  if (!found || (collection || found.default).split(",").every((one) => names.includes(one))) return error;
  return new Error(t(names.length ? "ask.no_collection" : "ask.nothing_here", { collection }));
}

/** Show the whole answer; from now on the address is its own, so that a reload reads it and does not ask again. */
function finish(shown, answer, collection) {
  sessionStorage.setItem(`thread:${answer.answer_id}`, JSON.stringify(thread.map((one) => one.answer_id)));
  shown.finish(answer, collection);
  if (!$("view-ask").hidden) history.replaceState(null, "", url(`a/${answer.answer_id}`));
}

/** Search for passages. */
async function search(query) {
  clear();
  const mine = running = new AbortController();
  const article = make("article", { className: "turn", "aria-busy": "true" }, words("h2", query));
  $("thread").append(article);
  draw();
  const collection = collectionOf();
  try {
    const body = { query, top_k: 20, mode: $("mode").value, ...(collection ? { collection } : {}) };
    article.append(...resultsOf(await json("v1/search", { body, signal: mine.signal }), collection));
  } catch (error) {
    const { name, message } = await inWords(error, collection);
    if (name !== "AbortError") article.append(make("p", { role: "alert", className: "problem", textContent: message }));
  }
  article.setAttribute("aria-busy", "false");
}

function resultsOf(found, collection) {
  const notes = found.degraded.map((one) => `${one.label}: ${one.reason}`);
  if (found.corrections.length) notes.unshift(t("search.corrected", { query: found.question_used }));
  const items = found.hits.map((hit) => hitItem(hit, collection));
  const weak = found.hits.findIndex((hit) => hit.weak);
  if (weak >= 0) items.splice(weak, 0, make("li", { className: "warn", textContent: t("search.weak") }));
  const { length } = found.hits;
  return [make("p", { className: "soft", role: "status", textContent: t(length ? "search.results" : "search.none", { n: length, results: length }) }),
    ...notes.map((textContent) => make("p", { className: "warn", textContent })),
    make("ol", { className: "sources", "aria-label": t("search.list") }, ...items)];
}

function hitItem(hit, collection) {
  const { metadata, lead, content, id } = hit.chunk;
  const one = { document_id: hit.document_id, title: metadata.title, heading: metadata.section_path ?? metadata.heading, lead, text: content, chunk_id: id };
  const others = [...new Set(hit.duplicates.map((same) => same.document_id))];
  const item = passageItem(one, collection, make("span", { className: "score" }, bar(hit.similarity_score), decimal(hit.similarity_score)));
  if (others.length) item.append(make("p", { className: "soft", textContent: t("search.same", { others: others.join(", ") }) }));
  return item;
}

/** Listen to the form. */
export function start(toAddress) {
  go = toAddress;
  $("form").addEventListener("submit", (event) => {
    event.preventDefault();
    const question = $("words").value.trim();
    if (!question) return $("words").focus();
    say($("error"), "");
    if (event.submitter?.value === "search") return go(`#${new URLSearchParams([["search", question]])}`);
    $("words").value = "";
    if (!thread.length) {
      clear();
      history.pushState(null, "", url(`#${new URLSearchParams([["ask", question]])}`));
    }
    return askNext(question);
  });
  $("words").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    $("form").requestSubmit($("ask"));
  });
  $("fresh").addEventListener("click", () => {
    clear();
    go("./");
    $("words").focus();
  });
}

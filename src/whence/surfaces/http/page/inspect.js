// How an answer was found: its stages, every candidate with its scores, and the same retrieval with other settings.

import { answerPath, call, collectionOfPassage, documentPath, json, recorded, url } from "./api.js";
import { collectionOf, lastAnswer } from "./ask.js";
import { $, bar, button, debounce, directionOf, make, save, say, words } from "./dom.js";
import { answers } from "./history.js";
import { rendered } from "./render.js";
import { openDocument } from "./source.js";
import { dayOf, decimal, has, number, t } from "./texts.js";

const FORMATS = { nquads: "nq", turtle: "ttl", trig: "trig", jsonld: "jsonld", svg: "svg", tree: "txt" };

let view = null; // what is shown: trace or null, collection, question, rows, former ranks, stage

/** Show the answer of the address, else the last one, else an empty retrieval test. */
export async function show({ value }) {
  const id = value || lastAnswer()?.answer_id || (await answers("", 1).catch(() => ({ answers: [] }))).answers[0]?.answer_id;
  const trace = id ? await recorded(id) : null;
  const settings = trace?.stages.find((one) => one.stage === "question")?.settings ?? {};
  view = { trace, collection: settings.collection || collectionOf() || "default", settings, stage: "focus", former: new Map() };
  view.rows = trace ? rowsOf(trace) : [];
  draw();
}

/** Return the candidates of a trace in the form of those of a live retrieval. */
function rowsOf(trace) {
  const stage = (name) => trace.stages.find((one) => one.stage === name) ?? {};
  const cited = new Set((stage("synthesis").citations ?? []).map((one) => one.chunk_id));
  const used = new Set(stage("synthesis").used ?? []);
  const kept = new Set((stage("focus").selected ?? []).map((one) => one.chunk_id));
  return (stage("exploration").candidates ?? []).map((one) => ({
    ...one, ...trace.names[one.chunk_id], rank_before: one.rank, drop: one.reason_code || null,
    rank: one.rerank_rank ?? one.rank, rerank_score: one.raw_score, shown: one.final_score ?? one.score,
    state: cited.has(one.chunk_id) ? "cited" : used.has(one.chunk_id) ? "used" : kept.has(one.chunk_id) ? "kept" : "dropped",
  }));
}

function draw() {
  const list = make("ol", { id: "candidates", className: "candidates", "aria-label": t("inspect.candidates") });
  list.addEventListener("keydown", walk);
  view.detail = make("div", { id: "detail", "aria-live": "polite" });
  $("view-inspect").replaceChildren(
    make("h1", { textContent: t("nav.inspect") }), view.trace ? headOf(view.trace) : make("p", { className: "soft", textContent: t("inspect.nothing") }),
    ...(view.trace ? [pipeline(view.trace), make("div", { id: "stage" })] : []), tryOut(),
    make("div", { className: "split" }, make("div", {}, make("h2", { id: "candidates-title" }), list), view.detail),
    ...(view.trace ? [compared(), exports(view.trace)] : []));
  if (view.trace) showStage(view.stage);
  drawCandidates();
}

function headOf(trace) {
  return make("p", { className: "asked" }, make("a", { href: url(`a/${trace.answer_id}`), dir: "auto", textContent: trace.question }),
    make("span", { className: "soft", textContent: ` ${dayOf(trace.asked_at)}, ${view.collection}` }));
}

/** Return the stages as buttons, each with what went in and out, and its time. */
function pipeline(trace) {
  const counts = { grounding: (one) => one.concepts?.length, exploration: (one) => one.candidates?.length,
    focus: (one) => one.selected?.length, step: (one) => one.added?.length, synthesis: (one) => one.citations?.length };
  return make("ol", { className: "pipeline", "aria-label": t("ask.stages") }, ...trace.stages.map((one) => {
    const [kind, step = ""] = one.stage.split("/");
    const count = counts[kind]?.(one);
    const shown = button("", () => showStage(one.stage), { dataset: { stage: one.stage }, "aria-pressed": "false" });
    shown.append(make("b", { textContent: `${t(`stage.${kind}`)} ${step}`.trim() }),
      make("span", { textContent: count == null ? "" : t(`inspect.count_${kind}`, { n: count, count }) }),
      make("span", { className: "soft", textContent: `${decimal(one.duration_ms, 0)} ms` }));
    return make("li", {}, shown);
  }));
}

/** Show the facts of a stage, and order the candidates as they were after it. */
function showStage(name) {
  view.stage = name;
  for (const one of document.querySelectorAll(".pipeline button")) one.setAttribute("aria-pressed", String(one.dataset.stage === name));
  const stage = view.trace.stages.find((one) => one.stage === name);
  const facts = { [t("inspect.models")]: stage.models.map((one) => one.name).join(", ") };
  if (name === "question") Object.assign(facts, { [t("inspect.used")]: view.trace.question_used, ...stage.settings });
  if (name === "grounding") facts[t("inspect.queries")] = stage.concepts.join(" · ");
  if (name.startsWith("step/")) {
    facts[t("inspect.queries")] = stage.queries.map((one) => (one.reason ? `${one.query} (${one.reason})` : one.query)).join(" · ");
    Object.assign(facts, stage.settings);
  }
  if (name === "exploration") Object.assign(facts, view.trace.calibration ?? {});
  if (name === "synthesis") Object.assign(facts, { [t("inspect.result")]: stage.refusal?.reason ?? t("inspect.cited", { n: stage.citations.length, count: stage.citations.length }) });
  const rows = Object.entries(facts).filter(([, value]) => value !== "" && value != null).map(([key, value]) =>
    make("div", {}, make("dt", { textContent: key.replaceAll("_", " ") }), words("dd", typeof value === "number" ? number(value) : String(value))));
  const faults = stage.degraded.map((one) => make("p", { className: "warn", textContent: has(`degraded.${one.code}`) ? t(`degraded.${one.code}`, {}) : one.reason }));
  $("stage").replaceChildren(make("dl", { className: "facts" }, ...rows), ...faults);
  drawCandidates();
}

const ORDERS = { question: "rank_before", grounding: "rank_before", exploration: "rank_before", focus: "rank", synthesis: "rank" };

function drawCandidates() {
  const key = ORDERS[view.stage] ?? "rank";
  const last = Number.MAX_SAFE_INTEGER;
  const states = ["cited", "used", "kept", "dropped"];
  const ordered = [...view.rows].sort((a, b) =>
    (view.stage === "synthesis" ? states.indexOf(a.state) - states.indexOf(b.state) : 0) || (a[key] ?? last) - (b[key] ?? last) || a.rank_before - b.rank_before);
  $("candidates-title").textContent = t("inspect.candidates_count", { n: ordered.length, count: ordered.length });
  $("candidates").replaceChildren(...ordered.map((one, at) => candidate(one, at === 0, key)));
}

/** Return a candidate: rank and how it moved, name, scores as bars, who found it, why it was dropped. */
function candidate(one, isFirst, key) {
  const shown = button("", () => showDetail(one, shown), { className: `candidate ${one.drop ? "dropped" : one.state ?? ""}`, tabIndex: isFirst ? 0 : -1 });
  const bars = [["dense", one.dense_score], ["bm25", one.sparse_score], ["combined", one.score], ["reranked", one.rerank_score]]
    .filter(([, value]) => value != null)
    .map(([name, value]) => make("span", { className: "measure" }, make("span", { textContent: t(`score.${name}`) }), bar(value, name), make("span", { textContent: decimal(value) })));
  const found = one.retrievers ?? [one.dense_score != null && "dense", one.sparse_score && "bm25"].filter(Boolean);
  const state = one.drop ? t(`drop.${one.drop}`) : one.state ? t(`state.${one.state}`) : "";
  shown.append(make("span", { className: "rank", textContent: one[key] ?? "–" }), movement(one),
    make("span", { className: "what" }, words("b", one.title || one.document_id),
      words("span", one.heading && one.heading !== one.title ? one.heading : "", "soft"),
      make("span", { className: "tags" }, ...found.map((name) => make("span", { className: "tag", textContent: t(`score.${name}`) })),
        state ? make("span", { className: `tag ${one.drop ? "bad" : one.state === "cited" ? "good" : ""}`, textContent: state }) : "")),
    make("span", { className: "bars" }, ...bars));
  return make("li", {}, shown);
}

/** Return how a candidate moved: against the run before when settings were changed, else by reranking. */
function movement(one) {
  const before = view.former.size ? view.former.get(one.chunk_id) : view.stage === "exploration" ? one.rank : one.rank_before;
  const now = view.former.size || view.stage !== "exploration" ? one.rank : one.rank_before;
  if (view.former.size && before === undefined) return make("span", { className: "moved up", textContent: t("inspect.new") });
  const by = (before ?? now) - now;
  if (!by) return make("span", { className: "moved" });
  const label = t(by > 0 ? "inspect.up" : "inspect.down", { n: Math.abs(by), ranks: Math.abs(by) });
  return make("span", { className: `moved ${by > 0 ? "up" : "down"}`, title: label }, make("span", { "aria-hidden": "true", textContent: `${by > 0 ? "▲" : "▼"}${Math.abs(by)}` }), make("span", { className: "unseen", textContent: label }));
}

/** Move the focus between candidates by the arrow keys. */
function walk(event) {
  const all = [...$("candidates").querySelectorAll("button")];
  const at = all.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
  if (to === undefined || !all[to]) return;
  event.preventDefault();
  for (const one of all) one.tabIndex = -1;
  all[to].tabIndex = 0;
  all[to].focus();
}

/** Show the text of a candidate, and why it is or is not in the answer. */
async function showDetail(one, shown) {
  for (const other of document.querySelectorAll(".candidate[aria-current]")) other.removeAttribute("aria-current");
  shown.setAttribute("aria-current", "true");
  const why = make("div", { className: "why" }, make("p", { className: "soft", textContent: t("loading") }));
  const text = make("div", { className: "text" });
  // On a narrow screen the text stands below its candidate, else beside the list.
  (innerWidth < 960 ? shown.parentElement : document.querySelector(".split")).append(view.detail);
  view.detail.replaceChildren(words("h2", one.title || one.document_id),
    button(t("inspect.open"), () => openDocument(collectionOfPassage(view.collection, one.chunk_id), one.document_id, one.chunk_id), { className: "link" }), why, text);
  await Promise.all([showWhy(one, why), showText(one, text)]);
}

async function showText(one, into) {
  try {
    into.replaceChildren(...rendered(one.text ?? (await passageOf(one)), { headings: new Set([one.heading, one.title]) }));
  } catch (error) {
    into.replaceChildren(make("p", { className: "soft", textContent: error.message }));
  }
}

async function passageOf(one) {
  const found = await json(documentPath(collectionOfPassage(view.collection, one.chunk_id), one.document_id));
  const chunk = found.chunks.find((each) => each.id === one.chunk_id);
  if (!chunk) return t("inspect.text_gone");
  const text = [...found.text].slice(chunk.char_start, chunk.char_end).join("");
  return one.lead ? `${one.lead}\n${text}` : text;
}

async function showWhy(one, into) {
  if (!view.trace || view.isLive) {
    into.replaceChildren(make("p", { textContent: one.drop ? t(`drop.${one.drop}`) : t("inspect.live_kept") }));
    return;
  }
  try {
    const reason = await json(`${answerPath(view.trace.answer_id)}/why-not?item=${encodeURIComponent(one.chunk_id)}`);
    const { best_sentence: sentence, ...numbers } = reason.numbers;
    const known = Object.entries(numbers).filter(([, value]) => value != null);
    const told = rendered(reason.reason, { isMarkup: true });
    for (const one of told) one.lang = "en";
    into.replaceChildren(...told, sentence ? make("blockquote", { dir: directionOf(sentence) }, ...rendered(sentence)) : "",
      make("details", {}, make("summary", { textContent: t("inspect.numbers") }), make("dl", { className: "facts small" }, ...known.map(([name, value]) => make("div", {}, make("dt", { textContent: name.replaceAll("_", " ") }),
        make("dd", { textContent: typeof value !== "number" ? value : Number.isInteger(value) ? number(value) : decimal(value, 3) }))))));
  } catch (error) {
    into.replaceChildren(make("p", { className: "soft", textContent: error.message }));
  }
}

/** Return a form that runs the retrieval again whenever a setting changes. */
function tryOut() {
  const status = make("p", { role: "status", className: "soft" });
  const query = make("input", { id: "query", value: view.trace?.question_used ?? "", dir: "auto" });
  const mode = make("select", {}, ...["hybrid", "dense", "bm25"].map((value) => make("option", { value, textContent: t(`mode.${value}`) })));
  mode.value = view.settings.mode ?? "hybrid";
  const rerank = make("input", { type: "checkbox", checked: view.settings.rerank ?? true });
  const slider = (min, max, step, value) => make("input", { type: "range", min, max, step, value });
  const threshold = slider(0, 1, 0.05, view.settings.threshold ?? 0);
  const fetched = slider(5, 200, 5, view.settings.fetch_limit || 60);
  const kept = slider(1, 50, 1, view.settings.doc_limit || 20);
  const weight = slider(0, 1, 0.05, view.trace?.calibration?.dense_weight ?? 0.35);
  let isWeighted = false;
  weight.addEventListener("input", () => { isWeighted = true; });
  const run = debounce(() => retrieve({
    query: query.value.trim(), collection: view.collection, mode: mode.value, rerank: rerank.checked, threshold: Number(threshold.value),
    fetch_limit: Number(fetched.value), doc_limit: Math.min(Number(kept.value), Number(fetched.value)), dense_weight: isWeighted ? Number(weight.value) : null,
  }, status), 250);
  const labelled = (key, field) => {
    const shown = make("output", {});
    const tell = () => { if (field.type === "range") shown.textContent = number(Number(field.value)); };
    tell();
    field.addEventListener("input", () => { tell(); run(); });
    return make("label", {}, make("span", {}, t(`try.${key}`), " ", shown), field);
  };
  const form = make("form", { className: "try", "aria-label": t("try.title") },
    labelled("query", query), make("div", { className: "knobs" }, labelled("mode", mode),
      // Each of several collections has a weight of its own.
      view.collection.includes(",") ? "" : labelled("weight", weight), labelled("threshold", threshold),
      labelled("fetch", fetched), labelled("keep", kept), labelled("rerank", rerank)), status);
  form.addEventListener("submit", (event) => { event.preventDefault(); run(); });
  return make("details", { open: !view.trace }, make("summary", { textContent: t("try.title") }), make("p", { className: "soft", textContent: t("try.note") }), form);
}

async function retrieve(body, status) {
  if (!body.query) return;
  say(status, t("loading"));
  try {
    const { candidates } = await json("v1/retrieve", { body });
    view.former = new Map(view.rows.map((one) => [one.chunk_id, one.rank]));
    view.rows = candidates;
    view.isLive = true;
    if (view.stage === "synthesis") view.stage = "focus";
    say(status, movedWords());
    view.detail.replaceChildren();
    drawCandidates();
  } catch (error) {
    say(status, error.message);
  }
}

/** Return in words what another setting changed. */
function movedWords() {
  const now = new Set(view.rows.map((one) => one.chunk_id));
  const moved = view.rows.filter((one) => view.former.has(one.chunk_id) && view.former.get(one.chunk_id) !== one.rank).length;
  const fresh = view.former.size ? view.rows.filter((one) => !view.former.has(one.chunk_id)).length : 0;
  const gone = [...view.former.keys()].filter((id) => !now.has(id)).length;
  return t("try.moved", { moved, fresh, gone });
}

/** Return the choice of another answer to lay beside this one. */
function compared() {
  const into = make("div", {});
  const choice = make("select", { "aria-label": t("compare.with") }, make("option", { value: "", textContent: t("compare.choose") }));
  const details = make("details", {}, make("summary", { textContent: t("compare.title") }), choice, into);
  details.addEventListener("toggle", async () => {
    if (!details.open || choice.options.length > 1) return;
    const found = await answers().catch(() => ({ answers: [] }));
    choice.append(...found.answers.filter((one) => one.answer_id !== view.trace.answer_id).map((one) =>
      make("option", { value: one.answer_id, textContent: `${one.question} (${dayOf(one.asked_at)})` })));
  });
  choice.addEventListener("change", () => choice.value && showDifference(choice.value, into));
  return details;
}

async function showDifference(other, into) {
  const first = view.trace.answer_id;
  try {
    const ids = [first, other];
    const [difference, ...both] = await Promise.all([json(`${answerPath(first)}/diff/${encodeURIComponent(other)}`), ...ids.map((id) => json(`${answerPath(id)}/answer`))]);
    const rows = difference.differs.map((one) => make("li", {}, make("b", { textContent: t(`stage.${one.stage}`) }), `: ${has(`compare.${one.what}`) ? t(`compare.${one.what}`) : one.what}. `,
      make("span", { className: "soft", textContent: one.what === "question" ? "" : has(`cause.${one.cause.kind}`) ? t(`cause.${one.cause.kind}`) : one.cause.kind })));
    into.replaceChildren(make("p", { textContent: t(difference.identical ? "compare.identical" : difference.answer_changed ? "compare.changed" : "compare.same_answer") }),
      make("ul", {}, ...rows), make("div", { className: "pair" }, ...both.map((one) => make("article", {}, words("h3", one.question), make("div", { className: "answer" }, ...rendered(one.answer))))));
  } catch (error) {
    into.replaceChildren(make("p", { role: "alert", className: "problem", textContent: error.message }));
  }
}

/** Return the drawing of the trace, and its formats. */
function exports({ answer_id: id }) {
  const picture = make("img", { alt: t("inspect.drawing") });
  const details = make("details", {}, make("summary", { textContent: t("inspect.provenance") }),
    make("p", { className: "row" }, ...Object.entries(FORMATS).map(([format, suffix]) => button(t(`format.${format}`), async () => {
      save(`${id}.${suffix}`, "", await (await call(`${answerPath(id)}?format=${format}`)).blob());
    }, { className: "tool", dataset: { format } }))), make("div", { className: "wide", tabIndex: 0 }, picture));
  details.addEventListener("toggle", () => { if (!picture.src) picture.src = url(`${answerPath(id)}?format=svg`); });
  return details;
}

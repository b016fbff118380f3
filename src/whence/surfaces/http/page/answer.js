// One answer: text with links of its markers, sources, confidence, what was left out, feedback, copy and export.

import { answerPath, call, collectionOfPassage, url } from "./api.js";
import { button, directionOf, make, save, say, words } from "./dom.js";
import { rendered } from "./render.js";
import { openCitation, openDocument, placeOf } from "./source.js";
import { dayOf, decimal, has, percent, t } from "./texts.js";

/** Scores of the words for confidence; the floor of an answer is 0.5 for every encoder. */
const SURE = 0.8;
const FAIR = 0.65;

/** Return the nodes of an answer. `onQuestion` asks another question. */
export function answerNodes(answer, { onQuestion, collection = "" }) {
  // What a model wrote stays; the sentence of a refusal without one is ours.
  const isOurs = !answer.found && answer.refusal && answer.refusal.code !== "model_refused";
  const text = make("div", { className: "answer", lang: "" }, ...(isOurs ? [make("p", { textContent: t("answer.none") })] : textOf(answer)));
  return [understood(answer, onQuestion), text, ...conflictsOf(answer), ...refusalOf(answer, collection), sourcesOf(answer),
    qualityOf(answer), toolsOf(answer), feedbackOf(answer)].filter(Boolean);
}

/** Return the text while it is written. */
export const draftNodes = (text) => rendered(text, { isMarkup: true });

function textOf(answer) {
  const marks = [...answer.highlights.map((one) => [...one, "b"]),
    ...answer.unsupported.map((one) => [...one, "mark", t("answer.unsupported")])].sort((a, b) => a[0] - b[0] || b[1] - a[1]);
  const titles = answer.citations.flatMap(({ title, heading }) => [title, heading, `${title} > ${heading}`]);
  const isMarkup = Boolean(answer.model) && answer.model !== "extractive";
  return rendered(answer.answer, { marks, link: linkTo(answer), isMarkup, headings: new Set(titles) });
}

/** Return what makes the link of a marker: it opens the first citation with that number. */
const linkTo = (answer) => (marker) => {
  const index = answer.citations.findIndex((one) => one.marker === marker);
  return index < 0 ? null : markerLink(answer, index);
};

function markerLink(answer, index) {
  const { marker, title, document_id: id } = answer.citations[index];
  const link = make("a", { href: "#source", className: "marker", textContent: `[${marker}]`, title: title || id });
  link.addEventListener("click", (event) => {
    event.preventDefault();
    event.stopPropagation();
    openCitation(answer, index);
  });
  return link;
}

/** Return the question as it was completed, which can be edited and asked again. */
function understood(answer, onQuestion) {
  if (answer.question_used === answer.question) return null;
  const field = make("input", { value: answer.question_used, dir: "auto", "aria-label": t("answer.completed") });
  const form = make("form", { className: "row", hidden: true }, field, make("button", { className: "quiet", textContent: t("answer.send") }));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (field.value.trim()) onQuestion(field.value.trim(), { isWhole: true });
  });
  const edit = button(t("answer.edit"), () => { form.hidden = !form.hidden; field.focus(); }, { className: "link" });
  const label = answer.corrections.length ? t("answer.corrected") : t("answer.understood");
  return make("div", { className: "understood" }, `${label} `, words("q", answer.question_used), " ", edit, form);
}

function conflictsOf(answer) {
  return answer.conflicts.map(({ citations, values }) => make("p", { className: "warn" }, `${t("answer.conflict")} `,
    ...citations.flatMap((marker, at) => [at ? "; " : "", linkTo(answer)(marker) ?? `[${marker}]`, " ", words("span", values[at])])));
}

/** Return the reason in the page's language; what only the server's sentence holds, such as a word, follows in English. */
function reasonOf({ code, reason, best, floor }) {
  const key = `refusal.${code}`;
  const scores = `${key}_scores`;
  if (best && floor != null && has(scores)) return [t(key), " ", t(scores, { score: decimal(best.score), floor: decimal(floor) })];
  return [has(key) ? `${t(key)} ` : "", make("span", { textContent: reason, lang: "en" })];
}

function refusalOf(answer, collection) {
  if (answer.found && !answer.refusal) return [];
  const { refusal, nearest = [] } = answer;
  const nodes = [];
  if (refusal) {
    nodes.push(make("p", { className: "soft" }, ...reasonOf(refusal)));
    if (refusal.unread_files) nodes.push(make("p", { className: "warn" }, unreadFiles(refusal.unread_files, collection)));
  }
  if (nearest.length) nodes.push(make("h3", { textContent: t("answer.nearest") }), make("ul", { className: "sources" }, ...nearest.map((one) => passageItem(one, collection))));
  return nodes;
}

/** Return the number of files that were not read, with a link to their list where one collection was asked. */
function unreadFiles(files, collection) {
  const textContent = t("home.unread", { n: files, files });
  if (!collection || collection.includes(",")) return make("span", { textContent });
  return make("a", { className: "warn", textContent, href: url(`#${new URLSearchParams([["library", collection], ["state", "unread"]])}`) });
}

/** Return a list item of a passage; its name opens the document at the passage. */
export function passageItem(one, collection, ...more) {
  const own = collectionOfPassage(collection, one.chunk_id);
  const name = button("", () => openDocument(own, one.document_id, one.chunk_id), { className: "link name" });
  name.append(words("span", one.title || one.document_id));
  const text = one.lead ? `${one.lead}\n${one.text}` : one.text;
  const heading = [text.split("\n", 1)[0].trim(), one.title].includes(one.heading) ? "" : one.heading ?? "";
  return make("li", {}, make("div", { className: "head" }, name, words("span", heading, "soft"), ...more),
    make("blockquote", { dir: directionOf(text) }, ...rendered(text, { headings: new Set([one.heading]) })));
}

/** Return a card for each cited passage, with the places of its quotes. */
function sourcesOf(answer) {
  if (!answer.citations.length) return null;
  const byMarker = Map.groupBy(answer.citations.keys(), (index) => answer.citations[index].marker);
  const items = [...byMarker.values()].map((indexes) => {
    const cited = indexes.map((index) => answer.citations[index]);
    const [first] = cited;
    const name = button("", () => openCitation(answer, indexes[0]), { className: "link name" });
    name.append(words("span", first.title || first.document_id));
    const places = new Set(cited.map((one) => placeOf(one.location)).filter(Boolean));
    const facts = [[...places].join("; "), dateOf(first)].filter(Boolean).join(" · ");
    const states = [first.changed && t("source.changed_short"), first.outdated && t("source.outdated", { why: first.outdated }),
      cited.every((one) => one.added) && t("answer.added")].filter(Boolean);
    return make("li", {}, make("span", { className: "number", textContent: first.marker }),
      make("div", {}, name, make("div", { className: "soft" }, words("span", first.heading === first.title ? "" : first.heading)), words("div", [first.collection && `${first.collection}:`, pathOf(first)].filter(Boolean).join(" "), "soft path"),
        make("div", { className: "soft", textContent: facts }), ...states.map((textContent) => make("div", { className: "warn", textContent }))));
  });
  return make("div", {}, make("h3", { textContent: t("answer.sources") }), make("ol", { className: "source-cards" }, ...items));
}

const pathOf = (one) => [one.root, one.source_file || one.document_id].filter(Boolean).join("/");
/** Return the date of a document; a message has it in its place. */
const dateOf = ({ location, document_date: date }) => (date && !location?.message ? dayOf(date) : "");

/** Return confidence and everything that was left out, in words. */
function qualityOf(answer) {
  const lines = [];
  if (answer.found && answer.score != null) {
    const grade = answer.score >= SURE ? "sure" : answer.score >= FAIR ? "fair" : "weak";
    lines.push([grade, t(`confidence.${grade}`, { score: decimal(answer.score) })]);
  } else if (answer.found && answer.model) {
    const n = answer.unsupported.length;
    lines.push([n ? "weak" : "fair", t(n ? "confidence.written_unsupported" : "confidence.written", { model: answer.model, n, sentences: n })]);
  }
  // Sentences without support are counted above and marked; a refusal has no quotes.
  const isSaid = ({ code }) => code.startsWith("sentence_") || (!answer.found && code === "no_language_model");
  for (const one of answer.degraded.filter((each) => !isSaid(each))) {
    const key = `degraded.${one.code}`;
    const share = one.share == null ? "" : percent(one.share);
    lines.push(["note", has(key) ? t(key, { share }) : `${one.label}: ${one.reason}`]);
  }
  return make("ul", { className: "quality" }, ...lines.map(([className, textContent]) => make("li", { className, textContent })));
}

function toolsOf(answer) {
  const status = make("span", { role: "status", className: "soft" });
  const copy = async () => {
    const done = await navigator.clipboard?.writeText(markdownOf(answer)).then(() => true, () => false);
    say(status, t(done ? "answer.copied" : "answer.not_copied"));
  };
  return make("div", { className: "row tools" },
    make("a", { className: "tool", href: url(`#inspect=${answer.answer_id}`), textContent: t("answer.how") }),
    button(t("answer.copy"), copy, { className: "tool" }),
    button(t("answer.export"), () => save(`${answer.answer_id}.md`, "text/markdown", markdownOf(answer)), { className: "tool" }),
    button(t("answer.print"), () => print(), { className: "tool" }),
    make("a", { className: "tool", href: url(`a/${answer.answer_id}`), textContent: t("answer.link") }), status);
}

/** Return question, answer and sources as Markdown. */
export function markdownOf(answer) {
  const sources = answer.citations.map((one) => {
    const facts = [...new Set([one.title, pathOf(one), placeOf(one.location), dateOf(one)])].filter(Boolean).join(", ");
    const quote = (one.lead ? `${one.lead}\n${one.quote}` : one.quote).split("\n").map((line) => `   > ${line}`).join("\n");
    return `- [${one.marker}] ${facts}\n\n${quote}`;
  });
  const used = answer.question_used === answer.question ? [] : [`${t("answer.understood")}: ${answer.question_used}`];
  // What follows a row of a table without an empty line would be a row, too.
  const text = answer.answer.replace(/\|\n(?=\[\d+\])/g, "|\n\n");
  const parts = [`# ${answer.question}`, ...used, text, ...(sources.length ? [`## ${t("answer.sources")}`, ...sources] : []), url(`a/${answer.answer_id}`)];
  return `${parts.join("\n\n")}\n`;
}

/** Return the verdicts; one is sent at once, and again with its note. */
function feedbackOf(answer) {
  const status = make("span", { role: "status", className: "soft" });
  const note = make("input", { "aria-label": t("feedback.note"), placeholder: t("feedback.note"), maxLength: 2000, dir: "auto" });
  const form = make("form", { className: "row", hidden: true }, note, make("button", { className: "quiet", textContent: t("feedback.send") }));
  let verdict = "";
  const send = async () => {
    try {
      await call(`${answerPath(answer.answer_id)}/feedback`, { body: { verdict, note: note.value.trim() } });
      say(status, t("feedback.thanks"));
    } catch (error) {
      say(status, error.message);
    }
  };
  const choose = (event) => {
    verdict = event.currentTarget.value;
    for (const one of buttons) one.setAttribute("aria-pressed", String(one === event.currentTarget));
    form.hidden = false;
    return send();
  };
  const buttons = ["right", "wrong", "missing"].map((value) =>
    button(t(`feedback.${value}`), choose, { value, className: "tool", "aria-pressed": "false", title: t(`feedback.${value}_means`) }));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    await send();
    form.hidden = true;
  });
  return make("div", { className: "row feedback" }, make("span", { className: "soft", textContent: t("feedback.ask") }), ...buttons, status, form);
}

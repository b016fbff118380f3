// The web page of the gateway. Text from documents is never inserted as markup.

// Names of the stages in traces, and the field's terms that people see.
const STAGES = ["question", "grounding", "exploration", "focus", "synthesis"];
const TITLES = {
  grounding: "query processing", exploration: "retrieval", focus: "reranking", synthesis: "generation",
};
const titleOf = (stage) => TITLES[stage] || stage;
const $ = (id) => document.getElementById(id);

let token = "";
let running = null; // AbortController of the current request
let answerId = "";

/** Create an element. */
function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

class RequestError extends Error {}

async function call(path, { body, accept, signal } = {}) {
  const headers = {};
  if (token) headers.Authorization = `Bearer ${token}`;
  if (accept) headers.Accept = accept;
  if (body) headers["Content-Type"] = "application/json";
  const response = await fetch(path, {
    method: body ? "POST" : "GET", headers, signal, body: body && JSON.stringify(body),
  });
  if (!response.ok) throw refusal(await response.json());
  return response;
}

function refusal(document) {
  const { message, hint } = document.error;
  return new RequestError(hint ? `${message}\n${hint}` : message);
}

/** Read server-sent events from a response, one `{name, data}` after the other. */
async function* events(response) {
  let rest = "";
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const name = /^event: (.*)$/m.exec(block);
      const data = /^data: (.*)$/m.exec(block);
      if (name && data) yield { name: name[1], data: JSON.parse(data[1]) };
    }
  }
}

function begin() {
  running?.abort();
  running = new AbortController();
  answerId = "";
  $("error").hidden = true;
  $("result").hidden = false;
  $("result").setAttribute("aria-busy", "true");
  for (const id of ["stages", "answer", "notes", "list", "why-told"]) $(id).replaceChildren();
  for (const id of ["notes", "whence", "list-title"]) $(id).hidden = true;
  $("stop").hidden = false;
  return running;
}

function end(mine, error) {
  if (mine !== running) return; // Replaced by a newer request.
  running = null;
  $("stop").hidden = true;
  $("result").setAttribute("aria-busy", "false");
  if (error && error.name !== "AbortError") {
    $("error").textContent = error instanceof RequestError ? error.message : `The server does not answer: ${error.message}`;
    $("error").hidden = false;
  }
}

function options() {
  return { mode: $("mode").value, collection: $("collection").value.trim() };
}

async function ask(question) {
  const mine = begin();
  $("stages").append(...STAGES.map((stage) => make("li", { textContent: titleOf(stage) })));
  try {
    const response = await call("v1/ask", {
      body: { question, ...options() }, accept: "text/event-stream", signal: mine.signal,
    });
    for await (const { name, data } of events(response)) {
      if (name === "stage") markStage(data.stage);
      else if (name === "text") $("answer").append(data.text);
      else if (name === "error") throw refusal(data);
      else if (name === "answer") showAnswer(data);
    }
    if (answerId) await showTrace(answerId, mine.signal);
    end(mine);
  } catch (error) {
    end(mine, error);
  }
}

function markStage(stage) {
  const at = STAGES.indexOf(stage);
  if (at < 0) $("stages").append(make("li", { textContent: titleOf(stage), className: "failed" }));
  else $("stages").children[at].className = "done";
}

function showAnswer(answer) {
  answerId = answer.answer_id;
  const known = new Set(answer.citations.map((one) => one.marker));
  const linked = (text) => text.split(/(\[\d+\])/).map((part) => {
    const marker = /^\[(\d+)\]$/.exec(part);
    return marker && known.has(Number(marker[1]))
      ? make("a", { href: `#source-${marker[1]}`, textContent: part }) : part;
  });
  $("answer").replaceChildren(...rendered(answer.answer, marksOf(answer), linked));
  for (const { citations: markers, values } of answer.conflicts) {
    const says = markers.map((marker, place) => `[${marker}] says ${values[place]}`).join(" and ");
    $("answer").append(make("p", { className: "old" }, ...linked(`The documents differ: ${says}`)));
  }
  if (answer.refusal) $("answer").append(make("p", { className: "place", textContent: answer.refusal.reason }));
  showNotes(answer.degraded, answer);
  const { citations, nearest = [] } = answer;
  $("list-title").textContent = nearest.length ? "Nearest passages" : "Sources";
  $("list-title").hidden = citations.length + nearest.length === 0;
  for (const one of nearest) {
    const place = make("span", { className: "place", textContent: one.heading });
    $("list").append(make("li", {}, source(one.document_id), " ", place, passage(one.lead, one.text)));
  }
  const seen = new Set();
  for (const citation of citations) {
    const item = make("li", {}, make("span", { className: "marker", textContent: `[${citation.marker}]` }),
      source(citation.document_id, citation.source_url, citation.location.anchor), " ",
      make("span", { className: "place", textContent: [placeOf(citation.location), citation.heading].filter(Boolean).join(" · ") }));
    if (citation.document_date) item.append(make("span", { className: "place", textContent: ` ${dayOf(citation.document_date)}` }));
    if (citation.changed) item.append(make("span", { className: "old", textContent: " changed since" }));
    if (citation.outdated) item.append(make("span", { className: "old", textContent: ` out of date: ${citation.outdated}` }));
    if (citation.quote) item.append(passage(citation.lead, citation.quote, marksOf(citation)));
    // A marker links to the first of its quotes.
    if (!seen.has(citation.marker)) item.id = `source-${citation.marker}`;
    seen.add(citation.marker);
    $("list").append(item);
  }
}

/** Return the place of a quote in words: sheet and rows, message, slide, page or line. */
function placeOf({ sheet, row_start: first, row_end: last, message, slide, page, line_start: line }) {
  const rows = !first ? "" : last && last !== first ? ` rows ${first}-${last}` : ` row ${first}`;
  if (sheet) return `sheet "${sheet}"${rows}`;
  if (message) return `message of ${dayOf(message)}`;
  return slide ? `slide ${slide}` : page ? `p. ${page}` : line ? `line ${line}` : "";
}

/** Return the day of an ISO 8601 moment in words, whatever the time zone of the reader. */
function dayOf(moment) {
  const day = new Date(`${moment.slice(0, 10)}T00:00:00Z`);
  const options = { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" };
  return Number.isNaN(day.getTime()) ? moment : day.toLocaleDateString("en-GB", options);
}

/** Return the words that answer, and the sentences without support, as `[start, end, tag]` in order. */
function marksOf({ highlights, unsupported = [] }) {
  return [...highlights.map((one) => [...one, "b"]), ...unsupported.map((one) => [...one, "mark"])]
    .sort((a, b) => a[0] - b[0]);
}

/** Return nodes of a stretch of a text with its marks. Offsets count code points, not UTF-16 units. */
function marked(characters, marks, from, to, linked) {
  const nodes = [];
  let at = from;
  for (const [start, end, tag] of marks) {
    if (start < at || end > to) continue;
    const title = tag === "mark" ? "No passage that it cites supports this sentence." : "";
    nodes.push(...linked(characters.slice(at, start).join("")),
      make(tag, { title }, ...linked(characters.slice(start, end).join(""))));
    at = end;
  }
  return [...nodes, ...linked(characters.slice(at, to).join(""))];
}

const ROW = /^\s*\|.*\|\s*$/;
const RULE = /^\s*\|(\s*:?-{3,}:?\s*\|)+\s*$/;
const FENCE = /^\s*(```|~~~)/;

/** Return the lines of a text, each with the offset of its first character. */
function linesOf(characters) {
  let start = 0;
  return characters.join("").split("\n").map((text) => {
    const line = { text, start, end: start + [...text].length };
    start = line.end + 1;
    return line;
  });
}

/** Return nodes of a text with its marks; tables of Markdown become tables, fenced code becomes code. */
function rendered(text, marks = [], linked = (words) => [words]) {
  const characters = [...text];
  const lines = linesOf(characters);
  const nodes = [];
  let plain = 0; // first line that is not in a node yet
  const flush = (upto) => {
    if (upto > plain) nodes.push(...marked(characters, marks, lines[plain].start, lines[upto - 1].end, linked));
  };
  for (let at = 0; at < lines.length;) {
    let end = at;
    const isCode = FENCE.test(lines[at].text);
    if (isCode) {
      end = lines.findIndex((line, place) => place > at && FENCE.test(line.text)) + 1 || lines.length;
    } else {
      while (end < lines.length && ROW.test(lines[end].text)) end += 1;
    }
    if (end > at) {
      flush(at);
      if (isCode) nodes.push(codeOf(characters, marks, lines.slice(at, end)));
      else nodes.push(tableOf(characters, marks, lines.slice(at, end), linked));
      plain = end;
    }
    at = Math.max(end, at + 1);
  }
  flush(lines.length);
  return nodes;
}

function codeOf(characters, marks, [, ...lines]) {
  const body = lines.length && FENCE.test(lines.at(-1).text) ? lines.slice(0, -1) : lines;
  const code = make("code");
  if (body.length) code.append(...marked(characters, marks, body[0].start, body.at(-1).end, (words) => [words]));
  return make("pre", {}, code);
}

/** Return a table; a row with words that answer is marked. */
function tableOf(characters, marks, lines, linked) {
  const hasHeader = lines.length > 1 && RULE.test(lines[1].text);
  const table = make("table");
  for (const [place, line] of lines.entries()) {
    if (RULE.test(line.text)) continue;
    const isHead = hasHeader && place === 0;
    const answers = marks.some(([start, end, tag]) => tag === "b" && start < line.end && line.start < end);
    const row = make("tr", { className: answers ? "cited" : "" });
    for (const [start, end] of cellsOf(characters, line)) {
      row.append(make(isHead ? "th" : "td", {}, ...marked(characters, marks, start, end, linked)));
    }
    table.append(make(isHead ? "thead" : "tbody", {}, row));
  }
  return table;
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

/** Return a passage below what stands above it. */
function passage(lead, text, marks = []) {
  const offset = lead ? [...lead].length + 1 : 0;
  const moved = marks.map(([start, end, tag]) => [start + offset, end + offset, tag]);
  return make("blockquote", {}, ...rendered(lead ? `${lead}\n${text}` : text, moved));
}

function source(documentId, url, anchor) {
  const fragment = anchor && !url?.includes("#") ? `#${encodeURIComponent(anchor)}` : "";
  return /^https?:\/\//.test(url || "")
    ? make("a", { href: url + fragment, textContent: documentId, rel: "noopener noreferrer", target: "_blank" })
    : make("b", { textContent: documentId });
}

function showNotes(degraded, { question_used: used, corrections } = { corrections: [] }) {
  const notes = degraded.map((one) => `${one.label}: ${one.reason}`);
  if (corrections.length) notes.unshift(`Searched for: ${used}. Quotes search for the words as they are.`);
  $("notes").hidden = notes.length === 0;
  $("notes").replaceChildren(...notes.map((textContent) => make("li", { textContent })));
}

async function showTrace(id, signal) {
  const path = `v1/answers/${encodeURIComponent(id)}`;
  const trace = await (await call(path, { signal })).json();
  const explored = trace.stages.find((stage) => stage.stage === "exploration");
  const documents = new Set((explored?.candidates ?? []).flatMap((one) => [one.document_id, one.chunk_id]));
  $("known").replaceChildren(...[...documents].filter(Boolean).map((value) => make("option", { value })));
  URL.revokeObjectURL($("picture").src);
  $("picture").src = $("picture-link").href = await fetchTrace(id, "svg", signal);
  $("whence").hidden = false;
}

/** Fetch a trace in one format with the token, and return an object URL. */
async function fetchTrace(id, format, signal) {
  const path = `v1/answers/${encodeURIComponent(id)}?format=${format}`;
  return URL.createObjectURL(await (await call(path, { signal })).blob());
}

/** Download the trace in one format; rendered on demand, because some formats are slow. */
async function save(format) {
  const suffix = { nquads: "nq", turtle: "ttl", trig: "trig", jsonld: "jsonld", svg: "svg", tree: "txt" }[format];
  try {
    const href = await fetchTrace(answerId, format);
    make("a", { href, download: `${answerId}.${suffix}` }).click();
    setTimeout(() => URL.revokeObjectURL(href), 60_000);
  } catch (error) {
    $("error").textContent = error.message;
    $("error").hidden = false;
  }
}

async function search(query) {
  const mine = begin();
  try {
    const response = await call("v1/search", {
      body: { query, top_k: Number($("top-k").value) || 8, ...options() }, signal: mine.signal,
    });
    const found = await response.json();
    showNotes(found.degraded, found);
    $("list-title").textContent = found.message;
    $("list-title").hidden = false;
    const weak = found.hits.findIndex((hit) => hit.weak);
    const items = found.hits.map(hitItem);
    if (weak >= 0) items.splice(weak, 0, make("li", { className: "weak", textContent: "Weak matches, with scores below 0.5:" }));
    $("list").append(...items);
    end(mine);
  } catch (error) {
    end(mine, error);
  }
}

function hitItem(hit) {
  const part = (name, value) => (value == null ? "" : ` · ${name} ${value.toFixed(3)}`);
  const { dense_score: dense, sparse_score: sparse } = hit.score_breakdown;
  const metadata = hit.chunk.metadata;
  const others = [...new Set(hit.duplicates.map((one) => one.document_id))];
  return make("li", {},
    make("span", { className: "marker", textContent: `${hit.rank}.` }),
    source(hit.document_id, metadata.source_url), " ",
    make("span", { className: "place", textContent: metadata.section_path || "" }),
    make("div", { className: "scores" },
      make("meter", { min: 0, max: 1, value: hit.similarity_score }),
      ` ${hit.similarity_score.toFixed(3)}${part("dense", dense)}${part("lexical", sparse)}`),
    passage(hit.chunk.lead, hit.chunk.content),
    make("div", { className: "place", textContent: others.length ? `The same in ${others.join(", ")}` : "" }));
}

async function whyNot(item) {
  const path = `v1/answers/${encodeURIComponent(answerId)}/why-not?item=${encodeURIComponent(item)}`;
  try {
    const reason = await (await call(path)).json();
    const { best_sentence: sentence, ...others } = reason.numbers;
    const known = Object.entries(others).filter(([, value]) => value != null);
    const numbers = known.map(([name, value]) => {
      const shown = typeof value === "number" && !Number.isInteger(value) ? value.toFixed(3) : value;
      return `${name.replaceAll("_", " ")} ${shown}`;
    });
    const refused = reason.refusal ? `\nno answer: ${reason.refusal.reason}` : "";
    const names = [...new Set([reason.title, reason.heading])].filter(Boolean).join(" > ");
    const quote = sentence ? `\n\u201c${sentence}\u201d` : "";
    $("why-told").textContent = `${reason.reason}\n${names}${quote}\n${numbers.join(" · ")}${refused}`;
  } catch (error) {
    $("why-told").textContent = error.message;
  }
}

/** Run the request in the address, `#ask=...` or `#search=...`. */
function runFromAddress() {
  const [what, words] = [...new URLSearchParams(location.hash.slice(1))][0] ?? [];
  if (!words || !(what === "ask" || what === "search")) return;
  $("words").value = words;
  (what === "ask" ? ask : search)(words);
}

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const words = $("words").value.trim();
  const what = event.submitter?.value ?? "ask";
  if (!words) return $("words").focus();
  history.replaceState(null, "", `#${new URLSearchParams([[what, words]])}`);
  (what === "search" ? search : ask)(words);
});
$("words").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey) {
    event.preventDefault();
    $("form").requestSubmit($("ask"));
  }
});
$("stop").addEventListener("click", () => running?.abort());
$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  $("reader").textContent = token ? "of the token" : "public";
  $("who").open = false;
});
for (const button of document.querySelectorAll("[data-format]")) {
  button.addEventListener("click", () => save(button.dataset.format));
}
$("why-form").addEventListener("submit", (event) => {
  event.preventDefault();
  if ($("why").value.trim()) whyNot($("why").value.trim());
});
addEventListener("hashchange", runFromAddress);
runFromAddress();

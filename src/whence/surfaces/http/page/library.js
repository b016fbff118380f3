// Documents of a collection: list, search, upload, removal, and reading again.

import { call, documentPath, documentsPath, json, upload } from "./api.js";
import { $, button, debounce, make, say, words } from "./dom.js";
import { overview } from "./home.js";
import { mayWrite, tagsInWords } from "./reader.js";
import { openDocument } from "./source.js";
import { dayOf, has, momentOf, t } from "./texts.js";

/** Files and bytes of one request at most. */
const BATCH_FILES = 8;
const BATCH_BYTES = 16 * 2 ** 20;
const PAGE = 200;
/** Names that indexing passes over, as those that begin with a dot. */
const HIDDEN = ["node_modules", "__pycache__", "Thumbs.db"];
/** The root of files that were sent. */
const UPLOADS = "uploads";
const STATES = ["read", "waiting", "skipped", "failed", "gone"];

let shown = null; // collection, rows, next, and elements of the view

export async function show({ value }) {
  const values = new URLSearchParams(location.hash.slice(1));
  const found = await overview(true);
  const names = found.collections.map((one) => one.name);
  const collection = value || (names.includes(found.default) ? found.default : names[0] ?? found.default);
  shown = { collection, rows: [], next: null, names, state: values.get("state") ?? "" };
  draw();
  await load();
}

function draw() {
  const { collection, names } = shown;
  shown.status = make("p", { role: "status", className: "soft" });
  shown.list = make("ul", { className: "rows", "aria-label": t("library.documents") });
  shown.more = button(t("more"), () => load(shown.next), { className: "quiet", hidden: true });
  const choice = make("select", {}, ...[...new Set([...names, collection])].map((name) => make("option", { value: name, textContent: name, selected: name === collection })));
  choice.addEventListener("change", () => { location.hash = new URLSearchParams([["library", choice.value]]); });
  const filter = make("input", { type: "search", placeholder: t("library.filter"), "aria-label": t("library.filter"), dir: "auto" });
  filter.addEventListener("input", debounce(() => { shown.filter = filter.value.trim().toLowerCase(); showAll(); }, 150));
  const state = make("select", {}, make("option", { value: "", textContent: t("library.any") }), make("option", { value: "unread", textContent: t("library.unread") }),
    ...STATES.map((value) => make("option", { value, textContent: t(`doc.${value}`) })));
  state.value = shown.state;
  state.addEventListener("change", () => { shown.state = state.value; load(); });
  $("view-library").replaceChildren(make("h1", { textContent: t("nav.library") }), mayWrite() ? uploads() : make("p", { className: "soft", textContent: t("library.sign_in") }),
    make("div", { className: "row" }, make("label", { hidden: names.length < 2 }, `${t("ask.collection")} `, choice), filter, make("label", {}, `${t("library.state")} `, state)),
    shown.status, shown.list, make("p", {}, shown.more));
}

/** Read a page of documents; files that were not read are in two states. */
async function load(after = "") {
  const mine = shown;
  const states = mine.state === "unread" ? ["skipped", "failed"] : [mine.state];
  try {
    const pages = await Promise.all(states.map((state) => json(`${documentsPath(mine.collection)}?${new URLSearchParams({
      order: "newest", limit: PAGE, ...(state ? { state } : {}), ...(after ? { after } : {}) })}`)));
    if (mine !== shown) return;
    mine.rows = [...(after ? mine.rows : []), ...pages.flatMap((one) => one.documents)];
    mine.next = pages.length === 1 ? pages[0].next : null;
  } catch (error) {
    if (error.status !== 404) throw error;
    mine.rows = [];
    mine.next = null;
  }
  showRows();
}

/** A search looks at all documents, so the rest of the list is read first. */
async function showAll() {
  while (shown.filter && shown.next) await load(shown.next);
  showRows();
}

function showRows() {
  const { filter, rows } = shown;
  const matching = filter ? rows.filter((one) => `${one.title} ${one.document_id ?? ""} ${one.path}`.toLowerCase().includes(filter)) : rows;
  shown.list.replaceChildren(...matching.map(row));
  shown.more.hidden = !shown.next;
  say(shown.status, matching.length ? t("library.count", { n: matching.length, documents: matching.length }) : t(rows.length ? "library.no_match" : "library.empty"));
}

function row(one) {
  const title = one.title || one.document_id || one.path;
  const id = `doc-${one.key ?? one.document_id}`;
  const name = one.chunks ? button("", () => openDocument(shown.collection, one.document_id, "", { document_date: one.document_date, indexed_at: one.indexed_at }), { className: "link name", id }) : make("span", { className: "name", id });
  name.append(words("span", title));
  const facts = [one.chunks ? t("library.passages", { n: one.chunks, passages: one.chunks }) : "", one.document_date ? dayOf(one.document_date) : "",
    one.indexed_at ? t("source.indexed", { day: momentOf(one.indexed_at) }) : ""].filter(Boolean).join(" · ");
  const states = [one.state !== "read" && make("span", { className: "state warn", textContent: t(`doc.${one.state}`) }),
    one.changed && make("span", { className: "state warn", textContent: t("source.changed_short") })].filter(Boolean);
  const item = make("li", {}, make("div", { className: "main" }, name, words("div", [one.root, one.path].filter(Boolean).join("/"), "soft path"),
    make("div", { className: "soft", textContent: facts }), one.reason ? words("div", one.reason, "warn") : ""), ...states);
  if (mayWrite() && one.chunks) {
    const about = { className: "quiet small", "aria-describedby": id };
    // The file of an upload is not kept.
    const readAgain = one.root === UPLOADS ? "" : button(t("library.again"), (event) => again(one, event.target, item), about);
    item.append(make("div", { className: "acts" }, readAgain, button(t("delete"), () => askDelete(one, item), about)));
  }
  return item;
}

function note(item, text, className = "soft") {
  item.querySelector("[role=status]")?.remove();
  item.append(make("div", { role: "status", className, textContent: text }));
}

async function again(one, pressed, item) {
  pressed.disabled = true;
  note(item, t("library.reading"));
  try {
    await call(`${documentPath(shown.collection, one.document_id)}/again`, { method: "POST" });
    note(item, t("library.read_again"));
  } catch (error) {
    note(item, error.message, "warn");
  }
  pressed.disabled = false;
}

/** Ask before a document is removed, and show which answers stand on it. */
async function askDelete(one, item) {
  const dialog = $("dialog");
  const preview = make("div", { "aria-live": "polite" }, make("p", { className: "soft", textContent: t("loading") }));
  const problem = make("p", { role: "alert", className: "problem", hidden: true });
  const remove = async () => {
    try {
      await call(documentPath(shown.collection, one.document_id), { method: "DELETE" });
      dialog.close();
      shown.rows = shown.rows.filter((other) => other !== one);
      const next = item.nextElementSibling ?? item.previousElementSibling;
      showRows();
      overview(true).catch(() => {});
      (shown.list.children.length && next ? shown.list.querySelector("button") : $("main"))?.focus();
    } catch (error) {
      say(problem, error.message);
    }
  };
  dialog.replaceChildren(make("h2", { id: "dialog-title", textContent: t("delete.title") }), words("p", one.title || one.document_id, "strong"), words("p", one.document_id, "soft path"), preview, problem,
    make("p", { className: "row" }, button(t("delete"), remove, { className: "danger" }), button(t("cancel"), () => dialog.close(), { className: "quiet", autofocus: true })));
  dialog.showModal();
  try {
    const { answers, count } = await json(`${documentPath(shown.collection, one.document_id)}/answers`);
    preview.replaceChildren(make("p", { textContent: count ? t("delete.answers", { n: count, answers: count }) : t("delete.none") }),
      make("ul", {}, ...answers.slice(0, 8).map((each) => words("li", each.question))));
  } catch (error) {
    preview.replaceChildren(make("p", { className: "soft", textContent: error.message }));
  }
}

/** Return where files are chosen or dropped, and what becomes of each. */
function uploads() {
  const list = make("ul", { className: "uploads", "aria-label": t("upload.list") });
  const progress = make("progress", { max: 1, value: 0, hidden: true, "aria-label": t("upload.progress") });
  const status = make("p", { role: "status", className: "soft" });
  const parts = { list, progress, status };
  const files = make("input", { type: "file", multiple: true, id: "files" });
  const folder = make("input", { type: "file", webkitdirectory: true, id: "folder" });
  for (const input of [files, folder]) {
    input.addEventListener("change", async () => {
      await store([...input.files].map((file) => ({ file, name: file.webkitRelativePath || file.name })), parts);
      input.value = "";
    });
  }
  const zone = make("div", { className: "drop" }, make("p", { textContent: t("upload.drop") }),
    make("div", { className: "row" }, make("label", {}, `${t("upload.files")} `, files), make("label", {}, `${t("upload.folder")} `, folder)),
    make("p", { className: "soft", textContent: tagsInWords() }), progress, status, list);
  zone.addEventListener("dragover", (event) => { event.preventDefault(); zone.classList.add("over"); });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", async (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    const entries = [...event.dataTransfer.items].map((one) => one.webkitGetAsEntry()).filter(Boolean);
    const plain = [...event.dataTransfer.files].map((file) => ({ file, name: file.name }));
    await store(entries.length ? (await Promise.all(entries.map(filesOf))).flat() : plain, parts);
  });
  return zone;
}

/** Return the files of what was dropped, those of folders with their paths. */
async function filesOf(entry) {
  if (entry.isFile) return [{ file: await new Promise((done, failed) => entry.file(done, failed)), name: entry.fullPath.slice(1) }];
  const reader = entry.createReader();
  const found = [];
  for (;;) {
    const some = await new Promise((done, failed) => reader.readEntries(done, failed));
    if (!some.length) break;
    found.push(...some);
  }
  return (await Promise.all(found.map(filesOf))).flat();
}

/** Names that indexing passes over. */
const isHidden = (name) => name.split("/").some((part) => /^(\.|~\$)/.test(part) || HIDDEN.includes(part));

/** Store files batch by batch; each has its line with its state and reason. Hidden ones of folders are only counted. */
async function store(chosen, { list, progress, status }) {
  const files = chosen.filter((one) => !isHidden(one.name));
  const hidden = chosen.length - files.length;
  const tell = (...told) => say(status, [...told, hidden && t("upload.hidden", { n: hidden, files: hidden })].filter(Boolean).join(" "));
  tell();
  const lines = files.map((one) => ({ ...one, line: uploadLine(one.name) }));
  list.replaceChildren(...lines.map((one) => one.line.item));
  const all = lines.reduce((sum, one) => sum + one.file.size, 0) || 1;
  progress.hidden = false;
  let done = 0;
  for (const batch of batchesOf(lines)) {
    const bytes = batch.reduce((sum, one) => sum + one.file.size, 0);
    await send(batch, (share) => { progress.value = (done + share * bytes) / all; });
    done += bytes;
    progress.value = done / all;
    const over = lines.filter((one) => one.line.isOver).length;
    tell(t("upload.done", { over, files: lines.length, n: lines.length, failed: lines.filter((one) => one.line.hasFailed).length }));
  }
  progress.hidden = true;
  await Promise.all([load(), overview(true)]);
}

function uploadLine(name) {
  const state = make("span", { className: "state", textContent: t("upload.waiting") });
  const reason = words("span", "", "warn");
  const line = { item: make("li", {}, words("span", name, "name"), state, reason), isOver: false, hasFailed: false };
  line.tell = (key, why = "") => {
    state.textContent = has(`upload.${key}`) ? t(`upload.${key}`) : t(`doc.${key}`);
    reason.textContent = why;
    line.isOver = !["sending", "reading"].includes(key);
    line.hasFailed = ["failed", "skipped"].includes(key);
    state.className = `state ${line.hasFailed ? "bad" : line.isOver ? "good" : ""}`;
  };
  return line;
}

function batchesOf(lines) {
  const batches = [];
  let bytes = 0;
  for (const one of lines) {
    const last = batches.at(-1);
    if (last && last.length < BATCH_FILES && bytes + one.file.size <= BATCH_BYTES) last.push(one);
    else { batches.push([one]); bytes = 0; }
    bytes += one.file.size;
  }
  return batches;
}

async function send(batch, onProgress) {
  for (const one of batch) one.line.tell("sending");
  try {
    const report = await upload(documentsPath(shown.collection), batch, (share) => {
      onProgress(share);
      if (share === 1) for (const one of batch) one.line.tell("reading");
    });
    const found = new Map(report.files.map((one) => [one.path, one]));
    for (const one of batch) {
      const told = found.get(one.name.normalize()) ?? found.get(one.name);
      one.line.tell(told?.state ?? "skipped", told ? told.reason : t("upload.left_out"));
    }
  } catch (error) {
    // A name that is refused refuses its whole request: send each by itself.
    if (batch.length > 1 && error.status === 400) for (const one of batch) await send([one], () => {});
    else for (const one of batch) one.line.tell("failed", error.message);
  }
}

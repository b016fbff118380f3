// First look: collections, example questions, where data is and which models run; how to begin in an empty home.

import { json, url } from "./api.js";
import { $, button, make, say, words } from "./dom.js";
import { mayWrite } from "./reader.js";
import { dayOf, has, percent, t } from "./texts.js";

let last = null;

/** Return the overview, read once until something changes. */
export async function overview(renew = false) {
  if (renew || !last) last = json("v1/overview").catch((error) => { last = null; throw error; });
  return last;
}

/** Forget what was read: another reader sees other collections. */
export const forget = () => { last = null; };

export async function showHome(renew = false) {
  const found = await overview(renew);
  const isEmpty = found.collections.every((one) => !one.documents);
  $("home").replaceChildren(...(isEmpty ? begin(found) : [examples(found), collections(found)]), facts(found));
}

function examples({ examples: found, collections: { length } }) {
  if (!found.length) return "";
  const links = found.map(({ collection, question }) => {
    const values = [["ask", question], ...(length > 1 ? [["in", collection]] : [])];
    return make("li", {}, make("a", { className: "chip", dir: "auto", textContent: question, href: url(`#${new URLSearchParams(values)}`) }));
  });
  return make("div", {}, make("h2", { textContent: t("home.examples") }), make("ul", { className: "chips" }, ...links));
}

function collections({ collections: found }) {
  return make("div", {}, make("h2", { textContent: t("home.collections") }), make("ul", { className: "cards" }, ...found.map(card)));
}

function card(one) {
  const lines = [t("home.documents", { n: one.documents, documents: one.documents, chunks: one.chunks })];
  if (one.changed_at) lines.push(t("home.changed", { day: dayOf(one.changed_at) }));
  if (one.vectors_share != null && one.vectors_share < 1) lines.push(t("home.vectors", { share: percent(one.vectors_share) }));
  const item = make("li", {},
    make("a", { className: "name", textContent: one.name, href: url(`#${new URLSearchParams([["library", one.name]])}`) }),
    ...lines.map((textContent) => make("span", { textContent })));
  if (one.unread_files) {
    const values = new URLSearchParams([["library", one.name], ["state", "unread"]]);
    item.append(make("a", { className: "warn", textContent: t("home.unread", { n: one.unread_files, files: one.unread_files }), href: url(`#${values}`) }));
  }
  return item;
}

function begin({ handbook }) {
  const status = make("p", { role: "status", hidden: true });
  const start = handbook && button(t("home.handbook"), async (event) => {
    event.target.disabled = true;
    say(status, t("home.indexing"));
    try {
      await json("v1/handbook", { method: "POST" });
      await showHome(true);
    } catch (error) {
      say(status, error.message);
      event.target.disabled = false;
    }
  });
  return [make("div", { className: "begin" },
    make("h2", { textContent: t("home.empty") }),
    make("p", { textContent: mayWrite() ? t("home.add") : t("home.add_signed_out") }),
    make("pre", {}, make("code", { textContent: "whence index FOLDER\nwhence watch FOLDER" })),
    make("p", { className: "row" }, start || "",
      mayWrite() && make("a", { className: "chip", textContent: t("home.upload"), href: url("#library") }) || ""), status)];
}

function facts({ data, models }) {
  const rows = [[t("home.data"), data?.where && t(`where.${data.where}`)]];
  for (const role of ["encoder", "reranker", "writer"]) {
    const name = models?.[role];
    const server = role === "writer" && models?.writer_server ? ` (${models.writer_server})` : "";
    rows.push([t(`model.${role}`), name && (has(`model.is.${name}`) ? t(`model.is.${name}`) : name) + server]);
  }
  const shown = rows.filter(([, value]) => value).map(([name, value]) =>
    make("div", {}, make("dt", { textContent: name }), words("dd", String(value))));
  return make("dl", { className: "facts" }, ...shown);
}


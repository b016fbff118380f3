// The answers that this reader, or without sign-in this browser, has been given.

import { answerPath, json, url } from "./api.js";
import { markdownOf } from "./answer.js";
import { $, button, make, save, say, words } from "./dom.js";
import { signedIn } from "./reader.js";
import { momentOf, t } from "./texts.js";

const PAGE = 100;

/** Return a page of answers, newest first, and where the next begins. */
export const answers = (after = "", limit = PAGE) =>
  json(`v1/history?${new URLSearchParams({ limit, ...(after ? { after } : {}) })}`);

export async function show() {
  const list = make("ol", { className: "rows", "aria-label": t("nav.history") });
  const status = make("p", { role: "status", className: "soft" });
  const shown = [];
  const more = button(t("more"), () => load(more.value), { className: "quiet", hidden: true });
  const exportAll = button(t("history.export"), () => exported(shown, status), { className: "quiet", hidden: true });
  const load = async (after = "") => {
    const page = await answers(after);
    shown.push(...page.answers);
    list.append(...page.answers.map(row));
    say(status, shown.length ? "" : t("history.empty"));
    exportAll.hidden = !shown.length;
    more.hidden = !page.next;
    more.value = page.next ?? "";
  };
  $("view-history").replaceChildren(make("h1", { textContent: t("nav.history") }),
    make("p", { className: "soft", textContent: t(signedIn() ? "history.reader" : "history.browser") }), status, list,
    make("p", { className: "row" }, more, exportAll));
  await load();
}

function row(one) {
  const facts = [momentOf(one.asked_at), one.collection, one.found ? "" : t("history.not_found")].filter(Boolean).join(" · ");
  return make("li", {}, make("div", { className: "main" },
    make("a", { className: "name", dir: "auto", href: url(`a/${one.answer_id}`), textContent: one.question }),
    make("div", { className: "soft", textContent: facts })),
  one.state === "current" ? "" : make("span", { className: "state warn", textContent: t(`history.${one.state}`) }));
}

/** Save all answers that are listed as one Markdown file. */
async function exported(rows, status) {
  const texts = [];
  for (const [at, one] of rows.entries()) {
    say(status, t("history.exporting", { done: at + 1, all: rows.length }));
    const answer = await json(`${answerPath(one.answer_id)}/answer`).catch(() => null);
    texts.push(answer ? markdownOf(answer) : `# ${one.question}\n\n${t("history.erased")}\n`);
  }
  say(status, "");
  save("whence-history.md", "text/markdown", texts.join("\n---\n\n"));
}

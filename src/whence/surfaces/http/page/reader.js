// Who reads: sign-in with a token or an identity provider, sign-out, and rights in words.

import { call, json, url, whenRefused } from "./api.js";
import { $, say } from "./dom.js";
import { t } from "./texts.js";

let known = { signed_in: false, may_write: false, rights: { acl: [], labels: [], clearance: 0 } };
let onChange = () => {};

export const mayWrite = () => known.may_write;
export const signedIn = () => known.signed_in;

/** Return what rights mean in a sentence. */
export function rightsInWords({ acl = [], labels = [], clearance = 0 } = known.rights) {
  const parts = [acl.length ? t("rights.acl", { tags: acl.join(", ") }) : t("rights.public")];
  if (labels.length) parts.push(t("rights.labels", { labels: labels.join(", ") }));
  if (clearance) parts.push(t("rights.clearance", { clearance }));
  return parts.join("; ");
}

/** Return who reads what this reader adds: holders of its own tags. */
export const tagsInWords = ({ acl } = known.rights) =>
  acl.length ? t("upload.rights", { tags: acl.join(", ") }) : t("upload.rights_public");

/** Ask the server who reads, and show it. */
export async function load() {
  known = await json("v1/reader");
  draw();
}

/** Look whether the session goes on. One that has ended makes a reader anonymous, which must not happen unseen. */
export async function check() {
  if (!known.signed_in) return;
  const now = await json("v1/reader").catch(() => known);
  if (now.signed_in || !known.signed_in) return;
  known = now;
  draw();
  await onChange();
  say($("error"), t("reader.expired"));
}

function draw() {
  $("token-form").hidden = known.signed_in;
  $("signed-in").hidden = !known.signed_in;
  $("reader-name").textContent = known.name || "";
  const writes = known.may_write ? `; ${t("rights.write")}` : "";
  $("rights").textContent = `${t("rights.reads")} ${rightsInWords()}${writes}`;
  const oidc = known.sign_in?.oidc;
  $("oidc").hidden = !oidc;
  if (oidc) $("oidc").href = url(oidc.replace(/^\//, ""));
}

async function signIn(token) {
  say($("error"), "");
  try {
    await call("v1/reader/session", { body: { token } });
    $("token").value = "";
    await load();
    onChange();
  } catch (error) {
    const told = { 401: t("reader.wrong"), 429: t("reader.slow") }[error.status];
    say($("error"), told ?? error.message);
    $("token").select();
  }
}

async function signOut() {
  try {
    await call("v1/reader/session", { method: "DELETE" });
  } catch (error) {
    say($("error"), error.message);
  }
  // What a reader with rights has on the screen is not for the next one.
  location.assign(url("./"));
}

export function start(changed) {
  onChange = changed;
  whenRefused(check);
  draw();
  $("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const token = $("token").value.trim();
    if (token) signIn(token);
    else $("token").focus();
  });
  $("sign-out").addEventListener("click", signOut);
  $("account").addEventListener("click", () => {
    const isOpen = $("account").getAttribute("aria-expanded") === "true";
    $("account").setAttribute("aria-expanded", String(!isOpen));
  });
}

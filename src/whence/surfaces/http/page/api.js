// Requests to the server. Rights come from a cookie that scripts cannot read.

import { t } from "./texts.js";

/** Address of the server, also below a prefix and from `/a/ID`. */
export const BASE = new URL("../", import.meta.url);

export class RequestError extends Error {
  constructor(message, status, document = {}) {
    super(message);
    this.status = status;
    this.document = document;
  }
}

let onRefusal = () => {};
/** Set what is done when the server refuses a request for want of rights. */
export const whenRefused = (work) => { onRefusal = work; };
const isForWantOfRights = (status) => status === 401 || status === 403;

export const url = (path) => new URL(path, BASE).href;
const collectionPath = (collection) => `v1/collections/${encodeURIComponent(collection)}/documents`;
export const documentsPath = collectionPath;
export const documentPath = (collection, id) =>
  `${collectionPath(collection)}/${id.split("/").map(encodeURIComponent).join("/")}`;
/** Return the collection of a passage; where several were asked, its id names its own. */
export const collectionOfPassage = (asked, chunkId) => (asked.includes(",") ? chunkId.split(":")[2] : asked);
export const answerPath = (id) => `v1/answers/${encodeURIComponent(id)}`;

const HEADERS = { "X-Whence-Page": "1" };

/** Send a request; returns the response, or raises a `RequestError` with the words of the server. */
export async function call(path, { method, body, accept, signal } = {}) {
  const headers = { ...HEADERS };
  if (accept) headers.Accept = accept;
  if (body) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(url(path), {
      method: method ?? (body ? "POST" : "GET"), headers, signal, body: body && JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestError(t("error.network"), 0);
  }
  if (!response.ok) throw await failureOf(response);
  return response;
}

export const json = async (path, options) => (await call(path, options)).json();

/** Read a recorded answer, or its trace; one that this reader does not have is an error in the page's words. */
export const recorded = (id, part = "") => json(`${answerPath(id)}${part}`).catch((error) => {
  throw error.status === 404 ? new RequestError(t("answer.gone"), 404) : error;
});

async function failureOf(response) {
  const document = await response.json().catch(() => ({}));
  if (isForWantOfRights(response.status)) onRefusal();
  return refusal(document, response.status);
}

export function refusal(document, status = 0) {
  const { message, hint } = document.error ?? { message: t("error.status", { status }) };
  return new RequestError(hint ? `${message}\n${hint}` : message, status, document);
}

/** Read server-sent events from a response, one `{name, data}` after the other. */
export async function* events(response) {
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

/** Send files of a form; `onProgress` receives the share that was sent, which `fetch` does not report. */
export function upload(path, files, onProgress) {
  const form = new FormData();
  for (const { file, name } of files) form.append("file", file, name);
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", url(path));
    for (const [name, value] of Object.entries(HEADERS)) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => event.lengthComputable && onProgress(event.loaded / event.total);
    request.onerror = () => reject(new RequestError(t("error.network"), 0));
    request.onload = () => {
      let document = {};
      try { document = JSON.parse(request.responseText); } catch { /* A proxy may answer with a page. */ }
      if (isForWantOfRights(request.status)) onRefusal();
      if (document.files) resolve(document);
      else reject(refusal(document, request.status));
    };
    request.send(form);
  });
}

"""Answers in the form of OpenAI's API: whole, or as chunks of a stream.

The answer is that of `/v1/ask`, to the character, and its document stands under `whence`. The sources are also
`annotations`, which chat clients show.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec

from whence.operations.json_documents import unsupported_note
from whence.provenance.terms import answer_id_from_uri
from whence.schema.terms import Triple
from whence.surfaces.http.failures import JsonResponse, as_whence_error, status_of
from whence.surfaces.openai.faults import openai_document

#: Ends a stream.
DONE: Final = b"data: [DONE]\n\n"


class Completion(msgspec.Struct, frozen=True):
    """What is known of an answer before it is written."""

    model: str
    created: int
    """Seconds since the epoch."""
    address: str
    """Scheme and host under which the caller reached the server."""
    notes: list[str]
    to_writers: list[str] = []
    """What the caller asks of a language model."""

    def document(self, answer: Mapping[str, Any], usage: dict[str, int] | None) -> dict[str, Any]:
        """Return a whole answer."""
        message = {
            "role": "assistant",
            "content": answer["answer"] + unsupported_note(answer["answer"], answer["unsupported"]),
            "refusal": _refusal(answer),
            "annotations": self.annotations(answer),
        }
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": finish_reason(answer),
        }
        return {
            **self.head("chat.completion", answer["answer_id"]),
            "choices": [choice],
            "usage": usage,
            "whence": self.whence(answer),
        }

    def head(self, kind: str, answer_id: str) -> dict[str, Any]:
        """Return the first fields of a document or chunk."""
        return {
            "id": f"chatcmpl-{answer_id}",
            "object": kind,
            "created": self.created,
            "model": self.model,
        }

    def whence(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Return the document of `/v1/ask` without the text, and what was ignored."""
        rest = {name: value for name, value in answer.items() if name != "answer"}
        notes = self.notes
        if self.to_writers and _has(answer, "no_language_model"):
            names = ", ".join(self.to_writers)
            notes = [*notes, f"without a language model these have no effect: {names}"]
        return rest | {"notes": notes}

    def annotations(self, answer: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the places of all markers in the text with the sources that they name, in order."""
        text, found = answer["answer"], []
        sources = {one["marker"]: one for one in reversed(answer["citations"])}
        for marker, source in sorted(sources.items()):
            sign = f"[{marker}]"
            start = text.find(sign)
            while start >= 0:
                cited = {
                    "start_index": start,
                    "end_index": start + len(sign),
                    "title": f"{sign} {source['title'] or source['document_id']}",
                    "url": self._page_of(source),
                }
                found.append({"type": "url_citation", "url_citation": cited})
                start = text.find(sign, start + 1)
        return sorted(found, key=lambda one: one["url_citation"]["start_index"])

    def _page_of(self, source: Mapping[str, Any]) -> str:
        """Return the address of a document; one without an address of its own is shown by this server."""
        url: str = source["source_url"]
        if url.startswith(("http://", "https://")):
            return url
        document_id = source["document_id"]
        return f"{self.address}/v1/collections/{self.model}/documents/{quote(document_id)}"


class ChatChunks:
    """Encodes a question's events as chunks; see `events.EventEncoder`.

    Args:
        completion: The answer to be.
        usage: Counts the tokens of an answer.
        include_usage: Whether the counts are sent.
    """

    def __init__(self, completion: Completion, *, include_usage: bool) -> None:
        self._completion = completion
        self._include_usage = include_usage
        self._answer_id = ""
        self._sent = ""
        self._begun = False

    def stage(self, triples: tuple[Triple, ...], uri: str) -> bytes:
        """Note the answer's id; the first chunk says who speaks."""
        self._answer_id = self._answer_id or answer_id_from_uri(uri)
        return self._begin()

    def text(self, text: str, end: bool) -> bytes:
        """Return a piece of the text."""
        self._sent += text
        return self._begin() + (self._chunk({"content": text}) if text else b"")

    def answer(self, document: dict[str, Any]) -> bytes:
        """Return the rest of the text, the sources, the tokens and the end."""
        usage = document.pop("usage")
        self._answer_id = document["answer_id"]
        out = self._begin()
        text: str = document["answer"]
        if text.startswith(self._sent) and text != self._sent:
            out += self._chunk({"content": text[len(self._sent) :]})
        if note := unsupported_note(text, document["unsupported"]):
            out += self._chunk({"content": note})
        annotations = self._completion.annotations(document)
        if annotations:
            out += self._chunk({"annotations": annotations})
        more = {"whence": self._completion.whence(document)}
        if refusal := _refusal(document):
            out += self._chunk({"refusal": refusal})
        out += self._chunk({}, finish=finish_reason(document), more=more)
        if self._include_usage:
            out += self._encoded({"choices": [], "usage": usage})
        return out + DONE

    def error(self, error: Exception) -> bytes:
        """Return an error and the end."""
        fault = as_whence_error(error)
        return _data(openai_document(fault, status_of(fault))) + DONE

    def _begin(self) -> bytes:
        if self._begun or not self._answer_id:
            return b""
        self._begun = True
        return self._chunk({"role": "assistant", "content": ""})

    def _chunk(
        self,
        delta: dict[str, Any],
        *,
        finish: str | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        usage = {"usage": None} if self._include_usage else {}
        return self._encoded({"choices": [choice], **usage, **(more or {})})

    def _encoded(self, fields: Mapping[str, Any]) -> bytes:
        head = self._completion.head("chat.completion.chunk", self._answer_id)
        return _data({**head, **fields})


def finish_reason(answer: Mapping[str, Any]) -> str:
    """Return why an answer ended: `length` for one that may not be whole."""
    return "length" if _has(answer, "answer_cut") else "stop"


def _has(answer: Mapping[str, Any], code: str) -> bool:
    """Return whether an answer names this fault."""
    return any(one["code"] == code for one in answer["degraded"])


def _refusal(answer: Mapping[str, Any]) -> str | None:
    """Return what a model said that declined to answer; None where it did not decline."""
    refusal = answer["refusal"]
    declined = refusal is not None and refusal.code == "model_refused"
    return str(refusal.reason) if declined else None


def _data(document: Mapping[str, Any]) -> bytes:
    # JSON has no line breaks, so one line suffices.
    return b"data: " + JsonResponse.encoded(document) + b"\n\n"

"""What servers of language models send, as answers of `model_server`."""

from __future__ import annotations

import gzip
import json
from typing import Any

from tests.support.model_server import Answer, Respond

QUESTION = "Who is the ferry master of Ostrava?"
#: The fact, as a model writes it from the first passage.
SAID = "The ferry master is Ilse Brandt [1]."
FERRY = """# Ferry

The ferry master is Ilse Brandt. The ferry leaves every 40 minutes. Dogs are not allowed on the upper deck.

A ticket costs 12 euros and is valid for 3 days.
"""


def stream(*events: dict[str, Any], done: bool = True) -> Answer:
    lines = "".join(f"data: {json.dumps(one)}\n\n" for one in events)
    end = "data: [DONE]\n\n" if done else ""
    return 200, {"content-type": "text/event-stream"}, f"{lines}{end}".encode()


def text(*pieces: Any, finish: str | None = "stop", done: bool = True) -> Answer:
    events: list[dict[str, Any]] = [{"choices": [{"delta": {"content": one}}]} for one in pieces]
    events += [{"choices": [{"delta": {}, "finish_reason": finish}]}] if finish else []
    return stream(*events, done=done)


def error(status: int, message: str, **more: Any) -> Answer:
    return status, {}, json.dumps({"error": {"message": message, **more}}).encode()


def chat(answer: Answer | Respond) -> Respond:
    """A server that only writes."""

    def respond(path: str, body: dict[str, Any]) -> Answer:
        if not path.endswith("/chat/completions"):
            return 404, {}, b"{}"
        return answer(path, body) if callable(answer) else answer

    return respond


SENT = {
    "thinking": ("<think>Is it [2] or [3]?", "</think>", SAID),
    "thinking begun by the template": ("Is it in [2]?", "\n</think>\n\n", SAID),
    "thoughts in brackets": ("[THINK]no[/THINK]", SAID),
    "channels": (
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>",
        SAID,
    ),
    "end of turn": (SAID, "<|im_end|>\n<|im_start|>user\nAnd who else?"),
    "end of text": (SAID, "</s>"),
    "fence": ("```markdown\n", SAID, "\n```"),
    "object": ('{"answer": "The ferry master is Ilse Brandt", "sources": [1]}',),
    "controls": ("The ferry\0 master \x1b[31mis ", "Ilse Brandt [1]."),
    "parts": (
        [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}],
        [{"type": "text", "text": SAID}],
    ),
    "our own tag": (SAID, "\n</document-0123456789ab>"),
    "list of sources": (SAID, "\n\nSources:\n", "[1] ferry.md\n[2] bus.md"),
    "lenticular": ("The ferry master is Ilse Brandt \u30101\u2020source\u3011.",),
    "named": ("The ferry master is Ilse Brandt (Document 1).",),
    "footnote": ("The ferry master is Ilse Brandt[^1].\n\n[^1]: ferry.md",),
    "raised": ("The ferry master is Ilse Brandt\u00b9.",),
    "tag": ("The ferry master is Ilse Brandt<sup>1</sup>.",),
    "label": ("**Final Answer:** ", SAID),
    "labelled thoughts": ("Thought Process:\n1. Is it in [2]?\n\n", "Answer: ", SAID),
    "question before": ("Frage: Wer ist es?\nAntwort: ", SAID),
    "role": ("<|start_of_role|>assistant<|end_of_role|>", SAID, "<|end_of_text|>"),
    "mark of order": ("\ufeff", SAID),
    "list of one": ('[{"answer": "The ferry master is Ilse Brandt [1]."}]',),
    "announced object": ('Here it is:\n```json\n{"reply": "', SAID, '"}\n```'),
    "element": ("<result>", SAID, "</result>"),
    "attribute of our prompt": ('The ferry master is Ilse Brandt [document n="1"].',),
    "joined": ("The ferry master is Ilse Brandt [doc1].",),
    "escaped": ("The ferry master is Ilse Brandt \\[1\\].",),
    "round": ("The ferry master is Ilse Brandt (1).",),
    "circled": ("The ferry master is Ilse Brandt \u2460.",),
    "caret": ("The ferry master is Ilse Brandt^1^.",),
    "half a character": (SAID, "\ud83d"),
    "halves of a character": ("<think>\ud83d", "\ude00</think>", SAID),
}


def _raw(lines: bytes, kind: str = "text/event-stream") -> Answer:
    return 200, {"content-type": kind}, lines


_EVENTS = text(SAID[:9], SAID[9:])[2]
_OBJECT = {"choices": [{"message": {"content": SAID}, "finish_reason": "stop"}]}
_WHOLE = json.dumps(_OBJECT).encode()
_PIECE = json.dumps({"choices": [{"delta": {"content": SAID}, "finish_reason": "stop"}]}).encode()
#: The same answer, in bodies of other forms than the usual one.
FORMS = {
    "line feeds alone": _raw(_EVENTS.replace(b"\n\n", b"\n")),
    "carriage returns": _raw(_EVENTS.replace(b"\n", b"\r")),
    "both": _raw(_EVENTS.replace(b"\n", b"\r\n")),
    "no space": _raw(_EVENTS.replace(b"data: ", b"data:")),
    "comments and ids": _raw(b": wait\n\n" + _EVENTS.replace(b"data:", b"event: message\nid: 1\ndata:")),
    "byte order mark": _raw(b"\xef\xbb\xbf" + _EVENTS),
    "data of several lines": _raw(b"data: " + _PIECE.replace(b": [", b":\ndata: [") + b"\n\n"),
    "no last line end": _raw(b"data: " + _PIECE),
    "events as JSON": _raw(_EVENTS, "application/json"),
    "events as text": _raw(_EVENTS, "text/plain"),
    "JSON as events": _raw(_WHOLE),
    "JSON on several lines": _raw(json.dumps(_OBJECT, indent=1).encode()),
    "JSON with a mark": _raw(b"\xef\xbb\xbf" + _WHOLE, "application/json"),
    "a line each": _raw(_EVENTS.replace(b"data: ", b"").replace(b"[DONE]", b""), "application/x-ndjson"),
    "compressed": (200, {"content-type": "text/event-stream", "content-encoding": "gzip"}, gzip.compress(_EVENTS)),
    "whole text again": _raw(
        _EVENTS.replace(b'"delta": {}', b'"delta": {}, "message": {"content": "again"}')
    ),
    "another answer": _raw(b'data: {"choices": [{"index": 1, "delta": {"content": "no"}}]}\n\n' + _EVENTS),
    "counts below zero": _raw(b'data: {"usage": {"prompt_tokens": -1, "completion_tokens": -1}}\n\n' + _EVENTS),
}  # fmt: skip

"""What servers of language models really send, over HTTP, the chat endpoint and MCP: whole and as a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.chat_replies import FERRY, FORMS, QUESTION, SAID, SENT, chat, error, stream, text
from tests.support.model_server import Answer, Server
from tests.support.serving import Gateway, serving

pytestmark = pytest.mark.models

COLLECTION = "ferry-http"
WRONG = f"{SAID} Dogs are allowed on the upper deck [1]."
LEFT_OUT = ("think", "hm", "<", "[2]", "\0", "\x1b", "```", "Sources:", "And who", "analysis")


class Script:
    """What the model says next, and what it was sent."""

    def __init__(self) -> None:
        self.answer = text(SAID)
        self.bodies: list[dict[str, Any]] = []

    def __call__(self, path: str, body: dict[str, Any]) -> Answer:
        self.bodies.append(body)
        return self.answer


@pytest.fixture(scope="module")
def running(cli: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, Script]]:
    """Return a gateway whose language model follows a script."""
    folder = tmp_path_factory.mktemp("ferry")
    (folder / "ferry.md").write_text(FERRY)
    assert cli("index", folder, "--collection", COLLECTION).code == 0
    script = Script()
    with Server(chat(script)) as server:
        env = {"WHENCE_WRITER": "openai:m", "WHENCE_WRITER_URL": f"{server.url}/v1"}
        env["WHENCE_WRITER_API_KEY"] = "key-of-the-writer"
        with serving(cli, collection=COLLECTION, env=env) as gateway:
            yield gateway, script


class Asked:
    """Asks one question on each of the surfaces."""

    def __init__(self, gateway: Gateway, script: Script) -> None:
        self.gateway = gateway
        self.script = script

    def plain(self, said: Answer, **fields: Any) -> Any:
        self._say(said)
        return self.gateway.post("/v1/ask", {"question": QUESTION, **fields})

    def live(self, said: Answer) -> tuple[str, dict[str, Any]]:
        """Return the pieces put together, and the last event."""
        self._say(said)
        events = self._events("/v1/ask", {"question": QUESTION}, accept="text/event-stream")
        return "".join(one["text"] for one in events if "text" in one and "end" in one), events[-1]

    def chat(self, said: Answer, **fields: Any) -> dict[str, Any]:
        self._say(said)
        body = {"model": COLLECTION, "messages": [{"role": "user", "content": QUESTION}], **fields}
        document: dict[str, Any] = self.gateway.post("/v1/chat/completions", body).json()
        return document

    def live_chat(self, said: Answer) -> tuple[str, str]:
        """Return the text and the finish reason."""
        self._say(said)
        messages = [{"role": "user", "content": QUESTION}]
        body = {"model": COLLECTION, "messages": messages, "stream": True}
        choices = [one["choices"][0] for one in self._events("/v1/chat/completions", body)]
        pieces = "".join(one["delta"].get("content") or "" for one in choices)
        return pieces, choices[-1]["finish_reason"]

    def tool(self, said: Answer) -> dict[str, Any]:
        self._say(said)
        params = {"name": "ask", "arguments": {"question": QUESTION}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        reply = self.gateway.post("/mcp", body, Accept="application/json, text/event-stream")
        result: dict[str, Any] = reply.json()["result"]
        return result

    def _say(self, said: Answer) -> None:
        self.script.answer = said
        self.script.bodies.clear()

    def _events(self, path: str, body: Any, accept: str = "*/*") -> list[dict[str, Any]]:
        http = self.gateway.http
        with http.stream("POST", path, json=body, headers={"Accept": accept}) as reply:
            lines = [one.removeprefix("data: ") for one in reply.iter_lines() if "data: " in one]
        return [json.loads(one) for one in lines if one != "[DONE]"]


@pytest.fixture
def asked(running: tuple[Gateway, Script]) -> Asked:
    return Asked(*running)


@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
def test_an_answer_is_clean_on_every_surface(asked: Asked, sent: tuple[Any, ...]) -> None:
    """Whole and streamed, the reader gets the answer with its citation, and nothing else that was sent."""
    document = asked.plain(text(*sent)).json()
    pieces, last = asked.live(text(*sent))
    message = asked.chat(text(*sent))["choices"][0]["message"]["content"]
    streamed, _ = asked.live_chat(text(*sent))

    assert [one["marker"] for one in document["citations"]] == [1]
    assert document["answer"] == last["answer"] == pieces == message == streamed
    assert "Ilse Brandt" in pieces
    for left_out in LEFT_OUT:
        assert left_out not in pieces


@pytest.mark.parametrize("said", FORMS.values(), ids=FORMS)
def test_an_answer_is_read_in_every_form_on_every_surface(asked: Asked, said: Answer) -> None:
    """What differs between servers is not seen, whole and streamed."""
    pieces, last = asked.live(said)
    streamed, finish = asked.live_chat(said)

    assert asked.plain(said).json()["answer"] == last["answer"] == pieces == SAID
    assert asked.chat(said)["choices"][0]["message"]["content"] == streamed == SAID
    assert finish == "stop"


@pytest.mark.parametrize(
    ("said", "cut"),
    [(text(SAID, finish="length"), True), (text(SAID, finish=None, done=False), True), (text(SAID), False)],
    ids=["length", "no end", "whole"],
)  # fmt: skip
def test_a_cut_answer_says_so_on_every_surface(asked: Asked, said: Answer, *, cut: bool) -> None:
    """`degraded` has `answer_cut`, and the chat endpoint ends with `length`."""
    document = asked.plain(said).json()
    _, last = asked.live(said)
    whole, (_, finish) = asked.chat(said), asked.live_chat(said)
    tool = asked.tool(said)["structuredContent"]

    for one in (document, last, whole["whence"], tool):
        assert ("answer_cut" in [fault["code"] for fault in one["degraded"]]) is cut
    assert whole["choices"][0]["finish_reason"] == finish == ("length" if cut else "stop")


def test_a_sentence_without_support_is_marked_on_every_surface(asked: Asked) -> None:
    """The offsets name the sentence; where a reader gets the text alone, the text says it."""
    document = asked.plain(text(WRONG)).json()
    _, last = asked.live(text(WRONG))
    whole, (pieces, _) = asked.chat(text(WRONG)), asked.live_chat(text(WRONG))
    tool = asked.tool(text(WRONG))

    for one in (document, last, tool["structuredContent"]):
        (place,) = one["unsupported"]
        assert "Dogs" in one["answer"][slice(*place)]
        assert "Ilse" not in one["answer"][slice(*place)]
    for said in (whole["choices"][0]["message"]["content"], pieces, tool["content"][-1]["text"]):
        _, note, named = said.partition("Not supported")
        assert note
        assert "Dogs" in named


@pytest.mark.parametrize(
    "said",
    [error(401, "wrong key"), error(404, "no such model"), text(""), text("<think>hm</think>")],
    ids=["key", "model", "no text", "only thoughts"],
)
def test_what_cannot_change_is_paid_once_over_http(asked: Asked, said: Answer) -> None:
    """One request, and an error with its hint, also at the end of a stream."""
    refused = asked.plain(said)
    paid = len(asked.script.bodies)
    _, last = asked.live(said)

    assert (refused.status_code >= 500, paid) == (True, 1)
    assert refused.json()["error"]["hint"]
    assert last["error"]["code"] == refused.json()["error"]["code"]
    assert "key-of-the-writer" not in refused.text


def test_a_refusal_is_an_answer_over_http(asked: Asked) -> None:
    """A model that declines is answered with 200, its reason and the nearest passages."""
    declined = stream(
        {"choices": [{"delta": {"refusal": "I must not say."}, "finish_reason": "stop"}]}
    )
    reply = asked.plain(declined)

    assert reply.status_code == 200
    assert reply.json()["refusal"]["code"] == "model_refused"
    assert reply.json()["nearest"]
    assert asked.chat(declined)["choices"][0]["message"]["refusal"]


def test_limits_of_a_chat_reach_the_model(asked: Asked) -> None:
    """`max_tokens`, `temperature` and messages of the system are sent on."""
    system = {"role": "system", "content": "Write like a clerk."}
    messages = [system, {"role": "user", "content": QUESTION}]
    asked.chat(text(SAID), messages=messages, max_tokens=77, temperature=0.5)
    (body,) = asked.script.bodies

    assert (body["max_tokens"], body["temperature"]) == (77, 0.5)
    assert "Write like a clerk." in body["messages"][0]["content"]


SAMPLING: dict[str, Any] = {"seed": 7, "top_p": 0.5, "stop": ["END"], "presence_penalty": 0.25}


def test_sampling_reaches_the_model(asked: Asked) -> None:
    """The parameters of a chat, and those of `/v1/ask`, are sent on."""
    document = asked.chat(text(SAID), **SAMPLING)
    (chatted,) = asked.script.bodies
    asked.plain(text(SAID), writer_sampling=SAMPLING)
    (plain,) = asked.script.bodies

    for body in (chatted, plain):
        assert {name: body.get(name) for name in SAMPLING} == SAMPLING
    assert document["whence"]["notes"] == document["whence"]["degraded"] == []


def test_a_parameter_that_the_server_refuses_is_noted(
    asked: Asked, running: tuple[Gateway, Script], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer comes without it and says so; another value of it is tried again."""
    _, script = running

    def respond(path: str, body: dict[str, Any]) -> Answer:
        script.bodies.append(body)
        wrong = body.get("top_p") == 0
        return error(400, "top_p must be in (0, 1], got 0") if wrong else text(SAID)

    monkeypatch.setattr(Script, "__call__", lambda _, path, body: respond(path, body))
    refused = asked.chat(text(SAID), top_p=0, seed=3)
    taken = asked.chat(text(SAID), top_p=0.3)

    (fault,) = refused["whence"]["degraded"]
    assert fault["code"] == "parameter_not_taken"
    assert fault["reason"].endswith("does not take top_p")
    assert refused["choices"][0]["message"]["content"] == SAID
    assert taken["whence"]["degraded"] == []
    assert script.bodies[-1]["top_p"] == 0.3

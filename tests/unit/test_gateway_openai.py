"""The routes of OpenAI's API, with an engine that answers at once."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import numpy as np
import pytest
from msgspec.structs import replace
from tests.support.gateway import FINANCE, SECRET, StubEngine, client_of

from whence.schema import Access, Citation, Degradation
from whence.schema.errors import DeadlineExceeded, Unavailable, WhenceError
from whence.schema.prompt import Sampling

HEAD = {"Authorization": f"Bearer {SECRET}"}
CHAT = "/v1/chat/completions"
ASKED = [{"role": "user", "content": "How long?"}]


@pytest.fixture
def engine() -> StubEngine:
    """Return the engine behind the gateway."""
    return StubEngine()


@pytest.fixture
async def http(engine: StubEngine) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of the gateway."""
    async with client_of(engine) as client:
        yield client


def chunks_of(text: str) -> list[Any]:
    """Return the chunks of a stream, which ends with `[DONE]`."""
    lines = [one.removeprefix("data: ") for one in text.split("\n\n") if one.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


async def test_an_answer_is_that_of_ask(http: httpx.AsyncClient, engine: StubEngine) -> None:
    """Text, citations and options are those of `/v1/ask`; fields about the caller's account are not noted."""
    engine.citations = (Citation(marker=1, chunk_id="c", document_id="a b.md", quote="days"),)
    unknown = {"user": "u", "metadata": {"a": "b"}, "n": 1, "logprobs": False}
    body = {"model": "wiki", "messages": ASKED, "whence": {"doc_limit": 3}, **unknown}
    told = (await http.post(CHAT, json=body)).json()
    first = engine.asked[-1]
    asked = {"question": "How long?", "doc_limit": 3, "collection": "wiki"}
    plain = (await http.post("/v1/ask", json=asked)).json()
    assert {**engine.asked[-1], "timeout_s": 0} == {**first, "timeout_s": 0}
    (choice,) = told["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == (plain.pop("answer"), "stop")
    assert told["whence"].pop("notes") == []
    assert told["whence"] == plain
    assert (told["id"], told["object"]) == ("chatcmpl-a1", "chat.completion")
    assert (told["model"], choice["message"]["role"]) == ("wiki", "assistant")


async def test_limits_of_the_writer_are_passed_on(
    http: httpx.AsyncClient, engine: StubEngine
) -> None:
    """Temperature and most tokens of a chat are those of the question."""
    for name in ("max_tokens", "max_completion_tokens"):
        body = {"model": "wiki", "messages": ASKED, "temperature": 0.5, name: 30}
        assert (await http.post(CHAT, json=body)).status_code == 200
        asked = engine.asked[-1]
        assert (asked["writer_temperature"], asked["writer_max_tokens"]) == (0.5, 30)


async def test_sampling_is_passed_on(http: httpx.AsyncClient, engine: StubEngine) -> None:
    """What a language model can honour reaches the question."""
    sampling = {"seed": 7, "top_p": 0.5, "stop": ["x"], "presence_penalty": 1.0}
    body = {"model": "wiki", "messages": ASKED, **sampling}
    assert (await http.post(CHAT, json=body)).json()["whence"]["notes"] == []
    assert engine.asked[-1]["writer_sampling"] == Sampling(**sampling)


async def test_parameters_without_a_model_are_noted(
    http: httpx.AsyncClient, engine: StubEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer made of quotes says what had no effect, whole and streaming."""

    async def quoted(asked: Any) -> Any:
        fault = Degradation(stage="prompt", reason="-", code="no_language_model")
        return replace(await StubEngine._ask(engine, asked), degraded=(fault,))

    monkeypatch.setattr(engine, "_ask", quoted)
    body = {"model": "wiki", "messages": ASKED, "seed": 7, "temperature": 0.5}
    (note,) = (await http.post(CHAT, json=body)).json()["whence"]["notes"]
    assert note.endswith(": temperature, seed")
    chunks = chunks_of((await http.post(CHAT, json=body | {"stream": True})).text)
    assert chunks[-1]["whence"]["notes"] == [note]


async def test_ignored_fields_are_noted(http: httpx.AsyncClient) -> None:
    """A note names each field without effect; those that ask for nothing are not named."""
    ignored = {"logit_bias": {"5": 1}, "logprobs": True, "top_k": 3, "chat_id": "7"}
    body = {"model": "wiki", "messages": ASKED, **ignored, "top_logprobs": None, "functions": []}
    told = (await http.post(CHAT, json=body)).json()
    assert told["whence"]["notes"] == [f"ignored: {', '.join(ignored)}"]


async def test_tokens_are_counted(http: httpx.AsyncClient) -> None:
    """Where no model told the numbers of tokens, those of questions and answer are counted."""
    messages = [*ASKED, {"role": "assistant", "content": "Very long indeed."}, *ASKED]
    told = (await http.post(CHAT, json={"model": "wiki", "messages": messages})).json()
    assert told["usage"] == {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6}


async def test_unknown_numbers_of_tokens_are_not_invented(
    http: httpx.AsyncClient, engine: StubEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a tokenizer there are no numbers."""

    async def estimate(_texts: Any) -> tuple[None, int]:
        return None, 4

    monkeypatch.setattr(engine, "count_tokens", estimate)
    told = (await http.post(CHAT, json={"model": "wiki", "messages": ASKED})).json()
    assert told["usage"] is None


async def test_the_conversation_is_the_history(http: httpx.AsyncClient, engine: StubEngine) -> None:
    """The last message of the user is the question, the earlier ones the history; parts of text are read."""
    parts = [{"type": "text", "text": "Why"}, {"type": "image_url", "image_url": {"url": "x"}}]
    messages = [
        {"role": "system", "content": "Speak like a pirate."},
        {"role": "user", "content": "How long?"},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "user", "content": parts},
    ]
    body = {"model": "wiki", "messages": messages, "tools": [{"type": "function"}]}
    told = (await http.post(CHAT, json=body)).json()
    assert engine.asked[-1]["question"] == "Why"
    assert engine.asked[-1]["history"] == ("How long?",)
    assert engine.asked[-1]["answer_instructions"] == "Speak like a pirate."
    tools, other = told["whence"]["notes"]
    assert tools == "ignored: tools"
    assert "other than text" in other


@pytest.mark.parametrize("include_usage", [True, False])
async def test_chunks_of_a_stream(
    http: httpx.AsyncClient, engine: StubEngine, include_usage: bool
) -> None:
    """The pieces are the answer; the sources come after them, the tokens last, and only when asked for."""
    engine.citations = (Citation(marker=1, chunk_id="c", document_id="a.md"),)
    body = {"model": "wiki", "messages": ASKED, "stream": True}
    if include_usage:
        body["stream_options"] = {"include_usage": True}
    told = await http.post(CHAT, json=body)
    assert told.headers["content-type"].startswith("text/event-stream")
    chunks = chunks_of(told.text)
    assert {one["id"] for one in chunks} == {"chatcmpl-a1"}
    assert {one["object"] for one in chunks} == {"chat.completion.chunk"}
    deltas = [one["choices"][0]["delta"] for one in chunks if one["choices"]]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(one.get("content", "") for one in deltas) == "Thirty days."
    if include_usage:
        assert chunks[-1]["choices"] == []
        assert chunks.pop()["usage"]["total_tokens"] == 4
        assert {one["usage"] for one in chunks} == {None}
    last = chunks[-1]
    assert [one["choices"][0]["finish_reason"] for one in chunks][-2:] == [None, "stop"]
    assert last["whence"]["answer_id"] == "a1"
    assert last["whence"]["citations"][0]["document_id"] == "a.md"
    assert include_usage or not any("usage" in one for one in chunks)


async def test_a_stream_without_pieces_has_the_whole_text(
    http: httpx.AsyncClient, engine: StubEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What no piece brought comes with the answer, so the text is complete in any case."""

    async def ask(asked: Any) -> Any:
        await asked.chunk_callback("Thirty", False)
        return await StubEngine._ask(engine, replace(asked, chunk_callback=None))

    monkeypatch.setattr(engine, "_ask", ask)
    body = {"model": "wiki", "messages": ASKED, "stream": True}
    chunks = chunks_of((await http.post(CHAT, json=body)).text)
    texts = [one["choices"][0]["delta"].get("content", "") for one in chunks]
    assert [one for one in texts if one] == ["Thirty", " days."]


async def test_a_failure_within_a_stream(http: httpx.AsyncClient, engine: StubEngine) -> None:
    """A failure after the status is an error that the official client raises."""
    engine.failure = DeadlineExceeded("too late")
    body = {"model": "wiki", "messages": ASKED, "stream": True}
    (chunk,) = chunks_of((await http.post(CHAT, json=body)).text)
    assert chunk["error"] == {
        "message": f"too late. {engine.failure.hint}" if engine.failure.hint else "too late",
        "type": "server_error",
        "param": None,
        "code": "deadline_exceeded",
    }


async def test_sources_are_annotations(
    http: httpx.AsyncClient, engine: StubEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each marker in the text names its source; a document without an address has that of its text here."""

    async def ask(asked: Any) -> Any:
        answer = await StubEngine._ask(engine, asked)
        return type(answer)(
            answer_id="a1",
            question="",
            text="Thirty [1], or more [2]. Thirty [1].",
            citations=(
                Citation(marker=1, chunk_id="c", document_id="a b.md", source_url="a b.md"),
                Citation(marker=2, chunk_id="d", document_id="b", title="B", source_url="http://b"),
            ),
        )

    monkeypatch.setattr(engine, "_ask", ask)
    told = (await http.post(CHAT, json={"model": "wiki", "messages": ASKED})).json()
    message = told["choices"][0]["message"]
    own = "http://127.0.0.1:9420/v1/collections/wiki/documents/a%20b.md"
    assert [one["url_citation"]["url"] for one in message["annotations"]] == [own, "http://b", own]
    for one in message["annotations"]:
        cited = one["url_citation"]
        sign = message["content"][cited["start_index"] : cited["end_index"]]
        assert cited["title"].startswith(sign)


async def test_models_are_the_visible_collections(http: httpx.AsyncClient) -> None:
    """A list has the collections that the caller may see; a hidden one is as one that does not exist."""
    public = (await http.get("/v1/models")).json()
    assert public == {
        "object": "list",
        "data": [{"id": "wiki", "object": "model", "created": 0, "owned_by": "whence"}],
    }
    assert len((await http.get("/v1/models", headers=HEAD)).json()["data"]) == 2
    assert (await http.get("/v1/models/books", headers=HEAD)).json()["id"] == "books"
    told = []
    for name in ("books", "nothing"):
        refused = await http.get(f"/v1/models/{name}")
        asked = await http.post(CHAT, json={"model": name, "messages": ASKED})
        assert (refused.status_code, asked.status_code) == (404, 404)
        assert refused.json() == asked.json()
        error = asked.json()["error"]
        assert (error["code"], error["param"]) == ("model_not_found", "model")
        told.append(asked.text.replace(name, "NAME"))
    assert told[0] == told[1]


async def test_rights_of_a_chat(http: httpx.AsyncClient, engine: StubEngine) -> None:
    """A token's rights reach the engine, narrowed where `whence.access` asks for less, which may hide all."""
    body: dict[str, Any] = {"model": "books", "messages": ASKED}
    assert (await http.post(CHAT, json=body, headers=HEAD)).status_code == 200
    assert engine.asked[-1]["access"] == FINANCE
    body["whence"] = {"access": {"acl": ["board"]}}
    assert (await http.post(CHAT, json=body, headers=HEAD)).status_code == 404
    body["model"] = "wiki"
    assert (await http.post(CHAT, json=body, headers=HEAD)).status_code == 200
    assert engine.asked[-1]["access"] == Access.public()


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "assistant", "content": "hi"}]}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"model": 7}, "model"),
        ({"n": 2}, "n"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice"),
        ({"function_call": {"name": "f"}}, "function_call"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"top_p": 2}, "top_p"),
        ({"seed": "7"}, "seed"),
        ({"stop": {"x": 1}}, "stop"),
        ({"presence_penalty": 3}, "presence_penalty"),
        ({"whence": {"question": "x"}}, "whence"),
        ({"whence": {"doc_limmit": 3}}, None),
    ],
)
async def test_malformed_chats_name_the_field(
    http: httpx.AsyncClient, engine: StubEngine, change: dict[str, Any], param: str | None
) -> None:
    """A malformed request has an error in OpenAI's form; misspelt fields of `whence` are not ignored."""
    refused = await http.post(CHAT, json={"model": "wiki", "messages": ASKED} | change)
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["code"]) == ("invalid_request_error", "bad_input")
    assert error["param"] == param
    assert engine.asked == []


@pytest.mark.parametrize(
    ("failure", "status", "kind", "code"),
    [
        (Unavailable("no database"), 503, "server_error", "unavailable"),
        (WhenceError("other"), 500, "server_error", "internal"),
    ],
)
async def test_errors_of_these_paths_have_openai_s_form(
    http: httpx.AsyncClient,
    engine: StubEngine,
    failure: WhenceError,
    status: int,
    kind: str,
    code: str,
) -> None:
    """Errors have `{message, type, param, code}`, those before a handler, too."""
    engine.failure = failure
    told = await http.post(CHAT, json={"model": "wiki", "messages": ASKED})
    assert (told.status_code, told.json()["error"]["type"]) == (status, kind)
    assert told.json()["error"]["code"] == code
    refused = await http.post(CHAT, json={}, headers={"Authorization": "Bearer wrong"})
    assert refused.json()["error"]["code"] == "invalid_api_key"
    assert refused.status_code == 401
    large = await http.post(CHAT, json={"messages": "x" * 2000})
    assert (large.status_code, large.json()["error"]["type"]) == (413, "invalid_request_error")
    foreign = await http.get("/v1/models", headers={"Host": "evil.example"})
    assert (foreign.status_code, foreign.json()["error"]["param"]) == (421, None)


@pytest.mark.parametrize("texts", ["a text", ["a text", "more"]])
@pytest.mark.parametrize("model", ["tiny", "wiki"])
async def test_embeddings(
    http: httpx.AsyncClient, engine: StubEngine, texts: Any, model: str
) -> None:
    """Both forms of input and both formats; the model is the server's, or a collection made with it."""
    body = {"model": model, "input": texts}
    plain = (await http.post("/v1/embeddings", json=body)).json()
    body |= {"encoding_format": "base64", "dimensions": 2, "input_type": "query"}
    coded = (await http.post("/v1/embeddings", json=body)).json()
    count = 1 if isinstance(texts, str) else 2
    assert [one["purpose"] for one in engine.asked] == ["document", "query"]
    assert [one["index"] for one in plain["data"]] == list(range(count))
    for one, other in zip(plain["data"], coded["data"], strict=True):
        raw = np.frombuffer(base64.b64decode(other["embedding"]), "<f4")
        assert raw.tolist() == one["embedding"] == pytest.approx([0.6, 0.8])
    assert plain["model"] == "tiny"
    assert plain["usage"] == {"prompt_tokens": 1 + count, "total_tokens": 1 + count}


async def test_texts_that_the_model_reads_in_part(http: httpx.AsyncClient) -> None:
    """A text longer than the model's window is named, and its tokens are counted up to the window."""
    body = {"model": "tiny", "input": ["short", "one two three four five"]}
    told = (await http.post("/v1/embeddings", json=body)).json()
    assert told["whence"] == {"max_tokens": 4, "truncated": [1]}
    assert told["usage"]["prompt_tokens"] == 5


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"input": [1, 2]}, 400, "numbers of tokens"),
        ({"input": [[1, 2]]}, 400, "numbers of tokens"),
        ({"input": []}, 400, "neither a text"),
        ({"input": ["a", " "]}, 400, "blank"),
        ({"input": ["a"] * 2049}, 413, "bytes"),
        ({"dimensions": 1}, 400, "dimensions is 1"),
        ({"encoding_format": "int8"}, 400, "encoding_format"),
        ({"input_type": "image"}, 400, "input_type"),
        ({"model": "books"}, 404, "does not exist or you do not have access"),
        ({"model": "nothing"}, 404, "does not exist or you do not have access"),
    ],
)
async def test_malformed_embeddings(
    http: httpx.AsyncClient, engine: StubEngine, change: dict[str, Any], status: int, words: str
) -> None:
    """What would give other vectors than the caller expects is refused."""
    refused = await http.post("/v1/embeddings", json={"model": "tiny", "input": "a"} | change)
    assert refused.status_code == status
    assert words in refused.json()["error"]["message"]
    assert engine.asked == []

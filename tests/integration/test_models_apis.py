"""The API clients against a real HTTP server: what they send, and how they fail."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np
import openai
import pytest
from tests.support.model_server import Answer, Server, in_turn, ok

from whence.broker.transport import RetryPolicy
from whence.models import api_client
from whence.models.api_embedder import CohereEmbedder
from whence.models.endpoints import Endpoint, endpoint_of, ollama_url
from whence.models.factory import ModelSettings
from whence.models.openai import OpenAIEmbedder, OpenAIWriter
from whence.models.protocols import WritePiece, WriteRequest
from whence.schema.errors import BadInput, ConfigError, PromptTooLong, Unavailable, WhenceError
from whence.schema.time_limit import WORK_ENDS

KEY = "sk-very-secret-0123"


def at(url: str, key: str | None = KEY, timeout_s: float = 27.0) -> Endpoint:
    return Endpoint(
        url=url, key=key, key_name="OPENAI_API_KEY", timeout_s=timeout_s, role="embedder"
    )


def vector(text: str) -> list[float]:
    return [float(len(text)), 3.0, 4.0]


def openai_embeddings(path: str, body: dict[str, Any]) -> Answer:
    rows = [{"index": n, "embedding": vector(text)} for n, text in enumerate(body["input"])]
    return ok({"data": rows[::-1]})


def cohere_embeddings(path: str, body: dict[str, Any]) -> Answer:
    return ok({"embeddings": {"float": [vector(text) for text in body["texts"]]}})


@contextmanager
def secrets_kept(caplog: pytest.LogCaptureFixture, *things: object) -> Iterator[list[object]]:
    """Check that the key appears in no log, no representation and no error."""
    seen: list[object] = list(things)
    with caplog.at_level(logging.DEBUG):
        yield seen
    text = caplog.text + "".join(repr(thing) + str(thing) for thing in seen)
    assert KEY not in text


async def test_openai_embeds_in_order_and_in_batches(caplog: pytest.LogCaptureFixture) -> None:
    """Vectors have the order of the texts, whatever the order of the reply, normalized, over many calls."""
    texts = ["x" * (n % 7) for n in range(150)]
    with Server(openai_embeddings) as server:
        embedder = OpenAIEmbedder("some-model", at(f"{server.url}/v1/"))
        with secrets_kept(caplog, embedder, embedder.model):
            assert embedder.model.dimension == 0
            vectors = await embedder.embed(texts)
        await embedder.aclose()
    expected = np.array([vector(text or " ") for text in texts])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)

    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, rtol=1e-6)
    assert {path for path, _, _ in server.requests} == {"/v1/embeddings"}
    sizes = [len(body["input"]) for _, _, body in server.requests]
    assert sorted(sizes) == [22, 64, 64]  # sent at the same time, in any order
    assert all(headers["Authorization"] == f"Bearer {KEY}" for _, headers, _ in server.requests)
    assert (embedder.model.name, embedder.model.dimension) == ("openai:some-model", 3)
    assert embedder.served_by == f"some-model@{server.host}"


async def test_cohere_distinguishes_documents_and_queries() -> None:
    """A call to `/v2/embed` has at most 96 texts and the input type of its purpose."""
    with Server(cohere_embeddings) as server:
        embedder = CohereEmbedder("embed-x", at(server.url))
        documents = await embedder.embed(["a"] * 100, "document")
        query = await embedder.embed(["what"], "query")
        await embedder.aclose()
    bodies = [body for _, _, body in server.requests]
    sent = [(body["input_type"], len(body["texts"])) for body in bodies]

    assert documents.shape == (100, 3)
    assert query.shape == (1, 3)
    assert {path for path, _, _ in server.requests} == {"/v2/embed"}
    # The batches of one call are sent at the same time, in any order.
    assert sorted(sent) == [("search_document", 4), ("search_document", 96), ("search_query", 1)]
    assert all(body["embedding_types"] == ["float"] for body in bodies)


async def test_no_texts_send_no_request() -> None:
    """An empty list sends no request."""
    embedder = OpenAIEmbedder("text-embedding-3-small", at("http://127.0.0.1:9", None))

    assert (await embedder.embed([])).shape == (0, 1536)


async def test_retries_after_the_requested_time() -> None:
    """429 and 503 are retried after the time that the service requests."""
    busy = (429, {"retry-after": "0"}, b"{}")
    down = (503, {"retry-after": "0"}, b"<html>down</html>")
    with Server(in_turn(busy, down, openai_embeddings)) as server:
        embedder = OpenAIEmbedder("m", at(server.url))
        vectors = await embedder.embed(["text"])
        await embedder.aclose()

    assert vectors.shape == (1, 3)
    assert len(server.requests) == 3


async def test_gives_up_when_the_wait_is_too_long() -> None:
    """When the service requests more time than is left, the call fails at once and reports that time."""
    start = time.monotonic()
    with Server(in_turn((429, {"retry-after": "3600"}, b"{}"))) as server:
        embedder = OpenAIEmbedder("m", at(server.url))
        with pytest.raises(Unavailable) as raised:
            await embedder.embed(["text"])
        await embedder.aclose()

    assert raised.value.retry_after_s == 3600
    assert len(server.requests) == 1
    assert time.monotonic() - start < 20


@pytest.mark.parametrize(
    ("headers", "least"),
    [
        ({"retry-after-ms": "300"}, 0.3),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "0.3s"}, 0.3),
        ({"x-ratelimit-reset-tokens": "300ms"}, 0.3),
        ({"retry-after": "inf", "x-ratelimit-reset": "nan"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
async def test_rate_limits_are_kept(headers: dict[str, str], least: float) -> None:
    """A refused client waits as long as any of the usual headers asks, and ignores malformed ones."""
    with Server(in_turn((429, headers, b"{}"), openai_embeddings)) as server:
        embedder = OpenAIEmbedder("m", at(server.url))
        start = time.monotonic()
        await embedder.embed(["text"])
        waited = time.monotonic() - start
        await embedder.aclose()

    assert waited >= least
    assert len(server.requests) == 2


async def test_a_wait_without_end_is_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that asks for hours is asked again after a minute: it may have been restarted since."""
    monkeypatch.setattr(api_client, "_MOST_HOLD_S", 0.2)
    date = "Fri, 01 Jan 2100 00:00:00 GMT"
    with Server(in_turn((429, {"retry-after": date}, b"{}"), openai_embeddings)) as server:
        embedder = OpenAIEmbedder("m", at(server.url))
        with pytest.raises(Unavailable) as raised:
            await embedder.embed(["text"])
        assert (raised.value.retry_after_s or 0.0) > 1e6
        assert (await embedder.embed(["text"])).shape == (1, 3)
        await embedder.aclose()


@pytest.mark.parametrize(("path", "said"), [("", True), ("/v1", False)])
async def test_a_missing_version_is_suggested(path: str, said: bool) -> None:
    """Where a server knows no such path, the hint says how its address usually ends."""
    with Server(in_turn((404, {}, b"not found"))) as server:
        writer = OpenAIWriter("m", Endpoint(url=server.url + path, role="writer"))
        with pytest.raises(WhenceError) as raised:
            async for _ in writer.write(WriteRequest(template_id="t", query="q")):
                pass
        await writer.aclose()

    assert ("/v1" in raised.value.hint) is said


async def test_a_spent_limit_is_waited_for() -> None:
    """After an answer that says that nothing is left, the next request waits for the reset."""
    spent = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "300ms"}
    last = (200, spent, ok({"embeddings": {"float": [[1.0, 2.0, 3.0]]}})[2])
    with Server(in_turn(last, cohere_embeddings)) as server:
        embedder = CohereEmbedder("m", at(server.url))
        await embedder.embed(["text"])
        start = time.monotonic()
        await embedder.embed(["text"])
        waited = time.monotonic() - start
        await embedder.aclose()

    assert waited >= 0.25


async def test_the_deadline_of_the_work_bounds_all_attempts() -> None:
    """A wait that ends after the work must end is not begun: the error comes at once."""
    with Server(in_turn((429, {"retry-after": "5"}, b"{}"))) as server:
        embedder = OpenAIEmbedder("m", at(server.url))
        token = WORK_ENDS.set(asyncio.get_running_loop().time() + 2.0)
        start = time.monotonic()
        try:
            with pytest.raises(Unavailable):
                await embedder.embed(["text"])
        finally:
            WORK_ENDS.reset(token)
        assert time.monotonic() - start < 1.5
        await embedder.aclose()


async def test_a_cut_connection_is_retried() -> None:
    """A connection that is cut before the answer is tried again."""
    with Server(in_turn((0, {}, b""), openai_embeddings)) as server:
        embedder = OpenAIEmbedder("m", at(server.url))
        assert (await embedder.embed(["text"])).shape == (1, 3)
        await embedder.aclose()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed(status: int, caplog: pytest.LogCaptureFixture) -> None:
    """A redirect is an error that names the host; no request and no key reaches it."""
    with Server(openai_embeddings) as other:
        place = {"location": f"http://user:{KEY}@{other.host}/v1/embeddings"}
        with Server(in_turn((status, place, openai_embeddings("", {"input": ["x"]})[2]))) as server:
            embedder = OpenAIEmbedder("m", at(server.url))
            with secrets_kept(caplog) as seen, pytest.raises(Unavailable) as raised:
                await embedder.embed(["text"])
            seen += [raised.value, raised.value.hint]
            await embedder.aclose()
            with pytest.raises(Unavailable, match="redirects"):
                await write(server.url)

    assert other.host in raised.value.message
    assert other.requests == []


async def test_no_more_requests_than_allowed_run_at_once() -> None:
    """The requests to one server stay within the limit, however many wait."""
    running, most, lock = 0, 0, threading.Lock()

    def respond(path: str, body: dict[str, Any]) -> Answer:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.05)
        with lock:
            running -= 1
        return openai_embeddings(path, body)

    with Server(respond) as server:
        endpoint = msgspec.structs.replace(at(server.url), concurrency=3)
        embedder = OpenAIEmbedder("m", endpoint)
        await asyncio.gather(*(embedder.embed(["text"]) for _ in range(9)))
        await embedder.aclose()

    assert most == 3


OPENAI = {"openai_api_key": "k-openai", "openai_base_url": "http://openai.test/v1"}


@pytest.mark.parametrize(
    ("role", "provider", "settings", "expected"),
    [
        ("writer", "openai", OPENAI, ("http://openai.test/v1", "k-openai")),
        ("writer", "openai", {"openai_api_key": "k"}, ("https://api.openai.com/v1", "k")),
        ("writer", "openai", {**OPENAI, "writer_url": "http://w/v1"}, ("http://w/v1", None)),
        (
            "writer",
            "openai",
            {**OPENAI, "writer_url": "http://openai.test:80/other"},
            ("http://openai.test:80/other", "k-openai"),
        ),
        (
            "embedder",
            "openai",
            {**OPENAI, "writer_url": "http://w/v1", "writer_api_key": "k-w"},
            ("http://openai.test/v1", "k-openai"),
        ),
        (
            "embedder",
            "openai",
            {**OPENAI, "embedder_api_key": "k-e"},
            ("http://openai.test/v1", "k-e"),
        ),
        ("embedder", "ollama", OPENAI, ("http://localhost:11434/v1", None)),
        (
            "embedder",
            "cohere",
            {**OPENAI, "cohere_api_key": "co"},
            ("https://api.cohere.com", "co"),
        ),
        (
            "reranker",
            "http",
            {**OPENAI, "reranker_url": "http://openai.test/v1"},
            ("http://openai.test/v1", None),
        ),
    ],
)
def test_each_role_has_its_own_server_and_key(
    role: Any, provider: str, settings: dict[str, str], expected: tuple[str, str | None]
) -> None:
    """A role's own settings come first; a fallback key goes to the server that it was given for, only."""
    found = endpoint_of(role, provider, ModelSettings(**settings))

    assert (found.url, found.key) == expected
    assert "k-" not in repr(found)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434/v1"),
        (":8000", "http://127.0.0.1:8000/v1"),
        ("[::]:11434", "http://[::1]:11434/v1"),
        ("http://gpu", "http://gpu:80/v1"),
        ("gpu:1/v1/", "http://gpu:1/v1"),
    ],
)
def test_ollamas_host_is_read_as_its_client_reads_it(host: str, url: str) -> None:
    """Scheme, host and port may be missing; an address to listen on is asked on this machine."""
    assert ollama_url(host) == url


async def test_a_hanging_server_times_out(caplog: pytest.LogCaptureFixture) -> None:
    """The timeout covers all attempts together; the error has the address without the key."""
    release = threading.Event()

    def hang(path: str, body: dict[str, Any]) -> Answer:
        release.wait(30)
        return ok({})

    with Server(hang) as server:
        embedder = OpenAIEmbedder("m", at(server.url, timeout_s=0.3))
        with (
            secrets_kept(caplog, embedder) as seen,
            pytest.raises(Unavailable, match=server.url) as raised,
        ):
            await embedder.embed(["text"])
        seen.append(raised.value)
        release.set()
        await embedder.aclose()


async def test_a_refused_connection_is_retried(caplog: pytest.LogCaptureFixture) -> None:
    """A refused connection is retried; the error has the address without the password."""
    with Server(openai_embeddings) as server:
        place = server.url.removeprefix("http://")
    url = f"http://user:{KEY}@{place}/v1"
    embedder = CohereEmbedder("m", at(url, timeout_s=1.0))
    with secrets_kept(caplog, embedder) as seen, pytest.raises(Unavailable) as raised:
        await embedder.embed(["text"])
    seen.append(raised.value)
    await embedder.aclose()

    assert f"http://{place}/v1" in raised.value.message
    assert raised.value.attempts >= RetryPolicy().max_attempts


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((200, {}, b"not json"), "not JSON"),
        (ok([]), "embedding"),
        (ok({"data": [{"embedding": [1.0]}]}), "1 numbered embeddings for 2"),
        (ok({"data": [{"index": 0, "embedding": [1.0]}] * 2}), "2 numbered embeddings for 2"),
        (ok({"data": [{"embedding": [1.0]}, {"embedding": [1.0, 2.0]}]}), "one length"),
        (ok({"data": [{"embedding": ["x"]}, {"embedding": ["y"]}]}), "rows of numbers"),
        (ok({"data": [{"embedding": []}, {"embedding": []}]}), "rows of numbers"),
        (ok({"data": [{"embedding": [0.0]}, {"embedding": [1.0]}]}), "length zero"),
        (ok({"data": [{"embedding": None}, {"embedding": None}]}), "rows of numbers"),
        ((401, {}, b'{"error": {"message": "wrong key sk-very-secret-0123"}}'), "OPENAI_API_KEY"),
        ((404, {}, b'{"error": "no such model"}'), "no such model"),
    ],
)
async def test_invalid_replies_are_errors(
    answer: Answer, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An invalid reply is an error that names the fault, without a retry."""
    with Server(in_turn(answer)) as server:
        embedder = OpenAIEmbedder("m", at(server.url))
        with secrets_kept(caplog) as seen, pytest.raises(Unavailable) as raised:
            await embedder.embed(["one", "two"])
        seen += [raised.value, raised.value.hint]
        await embedder.aclose()

    assert words in f"{raised.value.message} {raised.value.hint}"
    assert len(server.requests) == 1


async def test_a_wrong_request_is_bad_input() -> None:
    """A request that the service refuses is bad input."""
    with Server(in_turn((400, {}, b'{"message": "text too long"}'))) as server:
        embedder = CohereEmbedder("m", at(server.url))
        with pytest.raises(BadInput, match="text too long"):
            await embedder.embed(["text"])
        await embedder.aclose()


async def test_a_changed_dimension_is_refused() -> None:
    """Vectors of another dimension than before are refused."""
    longer = ok({"embeddings": {"float": [[1.0, 2.0]]}})
    with Server(in_turn(cohere_embeddings, longer)) as server:
        embedder = CohereEmbedder("m", at(server.url))
        await embedder.embed(["text"])
        with pytest.raises(Unavailable, match="length 2 instead of 3"):
            await embedder.embed(["text"])
        await embedder.aclose()


@pytest.mark.parametrize("url", ["", "example.org/v1", "ftp://example.org", "http://"])
def test_addresses_are_checked(url: str) -> None:
    """An invalid address is a configuration error."""
    with pytest.raises(ConfigError):
        OpenAIEmbedder("m", at(url, None))


QUESTION = WriteRequest(
    template_id="document-prompt",
    query="How long?",
    documents=("Books are lent for 28 days. Maps are not.",),
    system="Cite.",
    prompt="How long? [1] Books ...",
)


def events(*items: Any, done: bool = True) -> Answer:
    lines = [f"data: {json.dumps(item, ensure_ascii=False)}\n\n" for item in items]
    body = ": comment\n\n" + "".join(lines) + ("data: [DONE]\n\n" if done else "")
    return 200, {"content-type": "text/event-stream"}, body.encode()


def delta(text: str, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": text}, "finish_reason": finish}]}


async def write(url: str, request: WriteRequest = QUESTION) -> list[WritePiece]:
    writer = OpenAIWriter("m", at(url, timeout_s=5.0))
    try:
        return [piece async for piece in writer.write(request)]
    finally:
        await writer.aclose()


async def test_writer_streams() -> None:
    """Pieces arrive as they are sent; the result has the text and the tokens."""
    usage = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}
    with Server(in_turn(events(delta("Books:\u2028 28"), delta(" days [1]."), usage))) as server:
        pieces = await write(server.url)
    result = pieces[-1].result
    path, _, body = server.requests[0]

    assert [piece.text for piece in pieces] == ["Books:\u2028 28", " days [1].", ""]
    assert result is not None
    assert result.text == "Books:\u2028 28 days [1]."
    assert (result.in_token, result.out_token, result.model) == (7, 3, f"m@{server.host}")
    assert result.language_model is True
    assert path == "/chat/completions"
    assert [message["role"] for message in body["messages"]] == ["system", "user"]


async def test_azure_is_asked_as_its_own_client_asks() -> None:
    """An address with `api-version` keeps its query; the key is in `api-key` and in no error."""
    said = {"error": {"message": f"no deployment for {KEY} and s-1"}}
    refused = (404, {}, json.dumps(said).encode())
    with Server(in_turn(openai_embeddings, openai_embeddings, refused)) as server:
        azure = openai.AzureOpenAI(
            api_key=KEY, azure_endpoint=server.url, api_version="2024-10-21", max_retries=0
        )
        await asyncio.to_thread(
            azure.embeddings.create, model="e", input=["x"], encoding_format="float"
        )
        url = f"{server.url}/openai/deployments/e?api-version=2024-10-21&sig=s-1"
        embedder = OpenAIEmbedder("e", at(url))
        await embedder.embed(["x"])
        with pytest.raises(Unavailable) as raised:
            await embedder.embed(["x"])
        await embedder.aclose()

    (theirs, their_headers, their_body), (ours, headers, body), _ = server.requests
    assert (ours, body) == (f"{theirs}&sig=s-1", their_body)
    sent = [{k.lower(): v for k, v in one.items()} for one in (their_headers, headers)]
    assert [one["api-key"] for one in sent] == [KEY, KEY]
    assert not any("authorization" in one for one in sent)
    assert not re.search(f"{KEY}|s-1", raised.value.message + raised.value.hint)


async def test_a_refused_option_is_sent_no_more() -> None:
    """The request is repeated without an option that a server refuses by name; later ones never have it."""
    refusal = (400, {}, b'{"detail": "Value float for encoding_format is not supported."}')
    with Server(in_turn(refusal, openai_embeddings)) as server:
        embedder = OpenAIEmbedder("m", at(server.url))
        await embedder.embed(["one"])
        await embedder.embed(["two"])
        await embedder.aclose()

    assert ["encoding_format" in body for _, _, body in server.requests] == [True, False, False]


async def test_a_batch_that_is_too_slow_is_sent_in_parts() -> None:
    """A server that has no time for a batch gets an eighth of it; one text that is too slow is an error."""

    def slow(path: str, body: dict[str, Any]) -> Answer:
        if len(body["input"]) > 2 or "slow" in body["input"]:
            time.sleep(0.8)
        return openai_embeddings(path, body)

    with Server(slow) as server:
        embedder = OpenAIEmbedder("m", at(server.url, timeout_s=0.4))
        rows = await embedder.embed(["x" * n for n in range(16)])
        with pytest.raises(Unavailable) as raised:
            await embedder.embed(["slow"])
        await embedder.aclose()

    lengths = np.array([max(n, 1) for n in range(16)], dtype=float)
    np.testing.assert_allclose(rows[:, 0] / rows[:, 1], lengths / 3, rtol=1e-5)
    assert "the embedder's server at" in raised.value.message
    assert "WHENCE_MODEL_TIMEOUT" in raised.value.hint


async def test_a_text_that_llama_cpp_refuses_is_embedded_in_parts() -> None:
    """llama-server answers 500 to a text above its batch; that is no failure of the server."""
    said = b'{"error": {"code": 500, "message": "input (702 tokens) is too large to process. increase the physical batch size (current batch size: 512)", "type": "server_error"}}'

    def respond(path: str, body: dict[str, Any]) -> Answer:
        if any(len(text) > 1000 for text in body.get("input", [])):
            return 500, {}, said
        return openai_embeddings(path, body)

    with Server(respond) as server:
        embedder = OpenAIEmbedder("m", at(server.url), max_tokens=400)
        rows = await embedder.embed(["river " * 300, "short"])
        await embedder.aclose()

    assert rows.shape == (2, 3)
    assert len(server.requests) == 4


async def test_a_count_of_characters_is_no_count_of_tokens() -> None:
    """Infinity counts characters in `usage`: a text within the limit is not split for it."""

    def respond(path: str, body: dict[str, Any]) -> Answer:
        rows = [{"index": n, "embedding": vector(text)} for n, text in enumerate(body["input"])]
        count = sum(len(text.strip()) for text in body["input"])
        return ok({"data": rows, "usage": {"prompt_tokens": count, "total_tokens": count}})

    with Server(respond) as server:
        embedder = OpenAIEmbedder("m", at(server.url), max_tokens=256)
        await embedder.embed(["all of us may borrow bikes for a day " * 10])
        await embedder.aclose()

    assert len(server.requests) == 1


@pytest.mark.parametrize(("window", "fits"), [(4096, False), (8192, True)])
async def test_a_prompt_that_ollama_cut_is_an_error(window: int, fits: bool) -> None:
    """Ollama reads a part of a long prompt without a word; its list of running models tells the window."""

    def respond(path: str, body: dict[str, Any]) -> Answer:
        if path == "/api/ps":
            return ok({"models": [{"name": "m:latest", "context_length": window}]})
        usage = {"choices": [], "usage": {"prompt_tokens": 4096, "completion_tokens": 2}}
        return events(delta("Yes.", "stop"), usage)

    with Server(respond) as server:
        if fits:
            assert (await write(f"{server.url}/v1"))[-1].result is not None
        else:
            with pytest.raises(PromptTooLong, match=r"a part of the prompt.*4096 tokens"):
                await write(f"{server.url}/v1")


async def test_writer_reads_an_answer_that_is_not_streamed() -> None:
    """The reply of a server that ignores `stream` is read."""
    body = {"choices": [{"message": {"content": "28 days [1]."}}], "usage": {"prompt_tokens": 1}}
    with Server(in_turn(ok(body))) as server:
        pieces = await write(server.url)

    assert pieces[-1].result is not None
    assert pieces[-1].result.text == "28 days [1]."


async def test_writer_omits_refused_parameters() -> None:
    """When a model refuses an optional parameter, the request is repeated without it."""
    refusal = (400, {}, b'{"error": {"message": "Unsupported parameter: temperature"}}')
    with Server(in_turn(refusal, events(delta("Yes.", "stop")))) as server:
        pieces = await write(server.url)

    assert pieces[0].text == "Yes."
    assert "temperature" not in server.requests[1][2]


@pytest.mark.parametrize(
    "answer",
    [
        events(done=False),
        events(delta("Books"), {"error": {"message": "overloaded"}}),
        events(),
        (200, {"content-type": "text/event-stream"}, b"data: {broken\n\n"),
        (200, {"content-type": "text/event-stream"}, b"data: []\n\n"),
        ok({"choices": []}),
        ok({}),
    ],
    ids=["breaks off", "error inside", "empty", "broken", "no object", "no choice", "nothing"],
)
async def test_writer_refuses_incomplete_answers(answer: Answer) -> None:
    """An invalid, empty or truncated answer is an error."""
    with Server(in_turn(answer)) as server, pytest.raises(Unavailable, match=server.url):
        await write(server.url)


async def test_writer_retries_before_the_first_piece() -> None:
    """A temporary failure before the first piece is retried."""
    busy = (503, {"retry-after": "0"}, b"")
    with Server(in_turn(busy, events(delta("Yes.", "stop")))) as server:
        pieces = await write(server.url)

    assert pieces[-1].result is not None
    assert len(server.requests) == 2

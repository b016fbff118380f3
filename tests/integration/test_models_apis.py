"""The API clients against a real HTTP server: what they send, and how they fail."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from whence.broker.transport import RetryPolicy
from whence.models.api_embedder import CohereEmbedder
from whence.models.openai import OpenAIEmbedder, OpenAIWriter
from whence.models.protocols import WritePiece, WriteRequest
from whence.schema.errors import BadInput, ConfigError, Unavailable
from whence.schema.prompt import Quote

KEY = "sk-very-secret-0123"

Answer = tuple[int, dict[str, str], bytes]
"""Status, headers, body."""
Respond = Callable[[str, dict[str, Any]], Answer]


class Server:
    """A service on this machine that answers with a function and remembers what it was sent."""

    def __init__(self, respond: Respond) -> None:
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["content-length"])
                body = json.loads(self.rfile.read(size))
                outer.requests.append((self.path, dict(self.headers), body))
                status, headers, data = respond(self.path, body)
                self.send_response(status)
                for name, value in {"content-type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Stay silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def ok(body: Any) -> Answer:
    return 200, {}, json.dumps(body).encode()


def vector(text: str) -> list[float]:
    return [float(len(text)), 3.0, 4.0]


def openai_embeddings(path: str, body: dict[str, Any]) -> Answer:
    rows = [{"index": n, "embedding": vector(text)} for n, text in enumerate(body["input"])]
    return ok({"data": rows[::-1]})


def cohere_embeddings(path: str, body: dict[str, Any]) -> Answer:
    return ok({"embeddings": {"float": [vector(text) for text in body["texts"]]}})


def in_turn(*answers: Answer | Respond) -> Respond:
    """Return each answer once, the last one for ever."""
    left = list(answers)

    def respond(path: str, body: dict[str, Any]) -> Answer:
        answer = left.pop(0) if len(left) > 1 else left[0]
        return answer(path, body) if callable(answer) else answer

    return respond


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
        embedder = OpenAIEmbedder("some-model", key=KEY, base_url=f"{server.url}/v1/")
        with secrets_kept(caplog, embedder, embedder.model):
            assert embedder.model.dimension == 0
            vectors = await embedder.embed(texts)
        await embedder.aclose()
    expected = np.array([vector(text or " ") for text in texts])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)

    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, rtol=1e-6)
    assert {path for path, _, _ in server.requests} == {"/v1/embeddings"}
    assert [len(body["input"]) for _, _, body in server.requests] == [64, 64, 22]
    assert all(headers["Authorization"] == f"Bearer {KEY}" for _, headers, _ in server.requests)
    assert (embedder.model.name, embedder.model.dimension) == ("openai:some-model", 3)


async def test_cohere_distinguishes_documents_and_queries() -> None:
    """A call to `/v2/embed` has at most 96 texts and the input type of its purpose."""
    with Server(cohere_embeddings) as server:
        embedder = CohereEmbedder("embed-x", key=KEY, base_url=server.url)
        documents = await embedder.embed(["a"] * 100, "document")
        query = await embedder.embed(["what"], "query")
        await embedder.aclose()
    bodies = [body for _, _, body in server.requests]

    assert documents.shape == (100, 3)
    assert query.shape == (1, 3)
    assert {path for path, _, _ in server.requests} == {"/v2/embed"}
    assert [len(body["texts"]) for body in bodies] == [96, 4, 1]
    assert [body["input_type"] for body in bodies] == ["search_document"] * 2 + ["search_query"]
    assert all(body["embedding_types"] == ["float"] for body in bodies)


async def test_no_texts_send_no_request() -> None:
    """An empty list sends no request."""
    embedder = OpenAIEmbedder("text-embedding-3-small", key=None, base_url="http://127.0.0.1:9")

    assert (await embedder.embed([])).shape == (0, 1536)


async def test_retries_after_the_requested_time() -> None:
    """429 and 503 are retried after the time that the service requests."""
    busy = (429, {"retry-after": "0"}, b"{}")
    down = (503, {"retry-after": "0"}, b"<html>down</html>")
    with Server(in_turn(busy, down, openai_embeddings)) as server:
        embedder = OpenAIEmbedder("m", key=KEY, base_url=server.url)
        vectors = await embedder.embed(["text"])
        await embedder.aclose()

    assert vectors.shape == (1, 3)
    assert len(server.requests) == 3


async def test_gives_up_when_the_wait_is_too_long() -> None:
    """When the service requests more time than is left, the call fails at once and reports that time."""
    start = time.monotonic()
    with Server(in_turn((429, {"retry-after": "3600"}, b"{}"))) as server:
        embedder = OpenAIEmbedder("m", key=KEY, base_url=server.url)
        with pytest.raises(Unavailable) as raised:
            await embedder.embed(["text"])
        await embedder.aclose()

    assert raised.value.retry_after_s == 3600
    assert len(server.requests) == 1
    assert time.monotonic() - start < 20


async def test_a_hanging_server_times_out(caplog: pytest.LogCaptureFixture) -> None:
    """The timeout covers all attempts together; the error has the address without the key."""
    release = threading.Event()

    def hang(path: str, body: dict[str, Any]) -> Answer:
        release.wait(30)
        return ok({})

    with Server(hang) as server:
        embedder = OpenAIEmbedder("m", key=KEY, base_url=server.url, timeout_s=0.3)
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
    embedder = CohereEmbedder("m", key=KEY, base_url=url, timeout_s=1.0)
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
        embedder = OpenAIEmbedder("m", key=KEY, base_url=server.url)
        with secrets_kept(caplog) as seen, pytest.raises(Unavailable) as raised:
            await embedder.embed(["one", "two"])
        seen += [raised.value, raised.value.hint]
        await embedder.aclose()

    assert words in f"{raised.value.message} {raised.value.hint}"
    assert len(server.requests) == 1


async def test_a_wrong_request_is_bad_input() -> None:
    """A request that the service refuses is bad input."""
    with Server(in_turn((400, {}, b'{"message": "text too long"}'))) as server:
        embedder = CohereEmbedder("m", key=KEY, base_url=server.url)
        with pytest.raises(BadInput, match="text too long"):
            await embedder.embed(["text"])
        await embedder.aclose()


async def test_a_changed_dimension_is_refused() -> None:
    """Vectors of another dimension than before are refused."""
    longer = ok({"embeddings": {"float": [[1.0, 2.0]]}})
    with Server(in_turn(cohere_embeddings, longer)) as server:
        embedder = CohereEmbedder("m", key=KEY, base_url=server.url)
        await embedder.embed(["text"])
        with pytest.raises(Unavailable, match="length 2 instead of 3"):
            await embedder.embed(["text"])
        await embedder.aclose()


@pytest.mark.parametrize("url", ["", "example.org/v1", "ftp://example.org", "http://"])
def test_addresses_are_checked(url: str) -> None:
    """An invalid address is a configuration error."""
    with pytest.raises(ConfigError):
        OpenAIEmbedder("m", key=None, base_url=url)


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
    writer = OpenAIWriter("m", key=KEY, base_url=url, timeout_s=5.0)
    try:
        return [piece async for piece in writer.write(request)]
    finally:
        await writer.aclose()


async def test_writer_streams_and_quotes() -> None:
    """Pieces arrive as they are sent; the result has the text, the tokens and a verbatim quote."""
    usage = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}
    with Server(in_turn(events(delta("Books:\u2028 28"), delta(" days [1]."), usage))) as server:
        pieces = await write(server.url)
    result = pieces[-1].result
    path, _, body = server.requests[0]

    assert [piece.text for piece in pieces] == ["Books:\u2028 28", " days [1].", ""]
    assert result is not None
    assert result.text == "Books:\u2028 28 days [1]."
    assert (result.in_token, result.out_token, result.model) == (7, 3, "openai:m")
    assert result.quotes == (Quote(1, "Books are lent for 28 days."),)
    assert result.language_model is True
    assert path == "/chat/completions"
    assert [message["role"] for message in body["messages"]] == ["system", "user"]


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
        events(delta("Books"), done=False),
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

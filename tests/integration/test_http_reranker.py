"""The HTTP reranker against servers that answer as TEI, vLLM, Jina, Cohere and llama.cpp do, and worse."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from tests.support.model_server import Answer, Server, in_turn, ok

from whence.models.endpoints import Endpoint
from whence.models.http_reranker import HttpReranker
from whence.retrieval.rerank import score_documents
from whence.schema.errors import BadInput, Unavailable
from whence.schema.rerank import RerankItem, RerankRequest

SCORES = {"good": 0.9, "fair": 0.5, "bad": 0.125}
MISSING = {"error": {"message": "not found"}}


def shared(path: str, body: dict[str, Any]) -> Answer:
    """The API of vLLM, Jina and Cohere: best first, at most `top_n`."""
    if path not in ("/v1/rerank", "/v2/rerank"):
        return 404, {}, json.dumps(MISSING).encode()
    found = [
        {"index": place, "relevance_score": SCORES[text], "document": {"text": text}}
        for place, text in enumerate(body["documents"])
    ]
    found.sort(key=lambda one: -one["relevance_score"])
    return ok({"id": "r", "results": found[: body["top_n"]], "usage": {"total_tokens": 9}})


def voyage(path: str, body: dict[str, Any]) -> Answer:
    """The same with another name of the list."""
    return ok({"data": json.loads(shared(path, body)[2])["results"]})


def infinity(path: str, body: dict[str, Any]) -> Answer:
    """The same without a version in the path."""
    return shared("/v1" + path if path == "/rerank" else "", body)


def tei(path: str, body: dict[str, Any]) -> Answer:
    """Text Embeddings Inference: `texts`, a plain list, at most two a request here, and no silent cut."""
    if path == "/info":
        return ok({"model_id": "m", "model_sha": "abc", "max_client_batch_size": 2})
    if path != "/rerank":
        return 404, {}, b""
    if "texts" not in body:
        return 422, {"content-type": "text/plain"}, b"missing field `texts` at line 1 column 60"
    if len(body["texts"]) > 2:
        message = {
            "error": "batch size 3 > maximum allowed batch size 2",
            "error_type": "Validation",
        }
        return 422, {}, json.dumps(message).encode()
    assert body["truncate"] is True
    return ok([{"index": n, "score": SCORES[text]} for n, text in enumerate(body["texts"])][::-1])


async def scored(url: str, *texts: str, batch: int | None = None) -> list[float | None]:
    reranker = HttpReranker("m", Endpoint(url=url, key="k", timeout_s=5.0), batch)
    try:
        first = await reranker.score("q", texts)
        # The second call asks as the first one found out.
        assert await reranker.score("q", texts) == first
        return first
    finally:
        await reranker.aclose()


@pytest.mark.parametrize(
    ("respond", "path", "used"),
    [
        (shared, "", {"/v1/rerank"}),
        (shared, "/v1", {"/v1/rerank"}),
        (shared, "/v2", {"/v2/rerank"}),
        (shared, "/v1/rerank", {"/v1/rerank"}),
        (voyage, "/v1", {"/v1/rerank"}),
        (infinity, "", {"/v1/rerank", "/rerank"}),
        (tei, "", {"/v1/rerank", "/rerank", "/info"}),
        (tei, "/v1", {"/v1/rerank", "/rerank", "/info"}),
        (tei, "/rerank", {"/rerank", "/info"}),
    ],
)
async def test_every_server_is_asked_as_it_wants(respond: Any, path: str, used: set[str]) -> None:
    """Path, body and batch follow the server; scores have the order of the documents."""
    with Server(respond) as server:
        scores = await scored(server.url + path, "bad", "good", "fair")

    assert scores == [0.125, 0.9, 0.5]
    assert {asked for asked, _, _ in server.requests} == used
    assert server.keys == {"Bearer k"}
    assert len([1 for asked, _, _ in server.requests if asked == "/v1/rerank"]) <= 2


async def test_documents_are_sent_in_batches() -> None:
    """A request has at most as many documents as the setting says."""
    with Server(shared) as server:
        assert await scored(server.url, *["good", "bad"] * 3, batch=4) == [0.9, 0.125] * 3
    assert [len(body["documents"]) for _, _, body in server.requests] == [4, 2] * 2


async def test_options_and_lengths_that_a_server_refuses_are_left_out() -> None:
    """A refused `top_n` is sent no more; of a text that llama-server refuses the beginning is scored."""

    def strict(path: str, body: dict[str, Any]) -> Answer:
        if "top_n" in body:
            return 400, {}, b'{"detail": "Argument top_n is not supported by our API"}'
        if any(len(text) > 150 for text in body["documents"]):
            said = {"error": {"code": 500, "message": "input (702 tokens) is too large to process"}}
            return 500, {}, json.dumps(said).encode()
        results = [
            {"index": n, "relevance_score": SCORES[text.split()[0]]}
            for n, text in enumerate(body["documents"])
        ]
        return ok({"results": results})

    with Server(strict) as server:
        scores = await scored(server.url, "bad", "good " * 100, "fair")

    assert scores == [0.125, 0.9, 0.5]
    assert sum("top_n" in body for _, _, body in server.requests) == 1


async def test_logits_become_scores() -> None:
    """With a score outside of 0 to 1 all scores of the call are logits, whatever their size."""
    given = [{"index": n, "relevance_score": x} for n, x in enumerate([-2.0, 0.5, 1e308, -1e308])]
    with Server(in_turn(ok({"results": given}))) as server:
        scores = await scored(server.url, "a", "b", "c", "d")

    assert scores == pytest.approx([1 / (1 + math.e**2), 1 / (1 + math.e**-0.5), 1.0, 0.0])


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ([{"index": 1, "relevance_score": 0.5}], [None, 0.5]),
        ([{"index": 0, "score": 0.1}, {"index": 0, "score": 0.9}], [0.1, None]),
        ([{"index": 0, "score": math.nan}, {"index": 1, "score": 1}], [None, 1.0]),
        ([{"index": 0, "score": math.inf}, {"index": 1, "score": 10**400}, {"index": 0, "score": 1}], [1.0, None]),
        ([{"index": 2, "score": 1}, {"index": -1, "score": 1}, {"index": True, "score": 1}, {"index": 0, "score": 0.25}], [0.25, None]),
        ([None, [], {"index": "0", "score": 1}, {"index": 1, "score": "1"}, {"index": 1, "score": True}, {"index": 1, "score": 0}], [None, 0.0]),
    ],
)  # fmt: skip
async def test_a_hostile_answer_leaves_documents_without_a_score(
    results: list[Any], expected: list[float | None]
) -> None:
    """The first valid entry of an index counts; nothing else does."""
    with Server(in_turn(ok({"results": results}))) as server:
        assert await scored(server.url, "a", "b") == expected


async def test_documents_without_a_score_come_last_in_order() -> None:
    """They have the score 0, keep the order of retrieval behind all others, and are named."""
    answer = {"results": [{"index": 3, "score": 0.1}, {"index": 1, "score": 0.0}]}
    with Server(in_turn(ok(answer))) as server:
        reranker = HttpReranker("m", Endpoint(url=server.url))
        request = RerankRequest(
            queries=(RerankItem(id="q", text="q"),),
            documents=tuple(RerankItem(id=str(n), text="t", retrieval_score=1 - n / 9) for n in range(4)),
            limit=3,
        )  # fmt: skip
        reply = await score_documents(reranker, request)
        await reranker.aclose()

    ranked = [(one.document_id, one.score) for one in (*reply.results, *reply.others)]
    assert ranked == [("3", 0.1), ("1", 0.0), ("0", 0.0), ("2", 0.0)]
    assert reply.unscored == ("0", "2")
    assert reply.model == f"m@{server.host}"


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (ok({"results": []}), Unavailable, "no valid score for 1 documents"),
        (ok({"results": {"0": 1}}), Unavailable, "no list of results"),
        (ok("text"), Unavailable, "no list of results"),
        ((200, {}, b"[" * 100_000), Unavailable, "not JSON"),
        ((400, {}, b'{"message": "too long"}'), BadInput, "too long"),
        ((401, {}, b'{"detail": "bad key k-secret-1"}'), Unavailable, "WHENCE_RERANKER_API_KEY"),
        ((404, {}, b'{"error": "no such model"}'), Unavailable, "no such model"),
    ],
)
async def test_what_is_no_ranking_is_an_error(answer: Answer, error: Any, said: str) -> None:
    """Without one valid score there is an error that names the server and never the key."""
    with Server(in_turn(answer)) as server:
        endpoint = Endpoint(url=server.url, key="k-secret-1", key_name="WHENCE_RERANKER_API_KEY")
        reranker = HttpReranker("m", endpoint)
        with pytest.raises(error) as raised:
            await reranker.score("q", ["a"])
        await reranker.aclose()

    assert said in f"{raised.value.message} {raised.value.hint}"
    assert "k-secret-1" not in f"{raised.value.message} {raised.value.hint} {reranker!r}"

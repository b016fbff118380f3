"""One search through the flow: embed the query, rank, fetch the texts."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from whence.engine.reranking import RERANK_DEPTH, Reranked, RerankPlan, rerank
from whence.retrieval.results import RetrievalResult, RetrievedChunk, SearchReport
from whence.schema.access import Access
from whence.schema.embedding import EmbeddingRequest, EmbeddingResponse
from whence.schema.errors import BadInput, DeadlineExceeded, ModelMissing, Unavailable
from whence.schema.filters import parse_filters
from whence.schema.search import (
    Candidate,
    Degradation,
    Match,
    SearchMode,
    SearchRequest,
    SearchResponse,
    truncate_query,
)
from whence.schema.texts import ChunkText, TextRequest, TextResponse

if TYPE_CHECKING:
    from whence.flow.client import FlowClient

__all__ = ("check_query", "check_text", "search", "search_match", "search_mode")

T = TypeVar("T")

_MIN_QUERY = 3
_TEXT_HINT = "give a word or a question"
_TOP_K_HINT = "it is the most results that are wanted, 1 or more"
_THRESHOLD_HINT = "0 keeps every result, 0.5 is the default"
#: Ids of one text request; a reply of as many chunks stays below a broker's limit of 5 MiB.
_TEXTS_AT_ONCE = 500
_MATCHES: dict[str, Match] = {"any": "any", "all": "all"}
_MODES: dict[str, SearchMode] = {
    "hybrid": "hybrid",
    "dense": "dense",
    "semantic": "dense",
    "bm25": "bm25",
}


def search_mode(mode: str) -> SearchMode:
    """Give the mode behind a name; `semantic` is another word for `dense`.

    Raises:
        BadInput: There is no such mode.
    """
    return _named("mode", mode, _MODES)


def search_match(match: str) -> Match:
    """Give how the words of a query must match, by its name.

    Raises:
        BadInput: There is no such way.
    """
    return _named("match", match, _MATCHES)


def _named(what: str, name: str, known: Mapping[str, T]) -> T:
    try:
        return known[name]
    except KeyError:
        raise BadInput(f"unknown {what} {name!r}", hint=f"use one of {', '.join(known)}") from None


def check_query(query: str, top_k: int, threshold: float) -> None:
    """Refuse what cannot be searched.

    Raises:
        BadInput: The query has fewer than three characters besides spaces or is no valid text, `top_k`
            is no positive integer, or the threshold is not in 0 to 1.
    """
    if not isinstance(query, str):
        raise BadInput(f"query_text must be a string, not {type(query).__name__}", hint=_TEXT_HINT)
    stripped = query.strip()
    if not stripped:
        raise BadInput("query_text cannot be empty", hint=_TEXT_HINT)
    check_text("query_text", query)
    if len(stripped) < _MIN_QUERY:
        raise BadInput(f"query_text must have at least {_MIN_QUERY} characters", hint=_TEXT_HINT)
    if isinstance(top_k, bool) or not isinstance(top_k, int):
        raise BadInput(f"top_k must be an integer, not {top_k!r}", hint=_TOP_K_HINT)
    if top_k < 1:
        raise BadInput(f"top_k must be positive, not {top_k}", hint=_TOP_K_HINT)
    if isinstance(threshold, bool) or not isinstance(threshold, int | float):
        raise BadInput(
            f"the similarity threshold must be a number, not {threshold!r}", hint=_THRESHOLD_HINT
        )
    if not 0.0 <= threshold <= 1.0:
        raise BadInput(
            f"the similarity threshold must be 0 to 1, not {threshold}", hint=_THRESHOLD_HINT
        )


def check_text(name: str, text: str) -> None:
    """Refuse what cannot be sent or stored as UTF-8 text.

    Raises:
        BadInput: The text holds a NUL, or half of a character (bytes that were not UTF-8).
    """
    if "\0" in text:
        raise BadInput(f"{name} holds a NUL character", hint="remove it")
    try:
        # The codec refuses half of a character, a thousand times faster than looking for one here.
        text.encode()
    except UnicodeEncodeError as error:
        raise BadInput(f"{name} is not valid UTF-8", hint="send it encoded as UTF-8") from error


async def search(
    client: FlowClient,
    query: str,
    *,
    collection: str,
    access: Access,
    mode: SearchMode,
    top_k: int,
    threshold: float,
    filters: Mapping[str, Any] | None = None,
    match: Match = "any",
    plan: RerankPlan | None = None,
) -> SearchReport:
    """Search once. What is found and hidden or removed before its text is read is left out.

    With a plan the best hits are reranked; threshold and `top_k` are applied after that. Of a query that is a
    document its first pages count, and the report says so.

    Raises:
        BadInput: As for `check_query`, or a filter is none, or on a key that no visible document has.
        NotFound: There is no such collection.
        Unavailable: A service that is needed does not answer.
    """
    check_query(query, top_k, threshold)
    parse_filters(filters or {})
    query, cut = truncate_query(query)
    marks = [time.perf_counter()]
    embedded, degraded = await _embed(client, query, mode)
    marks.append(time.perf_counter())
    found = await client.call(
        "search",
        SearchRequest(
            access=access,
            collection=collection,
            limit=max(top_k, RERANK_DEPTH) if plan else top_k,
            vector=embedded.vectors if embedded else None,
            model=embedded.model if embedded else None,
            query_text=query,
            mode=mode,
            # Applied below: when nothing reaches it, people want to know by how much.
            threshold=0.0,
            filters=dict(filters or {}),
            match=match,
        ),
        SearchResponse,
    )
    marks.append(time.perf_counter())
    best = found.candidates[0].score if found.candidates else None
    candidates = found.candidates
    if plan is None:
        candidates = tuple(one for one in candidates if one.score >= threshold)
    texts = await _texts(client, collection, access, candidates)
    marks.append(time.perf_counter())
    reranked = Reranked(results=_results(candidates, texts))
    results = reranked.results
    if plan is not None:
        reranked = await rerank(client, query, results, plan)
        best = reranked.results[0].similarity_score if reranked.results else None
        results = [one for one in reranked.results if one.similarity_score >= threshold]
        marks.append(time.perf_counter())
    return SearchReport(
        results=results[:top_k],
        reranker=reranked.model,
        degraded=(*cut, *(degraded or found.degraded), *reranked.degraded),
        graph=found.graph,
        latency_ms=_latencies(marks),
        best_score=best,
    )


async def _embed(
    client: FlowClient, query: str, mode: SearchMode
) -> tuple[EmbeddingResponse | None, tuple[Degradation, ...]]:
    """Give the query's vector; None when the mode needs none, or can do without one that is not to be had."""
    if mode == "bm25":
        return None, ()
    request = EmbeddingRequest(texts=(query,), purpose="query")
    try:
        return await client.call("embedding", request, EmbeddingResponse), ()
    except (Unavailable, ModelMissing, DeadlineExceeded) as error:
        if mode == "dense":
            raise
        reason = f"words alone ranked, the query could not be embedded: {error.message}"
        return None, (Degradation(stage="embedding", code="query_not_embedded", reason=reason),)


async def _texts(
    client: FlowClient, collection: str, access: Access, candidates: tuple[Candidate, ...]
) -> dict[str, ChunkText]:
    ids = [candidate.chunk_id for candidate in candidates]
    texts: dict[str, ChunkText] = {}
    for start in range(0, len(ids), _TEXTS_AT_ONCE):
        wanted = tuple(ids[start : start + _TEXTS_AT_ONCE])
        request = TextRequest(access=access, collection=collection, chunk_ids=wanted)
        reply = await client.call("text-fetcher", request, TextResponse)
        texts |= {text.chunk_id: text for text in reply.texts}
    return texts


def _results(
    candidates: tuple[Candidate, ...], texts: dict[str, ChunkText]
) -> list[RetrievalResult]:
    here = [candidate for candidate in candidates if candidate.chunk_id in texts]
    return [
        RetrievalResult(
            rank=rank,
            similarity_score=candidate.score,
            document_id=candidate.document_id,
            chunk=RetrievedChunk(
                id=candidate.chunk_id,
                content=texts[candidate.chunk_id].content,
                metadata=texts[candidate.chunk_id].metadata.copy(),
            ),
            score_breakdown=_breakdown(candidate),
        )
        for rank, candidate in enumerate(here, 1)
    ]


def _breakdown(candidate: Candidate) -> dict[str, float | None]:
    parts = {
        "dense_score": candidate.dense_score,
        "sparse_score": candidate.sparse_score,
        "combined_score": candidate.score,
    }
    if candidate.graph_score is not None:
        parts["graph_score"] = candidate.graph_score
    if candidate.name_score is not None:
        parts["name_score"] = candidate.name_score
    return parts


def _latencies(marks: list[float]) -> dict[str, float]:
    names = ("embedding", "search", "texts", "rerank")
    parts = {
        name: round((after - before) * 1e3, 3)
        for name, before, after in zip(names, marks, marks[1:], strict=False)
    }
    return parts | {"total": round((marks[-1] - marks[0]) * 1e3, 3)}

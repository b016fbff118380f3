"""One search of an engine: a `SearchQuery` in, a `SearchReport` out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from whence.code.snapshot_reading import search_snapshot
from whence.flow.context import CURRENT_TRACE, TraceContext, within_trace
from whence.retrieval.pipeline import (
    RERANK_BUDGET_S,
    check_budget,
    search,
    search_match,
    search_mode,
)
from whence.retrieval.services import RetrievalClients, Timeouts
from whence.schema.access import Access
from whence.schema.code import SnapshotChoice
from whence.schema.places import locate

if TYPE_CHECKING:
    from whence.engine.session import EngineSession
    from whence.retrieval.results import RetrievalResult, SearchReport


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What to search for, where, and with which rights."""

    query: str
    """Any text that is not blank."""
    top_k: int = 5
    """Most results, 1 or more."""
    threshold: float = 0.0
    """Lowest score, 0 to 1. Hits below 0.5 are `weak`."""
    mode: str = "hybrid"
    """`hybrid`, `dense` (or `semantic`) or `bm25`."""
    access: Access = Access.public()
    """Rights of the reader."""
    collection: str = "default"
    """Collection to search, unless a snapshot is given."""
    filters: Mapping[str, Any] = {}
    """Conditions on metadata, key to value, all of which must hold; see `whence.schema.filters`."""
    match: str = "any"
    """`all` counts words only in passages that contain every word of the query: in mode `bm25` no others are
    found, in `hybrid` others rank by their vectors alone."""
    exact: bool = False
    """Whether words are searched for as they are; else misspelt ones are corrected. Quoted words always are."""
    rerank: bool = False
    """Whether the reranker reads the best hits, 60 or `top_k`; its final score then orders them."""
    rerank_budget_s: float = RERANK_BUDGET_S
    """Seconds for reranking; after that the hits keep their order, and the report says so."""
    distinct: bool = True
    """Whether passages that say the same take one place, and the newest edition goes first. In a snapshot of
    code every copy takes its own."""
    locations: bool = False
    """Whether hits state where they stand in their files; reads whole documents."""
    snapshot: SnapshotChoice | None = None
    """Snapshot of code to search instead of the collection."""


async def run_search(session: EngineSession, query: SearchQuery) -> SearchReport:
    """Search once.

    Raises:
        BadInput: An argument is out of range, or no visible document has a key of the filters; also a
            `ValueError`.
        NotFound: There is no such collection.
        Unavailable: A service that is needed does not answer.
    """
    check_budget(query.rerank_budget_s)
    absent = session.resources.disabled.get("reranker", "")

    async def run(collection: str) -> SearchReport:
        services = RetrievalClients(
            session.client,
            collection=collection,
            access=query.access,
            mode=search_mode(query.mode),
            filters=query.filters,
            match=search_match(query.match),
            timeouts=Timeouts(rerank_s=query.rerank_budget_s),
            texts_port="text-fetcher",
            token_codes=query.rerank,
        )
        trace = CURRENT_TRACE.get() or TraceContext.new()
        with within_trace(trace):
            report = await search(
                services,
                query.query,
                top_k=query.top_k,
                threshold=query.threshold,
                rerank=query.rerank,
                no_reranker=absent,
                exact=query.exact,
                distinct=query.distinct and query.snapshot is None,
            )
            results = report.results
            if query.locations:
                results = await _located(services, results)
        return msgspec.structs.replace(report, results=results, trace_id=trace.trace_id)

    if query.snapshot is None:
        return await run(query.collection)
    return await search_snapshot(await session.code_store(), query.snapshot, run)


async def _located(
    services: RetrievalClients, results: list[RetrievalResult]
) -> list[RetrievalResult]:
    """Return hits with their locations; one that was removed meanwhile has none."""
    texts = await services.fetch([one.chunk.id for one in results], with_places=True)
    found = []
    for one in results:
        text = texts.get(one.chunk.id)
        start = None if text is None else text.char_start
        if text is None or start is None:
            found.append(one)
            continue
        place = locate(text.places, start, start + len(text.content))
        found.append(msgspec.structs.replace(one, location=place))
    return found

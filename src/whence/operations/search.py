"""`Search`: passages that match a query, among those that the reader may see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta
from msgspec.structs import replace

from whence.flow.context import CURRENT_TRACE, TraceContext, within_trace
from whence.operations.many_collections import collection_names
from whence.operations.operation import HTTP, PYTHON, Filters, Offered, Operation
from whence.operations.plugins import operations_plugin
from whence.retrieval.many_collections import retrieval_clients
from whence.retrieval.pipeline import (
    RERANK_BUDGET_S,
    check_budget,
    check_search,
    search,
    search_match,
    search_mode,
)
from whence.retrieval.results import RetrievalResult, SearchReport
from whence.retrieval.services import RetrievalServices, Timeouts
from whence.schema.access import Access
from whence.schema.code import SnapshotChoice
from whence.schema.filters import parse_filters
from whence.schema.places import locate
from whence.store.chunk_ids import parse_chunk_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from whence.operations.session import Session
    from whence.operations.traced_client import TracedCall


class Search(Operation[SearchReport], frozen=True):
    """Find the passages that match a query best."""

    NAME: ClassVar[str] = "search"
    traced: ClassVar[bool] = True
    many_collections: ClassVar[bool] = True

    query: str
    """Words or a question."""
    mode: str = "hybrid"
    """`hybrid`, `dense` (or `semantic`) or `bm25`."""
    top_k: Annotated[int, Meta(ge=1)] = 5
    """Maximum number of hits."""
    threshold: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Minimum score, 0 to 1; hits below 0.5 are `weak`."""
    filters: Filters = {}
    """Conditions on metadata, all of which must hold."""
    match: Annotated[str, Offered(metavar="any|all")] = "any"
    """Whether a passage must contain `any` or `all` words."""
    exact: bool = False
    """Search for all words as they are; quoted words always are."""
    rerank: Annotated[bool, Offered(option="--rerank/--no-rerank")] = False
    """Reorder the best hits with the reranker."""
    rerank_budget_s: Annotated[float, Meta(gt=0), Offered(metavar="SECONDS")] = RERANK_BUDGET_S
    """Time limit of reranking in seconds; after that the hits keep their order, and the report says so."""
    snapshot: str | SnapshotChoice | None = None
    """Snapshot of code to search instead of the collection."""
    access: Access = Access.public()
    """Rights to read with."""
    collection: str = "default"
    """Collection to read, or several, separated by commas."""
    locations: Annotated[bool, Offered(on=frozenset({HTTP, PYTHON}))] = False
    """Add to each hit where it stands in its file, and the W3C `trace_id` of the search."""
    distinct: Annotated[bool, Offered(on=frozenset({PYTHON}))] = True
    """Whether passages that say the same take one place, and the newest edition goes first; not in code."""

    def check(self) -> None:
        """Raise `BadInput` for values that can be refused before anything starts."""
        search_mode(self.mode)
        search_match(self.match)
        parse_filters(self.filters)
        check_search(self.query, self.top_k, self.threshold)
        check_budget(self.rerank_budget_s)
        collection_names(self.collection)

    async def run(self, session: Session) -> SearchReport:
        """Return the hits, best first.

        Raises:
            BadInput: A value is out of range, or no visible document has a key of the filters; also a
                `ValueError`.
            NotFound: There is no such collection or snapshot.
            Unavailable: A service that is needed does not answer.
        """
        self.check()
        if self.snapshot is None:
            return await self._search(session, ",".join(collection_names(self.collection)))
        report: SearchReport = await operations_plugin("search-snapshot")(
            session,
            SnapshotChoice.of(self.snapshot),
            lambda collection: self._search(session, collection),
        )
        return report

    async def _search(self, session: Session, collection: str) -> SearchReport:
        services = retrieval_clients(
            session.client,
            collection=collection,
            access=self.access,
            mode=search_mode(self.mode),
            filters=self.filters,
            match=search_match(self.match),
            timeouts=Timeouts(rerank_s=self.rerank_budget_s),
            texts_port="text-fetcher",
            token_codes=self.rerank,
        )
        trace = CURRENT_TRACE.get() or TraceContext.new()
        with within_trace(trace):
            no_reranker = session.resources.disabled.get("reranker", "") if self.rerank else ""
            report = await search(services, self, no_reranker=no_reranker)
            results = report.results
            if self.locations:
                results = await _located(services, results)
            if "," in collection:
                results = [*map(_with_collection, results)]
        return replace(report, results=results, trace_id=trace.trace_id)

    def count(self, result: SearchReport) -> int:
        """Return the number of hits."""
        return len(result.results)

    def state_after(
        self, calls: Sequence[TracedCall], result: SearchReport | None
    ) -> dict[str, Any]:
        """Return what it narrowed by and found."""
        from whence.operations.pipeline_states import search_state

        return search_state(calls, result)


def _with_collection(hit: RetrievalResult) -> RetrievalResult:
    key = parse_chunk_key(hit.chunk.id)
    return replace(hit, collection=key.collection) if key else hit


async def _located(
    services: RetrievalServices, results: list[RetrievalResult]
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
        found.append(replace(one, location=place))
    return found

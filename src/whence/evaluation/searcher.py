"""The protocol of a search that can be evaluated."""

from __future__ import annotations

from typing import Protocol

import msgspec

#: Shortest query of a suite and of a `Retriever`, in characters; other searches take any that is not blank.
MIN_QUERY = 3


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that a search found."""

    document_id: str
    """Document of the passage; of code the canonical id of the node."""
    score: float
    graph_score: float = 0.0
    """Part of the score from links between passages; 0 without links."""
    path: str = ""
    """Source file; empty when there is none."""
    name: str = ""
    """Title, or name of the piece of code."""
    qualified_name: str = ""
    """The name within its namespaces, e.g. `Shop.Orders.Total`."""
    content: str = ""


class SearchOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Results of one search."""

    hits: list[Hit]
    latency_ms: float
    degraded: tuple[str, ...] = ()
    """Reasons why the search was not complete; empty when it was."""
    timed_out: bool = False


class Searcher(Protocol):
    """Searches one collection with the rights of one reader and without a threshold."""

    async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
        """Find the best passages.

        Args:
            query: The words to look for.
            mode: `bm25`, `dense`, `hybrid`, or `rerank` for a hybrid search whose results are reranked.
            limit: Most passages, 1 or more.

        Raises:
            BadInput: The query cannot be searched for.
            NotFound: The collection does not exist.
            Unavailable: A service does not answer.
        """
        ...

"""What evaluation asks of a search, whatever answers it."""

from __future__ import annotations

from typing import Protocol

import msgspec

__all__ = ("Hit", "SearchOutcome", "Searcher")


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that a search found."""

    document_id: str
    """Document of the passage; of code the canonical id of the node."""
    score: float
    """Higher is better."""
    graph_score: float = 0.0
    """What links between passages added to the score; 0 when they took no part."""
    path: str = ""
    """File it comes from; empty when there is none."""
    name: str = ""
    """Its title, or the name of the piece of code."""
    qualified_name: str = ""
    """The name with those of what surrounds it, e.g. `Shop.Orders.Total`."""
    content: str = ""
    """The text."""


class SearchOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What one search gave."""

    hits: list[Hit]
    """Best first; the order is the engine's own and is never changed here."""
    latency_ms: float
    """Milliseconds that the search took."""
    degraded: tuple[str, ...] = ()
    """Why it was less than a whole search; empty when it was whole."""


class Searcher(Protocol):
    """Searches one collection with the rights of one reader, without a threshold."""

    async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
        """Find the best passages.

        Args:
            query: The words to look for.
            mode: `bm25`, `dense` or `hybrid`.
            limit: Most passages, 1 or more.

        Raises:
            BadInput: The query cannot be searched for.
            NotFound: There is no such collection.
            Unavailable: A service that is needed does not answer.
        """
        ...

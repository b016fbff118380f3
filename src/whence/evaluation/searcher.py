"""The protocol of a search that can be evaluated, and what it finds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A stored chunk. What is missing or of another type is None or empty."""

    id: str = ""
    document_id: str = ""
    """Id of the document, or its address when it has no id; of code the canonical id of the node."""
    score: float = 0.0
    """Similarity, 0 to 1, higher is better."""
    graph_score: float = 0.0
    """Part of the score from links between passages."""
    text: str = ""
    source_url: str | None = None
    section_path: str | None = None
    heading: str | None = None
    chunk_index: int | None = None
    """Place within the document, 0 for the first."""
    title: str = ""
    source_file: str = ""
    """Path of its file below the indexed folder."""
    name: str = ""
    """Title, or name of the piece of code."""
    qualified_name: str = ""
    """The name within its namespaces, e.g. `Shop.Orders.Total`."""


class SearchOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Results of one search."""

    passages: list[Passage] = []
    """Best first."""
    latency_ms: float = 0.0
    """Milliseconds that a caller waits; 0 leaves it to the caller to measure them."""
    embedding_ms: float = 0.0
    search_ms: float = 0.0
    """Milliseconds for ranking and reading the texts."""
    degraded: tuple[str, ...] = ()
    """Reasons why the search was not complete; empty when it was."""
    embedded: bool = True
    """False when only words ranked although vectors were requested."""
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


def text_of(metadata: Mapping[str, Any], *keys: str) -> str | None:
    """Return the first of these values that is a text."""
    return next((metadata[key] for key in keys if isinstance(metadata.get(key), str)), None)


def make_passage(metadata: Mapping[str, Any], **fields: Any) -> Passage:
    """Return a passage with these fields and those of its metadata."""
    index = metadata.get("chunk_index")
    return Passage(
        source_url=text_of(metadata, "source_url"),
        section_path=text_of(metadata, "section_path"),
        heading=text_of(metadata, "heading"),
        chunk_index=index if isinstance(index, int) and not isinstance(index, bool) else None,
        title=text_of(metadata, "title") or "",
        **fields,
    )

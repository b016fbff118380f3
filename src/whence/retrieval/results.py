"""What a search returns to Python code."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from whence.schema.places import Location
from whence.schema.search import Calibration, Correction, Degradation, GraphUse

#: Scores below it are weak, as those of most passages for queries without an answer, see `fusion`. It is also
#: the default threshold of `Retriever.search`.
WEAK_SCORE: Final = 0.5


class RetrievedChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a document, verbatim."""

    id: str = ""
    """IRI of the chunk."""
    content: str
    """The text."""
    lead: str = ""
    """Header of the table or terms of the definition in which it begins; `lead`, a line end and `content` are
    what a reader needs."""
    metadata: dict[str, Any]
    """`source_file`, `source_url`, `section_path`, `header_path`, `heading`, `chunk_index`, and the
    document's own metadata."""


class Reranking(msgspec.Struct, frozen=True, kw_only=True):
    """Rank and score of a hit before it was reranked, and the reranker's score."""

    score: float
    """What the reranker's model said; `similarity_score` is what orders the hits."""
    rank_before: int
    """Rank by retrieval alone, 1 is first."""
    score_before: float
    """Score by retrieval alone, 0 to 1."""


class Duplicate(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that says what a hit says; it takes no place of its own."""

    chunk_id: str
    document_id: str


class RetrievalResult(msgspec.Struct, frozen=True, kw_only=True):
    """One hit of a search."""

    rank: int
    """1 is first."""
    similarity_score: float
    """0 to 1, higher is better; the order of hits is the order of this score."""
    chunk: RetrievedChunk
    """What was found."""
    document_id: str = ""
    """Document the chunk is part of."""
    score_breakdown: dict[str, float | None] = {}
    """`dense_score` (cosine), `sparse_score` (lexical share), `combined_score` (the score itself; of a
    reranked hit the one before), `graph_score` (what links added) where the passage graph took part, and
    `name_score` (what its name added) of a hit that goes by the very name that the query is."""
    reranking: Reranking | None = None
    """Set when the hits were reranked."""
    duplicates: tuple[Duplicate, ...] = ()
    """Passages with nearly the same words, best ranked first."""
    location: Location | None = None
    """Where the passage stands in its file; None unless asked for."""
    collection: str = ""
    """Collection of the document, of a search of several; else empty."""
    weak: bool = False
    """Whether the score is below 0.5; always computed from it."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "weak", self.similarity_score < WEAK_SCORE)


class SearchReport(msgspec.Struct, frozen=True, kw_only=True):
    """A search and how it went."""

    results: list[RetrievalResult]
    """Best first."""
    degraded: tuple[Degradation, ...] = ()
    """What did not take part, and why."""
    reranker: str = ""
    """Model that reranked; empty when none did."""
    graph: GraphUse | None = None
    """What the passage graph did; None when it took no part."""
    calibration: Calibration | None = None
    """What the cosines meant; None where no score has a part of a cosine."""
    calibrations: dict[str, Calibration] = {}
    """What the cosines meant in each collection, of a search of several."""
    latency_ms: dict[str, float] = {}
    """`embedding`, `search`, `texts`, `total`, and `rerank` when that was asked for, in milliseconds."""
    repo: str | None = None
    """Repository of the snapshot of code that was searched, when it was one."""
    snapshot_id: str | None = None
    """The snapshot of code that was searched, when it was one."""
    question_used: str = ""
    """The query that was searched for, with the corrections."""
    corrections: tuple[Correction, ...] = ()
    """Misspelt words and what was searched for instead."""
    trace_id: str = ""
    """W3C trace id of its messages, in spans and logs: 32 hexadecimal digits; empty when there were none."""
    best_score: float | None = None
    """The highest score, 0 to 1, whether or not it reaches the threshold; None when nothing has a score."""

"""A found passage on its way from the search to the citation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Passage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A chunk that was found, with all that the stages found out about it; scores are those of `Candidate`.

    A later stage adds to it with `msgspec.structs.replace` and keeps the rank.
    """

    chunk_id: str
    """IRI of the chunk; not empty."""
    rank: int = 0
    """Rank among the passages that were found, 1 is first, each once; 0 when it was not recorded."""
    document_id: str = ""
    score: float | None = None
    dense_score: float | None = None
    sparse_score: float | None = None
    graph_score: float | None = None
    name_score: float | None = None
    concepts: tuple[str, ...] = ()
    """Concepts whose search returned it; the question itself may be one."""
    digest: str = ""
    """SHA-256 of its text in UTF-8, hexadecimal; empty when the text was not read."""
    rerank_rank: int = 0
    """Rank after reranking, 1 is first; 0 when it was not reranked."""
    raw_score: float | None = None
    """What the reranker's model said."""
    final_score: float | None = None
    """What ordered the passages at reranking."""
    diversity_score: float | None = None
    """Relevance less overlap where passages were chosen for their diversity, see `retrieval.diversity`."""
    overlap: float | None = None
    """Highest share of terms in common with a passage chosen before, 0 to 1."""
    reason_code: str = ""
    """Code of `provenance.reasons.DROP_REASONS` when it was dropped, else empty."""
    duplicate_of: str = ""
    """Chunk that was kept in its place, of one dropped as `duplicate` or `near_duplicate`."""
    newer_edition: str = ""
    """Chunk of another edition of the document, the newest or the one asked for, which goes before it."""
    text: str = ""
    """Its text, verbatim; empty until it is read. No trace has it, nor what follows."""
    word_signature: bytes = b""
    """Signature of the words of its text, see `whence.text.signatures`; empty when none is kept."""
    lead: str = ""
    """Header of the table or terms of the definition in which its text begins, see `ChunkDraft.lead`."""
    metadata: Mapping[str, Any] = {}
    """Metadata of the chunk; empty when its source is not known."""
    token_codes: bytes = b""
    """Its token vectors for the reranker; empty when none are kept."""

    @property
    def whole_text(self) -> str:
        """The text below what stands above it, as a reader needs it."""
        return f"{self.lead}\n{self.text}" if self.lead else self.text

    @property
    def order_score(self) -> float:
        """The score that ordered the passages at reranking: the model's own where no other was recorded."""
        return (self.raw_score or 0.0) if self.final_score is None else self.final_score

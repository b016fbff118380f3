"""What `search` and `index` give back to Python code."""

from __future__ import annotations

from typing import Any

import msgspec

from whence.schema.code import BundleWarning
from whence.schema.search import Degradation, GraphUse
from whence.store.snapshot_protocols import SnapshotRecord, SnapshotSet

__all__ = (
    "DocumentCounts",
    "ImportResult",
    "ImportedBundle",
    "IndexReport",
    "PathFailure",
    "Reranking",
    "RetrievalResult",
    "RetrievedChunk",
    "SearchReport",
    "SnapshotOverview",
)


class RetrievedChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a document, verbatim."""

    id: str = ""
    """IRI of the chunk."""
    content: str
    """The text."""
    metadata: dict[str, Any]
    """`source_file`, `source_url`, `section_path`, `header_path`, `heading`, `chunk_index`, and the
    document's own metadata."""


class Reranking(msgspec.Struct, frozen=True, kw_only=True):
    """Where a hit stood before it was reranked, and what the reranker said."""

    score: float
    """The reranker's, 0 to 1."""
    rank_before: int
    """Rank by retrieval alone, 1 is first."""
    score_before: float
    """Score by retrieval alone, 0 to 1."""


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
    latency_ms: dict[str, float] = {}
    """`embedding`, `search`, `texts`, `total`, and `rerank` when that was asked for, in milliseconds."""
    snapshot_id: str | None = None
    """The snapshot of code that was searched, when it was one."""
    best_score: float | None = None
    """The highest score, 0 to 1, whether or not it reaches the threshold; None when nothing has a score."""


class DocumentCounts(msgspec.Struct, kw_only=True):
    """What became of the documents of one `index` run; a document is counted once."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    skipped: int = 0
    """Files of unknown kinds and empty files."""
    failed: int = 0


class PathFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A document that could not be indexed, and why."""

    path: str
    reason: str


class IndexReport(msgspec.Struct, kw_only=True):
    """What one `index` run did."""

    collection: str
    documents: DocumentCounts
    chunks: int = 0
    """Chunks of the documents added or updated."""
    embedded: int = 0
    """Chunks that were embedded; 0 when nothing changed."""
    kinds: dict[str, int] = {}
    """Documents read, by kind of file, e.g. `{"Markdown": 3, "PDF": 1}`; unchanged ones among them."""
    skipped: dict[str, int] = {}
    """Files and records skipped, by reason."""
    kept: int = 0
    """Documents that no path has any more and that `prune` left, for a failure may stand for one of them."""
    failures: list[PathFailure]
    seconds: float = 0.0


class ImportedBundle(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one bundle."""

    import_id: str
    repo: str
    branch: str
    head_sha: str
    snapshot_id: str
    status: str = "completed"
    """A bundle that fails takes all of its import along, as an error."""
    unchanged: bool
    """True when the snapshot was published with the same content before."""
    nodes: dict[str, int]
    """`cs` and `sql`."""
    edges: dict[str, int]
    """`cs` and `sql`; those with both ends, each once."""
    duplicates: dict[str, dict[str, int]]
    """`nodes` and `edges` that were given again, `cs` and `sql` of each."""
    dangling: dict[str, int]
    """Edges with an end that is no node, `cs` and `sql`; they are left out."""
    empty_texts: int
    unknown_labels: tuple[str, ...]
    warnings: tuple[BundleWarning, ...]
    embedded: int
    """Nodes that were embedded; the others had the vector of an equal text."""


class ImportResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one `import` did."""

    imports: list[ImportedBundle]
    """In the order given."""
    set: SnapshotSet | None
    """The set that was made."""
    seconds: float


class SnapshotOverview(msgspec.Struct, frozen=True, kw_only=True):
    """All that can be read of code."""

    snapshots: list[SnapshotRecord]
    """Newest first."""
    sets: list[SnapshotSet]
    """By name."""

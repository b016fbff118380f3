"""Values that all stores return alike: candidates, and metadata and digests of chunks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from whence.schema.filters import FilterValue, document_values
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.schema.search import Candidate


def cosine(inner: float) -> float:
    """Return the cosine of an inner product of unit vectors, clipped to [-1, 1]."""
    return min(1.0, max(-1.0, inner))


def dense_candidates(ranked: Iterable[tuple[float, str, str]]) -> list[Candidate]:
    """Return the candidates of dense search.

    Args:
        ranked: Negated inner product, chunk id and document id of each, best first.
    """
    found: list[Candidate] = []
    for rank, (negated, chunk_id, document_id) in enumerate(ranked, 1):
        value = cosine(-negated)
        found.append(
            Candidate(
                chunk_id=chunk_id,
                document_id=document_id,
                score=max(0.0, value),
                rank=rank,
                dense_score=value,
            )
        )
    return found


def lexical_candidates(
    ranked: Iterable[tuple[float, str, str]], per_share: float
) -> list[Candidate]:
    """Return the candidates of lexical search.

    Args:
        ranked: Negated lexical share, chunk id and document id of each, best first.
        per_share: Coverage per share of the query, see `bm25.query_weights`.
    """
    return [
        Candidate(
            chunk_id=chunk_id,
            document_id=document_id,
            score=min(1.0, -negated * per_share),
            rank=rank,
            sparse_score=-negated,
        )
        for rank, (negated, chunk_id, document_id) in enumerate(ranked, 1)
    ]


def content_digest(content: str) -> str:
    """Return the SHA-256 of a text in UTF-8, hexadecimal."""
    return hashlib.sha256(content.encode()).hexdigest()


def chunk_metadata(draft: DocumentDraft, chunk: ChunkDraft, index: int) -> dict[str, Any]:
    """Return the metadata of a chunk: the document's, overridden by the position of the chunk.

    A source that the document does not state may be in its metadata.
    """
    sources = {"source_file": draft.source_file, "source_url": draft.source_url}
    root = {"root": draft.root} if draft.root else {}
    for name, value in sources.items():
        if not value and isinstance(draft.metadata.get(name), str):
            sources[name] = draft.metadata[name]
    title = {"title": draft.title} if draft.title else {}
    page = {"page": chunk.page} if chunk.page else {}
    return {
        **draft.metadata,
        **title,
        **sources,
        **root,
        **page,
        "section_path": chunk.section_path,
        "header_path": chunk.section_path,
        "heading": chunk.heading,
        "chunk_index": index,
    }


def filter_values(draft: DocumentDraft) -> list[tuple[str, FilterValue]]:
    """Return the metadata of a document that filters can match, without keys of its chunks."""
    shown = chunk_metadata(draft, ChunkDraft(content=""), 0)
    return document_values(draft.document_id, shown)

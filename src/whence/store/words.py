"""Counted words: what the lexical leg keeps of a chunk and asks of a query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from whence.schema.ingest import ChunkDraft
from whence.store.analysis import query_terms, strong_length, term_counts

__all__ = (
    "DEFAULT_LANGUAGES",
    "MAX_QUERY_TERMS",
    "Words",
    "chunk_words",
    "count_words",
    "query_counts",
)

#: Languages of a collection; documents are stemmed in the first.
DEFAULT_LANGUAGES = ("english",)
#: Most distinct terms of a query that count; a longer query is a document, and its first pages say what it is
#: about.
MAX_QUERY_TERMS = 1024


class Words(msgspec.Struct, frozen=True):
    """The words of a chunk."""

    counts: dict[str, int]
    """Each term and how often it occurs, weak terms included."""
    length: int
    """Occurrences of strong terms."""


def count_words(text: str, language: str) -> Words:
    """Count the terms of a text. Cost: linear in its length."""
    counts = term_counts(text, language)
    return Words(counts, strong_length(counts))


def chunk_words(chunks: Iterable[ChunkDraft], language: str) -> list[Words]:
    """Count the words of chunks by what is searched: `embed_text`, or `content` where there is none."""
    return [count_words(chunk.embed_text or chunk.content, language) for chunk in chunks]


def query_counts(text: str, languages: Sequence[str]) -> dict[str, int]:
    """Count the terms of a query, of the first `MAX_QUERY_TERMS` distinct ones; repeats all count.

    Terms beyond that count nowhere, neither in a chunk's score nor in the query's bound.
    """
    counts = Counter(query_terms(text, languages))
    return dict(list(counts.items())[:MAX_QUERY_TERMS])

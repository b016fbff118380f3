"""Lexical search in PostgreSQL: BM25 over the postings that the reader may see.

Term weights and the mean length are computed over visible chunks: a hidden chunk changes no score.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.schema.filters import Filters
from whence.schema.search import Candidate, Match
from whence.store.acl_check import DOCUMENT_TAGS, TAGS_JOIN, allowed_rows
from whence.store.bm25 import clipped_impact, coverage_per_share, share, weights
from whence.store.postgres.chunk_reader import REQUESTED_CHUNKS, requested_values
from whence.store.postgres.collection_version import ReaderView, fetch_versioned, versioned
from whence.store.postgres.driver import Connection
from whence.store.postgres.lexical.forward_index import term_key
from whence.store.postgres.lexical.scoring import Run, top_scores
from whence.store.postgres.lexical.visible_postings import VisibleTerm, read_slots, read_terms
from whence.store.postgres.metadata_index import filtered_chunks
from whence.store.term_counts import LexicalQuery, parse_lexical_query
from whence.store.validation import check_limit, lexical_candidate
from whence.text.analysis import ANALYZER_VERSION

__all__ = ("lexical_scores", "search_lexical")

# The rights of the chunk decide, not those of its postings: slots of chunks that are gone or retagged find
# nothing.
_CHUNKS = versioned(
    f"SELECT w.n, c.chunk_key, d.document_id, {DOCUMENT_TAGS}"  # noqa: S608 - only constants
    " FROM unnest($3::int[]) WITH ORDINALITY w(slot, n)"
    " JOIN chunk_terms t ON t.collection_id = $1 AND t.slot = w.slot"
    " JOIN chunk c ON c.ord = t.ord AND c.class_id = ANY($2::int[])"
    f" JOIN document d ON d.id = c.document{TAGS_JOIN}",
    4,
)
_CHUNK_TERMS = versioned(
    f"SELECT c.chunk_key, t.length, t.terms, t.counts, {DOCUMENT_TAGS}{REQUESTED_CHUNKS}"
    " JOIN chunk_terms t ON t.ord = c.ord",
    7,
)


async def search_lexical(
    connection: Connection,
    view: ReaderView,
    query_text: str,
    *,
    limit: int,
    filters: Filters,
    match: Match,
) -> list[Candidate] | None:
    """Rank the visible chunks by BM25; None while words or metadata are not indexed by this version.

    Cost: linear in the visible postings of the query's terms.

    Raises:
        StaleVersion: The collection changed.
        BadInput: The limit is below 1, or no visible document has a key of the filter.
    """
    check_limit(limit)
    if view.version.analyzer != ANALYZER_VERSION:
        return None
    kept = await filtered_chunks(connection, view, filters) if filters else None
    if filters and kept is None:
        return None
    words = parse_lexical_query(query_text, view.version.languages, term_key)
    terms = await read_terms(connection, view, words.terms)

    async def read_chunks(segments: list[int], places: list[int]) -> list[Any]:
        slots_of = await read_slots(connection, view, ranking.segments)
        slots = [int(slots_of[one][place]) for one, place in zip(segments, places, strict=True)]
        rows = await fetch_versioned(
            connection, _CHUNKS, view.version, view.version.id, view.classes, slots
        )
        return allowed_rows((row for row in rows if row["n"] is not None), view.access, "lexical")

    query = _Query(words, terms)
    ranking = _Ranking(terms, query.parts, read_chunks)
    if match == "all":
        ranking.keep_all_of(words.required(query.spoken))
    if kept is not None:
        slots_of = await read_slots(connection, view, ranking.segments)
        slots = [np.empty(0, np.int32), *(slots_of[one] for one in ranking.segments)]
        ranking.keep(np.isin(np.concatenate(slots), kept.slots))
    found = await ranking.walk(limit)
    if not found:
        # That nothing was found holds for this version only, too.
        await read_chunks([], [])
    return query.candidates(found, limit)


class _Query:
    """A query in the terms of a collection."""

    def __init__(self, words: LexicalQuery, terms: Mapping[str, VisibleTerm]) -> None:
        df = {term: one.df for term, one in terms.items()}
        self.spoken = next((one.languages for one in terms.values() if one.of_chunks), ())
        self.mean = next((one.mean for one in terms.values() if one.of_chunks), 1.0)
        counts = words.counts(df, self.spoken)
        chunks = max((one.of_chunks for one in terms.values()), default=0)
        self.parts = weights(counts, df, chunks, one_word=words.one_word)
        self._per_share = coverage_per_share(counts, df, chunks, one_word=words.one_word)

    def candidates(self, found: Sequence[tuple[float, str, str]], limit: int) -> list[Candidate]:
        """Return the first of a ranking."""
        return [
            lexical_candidate(key, document_id, -negative, self._per_share, rank)
            for rank, (negative, key, document_id) in enumerate(found[:limit], 1)
        ]


Read = Callable[[list[int], list[int]], Awaitable[list[Any]]]


class _Ranking:
    """The places of all segments by their scores.

    Args:
        terms: What is visible of the query's terms.
        parts: Part of the query's bound of each that the collection has.
        read: Gives the chunks of places, named by segments and places in them: number, key and document.
    """

    def __init__(
        self, terms: Mapping[str, VisibleTerm], parts: Mapping[str, float], read: Read
    ) -> None:
        found = [(parts[term], one) for term in parts for one in terms[term].postings]
        chunks = {one.segment: one.chunks for _, one in found}
        self._segments = list(chunks)
        bases = [0, *itertools.accumulate(chunks.values())]
        self._bases = np.array(bases[:-1], dtype=np.intp)
        self._size = bases[-1]
        base_of = dict(zip(self._segments, bases, strict=False))
        self._runs_of = {
            term: [
                Run(base_of[one.segment], parts[term], one.visible) for one in terms[term].postings
            ]
            for term in parts
        }
        self._runs = list(itertools.chain.from_iterable(self._runs_of.values()))
        self._kept: NDArray[np.bool_] | None = None
        self._read = read

    @property
    def segments(self) -> list[int]:
        """Segments with a word of the query, in the order of their places."""
        return self._segments

    def keep_all_of(self, words: Sequence[Sequence[str]]) -> None:
        """Leave out all places but those with a term of each word.

        Cost: linear in the postings of the words and, for each of them, in the places.
        """
        for terms in words:
            there = np.zeros(self._size, dtype=np.bool_)
            for run in itertools.chain.from_iterable(self._runs_of.get(one, ()) for one in terms):
                there[run.places() + run.base] = True
            self.keep(there)

    def keep(self, places: NDArray[np.bool_]) -> None:
        """Exclude the places of all segments that are False, shape (places,)."""
        self._kept = places if self._kept is None else self._kept & places

    async def walk(self, limit: int) -> list[tuple[float, str, str]]:
        """Return (minus score, chunk, document) of the best, in order; at least `limit` when there are so many.

        Places are looked at from the best down until there are enough whose chunks are still there.
        """
        found: list[tuple[float, str, str]] = []
        seen, wanted = 0, min(limit + limit // 4 + 8, self._size)
        while seen < self._size:
            places, values = top_scores(self._runs, self._size, wanted, self._kept)
            rows = await self._chunks(places[seen:])
            of_new = values[seen:].tolist()
            found += [(-of_new[row["n"] - 1], row["chunk_key"], row["document_id"]) for row in rows]
            if len(found) >= limit or len(places) < wanted:
                break
            seen, wanted = len(places), min(4 * wanted, self._size)
        return sorted(found)

    async def _chunks(self, places: NDArray[np.intp]) -> list[Any]:
        if not len(places):
            return []
        which = np.searchsorted(self._bases, places, side="right") - 1
        return await self._read(
            [self._segments[one] for one in which.tolist()],
            (places - self._bases[which]).tolist(),
        )


async def lexical_scores(
    connection: Connection,
    view: ReaderView,
    query_text: str,
    chunk_ids: Sequence[str],
    match: Match,
) -> dict[str, float] | None:
    """Return the lexical share of visible chunks; None while the words are not indexed by this version.

    It is 0 of a chunk without a term of the query, with `match="all"` of one that lacks any. It is computed
    from the forward index, equal to the last bit to what the postings give. Cost: linear in the terms of the
    chunks.

    Raises:
        StaleVersion: The collection changed.
    """
    if view.version.analyzer != ANALYZER_VERSION:
        return None
    words = parse_lexical_query(query_text, view.version.languages, term_key)
    terms = await read_terms(connection, view, words.terms)
    query = _Query(words, terms)
    values = requested_values(view.access, view.version.info.name, chunk_ids)
    rows = await fetch_versioned(connection, _CHUNK_TERMS, view.version, *values)
    parts = {terms[term].id: part for term, part in query.parts.items()}
    required = [
        {terms[term].id for term in word if term in terms}
        for word in (words.required(query.spoken) if match == "all" else ())
    ]
    found = (row for row in rows if row["chunk_key"] is not None)
    return {
        row["chunk_key"]: _share(row, parts, required, query.mean)
        for row in allowed_rows(found, view.access, "shares")
    }


def _share(
    row: Any, parts: Mapping[int, float], required: Sequence[set[int]], mean: float
) -> float:
    """Return the share of a chunk, 0 when it has none of the terms of a required word."""
    terms = np.frombuffer(row["terms"], dtype="<i4").tolist()
    if not all(word.intersection(terms) for word in required):
        return 0.0
    counts = np.frombuffer(row["counts"], dtype="<i4").tolist()
    return share(
        (parts[term], clipped_impact(count, row["length"], mean))
        for term, count in zip(terms, counts, strict=True)
        if term in parts
    )

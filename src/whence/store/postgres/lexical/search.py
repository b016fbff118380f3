"""Lexical search in PostgreSQL: BM25 over the postings that the reader may see.

Term weights and the mean length are computed over visible chunks: a hidden chunk changes no score.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.schema.filters import Filters
from whence.schema.search import Candidate, Match
from whence.store.acl_check import DOCUMENT_TAGS, TAGS_JOIN, allowed_rows
from whence.store.bm25 import query_weights, share
from whence.store.postgres.chunk_reader import REQUESTED_CHUNKS, requested_values
from whence.store.postgres.collection_version import ReaderView, fetch_versioned, versioned
from whence.store.postgres.driver import Connection
from whence.store.postgres.lexical.visible_postings import (
    VisibleTerm,
    VisibleTexts,
    read_slots,
    read_words,
)
from whence.store.postgres.metadata_index import FilteredChunks, filtered_chunks
from whence.store.results import lexical_candidates
from whence.store.term_counts import LexicalQuery, parse_lexical_query
from whence.store.validation import check_limit
from whence.text.analysis import ANALYZER_VERSION

# The rights of the chunk decide, not those of its postings: slots of chunks that are gone or retagged find
# nothing.
_CHUNKS = versioned(
    f"SELECT w.slot, c.chunk_key, d.document_id, {DOCUMENT_TAGS}"  # noqa: S608 - only constants
    " FROM unnest($3::int[]) w(slot)"
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
    """
    kept = await filtered_chunks(connection, view, filters) if filters else None
    if filters and kept is None:
        return None
    ranking = await rank_places(connection, view, query_text, limit=limit, kept=kept, match=match)
    return None if ranking is None else await ranking.read(connection)


async def rank_places(
    connection: Connection,
    view: ReaderView,
    query_text: str,
    *,
    limit: int,
    kept: FilteredChunks | None,
    match: Match,
) -> LexicalRanking | None:
    """Score the visible postings of a query; None while words are not indexed by this version."""
    check_limit(limit)
    if view.version.analyzer != ANALYZER_VERSION:
        return None
    query = await _read_query(connection, view, query_text)
    slots = await read_slots(connection, view, query.segments)
    scores = query.scores()
    for terms in query.required if match == "all" else ():
        scores *= query.places_with_any(terms)
    if kept is not None:
        scores *= np.isin(slots, kept.slots)
    # Chunks that were removed or retagged still have places.
    spare = 0 if len(slots) == view.version.chunks else limit // 4 + 8
    return LexicalRanking(view, slots, scores, limit, spare, query.per_share)


class LexicalRanking:
    """The ranking of a query whose places are scored and whose chunks are not read yet.

    Args:
        view: The collection as the reader sees it.
        slots: The slot of each place, shape (places,).
        scores: Its lexical share, 0 without a term of the query, shape (places,).
        limit: Most chunks.
        spare: Further places that are read at first, for some of the best may be of no chunk.
        per_share: See `lexical_candidates`.
    """

    def __init__(
        self,
        view: ReaderView,
        slots: NDArray[np.int32],
        scores: NDArray[np.float64],
        limit: int,
        spare: int,
        per_share: float,
    ) -> None:
        self._view = view
        self._slots = slots
        self._scores = scores
        # Ten times as fast as the places of numbers that are not 0.
        self._scored = np.flatnonzero(scores > 0)
        self._limit = limit
        self._per_share = per_share
        self._found: list[tuple[float, str, str]] = []
        self._read = 0
        self._wanted = limit + spare
        self._taken: dict[int, float] = {}

    def take(self) -> list[int]:
        """Return the slots of the best places that were not returned yet."""
        places = best_places(self._scores, self._scored, self._wanted)
        new = places[self._read :]
        slots: list[int] = self._slots[new].tolist()
        self._taken = dict(zip(slots, (-self._scores[new]).tolist(), strict=True))
        self._read = len(places)
        return slots

    def add(self, rows: Iterable[Any]) -> bool:
        """Add the rows of the slots that were taken last; return whether the ranking is complete."""
        self._found += [
            (self._taken[row["slot"]], row["chunk_key"], row["document_id"])
            for row in rows
            if row["slot"] in self._taken
        ]
        complete = len(self._found) >= self._limit or self._read < self._wanted
        self._wanted *= 4
        return complete

    async def read(self, connection: Connection) -> list[Candidate]:
        """Read the chunks; at least one statement checks the version."""
        view = self._view
        complete = False
        while not complete:
            slots = self.take()
            rows = await fetch_versioned(
                connection, _CHUNKS, view.version, view.version.id, view.classes, slots
            )
            found = (row for row in rows if row["chunk_key"] is not None)
            complete = self.add(allowed_rows(found, view.access, "lexical"))
        return self.candidates()

    def candidates(self) -> list[Candidate]:
        """Return what was added, best first, ties by chunk id."""
        return lexical_candidates(sorted(self._found)[: self._limit], self._per_share)

    def shares(self, slots: Sequence[int]) -> dict[int, float]:
        """Return the shares of those slots that have one above 0. Cost: linear in their places."""
        scored = self._scored
        places = scored[np.isin(self._slots[scored], np.array(slots, np.int32))]
        return dict(zip(self._slots[places].tolist(), self._scores[places].tolist(), strict=True))


async def _read_query(connection: Connection, view: ReaderView, query_text: str) -> _Query:
    words, found, texts = await read_words(
        connection, view, partial(parse_lexical_query, query_text), lambda one: one.terms
    )
    return _Query(words, found, texts)


class _Query:
    """A query with the visible terms of a collection; a place is one among those of all its segments."""

    def __init__(
        self, words: LexicalQuery, terms: Mapping[str, VisibleTerm], texts: VisibleTexts
    ) -> None:
        df = {term: one.df for term, one in terms.items()}
        counts, self.required = words.resolve(df)
        self.terms = terms
        self.mean = texts.mean
        # The weights are of the terms that the collection has.
        self.weights, self.per_share = query_weights(
            counts, df, texts.chunks, one_word=words.one_word
        )
        chunks = {one.segment: one.chunks for term in self.weights for one in terms[term].postings}
        self.segments = list(chunks)
        """Segments with a term of the query."""
        self._size = sum(chunks.values())
        self._first = dict(
            zip(self.segments, itertools.accumulate(chunks.values(), initial=0), strict=False)
        )

    def scores(self) -> NDArray[np.float64]:
        """Return the score of each place, 0 without a term of the query, shape (places,).

        Sums are exact, see `whence.store.bm25`: the order of summation changes no bit. Cost: linear in the
        postings and places.
        """
        scores = np.zeros(self._size)
        for term, weight in self.weights.items():
            for one in self.terms[term].postings:
                scores[self._first[one.segment] + one.places()] += one.impacts() * weight
        return scores

    def places_with_any(self, terms: Sequence[str]) -> NDArray[np.bool_]:
        """Return whether each place has one of these terms, shape (places,)."""
        matching = np.zeros(self._size, dtype=np.bool_)
        for term in self.weights.keys() & set(terms):
            for one in self.terms[term].postings:
                matching[self._first[one.segment] + one.places()] = True
        return matching


def best_places(scores: NDArray[np.float64], scored: NDArray[np.intp], n: int) -> NDArray[np.intp]:
    """Return the n places of the highest scores and all that tie with the last, best first.

    Ties are in the order of places. Cost: linear in the places with a score.

    Args:
        scores: Of all places.
        scored: The places with a score above 0, ascending.
        n: Most places, but for ties.
    """
    places, found = scored, scores[scored]
    if len(places) > n:
        best = found >= np.partition(found, len(found) - n)[len(found) - n]
        places, found = places[best], found[best]
    return places[np.argsort(-found, kind="stable")]


async def lexical_scores(
    connection: Connection,
    view: ReaderView,
    query_text: str,
    chunk_ids: Sequence[str],
    match: Match,
) -> dict[str, float] | None:
    """See `ChunkStore.lexical_scores`; equal to the last bit to `search_lexical`, None while not indexed."""
    if view.version.analyzer != ANALYZER_VERSION:
        return None
    query = await _read_query(connection, view, query_text)
    values = requested_values(view.access, view.version.info.name, chunk_ids)
    rows = await fetch_versioned(connection, _CHUNK_TERMS, view.version, *values)
    ids = {term: one.id for term, one in query.terms.items()}
    of_ids = {ids[term]: weight for term, weight in query.weights.items()}
    words = query.required if match == "all" else ()
    required = [{ids[term] for term in word if term in ids} for word in words]
    found = (row for row in rows if row["chunk_key"] is not None)
    return {
        row["chunk_key"]: _share(row, of_ids, required, query.mean)
        for row in allowed_rows(found, view.access, "shares")
    }


def _share(
    row: Any, of_terms: Mapping[int, float], required: Sequence[set[int]], mean: float
) -> float:
    """Return the share of a chunk, 0 when it has none of the terms of a required word."""
    terms = np.frombuffer(row["terms"], dtype="<i4").tolist()
    if not all(word.intersection(terms) for word in required):
        return 0.0
    counts = np.frombuffer(row["counts"], dtype="<i4").tolist()
    return share(of_terms, dict(zip(terms, counts, strict=True)), row["length"], mean)

"""Lexical search in PostgreSQL: BM25 over the postings that the reader may see.

Term weights and the mean length are computed over visible chunks: a hidden chunk changes no score.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
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
    read_slots,
    read_terms,
    reader_languages,
)
from whence.store.postgres.metadata_index import filtered_chunks
from whence.store.results import lexical_candidates
from whence.store.term_counts import LexicalQuery, parse_lexical_query
from whence.store.validation import check_limit
from whence.text.analysis import ANALYZER_VERSION

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
    """
    check_limit(limit)
    if view.version.analyzer != ANALYZER_VERSION:
        return None
    kept = await filtered_chunks(connection, view, filters) if filters else None
    if filters and kept is None:
        return None
    query = await _read_query(connection, view, query_text)
    slots = await read_slots(connection, view, query.segments)
    scores = query.scores()
    for terms in query.required if match == "all" else ():
        scores *= query.places_with_any(terms)
    if kept is not None:
        scores *= np.isin(slots, kept.slots)
    found: list[tuple[float, str, str]] = []
    read, wanted = 0, limit + limit // 4 + 8
    # Some of the best chunks may be deleted; at least one statement checks the version.
    while True:
        places = best_places(scores, wanted)
        new = places[read:]
        rows = await fetch_versioned(
            connection, _CHUNKS, view.version, view.version.id, view.classes, slots[new].tolist()
        )
        visible = allowed_rows(
            (row for row in rows if row["n"] is not None), view.access, "lexical"
        )
        negated = (-scores[new]).tolist()
        found += [(negated[row["n"] - 1], row["chunk_key"], row["document_id"]) for row in visible]
        if len(found) >= limit or len(places) < wanted:
            break
        read, wanted = len(places), 4 * wanted
    return lexical_candidates(sorted(found)[:limit], query.per_share)


async def _read_query(connection: Connection, view: ReaderView, query_text: str) -> _Query:
    words = parse_lexical_query(query_text, view.version.languages)
    found = await read_terms(connection, view, words.terms)
    languages = reader_languages(found)
    if languages != view.version.languages:
        words = parse_lexical_query(query_text, languages)
        found = await read_terms(connection, view, words.terms)
    return _Query(words, found)


class _Query:
    """A query with the visible terms of a collection; a place is one among those of all its segments."""

    def __init__(self, words: LexicalQuery, terms: Mapping[str, VisibleTerm]) -> None:
        df = {term: one.df for term, one in terms.items()}
        known = next((one for one in terms.values() if one.of_chunks), VisibleTerm())
        counts, self.required = words.resolve(df)
        self.terms = terms
        self.mean = known.mean
        # The weights are of the terms that the collection has.
        self.weights, self.per_share = query_weights(
            counts, df, known.of_chunks, one_word=words.one_word
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


def best_places(scores: NDArray[np.float64], n: int) -> NDArray[np.intp]:
    """Return the n places of the highest scores above 0 and all that tie with the last, best first.

    Ties are in the order of places. Cost: linear in the places.
    """
    places = np.flatnonzero(scores)
    if len(places) > n:
        least = np.partition(scores[places], len(places) - n)[len(places) - n]
        places = places[scores[places] >= least]
    return places[np.argsort(-scores[places], kind="stable")]


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

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
from whence.store.postgres.lexical.scoring import PostingList, top_scores
from whence.store.postgres.lexical.visible_postings import VisibleTerm, read_slots, read_terms
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
    ranking = _Ranking(query)
    slots_of = await read_slots(connection, view, ranking.segments)
    if match == "all":
        ranking.require_all(query.required)
    if kept is not None:
        every = [np.empty(0, np.int32), *(slots_of[one] for one in ranking.segments)]
        ranking.restrict(np.isin(np.concatenate(every), kept.slots))
    found: list[tuple[float, str, str]] = []
    read, wanted = 0, limit + limit // 4 + 8
    # Some of the best chunks may be deleted; at least one statement checks the version.
    while True:
        places, scores = ranking.best(wanted)
        slots = ranking.slots(places[read:], slots_of)
        rows = await fetch_versioned(
            connection, _CHUNKS, view.version, view.version.id, view.classes, slots
        )
        visible = allowed_rows(
            (row for row in rows if row["n"] is not None), view.access, "lexical"
        )
        new = scores[read:].tolist()
        found += [(-new[row["n"] - 1], row["chunk_key"], row["document_id"]) for row in visible]
        if len(found) >= limit or len(places) < wanted:
            break
        read, wanted = len(places), 4 * wanted
    return lexical_candidates(sorted(found)[:limit], query.per_share)


async def _read_query(connection: Connection, view: ReaderView, query_text: str) -> _Query:
    words = parse_lexical_query(query_text, view.version.languages)
    return _Query(words, await read_terms(connection, view, words.terms))


class _Query:
    """A query with the visible terms of a collection."""

    def __init__(self, words: LexicalQuery, terms: Mapping[str, VisibleTerm]) -> None:
        df = {term: one.df for term, one in terms.items()}
        known = next((one for one in terms.values() if one.of_chunks), VisibleTerm())
        counts, self.required = words.resolve(df, known.languages)
        self.terms = terms
        self.mean = known.mean
        # The weights are of the terms that the collection has.
        self.weights, self.per_share = query_weights(
            counts, df, known.of_chunks, one_word=words.one_word
        )


class _Ranking:
    """The chunks of all segments by score; a place is one among the places of all segments."""

    def __init__(self, query: _Query) -> None:
        terms = {term: query.terms[term].postings for term in query.weights}
        chunks = {one.segment: one.chunks for postings in terms.values() for one in postings}
        self.segments = list(chunks)
        """Segments with a term of the query."""
        bases = [0, *itertools.accumulate(chunks.values())]
        base_of = dict(zip(self.segments, bases, strict=False))
        self._bases = np.array(bases[:-1], dtype=np.intp)
        self._size = bases[-1]
        self._lists = {
            term: [
                PostingList(base_of[one.segment], query.weights[term], one.visible)
                for one in postings
            ]
            for term, postings in terms.items()
        }
        self._allowed: NDArray[np.bool_] | None = None

    def require_all(self, words: Sequence[Sequence[str]]) -> None:
        """Exclude all places without a term of each word.

        Cost: linear in the postings of the words and, for each of them, in the places.
        """
        for terms in words:
            matching = np.zeros(self._size, dtype=np.bool_)
            for one in itertools.chain.from_iterable(self._lists.get(term, ()) for term in terms):
                matching[one.places()] = True
            self.restrict(matching)

    def restrict(self, allowed: NDArray[np.bool_]) -> None:
        """Exclude the places of all segments that are False, shape (places,)."""
        self._allowed = allowed if self._allowed is None else self._allowed & allowed

    def best(self, n: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return the best n places and all that tie with the last, with their scores, best first."""
        lists = list(itertools.chain.from_iterable(self._lists.values()))
        return top_scores(lists, self._size, n, self._allowed)

    def slots(
        self, places: NDArray[np.intp], slots_of: Mapping[int, NDArray[np.int32]]
    ) -> list[int]:
        """Return the slots at places, given the slots of each segment."""
        which = np.searchsorted(self._bases, places, side="right") - 1
        in_segment = places - self._bases[which]
        return [
            int(slots_of[self.segments[one]][place])
            for one, place in zip(which.tolist(), in_segment.tolist(), strict=True)
        ]


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

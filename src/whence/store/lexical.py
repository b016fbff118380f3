"""Ranking chunks by their words in PostgreSQL: hidden postings are left out before anything is added up.

What a word weighs is counted over the chunks that the reader may see: that a hidden chunk has it changes no
score. Only the mean length is the collection's, since the postings hold what was computed with it; it is taken
anew when the true one has moved by 5 %.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from whence.schema.access import Access
from whence.schema.filters import Filters
from whence.schema.search import Candidate
from whence.store.analysis import ANALYZER_VERSION
from whence.store.bm25 import (
    LexicalStatistics,
    coverage_per_share,
    impact,
    share,
    weights,
)
from whence.store.checks import check_limit, lexical_candidate, missing_collection
from whence.store.classes import EPOCH, access_values, allowed_classes
from whence.store.driver import Connection, snapshot
from whence.store.facts import facts_are_kept, matching
from whence.store.guard import OWN_TAGS, TAGS_JOIN, cleared
from whence.store.postings import term_key
from whence.store.scoring import POSTING_BYTES, Run, best_places
from whence.store.search import WANTED, places_of
from whence.store.words import query_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ("lexical_scores", "lexical_statistics", "search_lexical")

_RESOLVE = (
    f"SELECT c.id, l.analyzer, l.languages, l.chunks, l.mean_length, {EPOCH}"  # noqa: S608 - only constants
    " FROM collection c LEFT JOIN lexicon l ON l.collection_id = c.id WHERE c.name = $1"
)
# All counts are of chunks that the reader may see. The runs of a segment hold what is dead as well.
_RUNS = (
    "unnest(p.terms, p.classes, array_prepend(0, p.ends), p.ends) u(term, class_id, start, stop)"
    " WHERE u.term = t.id AND u.class_id = ANY($2::int[])"
)
_DEAD = (
    "CASE WHEN s.dead > 0 THEN (SELECT coalesce(sum(x.chunks), 0) FROM posting_dead x"
    " WHERE x.segment = s.id AND x.term = t.id AND x.class_id = ANY($2::int[])) ELSE 0 END"
)
_ALL = (
    "(SELECT coalesce(sum(l.chunks), 0)::bigint FROM lexicon_class l"
    " WHERE l.collection_id = $1 AND l.class_id = ANY($2::int[]))"
)
_ROW = "FROM posting p WHERE p.segment = s.id AND p.last_term >= t.id ORDER BY p.last_term LIMIT 1"
_COUNTS = (
    f"SELECT t.id, t.term, {_ALL} AS of_chunks, sum((SELECT coalesce(sum(u.stop - u.start), 0)"  # noqa: S608 - only constants
    f" FROM {_RUNS}) - {_DEAD})::int AS df FROM term t JOIN segment s ON s.collection_id = t.collection_id"
    f" JOIN LATERAL (SELECT p.terms, p.classes, p.ends {_ROW}) p ON true"
    " WHERE t.collection_id = $1 AND t.term = ANY($3::text[]) GROUP BY t.id"
)
# The terms of a query, and of each what every segment has of it that the reader may see. Runs of hidden classes
# are cut out here, before anything is added up or leaves the server. A subquery in place of a join, which
# would look the bytes up in a cache of joins first.
_POSTINGS = (
    f"SELECT t.term, s.id AS segment, s.chunks, {_ALL} AS of_chunks, {_DEAD}::int AS dead,"  # noqa: S608 - only constants
    " CASE WHEN p.segment IS NOT NULL THEN"
    " (SELECT string_agg(substr(p.places, 2 * u.start + 1, 2 * (u.stop - u.start)), '')"
    "  || string_agg(substr(p.impacts, 4 * u.start + 1, 4 * (u.stop - u.start)), '')"
    f"  FROM {_RUNS}) END AS visible"
    " FROM term t JOIN segment s ON s.collection_id = t.collection_id"
    " LEFT JOIN LATERAL (SELECT p.segment, p.terms, p.classes, p.ends, {places} AS places, {impacts} AS impacts"
    f"  {_ROW}) p ON true"
    " WHERE t.collection_id = $1 AND t.term = ANY($3::text[])"
)
# The chunk decides last: slots of chunks that are gone or have other tags now lead nowhere.
_CHUNKS = (
    f"SELECT w.n, c.chunk_key, d.document_id, {OWN_TAGS}"  # noqa: S608 - only constants
    " FROM unnest($3::int[], $4::int[]) WITH ORDINALITY w(segment, place, n)"
    " JOIN segment s ON s.id = w.segment JOIN chunk_terms t ON t.collection_id = $1"
    "  AND t.slot = ('x' || encode(substr(s.slots, 4 * w.place + 1, 4), 'hex'))::bit(32)::int"
    " JOIN chunk c ON c.ord = t.ord AND c.class_id = ANY($2::int[])"
    f" JOIN document d ON d.id = c.document{TAGS_JOIN}"
)
_SLOTS = "SELECT id, slots FROM segment WHERE id = ANY($1::int[])"
_OF_FEW_CLASSES = _POSTINGS.format(places="p.places", impacts="p.impacts")
# Each cut out of a value kept out of line fetches its part of it: of many cuts it is cheaper to fetch all once.
_OF_MANY_CLASSES = _POSTINGS.format(places="p.places || ''", impacts="p.impacts || ''")
# Plans for the values at hand cost more to make than to run here: all tables are looked up by key. With many
# classes only such a plan looks them up in a hash.
_ONE_PLAN = "plan_cache_mode = force_generic_plan"
_OWN_PLAN = "SET LOCAL plan_cache_mode = force_custom_plan"
_MANY_CLASSES = 100
_WORDS = (
    f"SELECT c.chunk_key, t.length, t.terms, t.counts, {OWN_TAGS}{WANTED}"
    " JOIN chunk_terms t ON t.ord = c.ord"
)


class _Reader(msgspec.Struct, frozen=True):
    """A collection as one reader sees it, and a query in its terms."""

    collection_id: int
    access: Access
    classes: list[int]
    """Classes of rights that the reader may see."""
    mean: float
    counts: dict[str, int]
    """Terms of the query, as they are stored, and how often each stands in it."""


async def _reader(
    connection: Connection, collection: str, text: str, access: Access
) -> _Reader | None:
    """Resolve rights and words; None when the collection's words are not indexed by this analyzer."""
    row = await connection.fetchrow(_RESOLVE, collection)
    if row is None:
        raise missing_collection(collection)
    if row["analyzer"] != ANALYZER_VERSION:
        return None
    counts = query_counts(text, row["languages"])
    return _Reader(
        collection_id=row["id"],
        access=access,
        classes=await allowed_classes(connection, access, row["epoch"]),
        mean=row["mean_length"],
        counts={term_key(term): n for term, n in counts.items()},
    )


async def search_lexical(
    connection: Connection,
    collection: str,
    query_text: str,
    *,
    limit: int,
    access: Access,
    filters: Filters = (),
) -> list[Candidate] | None:
    """Rank the visible chunks by the words of a query; None when words or facts are not indexed yet.

    Rights, filter, statistics and postings are read from one snapshot of the database. Cost: linear in the
    postings of the query's terms; those of hidden classes are neither sent nor added up.

    Raises:
        NotFound: There is no such collection.
        BadInput: The limit is below 1, or no visible document has a key of the filter.
    """
    check_limit(limit)
    async with snapshot(connection, *(() if filters else (_ONE_PLAN,))):
        reader = await _reader(connection, collection, query_text, access)
        if reader is None:
            return None
        kept = None
        if filters:
            if not await facts_are_kept(connection, reader.collection_id):
                return None
            kept = await matching(
                connection, reader.collection_id, reader.classes, access, filters, "slot"
            )
        rows = await _postings(connection, reader)
        df, chunks = _counted(rows)
        ranking = _Ranking(rows, weights(reader.counts, df, chunks))
        if kept is not None:
            await ranking.keep(connection, kept)
        found = await ranking.walk(connection, reader, limit)
    per_share = coverage_per_share(reader.counts, df, chunks)
    return [
        lexical_candidate(key, document_id, -negative, per_share, rank)
        for rank, (negative, key, document_id) in enumerate(found[:limit], 1)
    ]


async def _postings(connection: Connection, reader: _Reader) -> list[Any]:
    """Give what is visible of the postings of each term in each segment."""
    if not reader.counts:
        return []
    many = len(reader.classes) > _MANY_CLASSES
    if many:
        await connection.execute(_OWN_PLAN)
    return await connection.fetch(
        _OF_MANY_CLASSES if many else _OF_FEW_CLASSES,
        reader.collection_id,
        reader.classes,
        list(reader.counts),
    )


def _counted(rows: Sequence[Any]) -> tuple[dict[str, int], int]:
    """Give how many visible chunks have each term, and how many there are; dead ones do not count."""
    df: dict[str, int] = {}
    for row in rows:
        held = len(row["visible"] or b"") // POSTING_BYTES - row["dead"]
        df[row["term"]] = df.get(row["term"], 0) + held
    return df, rows[0]["of_chunks"] if rows else 0


class _Ranking:
    """The places of all segments by their scores."""

    def __init__(self, rows: Sequence[Any], parts: Mapping[str, float]) -> None:
        found = [row for row in rows if row["visible"] and row["term"] in parts]
        chunks = {row["segment"]: row["chunks"] for row in found}
        self._segments = list(chunks)
        bases = [0, *itertools.accumulate(chunks.values())]
        self._bases = np.array(bases[:-1], dtype=np.intp)
        self._size = bases[-1]
        base_of = dict(zip(self._segments, bases, strict=False))
        self._runs = [
            Run(base_of[row["segment"]], parts[row["term"]], row["visible"]) for row in found
        ]
        self._kept: NDArray[np.bool_] | None = None

    async def keep(self, connection: Connection, slots: Sequence[int]) -> None:
        """Leave out all places but those of some slots. Cost: linear in the chunks of all segments."""
        rows = await connection.fetch(_SLOTS, self._segments)
        slots_of = {row["id"]: np.frombuffer(row["slots"], ">i4") for row in rows}
        every = [slots_of[segment] for segment in self._segments]
        self._kept = np.isin(np.concatenate([np.empty(0, np.int32), *every]), slots)

    async def walk(
        self, connection: Connection, reader: _Reader, limit: int
    ) -> list[tuple[float, str, str]]:
        """Give (minus score, chunk, document) of the best, in order; at least `limit` when there are so many.

        Places are looked at from the best down until there are enough whose chunks are still there.
        """
        found: list[tuple[float, str, str]] = []
        seen, wanted = 0, min(limit + limit // 4 + 8, self._size)
        while seen < self._size:
            places, values = best_places(self._runs, self._size, wanted, self._kept)
            rows = await self._chunks(connection, reader, places[seen:])
            of_new = values[seen:].tolist()
            found += [(-of_new[row["n"] - 1], row["chunk_key"], row["document_id"]) for row in rows]
            if len(found) >= limit or len(places) < wanted:
                break
            seen, wanted = len(places), min(4 * wanted, self._size)
        return sorted(found)

    async def _chunks(
        self, connection: Connection, reader: _Reader, places: NDArray[np.intp]
    ) -> list[Any]:
        if not len(places):
            return []
        which = np.searchsorted(self._bases, places, side="right") - 1
        rows = await connection.fetch(
            _CHUNKS,
            reader.collection_id,
            reader.classes,
            [self._segments[one] for one in which.tolist()],
            (places - self._bases[which]).tolist(),
        )
        return cleared(rows, reader.access, "lexical")


async def lexical_scores(
    connection: Connection,
    collection: str,
    query_text: str,
    chunk_ids: Sequence[str],
    access: Access,
) -> dict[str, float] | None:
    """Give the share of chunks that exist and are visible; None when the words are not indexed yet.

    Computed from the forward index, equal to the last bit to what the postings give. Cost: linear in the words
    of the chunks asked for.

    Raises:
        NotFound: There is no such collection.
    """
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        reader = await _reader(connection, collection, query_text, access)
        if reader is None:
            return None
        found = await connection.fetch(
            _COUNTS, reader.collection_id, reader.classes, list(reader.counts)
        )
        rows = await connection.fetch(
            _WORDS, *access_values(access), collection, *places_of(collection, chunk_ids)
        )
    chunks = found[0]["of_chunks"] if found else 0
    parts = weights(reader.counts, {one["term"]: one["df"] for one in found}, chunks)
    ids = {one["term"]: one["id"] for one in found}
    of_ids = {ids[term]: part for term, part in parts.items()}
    return {
        row["chunk_key"]: _share(row, of_ids, reader.mean)
        for row in cleared(rows, access, "shares")
    }


def _share(row: Any, parts: Mapping[int, float], mean: float) -> float:
    terms = np.frombuffer(row["terms"], dtype="<i4").tolist()
    counts = np.frombuffer(row["counts"], dtype="<i4").tolist()
    return share(
        (parts[term], impact(float(count), float(row["length"]), mean))
        for term, count in zip(terms, counts, strict=True)
        if term in parts
    )


async def lexical_statistics(connection: Connection, collection: str) -> LexicalStatistics | None:
    """Give what a collection counts of its words; None when they are not indexed yet.

    Raises:
        NotFound: There is no such collection.
    """
    row = await connection.fetchrow(_RESOLVE, collection)
    if row is None:
        raise missing_collection(collection)
    if row["analyzer"] != ANALYZER_VERSION:
        return None
    return LexicalStatistics(chunks=row["chunks"], mean_length=row["mean_length"])

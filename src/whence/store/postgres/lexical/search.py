"""Ranking chunks by their words in PostgreSQL: hidden postings are left out before anything is added up.

What a word weighs, and what a chunk's length is compared with, are counted over the chunks that the reader may
see: a hidden chunk changes no score.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from whence.schema.access import Access
from whence.schema.filters import Filters
from whence.schema.search import Candidate, Match
from whence.store.acl_check import OWN_TAGS, TAGS_JOIN, cleared
from whence.store.bm25 import (
    clipped_impact,
    coverage_per_share,
    mean_length,
    share,
    weights,
)
from whence.store.postgres.acl_classes import access_values, allowed_classes
from whence.store.postgres.chunk_reader import WANTED, places_of
from whence.store.postgres.collection_version import (
    Changed,
    Standing,
    StandingMemory,
    recalled,
    stamped,
    standing,
)
from whence.store.postgres.driver import Connection, snapshot
from whence.store.postgres.filter_cache import KeptChunks
from whence.store.postgres.lexical.forward_index import term_key
from whence.store.postgres.lexical.posting_cache import (
    HeldPostings,
    Slots,
    Term,
    languages_of,
    terms_of,
)
from whence.store.postgres.lexical.scoring import Run, top_scores
from whence.store.postgres.metadata_index import facts_are_kept, matching
from whence.store.term_counts import LexicalQuery, parse_lexical_query
from whence.store.validation import check_limit, lexical_candidate
from whence.text.analysis import ANALYZER_VERSION

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = (
    "lexical_scores",
    "recalled_lexical",
    "search_lexical",
)

# All counts are of chunks that the reader may see. The runs of a segment hold what is dead as well.
_ALLOWED = "= ANY($2::int[])"
_RUNS = (
    "unnest(p.terms, p.classes, array_prepend(0, p.ends), p.ends) u(term, class_id, start, stop)"
    " WHERE u.term = t.id AND u.class_id {allowed}"
)
_DEAD = (
    "CASE WHEN s.dead > 0 THEN (SELECT coalesce(sum(x.chunks), 0) FROM posting_dead x"
    " WHERE x.segment = s.id AND x.term = t.id AND x.class_id = ANY($2::int[])) ELSE 0 END"
)
_ALL = (
    "(SELECT coalesce(sum(l.chunks), 0)::bigint FROM lexicon_class l"
    " WHERE l.collection_id = $1 AND l.class_id = ANY($2::int[]))"
)
_LENGTH = (
    "(SELECT coalesce(sum(l.total_length), 0)::bigint FROM lexicon_class l"
    " WHERE l.collection_id = $1 AND l.class_id = ANY($2::int[]))"
)
# The languages of visible chunks, and how many there are in each.
_LANGUAGES = (
    "(SELECT array_agg(g.language || ' ' || g.n) FROM (SELECT l.language, sum(l.chunks) AS n FROM lexicon_class l"
    " WHERE l.collection_id = $1 AND l.class_id = ANY($2::int[]) GROUP BY 1) g)"
)
_ROW = "FROM posting p WHERE p.segment = s.id AND p.last_term >= t.id ORDER BY p.last_term LIMIT 1"
_COUNTS = (
    f"SELECT t.id, t.term, {_ALL} AS of_chunks, {_LENGTH} AS of_length, {_LANGUAGES} AS languages, sum((SELECT coalesce(sum(u.stop - u.start), 0)"  # noqa: S608 - only constants
    f" FROM {_RUNS.format(allowed=_ALLOWED)}) - {_DEAD})::int AS df"
    " FROM term t JOIN segment s ON s.collection_id = t.collection_id"
    f" JOIN LATERAL (SELECT p.terms, p.classes, p.ends {_ROW}) p ON true"
    " WHERE t.collection_id = $1 AND t.term = ANY($3::text[]) GROUP BY t.id"
)
# The terms of a query, and of each what every segment has of it that the reader may see. Runs of hidden classes
# are cut out here, before anything is added up or leaves the server. A subquery in place of a join, which
# would look the bytes up in a cache of joins first.
_POSTINGS = (
    f"SELECT t.term, s.id AS segment, s.chunks, {_ALL} AS of_chunks, {_LENGTH} AS of_length, {_LANGUAGES} AS languages, {_DEAD}::int AS dead,"  # noqa: S608 - only constants
    " CASE WHEN p.segment IS NOT NULL THEN"
    " (SELECT string_agg(substr(p.places, 2 * u.start + 1, 2 * (u.stop - u.start)), '')"
    "  || string_agg(substr(p.counts, 4 * u.start + 1, 4 * (u.stop - u.start)), '')"
    f"  FROM {_RUNS}) END AS visible"
    " FROM term t JOIN segment s ON s.collection_id = t.collection_id"
    " LEFT JOIN LATERAL (SELECT p.segment, p.terms, p.classes, p.ends, {places} AS places, {counts} AS counts"
    f"  {_ROW}) p ON true"
    " WHERE t.collection_id = $1 AND t.term = ANY($3::text[])"
)
# The chunk decides last: slots of chunks that are gone or have other tags now lead nowhere.
_CHUNKS = (
    f"SELECT w.n, c.chunk_key, d.document_id, {OWN_TAGS}"  # noqa: S608 - only constants
    " FROM {places} JOIN chunk c ON c.ord = t.ord AND c.class_id = ANY($2::int[])"
    f" JOIN document d ON d.id = c.document{TAGS_JOIN}"
)
_CHUNKS_AT_PLACES = _CHUNKS.format(
    places="unnest($3::int[], $4::int[]) WITH ORDINALITY w(segment, place, n)"
    " JOIN segment s ON s.id = w.segment JOIN chunk_terms t ON t.collection_id = $1"
    "  AND t.slot = ('x' || encode(substr(s.slots, 4 * w.place + 1, 4), 'hex'))::bit(32)::int"
)
_CHUNKS_OF_SLOTS = _CHUNKS.format(
    places="unnest($3::int[]) WITH ORDINALITY w(slot, n)"
    " JOIN chunk_terms t ON t.collection_id = $1 AND t.slot = w.slot"
)
_STAMPED_CHUNKS = stamped(_CHUNKS_OF_SLOTS, 4)
_SLOTS = "SELECT id, slots FROM segment WHERE id = ANY($1::int[])"
_OF_FEW_CLASSES = _POSTINGS.format(places="p.places", counts="p.counts", allowed=_ALLOWED)
# Each cut out of a value kept out of line fetches its part of it: of many cuts it is cheaper to fetch all once.
_WHOLE = {"places": "p.places || ''", "counts": "p.counts || ''"}
_OF_MANY_CLASSES = _POSTINGS.format(**_WHOLE, allowed=_ALLOWED)
_RECALLED_OF_FEW = stamped(_OF_FEW_CLASSES, 4)
# A plan that knows no values looks up in a hash what comes out of a subquery only.
_RECALLED_OF_MANY = stamped(_POSTINGS.format(**_WHOLE, allowed="IN (SELECT unnest($2::int[]))"), 4)
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

    known: Standing
    access: Access
    classes: list[int]
    """Classes of rights that the reader may see."""
    words: LexicalQuery
    """Of the query, with terms as they are stored."""


async def _reader(
    connection: Connection, collection: str, text: str, access: Access
) -> _Reader | None:
    """Resolve rights and words; None when the collection's words are not indexed by this analyzer."""
    known = await standing(connection, collection)
    if known.analyzer != ANALYZER_VERSION:
        return None
    return _Reader(
        known=known,
        access=access,
        classes=await allowed_classes(connection, access, known.epoch),
        words=parse_lexical_query(text, known.languages, term_key),
    )


async def search_lexical(
    connection: Connection,
    collection: str,
    query_text: str,
    *,
    limit: int,
    access: Access,
    filters: Filters = (),
    match: Match = "any",
    standings: StandingMemory | None = None,
) -> list[Candidate] | None:
    """Rank the visible chunks by the words of a query; None when words or facts are not indexed yet.

    Rights, filter, statistics and postings are read from one snapshot of the database. Cost: linear in the
    postings of the query's terms; those of hidden classes are neither sent nor added up. Where the collection
    stands is noted in `standings`.

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
            if not await facts_are_kept(connection, reader.known.id):
                return None
            kept = await matching(
                connection, reader.known.id, reader.classes, access, filters, "slot"
            )
        terms = terms_of(await _postings(connection, reader), reader.words.terms)

        async def chunks(segments: list[int], places: list[int]) -> list[Any]:
            rows = await connection.fetch(
                _CHUNKS_AT_PLACES, reader.known.id, reader.classes, segments, places
            )
            return cleared(rows, access, "lexical")

        query = _Query(reader.words, terms)
        ranking = _Ranking(terms, query.parts, chunks)
        if match == "all":
            ranking.keep_all_of(reader.words.required(query.spoken))
        if kept is not None:
            await ranking.keep(connection, kept)
        found = await ranking.walk(limit)
    if standings is not None:
        standings.put(reader.known)
    return query.candidates(found, limit)


async def recalled_lexical(
    connection: Connection,
    known: Standing,
    held: HeldPostings,
    query_text: str,
    *,
    limit: int,
    access: Access,
    classes: list[int],
    match: Match = "any",
    kept: KeptChunks | None = None,
) -> list[Candidate]:
    """Rank as `search_lexical` does, by what is remembered of the collection.

    The database gives the chunks of the ranking, and the postings that are not held. Cost: one message, two
    when postings are missing.

    Args:
        connection: With plans for any values.
        known: Where the collection stood.
        held: Postings in memory.
        query_text: The query.
        limit: Places of the ranking, 1 or more.
        access: Rights of the reader.
        classes: What they were resolved to.
        match: As for a search.
        kept: Chunks that a filter keeps, as the collection stood.

    Raises:
        Changed: The collection or the classes have changed since.
    """
    words = parse_lexical_query(query_text, known.languages, term_key)
    terms = held.get(known, classes, words.terms)
    missing = [term for term in words.terms if term not in terms]
    if missing:
        many = len(classes) > _MANY_CLASSES
        statement = _RECALLED_OF_MANY if many else _RECALLED_OF_FEW
        rows = await recalled(connection, statement, known, known.id, classes, missing)
        new = terms_of(rows, missing)
        held.put(known, classes, new)
        terms |= new

    async def chunks(segments: list[int], places: list[int]) -> list[Any]:
        slots = await _slots(connection, known, held, segments, places)
        rows = await recalled(connection, _STAMPED_CHUNKS, known, known.id, classes, slots)
        return cleared((row for row in rows if row["n"] is not None), access, "lexical")

    query = _Query(words, terms)
    ranking = _Ranking(terms, query.parts, chunks)
    if match == "all":
        ranking.keep_all_of(words.required(query.spoken))
    if kept is not None:
        slots_of = await _slots_of(connection, known, held, ranking.segments)
        ranking.keep_places([kept.places(one, slots_of[one]) for one in ranking.segments])
    found = await ranking.walk(limit)
    if not found:
        # Nothing, too, is an answer of this state only.
        await chunks([], [])
    return query.candidates(found, limit)


async def _slots(
    connection: Connection,
    known: Standing,
    held: HeldPostings,
    segments: list[int],
    places: list[int],
) -> list[int]:
    """Return the slots at places; those of a segment are read once, whole.

    Raises:
        Changed: A segment is gone.
    """
    slots = await _slots_of(connection, known, held, segments)
    return [int(slots[one][place]) for one, place in zip(segments, places, strict=True)]


async def _slots_of(
    connection: Connection, known: Standing, held: HeldPostings, segments: Iterable[int]
) -> Slots:
    """Return the slots of segments, read once.

    Raises:
        Changed: A segment is gone.
    """
    slots = held.slots(known)
    if missing := sorted(set(segments) - slots.keys()):
        rows = await connection.fetch(_SLOTS, missing)
        if len(rows) < len(missing):
            raise Changed
        # A segment is never written again, so it does not matter in which state they are read.
        slots |= {row["id"]: np.frombuffer(row["slots"], ">i4") for row in rows}
    return slots


class _Query:
    """A query in the terms of a collection."""

    def __init__(self, words: LexicalQuery, terms: Mapping[str, Term]) -> None:
        df = {term: one.df for term, one in terms.items()}
        self.spoken = next((one.languages for one in terms.values() if one.of_chunks), ())
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


async def _postings(connection: Connection, reader: _Reader) -> list[Any]:
    """Return what is visible of the postings of each term in each segment."""
    if not reader.words.times:
        return []
    many = len(reader.classes) > _MANY_CLASSES
    if many:
        await connection.execute(_OWN_PLAN)
    return await connection.fetch(
        _OF_MANY_CLASSES if many else _OF_FEW_CLASSES,
        reader.known.id,
        reader.classes,
        reader.words.terms,
    )


Read = Callable[[list[int], list[int]], Awaitable[list[Any]]]


class _Ranking:
    """The places of all segments by their scores.

    Args:
        terms: What is visible of the query's terms.
        parts: Part of the query's bound of each that the collection has.
        read: Gives the chunks of places, named by segments and places in them: number, key and document.
    """

    def __init__(self, terms: Mapping[str, Term], parts: Mapping[str, float], read: Read) -> None:
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

    async def keep(self, connection: Connection, slots: Sequence[int]) -> None:
        """Leave out all places but those of some slots. Cost: linear in the chunks of all segments."""
        rows = await connection.fetch(_SLOTS, self._segments)
        slots_of = {row["id"]: np.frombuffer(row["slots"], ">i4") for row in rows}
        every = [slots_of[segment] for segment in self._segments]
        self._keep(np.isin(np.concatenate([np.empty(0, np.int32), *every]), slots))

    @property
    def segments(self) -> list[int]:
        """Segments with a word of the query, in the order of their places."""
        return self._segments

    def keep_places(self, kept: Sequence[NDArray[np.bool_]]) -> None:
        """Leave out all places but some of each of the `segments`."""
        self._keep(np.concatenate([np.empty(0, np.bool_), *kept]))

    def keep_all_of(self, words: Sequence[Sequence[str]]) -> None:
        """Leave out all places but those with a term of each word.

        Cost: linear in the postings of the words and, for each of them, in the places.
        """
        for terms in words:
            there = np.zeros(self._size, dtype=np.bool_)
            for run in itertools.chain.from_iterable(self._runs_of.get(one, ()) for one in terms):
                there[run.places() + run.base] = True
            self._keep(there)

    def _keep(self, places: NDArray[np.bool_]) -> None:
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
    collection: str,
    query_text: str,
    chunk_ids: Sequence[str],
    access: Access,
    match: Match = "any",
) -> dict[str, float] | None:
    """Return the share of chunks that exist and are visible; None when the words are not indexed yet.

    It is 0 of a chunk without a word that is asked for, with `all` of one that lacks any.

    Computed from the forward index, equal to the last bit to what the postings give. Cost: linear in the words
    of the chunks asked for.

    Raises:
        NotFound: There is no such collection.
    """
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        reader = await _reader(connection, collection, query_text, access)
        if reader is None:
            return None
        found = await connection.fetch(_COUNTS, reader.known.id, reader.classes, reader.words.terms)
        rows = await connection.fetch(
            _WORDS, *access_values(access), collection, *places_of(collection, chunk_ids)
        )
    chunks = found[0]["of_chunks"] if found else 0
    df = {one["term"]: one["df"] for one in found}
    mean = mean_length(found[0]["of_length"], chunks) if found else 1.0
    spoken = languages_of(found[0]["languages"]) if found else ()
    words = reader.words
    parts = weights(words.counts(df, spoken), df, chunks, one_word=words.one_word)
    ids = {one["term"]: one["id"] for one in found}
    of_ids = {ids[term]: part for term, part in parts.items()}
    required = [
        {ids[term] for term in word if term in ids}
        for word in (reader.words.required(spoken) if match == "all" else ())
    ]
    return {
        row["chunk_key"]: _share(row, of_ids, required, mean)
        for row in cleared(rows, access, "shares")
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

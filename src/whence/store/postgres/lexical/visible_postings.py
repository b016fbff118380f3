"""Postings of a query's terms as one reader sees them: hidden ones are cut out before they leave the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from whence.store.bm25 import impacts, mean_length
from whence.store.postgres.collection_version import (
    ReaderView,
    StaleVersion,
    fetch_versioned,
    versioned,
)
from whence.store.postgres.driver import Connection
from whence.store.postgres.lexical.forward_index import term_key
from whence.store.term_counts import languages_of

T = TypeVar("T")

#: Bytes of a posting: a place in two bytes, then two more for each of two counts, or an impact in four.
_POSTING_BYTES = 6
#: Bytes that a term takes beside its postings, about.
_TERM_BYTES = 500
#: Classes from which on they are looked up in a hash, and postings are fetched whole.
_MANY_CLASSES = 100

_VISIBLE_TEXTS = versioned(
    "SELECT l.language, sum(l.chunks)::bigint AS chunks, sum(l.total_length)::bigint AS length"
    " FROM lexicon_class l WHERE l.collection_id = $1 AND l.class_id = ANY($2::int[]) GROUP BY 1",
    3,
)
# A row for each term and segment. All counts are of visible chunks; `dead` are postings of deleted chunks,
# which the posting lists still contain. A subquery in place of a join, which would look the bytes up in a cache
# of joins first.
_POSTINGS = """
SELECT t.id, t.term, s.id AS segment, s.chunks,
    CASE WHEN s.dead > 0 THEN (
        SELECT coalesce(sum(x.chunks), 0) FROM posting_dead x
        WHERE x.segment = s.id AND x.term = t.id AND x.class_id = ANY($2::int[])) ELSE 0 END::int AS dead,
    CASE WHEN p.segment IS NOT NULL THEN (
        SELECT string_agg(substr(p.places, 2 * u.start + 1, 2 * (u.stop - u.start)), '')
            || string_agg(substr(p.counts, 4 * u.start + 1, 4 * (u.stop - u.start)), '')
        FROM unnest(p.terms, p.classes, array_prepend(0, p.ends), p.ends) u(term, class_id, start, stop)
        WHERE u.term = t.id AND u.class_id {allowed}) END AS visible
FROM term t JOIN segment s ON s.collection_id = t.collection_id
LEFT JOIN LATERAL (
    SELECT p.segment, p.terms, p.classes, p.ends, {places} AS places, {counts} AS counts
    FROM posting p WHERE p.segment = s.id AND p.last_term >= t.id ORDER BY p.last_term LIMIT 1) p ON true
WHERE t.collection_id = $1 AND t.term = ANY($3::text[])
"""
_OF_FEW_CLASSES = versioned(
    _POSTINGS.format(
        places="p.places",
        counts="p.counts",
        allowed="= ANY($2::int[])",
    ),
    4,
)
# Each cut out of a value kept out of line fetches its part of it: for many cuts, fetching all once is
# cheaper. A generic plan looks up in a hash only what comes out of a subquery.
_OF_MANY_CLASSES = versioned(
    _POSTINGS.format(
        places="p.places || ''",
        counts="p.counts || ''",
        allowed="IN (SELECT unnest($2::int[]))",
    ),
    4,
)
_SLOTS = "SELECT id, slots FROM segment WHERE id = ANY($1::int[])"


class Postings(msgspec.Struct, frozen=True):
    """The visible postings of a term in one segment."""

    segment: int
    chunks: int
    """Chunks that the segment was made of."""
    visible: bytes
    """All places, uint16; then the impact of each, float32, a multiple of 2**-24; little endian."""

    def places(self) -> NDArray[np.intp]:
        """Return the places in the segment, each once, shape (n,)."""
        n = len(self.visible) // _POSTING_BYTES
        return np.frombuffer(self.visible, "<u2", n).astype(np.intp)

    def impacts(self) -> NDArray[np.float64]:
        """Return the impact of each posting, shape (n,)."""
        n = len(self.visible) // _POSTING_BYTES
        return np.frombuffer(self.visible, "<f4", n, 2 * n).astype(np.float64)


class VisibleTexts(msgspec.Struct, frozen=True):
    """What one reader sees of a collection, all chunks together."""

    chunks: int
    """Visible chunks."""
    mean: float
    """Mean length of them."""
    languages: dict[str, int]
    """Number of them in each language."""


class VisibleTerm(msgspec.Struct, frozen=True):
    """A term of a collection as one reader sees it."""

    id: int = 0
    """0 when the collection does not have the term, and so on below."""
    df: int = 0
    """Visible chunks with it."""
    postings: tuple[Postings, ...] = ()


async def read_texts(connection: Connection, view: ReaderView) -> VisibleTexts:
    """Return what all visible chunks together tell. Cost: one statement for each version and set of rights."""
    key = view.key("texts")
    found: VisibleTexts | None = view.cache.get(key)
    if found is None:
        rows = await fetch_versioned(
            connection, _VISIBLE_TEXTS, view.version, view.version.id, view.classes
        )
        seen = [row for row in rows if row["chunks"]]
        chunks = sum(row["chunks"] for row in seen)
        found = VisibleTexts(
            chunks,
            mean_length(sum(row["length"] for row in seen), chunks),
            {row["language"]: row["chunks"] for row in seen},
        )
        view.cache.put(key, found)
    return found


async def read_terms(
    connection: Connection, view: ReaderView, mean: float, terms: Iterable[str]
) -> dict[str, VisibleTerm]:
    """Return each term with its visible postings. Cost: linear in those that are not cached."""
    keys = {term: view.key("term", term) for term in terms}
    cached = {term: view.cache.get(key) for term, key in keys.items()}
    missing = [term for term, found in cached.items() if found is None]
    if missing:
        statement = _OF_MANY_CLASSES if len(view.classes) > _MANY_CLASSES else _OF_FEW_CLASSES
        stored = {term: term_key(term) for term in missing}
        rows = await fetch_versioned(
            connection,
            statement,
            view.version,
            view.version.id,
            view.classes,
            list(stored.values()),
        )
        for term in missing:
            found = _visible_term([row for row in rows if row["term"] == stored[term]], mean)
            size = _TERM_BYTES + sum(len(one.visible) for one in found.postings)
            view.cache.put(keys[term], found, size)
            cached[term] = found
    return cached


async def read_words(
    connection: Connection,
    view: ReaderView,
    parse: Callable[[tuple[str, ...]], T],
    terms_of: Callable[[T], Iterable[str]],
) -> tuple[T, dict[str, VisibleTerm], VisibleTexts]:
    """Parse words in the languages of the reader, see `languages_of`; return them with their terms.

    Args:
        connection: To the database.
        view: The collection as the reader sees it.
        parse: Parses the words in some languages.
        terms_of: Returns the terms of parsed words.
    """
    texts = await read_texts(connection, view)
    words = parse(languages_of(texts.languages))
    return words, await read_terms(connection, view, texts.mean, terms_of(words)), texts


def _visible_term(rows: Sequence[Any], mean: float) -> VisibleTerm:
    """Join the rows of a term, one for each segment."""
    if not rows:
        return VisibleTerm()
    return VisibleTerm(
        id=rows[0]["id"],
        df=sum(len(row["visible"] or b"") // _POSTING_BYTES - row["dead"] for row in rows),
        postings=tuple(
            Postings(row["segment"], row["chunks"], _with_impacts(row["visible"], mean))
            for row in rows
            if row["visible"]
        ),
    )


def _with_impacts(visible: bytes, mean: float) -> bytes:
    """Return places and impacts, as in `Postings.visible`, of places and counts. Cost: linear."""
    n = len(visible) // _POSTING_BYTES
    counts = np.frombuffer(visible, "<u2", 2 * n, 2 * n)
    # A multiple of 2**-24 below 1 fits the 24 bits of a float32.
    found = impacts(counts[::2], counts[1::2], mean).astype("<f4")
    return visible[: 2 * n] + found.tobytes()


async def read_slots(
    connection: Connection, view: ReaderView, segments: Sequence[int]
) -> NDArray[np.int32]:
    """Return the slots of all places of segments, which are never written again; one after the other."""
    found = {one: view.cache.get(("slots", one)) for one in segments}
    missing = [one for one, slots in found.items() if slots is None]
    if missing:
        rows = await connection.fetch(_SLOTS, missing)
        if len(rows) < len(missing):
            raise StaleVersion
        for row in rows:
            slots = np.frombuffer(row["slots"], ">i4").astype(np.int32)
            view.cache.put(("slots", row["id"]), slots, slots.nbytes)
            found[row["id"]] = slots
    return np.concatenate([np.empty(0, np.int32), *found.values()])

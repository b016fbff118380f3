"""Postings of the terms that are asked for again and again, held in this process.

They are held as a reader got them: for one set of visible classes, in one state of the collection. Readers who
see other classes share nothing, and after any change of the collection all is read anew.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from whence.store.bm25 import impacts, mean_length
from whence.store.postgres.collection_version import Standing
from whence.store.postgres.lexical.scoring import POSTING_BYTES
from whence.store.term_counts import reader_languages

__all__ = ("HeldPostings", "Postings", "Slots", "Term", "languages_of", "terms_of")

#: Bytes of postings held.
_MOST_BYTES = 64 * 1024 * 1024
#: Collections whose slots are held, four bytes a chunk.
_MOST_COLLECTIONS = 50
#: Bytes that a term takes beside its postings, about.
_TERM_BYTES = 500


class Postings(msgspec.Struct, frozen=True):
    """What a reader sees of a term in one segment."""

    segment: int
    chunks: int
    """Chunks that the segment was made of."""
    visible: bytes
    """As in `scoring.Run`."""


class Term(msgspec.Struct, frozen=True):
    """A term of a collection, as one reader sees it."""

    df: int
    """Visible chunks with it."""
    of_chunks: int
    """Visible chunks; 0 when the collection does not have the term."""
    postings: tuple[Postings, ...] = ()
    languages: tuple[str, ...] = ()
    """Of the visible chunks; none when the collection does not have the term."""


def terms_of(rows: Iterable[Any], asked: Iterable[str]) -> dict[str, Term]:
    """Sort the rows of a statement, one for each term and segment, by term.

    Args:
        rows: With `term`, `of_chunks`, `of_length`, `languages`, `segment`, `chunks`, `dead` and `visible`:
            places as in `scoring.Run` and then, of each, how often its chunk has the term and how long it is.
            Nothing is taken of a term that is None.
        asked: The terms that were asked for; those without a row are in no chunk.
    """
    df: dict[str, int] = {}
    of_chunks: dict[str, int] = {}
    languages: tuple[str, ...] = ()
    found: dict[str, list[Postings]] = {term: [] for term in asked}
    for row in rows:
        term, visible = row["term"], row["visible"] or b""
        if term is None:
            continue
        df[term] = df.get(term, 0) + len(visible) // POSTING_BYTES - row["dead"]
        of_chunks[term] = row["of_chunks"]
        # They are the same in all rows.
        languages = languages or languages_of(row["languages"])
        if visible:
            mean = mean_length(row["of_length"], row["of_chunks"])
            found[term].append(Postings(row["segment"], row["chunks"], _weighed(visible, mean)))
    return {
        term: Term(
            df.get(term, 0),
            of_chunks.get(term, 0),
            tuple(postings),
            languages if term in df else (),
        )
        for term, postings in found.items()
    }


def _weighed(visible: bytes, mean: float) -> bytes:
    """Return postings as `scoring.Run` takes them, of places and counts. Cost: linear in the postings."""
    n = len(visible) // POSTING_BYTES
    counts = np.frombuffer(visible, "<u2", 2 * n, 2 * n)
    # A multiple of 2**-24 below 1 fits the 24 bits of a float32.
    found = impacts(counts[::2], counts[1::2], mean).astype("<f4")
    return visible[: 2 * n] + found.tobytes()


def languages_of(counted: Sequence[str] | None) -> tuple[str, ...]:
    """Return the languages that queries are asked in, of a column with each and its chunks, a blank between."""
    pairs = (one.split(" ") for one in counted or ())
    return reader_languages({language: int(chunks) for language, chunks in pairs})


Key = tuple[int, int, tuple[int, ...]]
#: By segment, the slot of each place: int32, big endian.
Slots = dict[int, NDArray[np.int32]]


class HeldPostings:
    """What this process holds of all collections, by reader; whose were not asked for longest go first."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most = most_bytes
        self._held: OrderedDict[Key, dict[str, Term]] = OrderedDict()
        self._sizes: dict[Key, int] = {}
        self._size = 0
        self._slots: OrderedDict[tuple[int, int], Slots] = OrderedDict()

    def slots(self, known: Standing) -> Slots:
        """Return the slots of segments of a collection, to be added to; those of former states are gone."""
        key = (known.id, known.version)
        if key not in self._slots:
            for stale in [one for one in self._slots if one[0] == known.id]:
                del self._slots[stale]
            if len(self._slots) >= _MOST_COLLECTIONS:
                self._slots.popitem(last=False)
            self._slots[key] = {}
        return self._slots[key]

    def get(self, known: Standing, classes: Sequence[int], terms: Iterable[str]) -> dict[str, Term]:
        """Return those of some terms that are held for a reader as the collection stands."""
        key = (known.id, known.version, tuple(classes))
        held = self._held.get(key)
        if held is None:
            return {}
        self._held.move_to_end(key)
        return {term: held[term] for term in terms if term in held}

    def put(self, known: Standing, classes: Sequence[int], terms: dict[str, Term]) -> None:
        """Hold terms, in the place of what was held of other states of the collection."""
        key = (known.id, known.version, tuple(classes))
        if key not in self._held:
            for stale in [one for one in self._held if one[0] == key[0] and one[1] != key[1]]:
                self._drop(stale)
            self._held[key], self._sizes[key] = {}, 0
        held = self._held[key]
        new = {term: one for term, one in terms.items() if term not in held}
        held |= new
        size = sum(map(_size, new.values()))
        self._sizes[key] += size
        self._size += size
        while self._size > self._most:
            self._drop(next(iter(self._held)))

    def _drop(self, key: Key) -> None:
        del self._held[key]
        self._size -= self._sizes.pop(key)


def _size(term: Term) -> int:
    return _TERM_BYTES + sum(len(one.visible) for one in term.postings)

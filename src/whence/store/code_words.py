"""The words of a snapshot on its way in, counted in memory and written a batch at a time.

Nobody else writes the collection of an import, so its terms are not looked up: they are numbered as they come,
and go to the database together, each once with its final count. A bundle with more terms than may be kept
writes some before all are known; from then on new ones are looked up.
"""

from __future__ import annotations

import asyncio
import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from whence.store.analysis import ascii_runs, document_terms, is_weak, new_run_terms
from whence.store.copying import copy_columns
from whence.store.driver import Connection
from whence.store.merging import LARGEST_SEGMENT
from whence.store.numbers import reserve
from whence.store.postings import ChunkWords, term_key, write_segment

__all__ = ("Counted", "SnapshotWords")

#: Terms, and runs that were taken apart, kept in memory; some 250 bytes each.
_MOST_KEPT = 200_000
#: Longer runs are data, and do not come again.
_LONGEST_RUN = 100
_LOW_HALF = 0xFFFFFFFF
#: Stands between texts: a run that no text holds, and its number, which is no run's.
_BREAK_RUN = "\0"
_BETWEEN = f" {_BREAK_RUN} "
_BREAK = -1
#: Postings of a segment: some 32 MB while it is made.
_MOST_POSTINGS = 1 << 21
#: How many chunks there are of each class of rights, and how long they are: what a reader's scores go by.
_COUNT_CLASSES = (
    "INSERT INTO lexicon_class (collection_id, class_id, chunks, total_length)"
    " SELECT $1, * FROM unnest($2::int[], $3::bigint[], $4::bigint[])"
)


class Counted(msgspec.Struct, frozen=True):
    """The words of some texts, with an entry for each text and each of its terms, in this order."""

    rows: NDArray[np.int64]
    """Of each entry: which text."""
    places: NDArray[np.int64]
    """Of each entry: which term of the vocabulary."""
    counts: NDArray[np.int64]
    """Of each entry: how often the text has the term."""
    lengths: NDArray[np.int64]
    """Of each text: occurrences of strong terms."""


class _Vocabulary:
    """Terms by the order in which they came."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._place_of = _Made(self._next_place)
        #: Number of each run that was taken apart: code says the same again and again.
        self._runs = _Made(self._next_run, _LONGEST_RUN)
        #: Of each run by its number: where its terms end in the next.
        self._ends = array("i", [0])
        #: Places of the terms of all runs, one after the other.
        self._places = array("i")
        self.terms: list[str] = []
        #: Of each term: 1 when it is strong.
        self.strong = bytearray()
        #: Of each term: texts that have it.
        self.df: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        #: Of each term: its number in the database, as far as texts that have it were written.
        self.numbers: list[int] = []
        #: Places of terms that were in the database before.
        self.known: list[int] = []

    def entries(self, texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Give of every occurrence of a term which text it is in, and the place of the term."""
        runs = self._runs
        flat: list[int] = []
        # One number between texts; a text that is not ASCII is one run.
        for is_ascii, some in groupby(texts, str.isascii):
            if is_ascii:
                flat += map(runs.__getitem__, ascii_runs(_BETWEEN.join(some)))
            else:
                for text in some:
                    flat += (self._add_run(document_terms(text, self._language)), _BREAK)
                del flat[-1]
            flat.append(_BREAK)
        return self._occurrences(np.array(flat, dtype=np.int64))

    def _occurrences(self, flat: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        breaks = flat == _BREAK
        kept = ~breaks
        owners, numbers = np.cumsum(breaks)[kept], flat[kept]
        # As they are in memory: to copy them for each batch would cost their square.
        ends = np.frombuffer(self._ends, dtype=np.int32)
        starts = ends[numbers].astype(np.int64)
        widths = ends[numbers + 1] - starts
        shifts = starts - (np.cumsum(widths) - widths)
        at = np.repeat(shifts, widths) + np.arange(int(widths.sum()), dtype=np.int64)
        places = np.frombuffer(self._places, dtype=np.int32) if len(at) else at
        return np.repeat(owners, widths), places[at].astype(np.int64)

    def _next_run(self, run: str) -> int:
        return _BREAK if run == _BREAK_RUN else self._add_run(new_run_terms(run, self._language))

    def _add_run(self, terms: Iterable[str]) -> int:
        self._places.extend(map(self._place_of.__getitem__, terms))
        self._ends.append(len(self._places))
        return len(self._ends) - 2

    @property
    def size(self) -> int:
        """How many terms, or runs, are kept, whichever is more."""
        return max(len(self.terms), len(self._ends) - 1)

    def _next_place(self, term: str) -> int:
        self.terms.append(term)
        return len(self.terms) - 1

    def count(self, places: NDArray[np.int64]) -> None:
        """Add texts to the counts of terms, one for each place."""
        found = np.bincount(places, minlength=len(self.terms))
        found[: len(self.df)] += self.df
        self.df = found
        self.strong += bytes([not is_weak(term) for term in self.terms[len(self.strong) :]])


class _Made(dict[str, int]):
    """Numbers of texts; one that was not asked for yet is made then.

    Args:
        make: Makes it.
        longest: What is made of a longer text is not kept.
    """

    def __init__(self, make: Callable[[str], int], longest: int = sys.maxsize) -> None:
        super().__init__()
        self._make = make
        self._longest = longest

    def __missing__(self, text: str) -> int:
        made = self._make(text)
        if len(text) <= self._longest:
            self[text] = made
        return made


class SnapshotWords:
    """Counts the words of texts and writes them, into a lexicon that is open and empty.

    `count` is for one caller at a time, and runs in a thread while words that were counted before are written.
    `spill` and `finish` want all of them to be written.

    Args:
        connection: To the database.
        collection_id: Which nobody else writes.
        language: What the texts are stemmed in.
        most_kept: How many terms, and runs, are kept in memory.
    """

    def __init__(
        self,
        connection: Connection,
        collection_id: int,
        language: str,
        most_kept: int = _MOST_KEPT,
    ) -> None:
        self._connection = connection
        self._collection_id = collection_id
        self._language = language
        self._most_kept = most_kept
        self._vocabulary = _Vocabulary(language)
        self._has_spilt = False
        self._slots = 0
        #: Words whose postings are not written yet, and how many those are.
        self._unposted: list[ChunkWords] = []
        self._postings = 0
        #: Of each class of rights: chunks, and how long they are together.
        self._classes: dict[int, tuple[int, int]] = {}

    def count(self, texts: Sequence[str]) -> Counted:
        """Count the words of texts without NUL. Cost: linear in their length, n log n in all their words."""
        vocabulary = self._vocabulary
        owners, places = vocabulary.entries(texts)
        entries, counts = np.unique(owners << 32 | places, return_counts=True)
        rows, places = entries >> 32, entries & _LOW_HALF
        vocabulary.count(places)
        strong = np.frombuffer(bytes(vocabulary.strong), dtype=np.uint8)
        lengths = np.bincount(rows, weights=counts * strong[places], minlength=len(texts))
        return Counted(rows, places, counts, lengths.astype(np.int64))

    async def write(self, ords: Sequence[int], classes: Sequence[int], counted: Counted) -> None:
        """Write the words of chunks, inside a transaction, in the order in which they were counted."""
        await self._number_terms()
        slots = np.arange(self._slots, self._slots + len(ords), dtype=np.int32)
        words = await asyncio.to_thread(self._words, slots, classes, counted)
        ends = (4 * np.cumsum(words.widths)).tolist()
        terms, counts = words.terms.tobytes(), words.counts.tobytes()
        spans = [slice(at, to) for at, to in pairwise([0, *ends])]
        await copy_columns(
            self._connection,
            "chunk_terms",
            {
                "collection_id": self._collection_id,
                "slot": slots,
                "ord": ords,
                "length": words.lengths,
            },
            {"terms": [terms[one] for one in spans], "counts": [counts[one] for one in spans]},
        )
        self._slots += len(ords)
        self._unposted.append(words)
        self._postings += len(words.terms)
        chunks = sum(len(one.slots) for one in self._unposted)
        if self._postings >= _MOST_POSTINGS or chunks + len(ords) > LARGEST_SEGMENT:
            await self._write_postings()

    async def _write_postings(self) -> None:
        if not self._unposted:
            return
        words, self._unposted, self._postings = self._unposted, [], 0
        joined = await asyncio.to_thread(ChunkWords.joined, words)
        del words[:]
        for number in np.unique(joined.classes).tolist():
            there = joined.classes == number
            chunks, length = self._classes.get(number, (0, 0))
            self._classes[number] = (
                chunks + int(np.count_nonzero(there)),
                length + int(joined.lengths[there].sum(dtype=np.int64)),
            )
        await write_segment(self._connection, self._collection_id, joined)

    async def _number_terms(self) -> None:
        """Give every new term a number; after a spill it may have one."""
        vocabulary = self._vocabulary
        first = len(vocabulary.numbers)
        new = vocabulary.terms[first:]
        known = await self._look_up(new) if self._has_spilt else {}
        fresh = iter(await reserve(self._connection, "term", "id", len(new) - len(known)))
        for place, term in enumerate(new, first):
            number = known.get(term)
            if number is not None:
                vocabulary.known.append(place)
            vocabulary.numbers.append(next(fresh) if number is None else number)

    async def _look_up(self, terms: Sequence[str]) -> dict[str, int]:
        keys = {term_key(term): term for term in terms}
        rows = await self._connection.fetch(
            "SELECT term, id FROM term WHERE collection_id = $1 AND term = ANY($2::text[])",
            self._collection_id,
            list(keys),
        )
        return {keys[row["term"]]: row["id"] for row in rows}

    def _words(
        self, slots: NDArray[np.int32], classes: Sequence[int], counted: Counted
    ) -> ChunkWords:
        """Give the words of texts with the terms of each ascending by number."""
        numbers = np.array(self._vocabulary.numbers, dtype=np.int64)[counted.places]
        # Numbers ascend with places as long as none was looked up: nothing moves then.
        order = np.argsort(counted.rows << 32 | numbers, kind="stable")
        return ChunkWords(
            slots=slots,
            classes=np.array(classes, dtype=np.int32),
            lengths=counted.lengths.astype(np.int32),
            widths=np.bincount(counted.rows, minlength=len(slots)).astype(np.int32),
            terms=numbers[order].astype("<i4"),
            counts=counted.counts[order].astype("<i4"),
        )

    @property
    def is_full(self) -> bool:
        """Tell whether as much is kept as may be."""
        return self._vocabulary.size >= self._most_kept

    async def spill(self) -> None:
        """Write the terms, inside a transaction, and forget them."""
        await self._write_terms()
        self._has_spilt = True

    async def finish(self) -> None:
        """Write what is left, inside a transaction."""
        await self._write_terms()
        await self._write_postings()
        await self._connection.execute(
            "UPDATE lexicon SET chunks = $2::int, next_slot = $2::int, posted = $2::int"
            " WHERE collection_id = $1",
            self._collection_id,
            self._slots,
        )
        await self._connection.execute(
            _COUNT_CLASSES,
            self._collection_id,
            list(self._classes),
            [chunks for chunks, _ in self._classes.values()],
            [length for _, length in self._classes.values()],
        )

    async def _write_terms(self) -> None:
        vocabulary, self._vocabulary = self._vocabulary, _Vocabulary(self._language)
        numbers, df = vocabulary.numbers, vocabulary.df.tolist()
        known = set(vocabulary.known)
        if known:
            await self._connection.execute(
                "UPDATE term t SET df = t.df + w.df FROM unnest($1::int[], $2::int[]) w(id, df)"
                " WHERE t.id = w.id",
                [numbers[place] for place in vocabulary.known],
                [df[place] for place in vocabulary.known],
            )
        new = [place for place in range(len(numbers)) if place not in known]
        if new:
            await copy_columns(
                self._connection,
                "term",
                {
                    "id": [numbers[place] for place in new],
                    "collection_id": self._collection_id,
                    "df": [df[place] for place in new],
                },
                {"term": [term_key(vocabulary.terms[place]).encode() for place in new]},
            )

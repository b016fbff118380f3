"""The words of a snapshot on its way in, counted in memory and written a batch at a time.

One part counts, which needs no database and is done beside; the other writes. Nobody else
writes the collection of an import, so its terms are not looked up: they are numbered as they come, and go to
the database together, each once with its final count. A bundle with more terms than may be kept writes some
before all are known; from then on new ones are looked up.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import compress, groupby, islice, pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from whence.store.postgres.binary_copy import copy_columns
from whence.store.postgres.driver import Connection
from whence.store.postgres.lexical.forward_index import term_key
from whence.store.postgres.lexical.merge_policy import MAX_SEGMENT_CHUNKS
from whence.store.postgres.lexical.segments import write_segment
from whence.store.postgres.lexical.term_vectors import TermVectors
from whence.text.analysis import analyze_pretoken, ascii_pretokens, document_terms, is_stop_term

__all__ = ("Counted", "SnapshotTermWriter", "WordCounter")

#: Terms, and runs that were taken apart, kept in memory; some 250 bytes each.
_MOST_KEPT = 200_000
#: Longer runs are data, and do not come again.
_LONGEST_RUN = 100
_LOW_HALF = 0xFFFFFFFF
#: Stands between texts: a run that no text holds, and its number, which is no run's.
_BREAK_RUN = "\0"
_BETWEEN = f" {_BREAK_RUN} "
_BREAK = -1
#: Postings of a segment: some 80 MB while it is made.
_MOST_POSTINGS = 1 << 21
#: How many chunks there are of each class of rights, and how long they are: what a reader's scores go by.
_COUNT_CLASSES = (
    "INSERT INTO lexicon_class (collection_id, class_id, chunks, total_length)"
    " SELECT $1, * FROM unnest($2::int[], $3::bigint[], $4::bigint[])"
)


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """The words of some texts; a term is named by its place, how many came before it."""

    new: list[str]
    """Terms that come for the first time, in the order of their places."""
    begins_anew: bool
    """Whether all terms that came before are forgotten: places begin with 0 again."""
    lengths: NDArray[np.int32]
    """Of each text: occurrences of strong terms."""
    widths: NDArray[np.int32]
    """Of each text: its terms."""
    places: NDArray[np.int32]
    """Terms of the first text, ascending, then those of the second, and so on."""
    counts: NDArray[np.int32]
    """How often each occurs."""


class _Vocabulary:
    """Terms by the order in which they came."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._place_of = _Places()
        #: Terms that were given out.
        self._known = 0
        self._runs = _Runs(self._add_run)
        #: Of each run by its number: where its terms end in the next.
        self._ends = array("i", [0])
        #: Places of the terms of all runs, one after the other.
        self._places = array("i")
        #: Of each term: 1 when it is strong.
        self.strong = bytearray()

    def entries(self, texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return of every occurrence of a term which text it is in, and the place of the term."""
        runs = self._runs
        flat: list[int] = []
        # One number between texts; a text that is not ASCII is one run.
        for is_ascii, some in groupby(texts, str.isascii):
            if is_ascii:
                flat += map(runs.__getitem__, ascii_pretokens(_BETWEEN.join(some)))
            else:
                for text in some:
                    flat += (self._add(document_terms(text, self._language)), _BREAK)
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

    def _add_run(self, run: str) -> int:
        return self._add(analyze_pretoken(run, self._language))

    def _add(self, terms: Iterable[str]) -> int:
        """Note the terms of a run; return its number."""
        self._places.extend(map(self._place_of.__getitem__, terms))
        self._ends.append(len(self._places))
        return len(self._ends) - 2

    @property
    def size(self) -> int:
        """How many terms, or runs, are kept, whichever is more."""
        return max(len(self._place_of), len(self._ends) - 1)

    def new_terms(self) -> list[str]:
        """Return the terms that came since this was asked last."""
        count = len(self._place_of) - self._known
        new = list(islice(reversed(self._place_of), count))[::-1]
        self._known += count
        self.strong += bytes([not is_stop_term(term) for term in new])
        return new


class _Places(dict[str, int]):
    """Places of terms in the order in which they are asked for."""

    def __missing__(self, term: str) -> int:
        self[term] = place = len(self)
        return place


class _Runs(dict[str, int]):
    """Number of each run that was taken apart: code says the same again and again.

    Args:
        add: Takes a run apart and gives its number.
    """

    def __init__(self, add: Callable[[str], int]) -> None:
        super().__init__({_BREAK_RUN: _BREAK})
        self._add = add

    def __missing__(self, run: str) -> int:
        number = self._add(run)
        if len(run) <= _LONGEST_RUN:
            self[run] = number
        return number


class WordCounter:
    """Counts the words of texts, for one caller at a time.

    Args:
        language: What the texts are stemmed in.
        most_kept: How many terms, and runs, are kept in memory.
    """

    def __init__(self, language: str, most_kept: int = _MOST_KEPT) -> None:
        self._language = language
        self._most_kept = most_kept
        self._vocabulary = _Vocabulary(language)

    def count_bytes(self, texts: Sequence[bytes]) -> Counted:
        """Count the words of texts in UTF-8."""
        return self.count([text.decode() for text in texts])

    def count(self, texts: Sequence[str]) -> Counted:
        """Count the words of texts without NUL. Cost: linear in their length, n log n in all their words."""
        is_full = self._vocabulary.size >= self._most_kept
        if is_full:
            self._vocabulary = _Vocabulary(self._language)
        vocabulary = self._vocabulary
        owners, places = vocabulary.entries(texts)
        entries, counts = np.unique(owners << 32 | places, return_counts=True)
        rows, places = entries >> 32, entries & _LOW_HALF
        new = vocabulary.new_terms()
        strong = np.frombuffer(bytes(vocabulary.strong), dtype=np.uint8)[places]
        lengths = np.bincount(rows, weights=counts * strong, minlength=len(texts))
        return Counted(
            new=new,
            begins_anew=is_full,
            lengths=lengths.astype(np.int32),
            widths=np.bincount(rows, minlength=len(texts)).astype(np.int32),
            places=places.astype(np.int32),
            counts=counts.astype(np.int32),
        )


class SnapshotTermWriter:
    """Writes counted words into a lexicon that is open and empty.

    Args:
        connection: To the database.
        collection_id: Which nobody else writes.
    """

    def __init__(self, connection: Connection, collection_id: int) -> None:
        self._connection = connection
        self._collection_id = collection_id
        self._terms: list[str] = []
        #: Of each term: its number in the database, and how many texts have it.
        self._numbers = array("i")
        self._df: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        #: Places of terms that were in the database before.
        self._known: list[int] = []
        self._has_spilt = False
        self._slots = 0
        #: Words whose postings are not written yet, and how many those are.
        self._unposted: list[TermVectors] = []
        self._postings = 0
        #: Of each class of rights: chunks, and how long they are together.
        self._classes: dict[int, tuple[int, int]] = {}

    async def write(
        self,
        ords: Sequence[int],
        classes: NDArray[np.int32],
        counted: Counted,
        numbers: Sequence[int],
    ) -> None:
        """Write the words of chunks, inside a transaction, in the order in which they were counted.

        Their postings are kept until `segment` or `finish`.

        Args:
            ords: Numbers of the chunks.
            classes: Their classes of rights.
            counted: Their words.
            numbers: Reserved for the new terms among them.
        """
        if counted.begins_anew:
            await self._write_terms()
            self._has_spilt = True
        await self._number_terms(counted.new, numbers)
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

    def is_full(self, coming: int) -> bool:
        """Return whether a segment is to be made before the words of some more chunks are written."""
        chunks = sum(len(one.slots) for one in self._unposted)
        return self._postings >= _MOST_POSTINGS or chunks + coming > MAX_SEGMENT_CHUNKS

    def segment(self) -> Callable[[Connection], Awaitable[None]]:
        """Return what writes the postings of the words so far; those of later words go into another segment.

        It needs a connection in a transaction, and may run while more words are written.
        """
        words, self._unposted, self._postings = self._unposted, [], 0
        return partial(self._write_segment, words)

    async def _write_segment(self, words: list[TermVectors], connection: Connection) -> None:
        if not words:
            return
        joined = await asyncio.to_thread(TermVectors.joined, words)
        del words[:]
        for number in np.unique(joined.classes).tolist():
            there = joined.classes == number
            chunks, length = self._classes.get(number, (0, 0))
            self._classes[number] = (
                chunks + int(np.count_nonzero(there)),
                length + int(joined.lengths[there].sum(dtype=np.int64)),
            )
        await write_segment(connection, self._collection_id, joined)

    async def _number_terms(self, new: Sequence[str], numbers: Sequence[int]) -> None:
        """Number the new terms; after a spill a term may have a number already."""
        if self._has_spilt:
            known = await self._look_up(new)
            first = len(self._terms)
            self._known += [place for place, term in enumerate(new, first) if term in known]
            numbers = [known.get(term, number) for term, number in zip(new, numbers, strict=True)]
        self._numbers.extend(numbers)
        self._terms += new

    async def _look_up(self, terms: Sequence[str]) -> dict[str, int]:
        keys = {term_key(term): term for term in terms}
        rows = await self._connection.fetch(
            "SELECT term, id FROM term WHERE collection_id = $1 AND term = ANY($2::text[])",
            self._collection_id,
            list(keys),
        )
        return {keys[row["term"]]: row["id"] for row in rows}

    def _words(
        self, slots: NDArray[np.int32], classes: NDArray[np.int32], counted: Counted
    ) -> TermVectors:
        """Return the words of texts with the terms of each ascending by number."""
        found = np.bincount(counted.places, minlength=len(self._terms))
        found[: len(self._df)] += self._df
        self._df = found
        # As they are in memory: to copy them for each batch would cost their square.
        numbers = np.frombuffer(self._numbers, np.int32) if self._terms else np.empty(0, np.int32)
        terms, counts = numbers[counted.places], counted.counts
        if self._known:
            # Only now may they not ascend with the places.
            rows = np.repeat(np.arange(len(slots), dtype=np.int64), counted.widths)
            order = np.argsort(rows << 32 | terms, kind="stable")
            terms, counts = terms[order], counts[order]
        return TermVectors(
            slots=slots,
            classes=classes,
            lengths=counted.lengths,
            widths=counted.widths,
            terms=terms,
            counts=counts,
        )

    async def finish(self, connection: Connection) -> None:
        """Write what is left, inside a transaction.

        Args:
            connection: In that transaction; in the place of the one used before.
        """
        self._connection = connection
        await self._write_terms()
        await self.segment()(connection)
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
        """Write the terms and forget them."""
        numbers, df = np.array(self._numbers, dtype=np.int32), self._df
        if self._known:
            await self._connection.execute(
                "UPDATE term t SET df = t.df + w.df FROM unnest($1::int[], $2::int[]) w(id, df)"
                " WHERE t.id = w.id",
                numbers[self._known].tolist(),
                df[self._known].tolist(),
            )
        new = np.ones(len(numbers), dtype=np.bool_)
        new[self._known] = False
        terms = await asyncio.to_thread(_keys, list(compress(self._terms, new.tolist())))
        await copy_columns(
            self._connection,
            "term",
            {"id": numbers[new], "collection_id": self._collection_id, "df": df[new]},
            {"term": terms},
        )
        self._terms, self._numbers, self._known = [], array("i"), []
        self._df = np.zeros(0, dtype=np.int64)


def _keys(terms: Sequence[str]) -> list[bytes]:
    return [term_key(term).encode() for term in terms]

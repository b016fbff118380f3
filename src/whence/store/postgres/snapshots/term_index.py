"""The lexical index of a snapshot on its way in: terms counted in memory, written a batch at a time.

`TermCounter` needs no database and runs in a thread; `SnapshotTermWriter` writes. No other process writes the
collection of an import, so that its terms need no look-ups: they are numbered as they arrive, and written
together, each with its final document frequency. A bundle with more terms than memory may hold writes some
earlier; from then on new terms are looked up.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import chain, compress, islice, pairwise

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

#: Most cached terms, and most cached pre-tokens; some 250 bytes each.
_MAX_CACHED = 200_000
#: Longer pre-tokens are data, and do not recur.
_MAX_PRETOKEN = 100
#: Postings from which on a segment is written; some 80 MB while it is made.
_MAX_POSTINGS = 1 << 21
#: Number and total length of the chunks of each ACL class: statistics of the scores.
_WRITE_STATISTICS = """
    INSERT INTO lexicon_class (collection_id, class_id, chunks, total_length)
    SELECT $1, * FROM unnest($2::int[], $3::bigint[], $4::bigint[])"""
_SET_COUNTS = """
    UPDATE lexicon SET chunks = $2::int, next_slot = $2::int, posted = $2::int WHERE collection_id = $1"""
_LOOK_UP = "SELECT term, id FROM term WHERE collection_id = $1 AND term = ANY($2::text[])"
_ADD_DF = "UPDATE term t SET df = t.df + w.df FROM unnest($1::int[], $2::int[]) w(id, df) WHERE t.id = w.id"


class CountedTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The term frequencies of some texts; a term is named by its place in the order of arrival."""

    new: list[str]
    """Terms that occur for the first time, in the order of their places."""
    is_reset: bool
    """Whether all earlier terms were dropped, and places start from 0 again."""
    lengths: NDArray[np.int32]
    """Field length of each text: occurrences of terms that are not stop terms."""
    widths: NDArray[np.int32]
    """Number of distinct terms of each text."""
    places: NDArray[np.int32]
    """Terms of the first text, ascending, then those of the second, and so on."""
    counts: NDArray[np.int32]
    """Frequency of each of them in its text."""


class _Places(dict[str, int]):
    """Place of each term, assigned when it is first looked up."""

    def __missing__(self, term: str) -> int:
        self[term] = place = len(self)
        return place


class _PretokenPlaces(dict[str, tuple[int, ...]]):
    """Places of the terms of each analyzed pre-token; pre-tokens of code recur often."""

    def __init__(self, language: str, place_of: _Places) -> None:
        super().__init__()
        self._language = language
        self._place_of = place_of

    def __missing__(self, pretoken: str) -> tuple[int, ...]:
        terms = analyze_pretoken(pretoken, self._language)
        places = tuple([self._place_of[term] for term in terms])
        if len(pretoken) <= _MAX_PRETOKEN:
            self[pretoken] = places
        return places


class TermCounter:
    """Counts the terms of texts, for one caller at a time.

    Args:
        language: Language of the stemmer.
        max_cached: Most terms, and most pre-tokens, in memory.
    """

    def __init__(self, language: str, max_cached: int = _MAX_CACHED) -> None:
        self._language = language
        self._max_cached = max_cached
        self._reset()

    def _reset(self) -> None:
        self._place_of = _Places()
        self._pretokens = _PretokenPlaces(self._language, self._place_of)
        #: For each term, 1 when it counts for the length of a text.
        self._counts_for_length = bytearray()

    def count_bytes(self, texts: Sequence[bytes]) -> CountedTerms:
        """Count the terms of texts in UTF-8."""
        return self.count([text.decode() for text in texts])

    def count(self, texts: Sequence[str]) -> CountedTerms:
        """Count the terms of texts. Cost: linear in their length."""
        is_reset = max(len(self._place_of), len(self._pretokens)) >= self._max_cached
        if is_reset:
            self._reset()
        places: list[int] = []
        counts: list[int] = []
        widths: list[int] = []
        for text in texts:
            entries = sorted(Counter(self._term_places(text)).items())
            places += [place for place, _ in entries]
            counts += [count for _, count in entries]
            widths.append(len(entries))
        new = list(islice(self._place_of, len(self._counts_for_length), None))
        self._counts_for_length += bytes([not is_stop_term(term) for term in new])
        columns = [np.array(column, dtype=np.int32) for column in (places, counts, widths)]
        counted = columns[1] * np.frombuffer(bytes(self._counts_for_length), np.uint8)[columns[0]]
        rows = np.repeat(np.arange(len(texts)), columns[2])
        lengths = np.bincount(rows, weights=counted, minlength=len(texts))
        return CountedTerms(
            new=new,
            is_reset=is_reset,
            lengths=lengths.astype(np.int32),
            widths=columns[2],
            places=columns[0],
            counts=columns[1],
        )

    def _term_places(self, text: str) -> Iterable[int]:
        """Return the place of each term of a text, with repeats."""
        if text.isascii():
            pretokens = map(self._pretokens.__getitem__, ascii_pretokens(text))
            return chain.from_iterable(pretokens)
        return map(self._place_of.__getitem__, document_terms(text, self._language))


class SnapshotTermWriter:
    """Writes counted terms into the empty lexical index of a collection."""

    def __init__(self, connection: Connection, collection_id: int) -> None:
        self._connection = connection
        self._collection_id = collection_id
        self._terms: list[str] = []
        #: For each term, its number in the database and its document frequency.
        self._numbers = array("i")
        self._df: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        #: Places of terms that the database already has.
        self._stored: list[int] = []
        self._has_spilt = False
        self._slots = 0
        #: Term vectors whose postings are not written yet, and the number of these postings.
        self._unflushed: list[TermVectors] = []
        self._postings = 0
        #: For each ACL class, number and total length of its chunks.
        self._classes: dict[int, tuple[int, int]] = {}

    async def write(
        self,
        ords: Sequence[int],
        classes: NDArray[np.int32],
        counted: CountedTerms,
        numbers: Sequence[int],
    ) -> None:
        """Write the term vectors of chunks, inside a transaction, in the order of counting.

        Their postings stay in memory until `segment` or `finish`.

        Args:
            ords: Numbers of the chunks.
            classes: Their ACL classes.
            counted: Their terms.
            numbers: Numbers reserved for the new terms.
        """
        if counted.is_reset:
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
        self._unflushed.append(words)
        self._postings += len(words.terms)

    def is_full(self, coming: int) -> bool:
        """Return whether a segment must be written before more chunks are added."""
        chunks = sum(len(one.slots) for one in self._unflushed)
        return self._postings >= _MAX_POSTINGS or chunks + coming > MAX_SEGMENT_CHUNKS

    def segment(self) -> Callable[[Connection], Awaitable[None]]:
        """Return a function that writes the postings so far as a segment.

        It needs a connection in a transaction, and may run while more chunks are written.
        """
        words, self._unflushed, self._postings = self._unflushed, [], 0
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
        """Number the new terms; after a spill the database may have some of them."""
        if self._has_spilt:
            known = await self._look_up(new)
            first = len(self._terms)
            self._stored += [place for place, term in enumerate(new, first) if term in known]
            numbers = [known.get(term, number) for term, number in zip(new, numbers, strict=True)]
        self._numbers.extend(numbers)
        self._terms += new

    async def _look_up(self, terms: Sequence[str]) -> dict[str, int]:
        keys = {term_key(term): term for term in terms}
        rows = await self._connection.fetch(_LOOK_UP, self._collection_id, list(keys))
        return {keys[row["term"]]: row["id"] for row in rows}

    def _words(
        self, slots: NDArray[np.int32], classes: NDArray[np.int32], counted: CountedTerms
    ) -> TermVectors:
        """Return the term vectors of texts, with terms ascending by number."""
        found = np.bincount(counted.places, minlength=len(self._terms))
        found[: len(self._df)] += self._df
        self._df = found
        # A view: a copy for each batch would cost their square.
        numbers = np.frombuffer(self._numbers, np.int32) if self._terms else np.empty(0, np.int32)
        terms, counts = numbers[counted.places], counted.counts
        if self._stored:
            # Only then the numbers may not ascend with the places.
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
        """Write the remaining terms, postings and statistics."""
        self._connection = connection
        await self._write_terms()
        await self.segment()(connection)
        await self._connection.execute(_SET_COUNTS, self._collection_id, self._slots)
        await self._connection.execute(
            _WRITE_STATISTICS,
            self._collection_id,
            list(self._classes),
            [chunks for chunks, _ in self._classes.values()],
            [length for _, length in self._classes.values()],
        )

    async def _write_terms(self) -> None:
        """Write the terms and drop them from memory."""
        numbers, df = np.array(self._numbers, dtype=np.int32), self._df
        if self._stored:
            await self._connection.execute(
                _ADD_DF, numbers[self._stored].tolist(), df[self._stored].tolist()
            )
        new = np.ones(len(numbers), dtype=np.bool_)
        new[self._stored] = False
        terms = await asyncio.to_thread(_keys, list(compress(self._terms, new.tolist())))
        await copy_columns(
            self._connection,
            "term",
            {"id": numbers[new], "collection_id": self._collection_id, "df": df[new]},
            {"term": terms},
        )
        self._terms, self._numbers, self._stored = [], array("i"), []
        self._df = np.zeros(0, dtype=np.int64)


def _keys(terms: Sequence[str]) -> list[bytes]:
    return [term_key(term).encode() for term in terms]

"""The inverted index in PostgreSQL: a forward index of words, and segments of postings made of it.

Every function runs inside the transaction that writes the chunks, under the lock of the collection's row;
readers go on with what was committed before. A write appends one segment. Segments are merged when there are
more than a few, see `lexicon.planning`, a chunk as often as the logarithm of the collection's size; small
merges happen in the write itself, larger ones beside the writes, see `lexicon.merging`. Postings hold counts
and no scores: what these depend on beside the chunk is the reader's.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from whence.store.bm25 import MAX_COUNT
from whence.store.field_boosts import FieldBoosts
from whence.store.postgres.driver import Connection
from whence.store.postgres.lexical.merge_policy import (
    packed,
    plan_all_merges,
    plan_background_merges,
    plan_inline_merges,
)
from whence.store.postgres.lexical.merging import merge_segments, segments_of
from whence.store.postgres.lexical.posting_writer import (
    BATCH_POSTINGS,
    PostingLists,
    write_postings,
)
from whence.store.term_counts import DEFAULT_LANGUAGES, Words, count_terms
from whence.text.analysis import ANALYZER_VERSION
from whence.text.languages import detect_language, language_sample

__all__ = (
    "TermVectors",
    "add_chunk_terms",
    "boost",
    "chunks_with_terms",
    "count_deleted_postings",
    "delete_unused_terms",
    "ensure_indexed",
    "expel",
    "is_indexed",
    "merge_pending",
    "move_chunk_terms",
    "places_of",
    "read_field_boosts",
    "reindex_batch",
    "remove_document_terms",
    "settle",
    "term_key",
    "write_segment",
)

#: Most chunks whose words are made one segment, some 16 MB at 60 terms a chunk. Of more, which only an import
#: writes at once, several are made, and merged.
_MOST_WRITTEN = 1 << 14
#: Chunks that are read in one go for a segment.
_READ_CHUNKS = 512
_LOW_HALF = 0xFFFFFFFF
#: In the place of the analyzer while a collection is indexed anew.
_IN_PART = f"{ANALYZER_VERSION} in part"
#: Documents whose words are counted in one go when a collection is indexed anew.
_REBUILD_BATCH = 500
#: Longest term kept as it is, in characters; a row of a B-tree holds 2704 bytes, a character takes 4 at most.
_LONGEST_TERM = 500

# How many chunks there are of each class of rights in each language, and how long they are together.
_COUNT = (
    "INSERT INTO lexicon_class AS l (collection_id, class_id, language, chunks, total_length) {counts}"
    " ON CONFLICT (collection_id, class_id, language) DO UPDATE"
    " SET chunks = l.chunks + excluded.chunks, total_length = l.total_length + excluded.total_length"
)
_COUNT_CHUNKS = _COUNT.format(
    counts="SELECT $1, c.class_id, w.language, count(*), sum(w.length)"
    " FROM unnest($2::int[], $3::text[], $4::int[]) w(ord, language, length)"
    " JOIN chunk c ON c.ord = w.ord GROUP BY 2, 3"
)
_COUNT_ALL = _COUNT.format(
    counts="SELECT $1, c.class_id, t.language, count(*), sum(t.length)"
    " FROM chunk_terms t JOIN chunk c ON c.ord = t.ord WHERE t.collection_id = $1 GROUP BY 2, 3"
)
_COUNT_CHANGES = _COUNT.format(
    counts="SELECT $1, w.class_id, w.language, sum(w.sign), sum(w.sign * w.length)"
    " FROM unnest($2::int[], $3::text[], $4::int[], $5::int[]) w(class_id, language, length, sign)"
    " GROUP BY 2, 3"
)
#: The texts of the documents behind the one whose chunk was indexed last.
_NEXT_TEXTS = (
    "SELECT c.ord, c.document, c.content, coalesce(nullif(c.embed_text, ''), c.content) AS text, c.heading,"
    " d.title, d.document_id FROM (SELECT * FROM document WHERE collection_id = $1 AND id > coalesce("
    "  (SELECT c.document FROM chunk_terms t JOIN chunk c ON c.ord = t.ord WHERE t.collection_id = $1"
    "  ORDER BY t.slot DESC LIMIT 1), -1)"
    "  AND EXISTS (SELECT FROM chunk c WHERE c.document = document.id) ORDER BY id LIMIT $2) d"
    " JOIN chunk c ON c.document = d.id ORDER BY c.document, c.ord"
)


def term_key(term: str) -> str:
    """Return the form in which a term is stored: itself, or its start and its SHA-256 when it is too long."""
    if len(term) <= _LONGEST_TERM:
        return term
    # No term holds this control character, so no other term has the same form.
    return f"{term[:64]}\x01{hashlib.sha256(term.encode()).hexdigest()}"


# --- the forward index -----------------------------------------------------------------------------


async def ensure_indexed(connection: Connection, collection_id: int) -> None:
    """Make sure that the words of all chunks are indexed by this analyzer.

    Cost: one look-up; linear in the texts that are not.
    """
    while not await reindex_batch(connection, collection_id):
        pass


async def is_indexed(connection: Connection, collection: str) -> bool:
    """Return whether there is a collection, with the words of all chunks indexed by this analyzer."""
    analyzer = await connection.fetchval(
        "SELECT l.analyzer FROM lexicon l JOIN collection c ON c.id = l.collection_id"
        " WHERE c.name = $1",
        collection,
    )
    return bool(analyzer == ANALYZER_VERSION)


async def reindex_batch(connection: Connection, collection_id: int) -> bool:
    """Index the words of some more chunks by this analyzer, document by document; True when all are.

    Each call may be a transaction of its own: the next one goes on from there. Until all are indexed nobody
    searches the words, and whoever writes indexes the rest first. Cost: linear in the texts of some documents,
    and once in the words that another analyzer left.
    """
    row = await connection.fetchrow(
        "SELECT l.analyzer, l.boosts, c.internal FROM collection c"
        " LEFT JOIN lexicon l ON l.collection_id = c.id WHERE c.id = $1",
        collection_id,
    )
    if row["analyzer"] == ANALYZER_VERSION:
        return True
    boosts = _boosts(row["boosts"])
    if row["analyzer"] != _IN_PART:
        await _begin_anew(connection, collection_id, boosts)
    texts = await connection.fetch(_NEXT_TEXTS, collection_id, _REBUILD_BATCH)
    if not texts:
        return await _end_anew(connection, collection_id)
    # Code is written in English words, whatever its comments are in.
    words = await asyncio.to_thread(_counted, texts, boosts, not row["internal"])
    await _write_words(connection, collection_id, [text["ord"] for text in texts], words)
    await _post(connection, collection_id, fewest=_MOST_WRITTEN)
    return False


async def _begin_anew(connection: Connection, collection_id: int, boosts: FieldBoosts) -> None:
    """Forget the words of another analyzer, but not how many chunks there are: searches by vectors go by it."""
    for table in ("chunk_terms", "term", "segment"):
        await connection.execute(f"DELETE FROM {table} WHERE collection_id = $1", collection_id)  # noqa: S608 - only constants
    await connection.execute(
        "INSERT INTO lexicon VALUES ($1, $2, $3, 0, 0, 0, $4) ON CONFLICT (collection_id) DO UPDATE"
        " SET analyzer = excluded.analyzer, languages = excluded.languages, next_slot = 0, posted = 0",
        collection_id,
        _IN_PART,
        DEFAULT_LANGUAGES,
        _numbers(boosts),
    )


async def _end_anew(connection: Connection, collection_id: int) -> bool:
    """Make the segments few, one in a call; then count the chunks and let their words be searched: True."""
    await _post(connection, collection_id)
    if ranges := packed(await segments_of(connection, collection_id)):
        await merge_segments(connection, collection_id, ranges[0].first, ranges[0].last)
        return False
    await connection.execute("DELETE FROM lexicon_class WHERE collection_id = $1", collection_id)
    await connection.execute(_COUNT_ALL, collection_id)
    await connection.execute(
        "UPDATE lexicon SET analyzer = $2, chunks = (SELECT coalesce(sum(chunks), 0) FROM lexicon_class"
        " WHERE collection_id = $1) WHERE collection_id = $1",
        collection_id,
        ANALYZER_VERSION,
    )
    return True


async def read_field_boosts(connection: Connection, collection: str) -> FieldBoosts:
    """Return how much the fields of a collection count."""
    return _boosts(
        await connection.fetchval(
            "SELECT l.boosts FROM lexicon l JOIN collection c ON c.id = l.collection_id"
            " WHERE c.name = $1",
            collection,
        )
    )


async def boost(connection: Connection, collection_id: int, boosts: FieldBoosts) -> None:
    """Index the words of a collection anew, with other boosts. Cost: linear in its texts."""
    await connection.execute(
        "UPDATE lexicon SET boosts = $2, analyzer = '' WHERE collection_id = $1",
        collection_id,
        _numbers(boosts),
    )
    await ensure_indexed(connection, collection_id)


def _numbers(boosts: FieldBoosts) -> list[int]:
    return [boosts.title, boosts.heading, boosts.path]


def _boosts(numbers: Sequence[int] | None) -> FieldBoosts:
    """Read what `_numbers` gives; None before the first document."""
    if numbers is None:
        return FieldBoosts()
    title, heading, path = numbers
    return FieldBoosts(title=title, heading=heading, path=path)


def _counted(rows: Sequence[Any], boosts: FieldBoosts, told: bool) -> list[Words]:
    """Count the words of chunks, those of a document next to one another."""
    words: list[Words] = []
    for _, some in itertools.groupby(rows, key=lambda row: row["document"]):
        chunks = list(some)
        told_of = language_sample(row["content"] for row in chunks) if told else ""
        language = detect_language(told_of)
        for row in chunks:
            text = boosts.searched(
                row["text"], title=row["title"], heading=row["heading"], path=row["document_id"]
            )
            words.append(count_terms(text, language))
    return words


async def add_chunk_terms(
    connection: Connection, collection_id: int, ords: Sequence[int], words: Sequence[Words]
) -> None:
    """Add the words of chunks just written to the forward index and to all counts.

    Cost: linear in the words.
    """
    if not ords:
        return
    await connection.execute(
        "UPDATE lexicon SET chunks = chunks + $2 WHERE collection_id = $1", collection_id, len(ords)
    )
    languages = [one.language for one in words]
    lengths = [one.length for one in words]
    await connection.execute(_COUNT_CHUNKS, collection_id, list(ords), languages, lengths)
    await _write_words(connection, collection_id, ords, words)


async def _write_words(
    connection: Connection, collection_id: int, ords: Sequence[int], words: Sequence[Words]
) -> None:
    """Write the words of chunks into the forward index, in new slots."""
    df: Counter[str] = Counter()
    for one in words:
        df.update(one.counts.keys())
    keys = {term: term_key(term) for term in df}
    known = await _count_terms(connection, collection_id, {keys[t]: n for t, n in df.items()})
    ids = {term: known[key] for term, key in keys.items()}
    first = await _take_slots(connection, collection_id, len(ords))
    await _add_languages(connection, collection_id, {one.language for one in words})
    packed = await asyncio.to_thread(lambda: [_packed(one, ids) for one in words])
    await connection.copy_records_to_table(
        "chunk_terms",
        columns=("collection_id", "slot", "ord", "length", "language", "terms", "counts"),
        records=[
            (
                collection_id,
                first + place,
                ords[place],
                words[place].length,
                words[place].language,
                *columns,
            )
            for place, columns in enumerate(packed)
        ],
    )


async def _add_languages(connection: Connection, collection_id: int, found: set[str]) -> None:
    """Note the languages of chunks just written: queries are stemmed in them. They stay when the chunks go."""
    await connection.execute(
        "UPDATE lexicon l SET languages = l.languages || new.names FROM (SELECT array_agg(w.name ORDER BY w.name)"
        "  AS names FROM lexicon k, unnest($2::text[]) w(name)"
        "  WHERE k.collection_id = $1 AND w.name <> ALL(k.languages)) new"
        " WHERE l.collection_id = $1 AND new.names IS NOT NULL",
        collection_id,
        list(found),
    )


async def _count_changes(
    connection: Connection,
    collection_id: int,
    rows: Sequence[Any],
    classes: Sequence[int],
    sign: int,
) -> None:
    """Add chunks to what is counted of classes, or take them out.

    Args:
        connection: Inside the writing transaction.
        collection_id: The collection.
        rows: Language and length of each chunk.
        classes: The class of each.
        sign: 1 or -1.
    """
    await connection.execute(
        _COUNT_CHANGES,
        collection_id,
        list(classes),
        [row["language"] for row in rows],
        [row["length"] for row in rows],
        [sign] * len(rows),
    )


async def _count_terms(
    connection: Connection, collection_id: int, df: dict[str, int]
) -> dict[str, int]:
    """Add to the counts of terms, making those that are new; return the id of each."""
    rows = await connection.fetch(
        "UPDATE term t SET df = t.df + w.df FROM unnest($2::text[], $3::int[]) w(term, df)"
        " WHERE t.collection_id = $1 AND t.term = w.term RETURNING t.term, t.id",
        collection_id,
        list(df),
        list(df.values()),
    )
    ids = {row["term"]: row["id"] for row in rows}
    new = sorted(term for term in df if term not in ids)
    rows = await connection.fetch(
        "INSERT INTO term (collection_id, term, df)"
        " SELECT $1, w.term, w.df FROM unnest($2::text[], $3::int[]) w(term, df)"
        " RETURNING term, id",
        collection_id,
        new,
        [df[term] for term in new],
    )
    return ids | {row["term"]: row["id"] for row in rows}


async def _take_slots(connection: Connection, collection_id: int, n: int) -> int:
    """Take n slots; return the first."""
    first: int = await connection.fetchval(
        "UPDATE lexicon SET next_slot = next_slot + $2 WHERE collection_id = $1"
        " RETURNING next_slot - $2",
        collection_id,
        n,
    )
    return first


def _packed(words: Words, ids: dict[str, int]) -> tuple[bytes, bytes]:
    """Return ids of terms and their counts as two columns of bytes, ascending by id."""
    pairs = sorted([(ids[term], count) for term, count in words.counts.items()])
    # Some fifty numbers: an array of numpy costs more to make than to fill.
    layout = struct.Struct(f"<{len(pairs)}i")
    return layout.pack(*[one for one, _ in pairs]), layout.pack(*[n for _, n in pairs])


async def remove_document_terms(
    connection: Connection, collection_id: int, document_ids: Sequence[str]
) -> list[int]:
    """Take the words of documents out of all counts, before their chunks are deleted.

    The rows of the forward index go with the chunks. Gives the ids of the terms, for `delete_unused_terms`.
    Cost: linear in the words of the documents.
    """
    rows = await connection.fetch(
        "SELECT t.slot, t.length, t.language, t.terms, c.class_id"
        " FROM document d JOIN chunk c ON c.document = d.id"
        " JOIN chunk_terms t ON t.ord = c.ord"
        " WHERE d.collection_id = $1 AND d.document_id = ANY($2::text[])",
        collection_id,
        list(document_ids),
    )
    if not rows:
        return []
    terms, counts = np.unique(_joined(rows, "terms"), return_counts=True)
    await connection.execute(
        "UPDATE term t SET df = t.df - w.df FROM unnest($1::int[], $2::int[]) w(id, df)"
        " WHERE t.id = w.id",
        terms.tolist(),
        counts.tolist(),
    )
    await connection.execute(
        "UPDATE lexicon SET chunks = chunks - $2 WHERE collection_id = $1", collection_id, len(rows)
    )
    classes = [row["class_id"] for row in rows]
    await _count_changes(connection, collection_id, rows, classes, -1)
    await _bury(connection, collection_id, rows, classes)
    gone: list[int] = terms.tolist()
    return gone


async def delete_unused_terms(connection: Connection, terms: Sequence[int]) -> None:
    """Forget those terms that no chunk has any more: what was removed leaves no words behind."""
    if terms:
        await connection.execute(
            "DELETE FROM term WHERE id = ANY($1::int[]) AND df = 0", list(terms)
        )


async def chunks_with_terms(
    connection: Connection, collection_id: int, terms: Sequence[int]
) -> list[int]:
    """Return the numbers of the chunks that have one of these terms, ascending, hidden ones included.

    Chunks whose postings are not written yet are left out. Cost: linear in the postings of the terms.
    """
    rows = await connection.fetch(
        "SELECT s.slots, string_agg(substr(p.places, 2 * u.start + 1, 2 * (u.stop - u.start)), '')"
        " AS places FROM segment s, unnest($2::int[]) w(term),"
        " LATERAL (SELECT p.* FROM posting p WHERE p.segment = s.id AND p.last_term >= w.term"
        "  ORDER BY p.last_term LIMIT 1) p,"
        " LATERAL unnest(p.terms, array_prepend(0, p.ends), p.ends) u(term, start, stop)"
        " WHERE s.collection_id = $1 AND u.term = w.term GROUP BY s.id",
        collection_id,
        list(terms),
    )
    slots = [
        np.frombuffer(row["slots"], ">i4")[np.unique(np.frombuffer(row["places"], "<u2"))].tolist()
        for row in rows
    ]
    found = await connection.fetch(
        "SELECT ord FROM chunk_terms WHERE collection_id = $1 AND slot = ANY($2::int[]) ORDER BY ord",
        collection_id,
        [slot for some in slots for slot in some],
    )
    return [row["ord"] for row in found]


async def move_chunk_terms(
    connection: Connection, collection_id: int, former: Mapping[int, int]
) -> None:
    """Move chunks whose rights changed to new slots, so that new postings are written for them.

    Args:
        connection: Inside the writing transaction, in which the chunks have their new classes already.
        collection_id: The collection.
        former: The class that each chunk had before, by its number.
    """
    rows = await connection.fetch(
        "SELECT t.ord, t.slot, t.length, t.language, t.terms, c.class_id FROM chunk_terms t JOIN chunk c ON c.ord = t.ord"
        " WHERE t.ord = ANY($1::int[]) ORDER BY t.slot",
        list(former),
    )
    if not rows:
        return
    classes = [former[row["ord"]] for row in rows]
    await _count_changes(connection, collection_id, rows, classes, -1)
    await _count_changes(connection, collection_id, rows, [row["class_id"] for row in rows], 1)
    await _bury(connection, collection_id, rows, classes)
    first = await _take_slots(connection, collection_id, len(rows))
    await connection.execute(
        "UPDATE chunk_terms t SET slot = w.slot FROM unnest($1::int[], $2::int[]) w(ord, slot)"
        " WHERE t.ord = w.ord",
        [row["ord"] for row in rows],
        list(range(first, first + len(rows))),
    )


async def _bury(
    connection: Connection, collection_id: int, rows: Sequence[Any], classes: Sequence[int]
) -> None:
    """Count the dead of each segment, and of each of their terms in the class that the postings stand in.

    Args:
        connection: Inside the writing transaction.
        collection_id: The collection.
        rows: Slot and terms of each chunk that is gone from its slot.
        classes: The class that each of them had there.
    """
    segments = await connection.fetch(
        "UPDATE segment s SET dead = s.dead + g.n FROM (SELECT x.id, count(*) AS n"
        " FROM unnest($2::int[]) w(slot) JOIN segment x"
        " ON w.slot BETWEEN x.first_slot AND x.last_slot"
        " WHERE x.collection_id = $1 GROUP BY x.id) g WHERE s.id = g.id"
        " RETURNING s.id, s.first_slot",
        collection_id,
        [row["slot"] for row in rows],
    )
    segments.sort(key=lambda segment: segment["first_slot"])
    firsts = np.array([segment["first_slot"] for segment in segments])
    which = np.searchsorted(firsts, [row["slot"] for row in rows], side="right") - 1
    numbers, of_row = np.unique(np.array(classes), return_inverse=True)
    widths = [len(row["terms"]) // 4 for row in rows]
    runs = np.repeat(which * len(numbers) + of_row, widths) << 32 | _joined(rows, "terms")
    runs, counts = np.unique(runs, return_counts=True)
    which, of_row = np.divmod(runs >> 32, len(numbers))
    ids = np.array([segment["id"] for segment in segments])
    await connection.execute(
        "INSERT INTO posting_dead AS p SELECT * FROM unnest($1::int[], $2::int[], $3::int[], $4::int[])"
        " ON CONFLICT (segment, term, class_id) DO UPDATE SET chunks = p.chunks + excluded.chunks",
        ids[which].tolist(),
        (runs & 0xFFFFFFFF).tolist(),
        numbers[of_row].tolist(),
        counts.tolist(),
    )


# --- segments --------------------------------------------------------------------------------------


async def places_of(connection: Connection, collection_id: int, document_id: str) -> dict[int, int]:
    """Return the slot of each chunk of a document, by the chunk's number."""
    rows = await connection.fetch(
        "SELECT c.ord, coalesce(t.slot, -1) AS slot FROM document d JOIN chunk c ON c.document = d.id"
        " LEFT JOIN chunk_terms t ON t.ord = c.ord WHERE d.collection_id = $1 AND d.document_id = $2",
        collection_id,
        document_id,
    )
    return {row["ord"]: row["slot"] for row in rows}


async def expel(connection: Connection, collection_id: int, slots: Sequence[int]) -> None:
    """Write the segments again that have dead postings at some slots, without those.

    Cost: linear in these segments, of 65,536 chunks at most.
    """
    rows = await connection.fetch(
        "SELECT s.first_slot, s.last_slot FROM segment s WHERE s.collection_id = $1 AND s.dead > 0"
        " AND EXISTS (SELECT FROM unnest($2::int[]) w(slot)"
        "  WHERE w.slot BETWEEN s.first_slot AND s.last_slot) ORDER BY s.first_slot",
        collection_id,
        list(slots),
    )
    for row in rows:
        await merge_segments(connection, collection_id, row["first_slot"], row["last_slot"])


async def count_deleted_postings(
    connection: Connection, collection_id: int, slots: Sequence[int]
) -> int:
    """Return how many dead postings are in the segments of some slots."""
    count: int = await connection.fetchval(
        "SELECT coalesce(sum(p.chunks), 0) FROM segment s JOIN posting_dead p ON p.segment = s.id"
        " WHERE s.collection_id = $1 AND EXISTS (SELECT FROM unnest($2::int[]) w(slot)"
        "  WHERE w.slot BETWEEN s.first_slot AND s.last_slot)",
        collection_id,
        list(slots),
    )
    return count


async def settle(connection: Connection, collection_id: int, *, everything: bool = False) -> None:
    """Write the postings of all new slots, and merge what is due.

    Args:
        connection: Inside the writing transaction.
        collection_id: The collection, whose lexicon is open.
        everything: Also do what is too large for a write, and else done beside.
    """
    first = await _post(connection, collection_id)
    segments = await segments_of(connection, collection_id)
    due = plan_all_merges(segments) if everything else plan_inline_merges(segments)
    fresh = [one for one in segments if one.first >= first]
    for one in due or packed(fresh):
        await merge_segments(connection, collection_id, one.first, one.last)


async def _post(connection: Connection, collection_id: int, *, fewest: int = 0) -> int:
    """Write the postings of all new slots, of so many at least; return the first of these."""
    row = await connection.fetchrow(
        "SELECT next_slot, posted FROM lexicon WHERE collection_id = $1", collection_id
    )
    first: int = row["posted"]
    if row["next_slot"] - first >= fewest:
        await _write(connection, collection_id, first, row["next_slot"] - 1)
        await connection.execute(
            "UPDATE lexicon SET posted = next_slot WHERE collection_id = $1", collection_id
        )
    return first


async def merge_pending(connection: Connection, collection: str) -> bool:
    """Return whether a merge waits that was too large for the writes. Cost: linear in the segments."""
    collection_id = await connection.fetchval(
        "SELECT id FROM collection WHERE name = $1", collection
    )
    return bool(plan_background_merges(await segments_of(connection, collection_id)))


async def _write(connection: Connection, collection_id: int, first: int, last: int) -> None:
    """Write the segments of a range of slots that are in none.

    Cost: linear in the postings of the range; memory in those of one segment.
    """
    while (chunks := await _read_words(connection, collection_id, first, last)) is not None:
        await write_segment(connection, collection_id, chunks)
        first = int(chunks.slots[-1]) + 1


async def write_segment(connection: Connection, collection_id: int, chunks: TermVectors) -> None:
    """Write the postings of chunks that are in no segment, of at most `MAX_SEGMENT_CHUNKS`.

    Cost: n log n in the postings; memory 8 bytes for each beside the words.
    """
    inverted = await asyncio.to_thread(_Inverted, chunks)
    segment = await connection.fetchval(
        "INSERT INTO segment (collection_id, first_slot, last_slot, chunks, slots)"
        " VALUES ($1, $2, $3, $4, $5) RETURNING id",
        collection_id,
        int(chunks.slots[0]),
        int(chunks.slots[-1]),
        len(chunks.slots),
        inverted.slots,
    )
    await write_postings(connection, segment, inverted.bands())


async def _read_words(
    connection: Connection, collection_id: int, first: int, last: int
) -> TermVectors | None:
    """Read the forward index of a range of slots, of one segment at most; None when no chunk is left.

    Some hundred chunks at a time: the driver's rows take several times the room of the numbers in them.
    """
    parts: list[TermVectors] = []
    left = _MOST_WRITTEN
    while left:
        rows = await connection.fetch(
            "SELECT t.slot, c.class_id, t.length, t.terms, t.counts FROM chunk_terms t"
            " JOIN chunk c ON c.ord = t.ord WHERE t.collection_id = $1 AND t.slot BETWEEN $2 AND $3"
            " ORDER BY t.slot LIMIT $4",
            collection_id,
            first,
            last,
            min(left, _READ_CHUNKS),
        )
        if not rows:
            break
        parts.append(await asyncio.to_thread(TermVectors.of, rows))
        left -= len(rows)
        first = rows[-1]["slot"] + 1
    return await asyncio.to_thread(TermVectors.joined, parts) if parts else None


class TermVectors(msgspec.Struct, frozen=True):
    """The words of some chunks as arrays: 8 bytes a posting, 16 a chunk."""

    slots: NDArray[np.int32]
    """Ascending; one number a chunk, as in the next three."""
    classes: NDArray[np.int32]
    lengths: NDArray[np.int32]
    widths: NDArray[np.int32]
    """Distinct terms of each."""
    terms: NDArray[np.int32]
    """Those of the first chunk, then those of the second, and so on."""
    counts: NDArray[np.int32]
    """How often each occurs."""

    @classmethod
    def of(cls, rows: Sequence[Any]) -> TermVectors:
        """Take rows of the forward index."""
        return cls(
            slots=np.array([row["slot"] for row in rows], dtype=np.int32),
            classes=np.array([row["class_id"] for row in rows], dtype=np.int32),
            lengths=np.array([row["length"] for row in rows], dtype=np.int32),
            widths=np.array([len(row["terms"]) // 4 for row in rows], dtype=np.int32),
            terms=_joined(rows, "terms"),
            counts=_joined(rows, "counts"),
        )

    @classmethod
    def joined(cls, parts: list[TermVectors]) -> TermVectors:
        """Put parts one behind the other."""
        if len(parts) == 1:
            return parts[0]
        names = cls.__struct_fields__
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def by_class(self) -> TermVectors:
        """Return the chunks in the order of their classes; slots still ascend in a class."""
        order = np.argsort(self.classes, kind="stable")
        if (np.diff(order) > 0).all():
            return self
        widths = self.widths[order]
        starts = np.cumsum(self.widths, dtype=np.int64) - self.widths
        moved = np.repeat(starts[order] - (np.cumsum(widths, dtype=np.int64) - widths), widths)
        moved += np.arange(len(moved))
        return TermVectors(
            self.slots[order],
            self.classes[order],
            self.lengths[order],
            widths,
            self.terms[moved],
            self.counts[moved],
        )


class _Inverted:
    """Postings of some chunks in runs: in the order of terms, then classes, then slots.

    They are laid out and written a band of terms at a time: memory stays near that of the words alone.
    """

    def __init__(self, chunks: TermVectors) -> None:
        self._chunks = chunks = chunks.by_class()
        self._lengths = np.minimum(chunks.lengths, MAX_COUNT)
        self._places = np.repeat(np.arange(len(chunks.slots), dtype="<u2"), chunks.widths)
        self.slots = chunks.slots.astype(">i4").tobytes()

    def bands(self) -> Iterator[PostingLists]:
        """Yield the postings a band of terms at a time."""
        return map(self._band, _bands(self._chunks.terms))

    def _band(self, chosen: NDArray[np.intp]) -> PostingLists:
        """Lay out some postings, given by their numbers in the order of terms."""
        places = self._places[chosen]
        counts = np.empty((len(chosen), 2), dtype="<u2")
        counts[:, 0] = np.minimum(self._chunks.counts[chosen], MAX_COUNT)
        counts[:, 1] = self._lengths[places]
        classes = self._chunks.classes[places]
        return PostingLists(self._chunks.terms[chosen], classes, places, counts)


def _bands(terms: NDArray[np.int32]) -> Iterator[NDArray[np.intp]]:
    """Yield the numbers of the postings in the order of terms, in bands, all of a term in one."""
    # Term and number of a posting in one: no two are equal, so that any sort is stable, the fastest too.
    order = terms.astype(np.int64)
    order <<= 32
    order |= np.arange(len(order))
    order.sort()
    at = 0
    while at < len(order):
        last = int(order[min(at + BATCH_POSTINGS, len(order)) - 1]) | _LOW_HALF
        to = int(np.searchsorted(order, last, side="right"))
        yield (order[at:to] & _LOW_HALF).astype(np.intp)
        at = to


def _joined(rows: Sequence[Any], column: str) -> NDArray[np.int32]:
    """Return the packed numbers of all rows, one after the other."""
    return np.frombuffer(b"".join(row[column] for row in rows), dtype="<i4").astype(np.int32)

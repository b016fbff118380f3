"""The forward index: term vectors of chunks, the term dictionary, and statistics by language and ACL class.

Every function runs inside the transaction that writes the chunks, with the row of the collection locked;
readers see what was committed before. Each chunk has a *slot*, a number that increases with every write;
`segments` makes postings of new slots.
"""

from __future__ import annotations

import asyncio
import hashlib
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from whence.store.postgres.driver import Connection
from whence.store.postgres.lexical.segments import mark_deleted, read_terms
from whence.store.term_counts import TermVector
from whence.store.validation import json_text

#: Longest term stored as it is, in characters; a row of a B-tree holds 2704 bytes, a character takes 4 at most.
_MAX_TERM = 500

#: Statistics are the number and total length of the chunks of each ACL class in each language.
STATISTICS = (
    "INSERT INTO lexicon_class AS l (collection_id, class_id, language, chunks, total_length)"
)
ADD_STATISTICS = """
    ON CONFLICT (collection_id, class_id, language) DO UPDATE
    SET chunks = l.chunks + excluded.chunks, total_length = l.total_length + excluded.total_length"""
# Chunks are looked up by their primary key.
_ADD_CHUNKS = f"""
    {STATISTICS}
    SELECT $1, c.class_id, w.language, count(*), sum(w.length)
    FROM unnest($2::int[], $3::text[], $4::int[]) w(ord, language, length)
    JOIN chunk c ON c.ord = w.ord GROUP BY 2, 3 {ADD_STATISTICS}"""  # noqa: S608 - only constants
_ADD_CHANGES = f"""
    {STATISTICS}
    SELECT $1, w.class_id, w.language, sum(w.sign), sum(w.sign * w.length)
    FROM unnest($2::int[], $3::text[], $4::int[], $5::int[]) w(class_id, language, length, sign)
    GROUP BY 2, 3 {ADD_STATISTICS}"""  # noqa: S608 - only constants
_ADD_TO_COUNT = "UPDATE lexicon SET chunks = chunks + $2 WHERE collection_id = $1"
_RESERVE_SLOTS = """
    UPDATE lexicon SET next_slot = next_slot + $2 WHERE collection_id = $1 RETURNING next_slot - $2"""
# Both by the unique index on (collection_id, term).
_ADD_DF = """
    UPDATE term t SET df = t.df + w.df::int
    FROM ROWS FROM (json_array_elements_text($2), json_array_elements_text($3)) w(term, df)
    WHERE t.collection_id = $1 AND t.term = w.term RETURNING t.term, t.id"""
_NEW_TERMS = """
    INSERT INTO term (collection_id, term, df)
    SELECT $1, w.term, w.df::int
    FROM ROWS FROM (json_array_elements_text($2), json_array_elements_text($3)) w(term, df)
    RETURNING term, id"""
_SUBTRACT_DF = """
    UPDATE term t SET df = t.df - w.df FROM unnest($1::int[], $2::int[]) w(id, df) WHERE t.id = w.id"""
_DELETE_UNUSED = "DELETE FROM term WHERE id = ANY($1::int[]) AND df = 0"
_OF_DOCUMENTS = """
    SELECT t.slot, t.length, t.language, t.terms, c.class_id
    FROM document d JOIN chunk c ON c.document = d.id JOIN chunk_terms t ON t.ord = c.ord
    WHERE d.collection_id = $1 AND d.document_id = ANY($2::text[])"""
_OF_CHUNKS = """
    SELECT t.ord, t.slot, t.length, t.language, t.terms, c.class_id
    FROM chunk_terms t JOIN chunk c ON c.ord = t.ord WHERE t.ord = ANY($1::int[]) ORDER BY t.slot"""
_SET_SLOTS = """
    UPDATE chunk_terms t SET slot = w.slot FROM unnest($1::int[], $2::int[]) w(ord, slot)
    WHERE t.ord = w.ord"""
_SLOTS = """
    SELECT c.ord, coalesce(t.slot, -1) AS slot FROM document d JOIN chunk c ON c.document = d.id
    LEFT JOIN chunk_terms t ON t.ord = c.ord WHERE d.collection_id = $1 AND d.document_id = $2"""
_VECTOR_COLUMNS = ("collection_id", "slot", "ord", "length", "language", "terms", "counts")


def term_key(term: str) -> str:
    """Return the stored form of a term: itself, or its start and its SHA-256 when it is too long."""
    if len(term) <= _MAX_TERM:
        return term
    # No term contains this control character, so no other term has the same form.
    return f"{term[:64]}\x01{hashlib.sha256(term.encode()).hexdigest()}"


async def add_chunk_terms(
    connection: Connection, collection_id: int, ords: Sequence[int], words: Sequence[TermVector]
) -> None:
    """Add the term vectors of chunks just written, and count them in the statistics.

    Cost: linear in the terms.
    """
    if not ords:
        return
    await connection.execute(_ADD_TO_COUNT, collection_id, len(ords))
    languages = [one.language for one in words]
    lengths = [one.length for one in words]
    await connection.execute(_ADD_CHUNKS, collection_id, list(ords), languages, lengths)
    await write_term_vectors(connection, collection_id, ords, words)


async def write_term_vectors(
    connection: Connection, collection_id: int, ords: Sequence[int], words: Sequence[TermVector]
) -> None:
    """Write the term vectors of chunks, in new slots, and add to the document frequencies."""
    df: Counter[str] = Counter()
    for one in words:
        df.update(one.counts.keys())
    keys = {term: term_key(term) for term in df}
    key_ids = await _add_terms(connection, collection_id, {keys[t]: n for t, n in df.items()})
    ids = {term: key_ids[key] for term, key in keys.items()}
    first = await _reserve_slots(connection, collection_id, len(ords))
    vectors = await asyncio.to_thread(lambda: [_packed(one, ids) for one in words])
    records = [
        (collection_id, slot, ord_, one.length, one.language, *columns)
        for slot, (ord_, one, columns) in enumerate(zip(ords, words, vectors, strict=True), first)
    ]
    await connection.copy_records_to_table("chunk_terms", columns=_VECTOR_COLUMNS, records=records)


async def _add_terms(
    connection: Connection, collection_id: int, df: dict[str, int]
) -> dict[str, int]:
    """Add to the document frequencies of terms, creating new ones; return the id of each."""
    columns = json_text(list(df)), json_text(list(df.values()))
    rows = await connection.fetch(_ADD_DF, collection_id, *columns)
    ids = {row["term"]: row["id"] for row in rows}
    new = sorted(term for term in df if term not in ids)
    columns = json_text(new), json_text([df[term] for term in new])
    rows = await connection.fetch(_NEW_TERMS, collection_id, *columns)
    return ids | {row["term"]: row["id"] for row in rows}


async def _reserve_slots(connection: Connection, collection_id: int, n: int) -> int:
    """Reserve n slots; return the first."""
    first: int = await connection.fetchval(_RESERVE_SLOTS, collection_id, n)
    return first


def _packed(words: TermVector, ids: dict[str, int]) -> tuple[bytes, bytes]:
    """Return the ids of terms and their counts as two columns of bytes, ascending by id."""
    pairs = sorted([(ids[term], count) for term, count in words.counts.items()])
    # For some fifty numbers `struct` is faster than an array of numpy.
    layout = struct.Struct(f"<{len(pairs)}i")
    return layout.pack(*[one for one, _ in pairs]), layout.pack(*[n for _, n in pairs])


async def remove_document_terms(
    connection: Connection, collection_id: int, document_ids: Sequence[str]
) -> list[int]:
    """Take documents out of all statistics, before their chunks are deleted.

    The term vectors are deleted with the chunks. Returns the ids of their terms, for `delete_unused_terms`.
    Cost: linear in the terms of the documents.
    """
    rows = await connection.fetch(_OF_DOCUMENTS, collection_id, list(document_ids))
    if not rows:
        return []
    terms, counts = np.unique(read_terms(rows), return_counts=True)
    ids: list[int] = terms.tolist()
    await connection.execute(_SUBTRACT_DF, ids, counts.tolist())
    await connection.execute(_ADD_TO_COUNT, collection_id, -len(rows))
    classes = [row["class_id"] for row in rows]
    await _add_changes(connection, collection_id, rows, classes, -1)
    await mark_deleted(connection, collection_id, rows, classes)
    return ids


async def delete_unused_terms(connection: Connection, terms: Sequence[int]) -> None:
    """Delete those terms that no chunk contains any more."""
    if terms:
        await connection.execute(_DELETE_UNUSED, list(terms))


async def move_chunk_terms(
    connection: Connection, collection_id: int, former: Mapping[int, int]
) -> None:
    """Move chunks whose rights changed to new slots, so that new postings are written for them.

    Args:
        connection: Inside the writing transaction, in which the chunks have their new classes already.
        collection_id: The collection.
        former: The former class of each chunk, by its number.
    """
    rows = await connection.fetch(_OF_CHUNKS, list(former))
    if not rows:
        return
    classes = [former[row["ord"]] for row in rows]
    await _add_changes(connection, collection_id, rows, classes, -1)
    await _add_changes(connection, collection_id, rows, [row["class_id"] for row in rows], 1)
    await mark_deleted(connection, collection_id, rows, classes)
    first = await _reserve_slots(connection, collection_id, len(rows))
    slots = list(range(first, first + len(rows)))
    await connection.execute(_SET_SLOTS, [row["ord"] for row in rows], slots)


async def _add_changes(
    connection: Connection,
    collection_id: int,
    rows: Sequence[Any],
    classes: Sequence[int],
    sign: int,
) -> None:
    """Add chunks to the statistics, or subtract them."""
    languages = [row["language"] for row in rows]
    lengths = [row["length"] for row in rows]
    signs = [sign] * len(rows)
    await connection.execute(_ADD_CHANGES, collection_id, list(classes), languages, lengths, signs)


async def chunk_slots(
    connection: Connection, collection_id: int, document_id: str
) -> dict[int, int]:
    """Return the slot of each chunk of a document, by the chunk's number; -1 for a chunk without one."""
    rows = await connection.fetch(_SLOTS, collection_id, document_id)
    return {row["ord"]: row["slot"] for row in rows}

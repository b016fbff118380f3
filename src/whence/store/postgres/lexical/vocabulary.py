"""Words as they are written, counted by access class, to correct misspelt words of queries.

The functions that write run inside the transaction that writes the chunks, with the row of the collection
locked. Snapshots of code have no vocabulary.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from whence.store.field_boosts import FieldBoosts
from whence.store.postgres.collection_version import ReaderView, fetch_versioned, versioned
from whence.store.postgres.document_rows import EMBEDDED_TEXT
from whence.store.postgres.driver import Connection
from whence.store.postgres.lexical.visible_postings import read_words
from whence.store.term_counts import TermVector
from whence.store.validation import json_text
from whence.store.vocabulary import AbsentWords, whole_terms
from whence.text.analysis import ANALYZER_VERSION
from whence.text.spelling import max_edits, surface_words

_CLASSES = "SELECT ord, class_id FROM chunk WHERE ord = ANY($1::int[])"
_TEXTS = """
    SELECT c.ord, c.class_id, {embedded} AS text, c.heading, d.title,
        d.document_id, l.boosts
    FROM document d JOIN chunk c ON c.document = d.id JOIN lexicon l ON l.collection_id = d.collection_id
    WHERE {chosen}"""
_OF_DOCUMENTS = _TEXTS.format(
    embedded=EMBEDDED_TEXT, chosen="d.collection_id = $1 AND d.document_id = ANY($2::text[])"
)
_OF_CHUNKS = _TEXTS.format(embedded=EMBEDDED_TEXT, chosen="c.ord = ANY($1::int[])")
# The driver encodes an array element by element, which takes longer than JSON does here and on the server.
_ADD = """
    INSERT INTO word AS x (collection_id, class_id, word, letters, chunks)
    SELECT $1, w.class_id::int, w.word, w.letters::int, w.chunks::int
    FROM ROWS FROM (json_array_elements_text($2), json_array_elements_text($3), json_array_elements_text($4),
        json_array_elements_text($5)) w(class_id, word, letters, chunks)
    ON CONFLICT (collection_id, class_id, word) DO UPDATE SET chunks = x.chunks + excluded.chunks"""
_SUBTRACT = """
    UPDATE word x SET chunks = x.chunks - w.chunks
    FROM unnest($2::int[], $3::text[], $4::int[]) w(class_id, word, chunks)
    WHERE x.collection_id = $1 AND x.class_id = w.class_id AND x.word = w.word"""
_DELETE_UNUSED = """
    DELETE FROM word x USING unnest($2::int[], $3::text[]) w(class_id, word)
    WHERE x.collection_id = $1 AND x.class_id = w.class_id AND x.word = w.word AND x.chunks <= 0"""
# Words of about the length, with one of the beginnings, whose letters differ from $3 in at most two; all have
# the letter $4. `OFFSET 0` makes the server look up each set of letters by the index, not read all words.
_SIMILAR = versioned(
    """
    WITH flip AS MATERIALIZED (
        SELECT 0 AS bits UNION ALL SELECT 1 << n FROM generate_series(0, 30) n WHERE 1 << n <> $4::int)
    SELECT w.word, sum(w.chunks)::int AS chunks
    FROM flip one JOIN flip other ON one.bits < other.bits OR other.bits = 0 AND one.bits = 0
    CROSS JOIN LATERAL (SELECT * FROM word w
        WHERE w.collection_id = $1 AND w.letters = $3::int # one.bits # other.bits OFFSET 0) w
    WHERE w.class_id = ANY($2::int[]) AND w.word ^@ ANY($5::text[]) AND char_length(w.word) BETWEEN $6 AND $7
    GROUP BY w.word""",
    8,
)

_Counts = dict[int, Counter[str]]


async def add_words(
    connection: Connection, collection_id: int, ords: Sequence[int], words: Sequence[TermVector]
) -> None:
    """Count the words of chunks just written. Cost: linear in them; a statement for all distinct ones."""
    if not ords:
        return
    rows = await connection.fetch(_CLASSES, list(ords))
    classes = {row["ord"]: row["class_id"] for row in rows}
    counts: _Counts = {}
    for ord_, one in zip(ords, words, strict=True):
        counts.setdefault(classes[ord_], Counter()).update(one.words)
    await _add(connection, collection_id, counts)


async def remove_words(
    connection: Connection, collection_id: int, document_ids: Sequence[str]
) -> None:
    """Take the words of documents out of the counts, before their chunks are deleted."""
    rows = await connection.fetch(_OF_DOCUMENTS, collection_id, list(document_ids))
    counts = await asyncio.to_thread(_count, rows)
    await _subtract(connection, collection_id, counts)


async def move_words(connection: Connection, collection_id: int, former: Mapping[int, int]) -> None:
    """Count the words of chunks in their new classes; `former` has the former class of each, by its number."""
    rows = await connection.fetch(_OF_CHUNKS, list(former))
    counts = await asyncio.to_thread(_count, rows, former)
    await _subtract(connection, collection_id, counts)
    await _add(connection, collection_id, await asyncio.to_thread(_count, rows))


def _count(rows: Iterable[Any], classes: Mapping[int, int] | None = None) -> _Counts:
    """Count the chunks with each word by class: that of the row, or that of its number in `classes`."""
    counts: _Counts = {}
    for row in rows:
        title, heading, path = row["boosts"]
        text = FieldBoosts(title=title, heading=heading, path=path).indexed_text(
            row["text"], title=row["title"], heading=row["heading"], path=row["document_id"]
        )
        of = row["class_id"] if classes is None else classes[row["ord"]]
        counts.setdefault(of, Counter()).update(surface_words(text))
    return counts


async def _add(connection: Connection, collection_id: int, counts: _Counts) -> None:
    classes, words, numbers = _columns(counts)
    columns = (classes, words, letter_masks(words), numbers)
    await connection.execute(_ADD, collection_id, *map(json_text, columns))


def _columns(counts: _Counts) -> tuple[list[int], list[str], list[int]]:
    """Return classes, words and numbers of chunks, in the order of the index."""
    rows = [(of, word, some[word]) for of, some in sorted(counts.items()) for word in sorted(some)]
    return [one[0] for one in rows], [one[1] for one in rows], [one[2] for one in rows]


def letter_masks(words: Sequence[str]) -> list[int]:
    """Return the letters of each word as a set of 31 bits. No word may be empty.

    An edit changes at most two of them, so words at most n edits apart differ in at most 2 n bits.
    """
    if not words:
        return []
    letters = np.frombuffer("".join(words).encode("utf-32-le"), "<u4").astype(np.int64)
    starts = np.cumsum([0, *map(len, words)])[:-1]
    masks: list[int] = np.bitwise_or.reduceat(1 << letters % 31, starts).tolist()
    return masks


async def _subtract(connection: Connection, collection_id: int, counts: _Counts) -> None:
    if not counts:
        return
    classes, words, numbers = _columns(counts)
    await connection.execute(_SUBTRACT, collection_id, classes, words, numbers)
    await connection.execute(_DELETE_UNUSED, collection_id, classes, words)


async def absent_words(
    connection: Connection, view: ReaderView, words: Sequence[str]
) -> AbsentWords | None:
    """See `ChunkStore`; None while words are not indexed by this version."""
    if view.version.analyzer != ANALYZER_VERSION:
        return None
    terms, found, texts = await read_words(
        connection,
        view,
        lambda languages: {word: whole_terms(word, languages) for word in words},
        lambda some: {term for one in some.values() for term in one},
    )
    return AbsentWords(
        frozenset(
            word for word, some in terms.items() if some and not any(found[one].df for one in some)
        ),
        tuple(sorted(texts.languages)),
    )


async def similar_words(
    connection: Connection, view: ReaderView, word: str
) -> dict[str, int] | None:
    """See `ChunkStore`; None while words are not indexed by this version."""
    if view.version.analyzer != ANALYZER_VERSION:
        return None
    folded = word.casefold()
    # `nearest_word` accepts no other beginning, and one edit more than the most where a letter is doubled.
    starts = sorted({folded[:1], folded[1::-1]}) if folded[:1] != folded[1:2] else [folded[:1]]
    most = max_edits(folded) + 1
    lengths = (len(folded) - most, len(folded) + most)
    letters = letter_masks([folded, folded[:1]])
    values = (view.version.id, view.classes, *letters, starts, *lengths)
    rows = await fetch_versioned(connection, _SIMILAR, view.version, *values)
    return {row["word"]: row["chunks"] for row in rows if row["word"] is not None}

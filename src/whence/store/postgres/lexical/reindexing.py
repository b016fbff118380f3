"""Indexing of whole collections: after an upgrade of the analyzer, or with other field boosts.

Reindexing is batched and resumable, each batch can be a transaction of its own. Lexical search of a collection
waits until it completes; a write completes it first.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

from whence.store.field_boosts import FieldBoosts
from whence.store.postgres.document_rows import EMBEDDED_TEXT
from whence.store.postgres.driver import Connection
from whence.store.postgres.lexical.forward_index import STATISTICS, write_term_vectors
from whence.store.postgres.lexical.merge_policy import MAX_SEGMENT_CHUNKS
from whence.store.postgres.lexical.segments import flush_postings
from whence.store.postgres.lexical.vocabulary import add_words
from whence.store.term_counts import TermVector, count_terms
from whence.text.analysis import ANALYZER_VERSION
from whence.text.languages import detect_language, language_sample

#: Stands in place of the analyzer's version while a collection is reindexed.
_IN_PROGRESS = f"{ANALYZER_VERSION} in part"
#: Documents whose chunks are indexed in one batch.
_BATCH_DOCUMENTS = 500

_OF_COLLECTION = "FROM lexicon l JOIN collection c ON c.id = l.collection_id WHERE c.name = $1"
_ANALYZER = f"SELECT l.analyzer {_OF_COLLECTION}"
_BOOSTS = f"SELECT l.boosts {_OF_COLLECTION}"
_STATE = """
    SELECT l.analyzer, l.boosts, c.internal FROM collection c
    LEFT JOIN lexicon l ON l.collection_id = c.id WHERE c.id = $1"""
_SET_BOOSTS = "UPDATE lexicon SET boosts = $2, analyzer = '' WHERE collection_id = $1"
# The number of chunks is kept: dense searches use it.
_RESET = """
    INSERT INTO lexicon VALUES ($1, $2, 0, 0, 0, $3) ON CONFLICT (collection_id) DO UPDATE
    SET analyzer = excluded.analyzer, next_slot = 0, posted = 0"""
#: The texts of the documents after the one whose chunk was indexed last.
_NEXT_TEXTS = f"""
    SELECT c.ord, c.document, c.content, {EMBEDDED_TEXT} AS text, c.heading,
        d.title, d.document_id
    FROM (SELECT * FROM document
        WHERE collection_id = $1
        AND id > coalesce((SELECT c.document FROM chunk_terms t JOIN chunk c ON c.ord = t.ord
            WHERE t.collection_id = $1 ORDER BY t.slot DESC LIMIT 1), -1)
        AND EXISTS (SELECT FROM chunk c WHERE c.document = document.id)
        ORDER BY id LIMIT $2) d
    JOIN chunk c ON c.document = d.id ORDER BY c.document, c.ord"""  # noqa: S608 - only constants
_COUNT_CLASSES = f"""
    {STATISTICS}
    SELECT $1, c.class_id, t.language, count(*), sum(t.length)
    FROM chunk_terms t JOIN chunk c ON c.ord = t.ord WHERE t.collection_id = $1 GROUP BY 2, 3"""  # noqa: S608 - only constants
_COMPLETE = """
    UPDATE lexicon SET analyzer = $2, chunks = (SELECT coalesce(sum(chunks), 0) FROM lexicon_class
        WHERE collection_id = $1)
    WHERE collection_id = $1"""


async def is_indexed(connection: Connection, collection: str) -> bool:
    """Return whether all chunks of a collection are indexed with this version of the analyzer."""
    return bool(await connection.fetchval(_ANALYZER, collection) == ANALYZER_VERSION)


async def ensure_indexed(connection: Connection, collection_id: int) -> None:
    """Index all chunks of a collection with this version of the analyzer.

    Cost: one look-up; linear in the texts that are not indexed.
    """
    while not await reindex_batch(connection, collection_id):
        pass


async def reindex_batch(connection: Connection, collection_id: int) -> bool:
    """Index some more chunks, document by document; return True when all are indexed.

    Cost: linear in the texts of some documents.
    """
    row = await connection.fetchrow(_STATE, collection_id)
    if row["analyzer"] == ANALYZER_VERSION:
        return True
    boosts = _boosts(row["boosts"])
    if row["analyzer"] != _IN_PROGRESS:
        await _reset(connection, collection_id, boosts)
    texts = await connection.fetch(_NEXT_TEXTS, collection_id, _BATCH_DOCUMENTS)
    if not texts:
        await _complete(connection, collection_id)
        return True
    # Code is written in English words, whatever the language of its comments.
    words = await asyncio.to_thread(_analyze, texts, boosts, detect=not row["internal"])
    ords = [text["ord"] for text in texts]
    await write_term_vectors(connection, collection_id, ords, words)
    if not row["internal"]:
        await add_words(connection, collection_id, ords, words)
    await flush_postings(connection, collection_id, min_chunks=MAX_SEGMENT_CHUNKS)
    return False


async def _reset(connection: Connection, collection_id: int, boosts: FieldBoosts) -> None:
    """Delete the index that another version of the analyzer made."""
    for table in ("chunk_terms", "term", "segment", "word"):
        await connection.execute(f"DELETE FROM {table} WHERE collection_id = $1", collection_id)  # noqa: S608 - only constants
    await connection.execute(_RESET, collection_id, _IN_PROGRESS, _numbers(boosts))


def _analyze(rows: Sequence[Any], boosts: FieldBoosts, *, detect: bool) -> list[TermVector]:
    """Count the terms of chunks; those of a document are next to one another."""
    words: list[TermVector] = []
    for _, some in itertools.groupby(rows, key=lambda row: row["document"]):
        chunks = list(some)
        sample = language_sample(row["content"] for row in chunks) if detect else ""
        language = detect_language(sample)
        for row in chunks:
            text = boosts.indexed_text(
                row["text"], title=row["title"], heading=row["heading"], path=row["document_id"]
            )
            words.append(count_terms(text, language))
    return words


async def _complete(connection: Connection, collection_id: int) -> None:
    """Write the remaining postings, count the chunks, and open the index to searches."""
    await flush_postings(connection, collection_id)
    await connection.execute("DELETE FROM lexicon_class WHERE collection_id = $1", collection_id)
    await connection.execute(_COUNT_CLASSES, collection_id)
    await connection.execute(_COMPLETE, collection_id, ANALYZER_VERSION)


async def read_field_boosts(connection: Connection, collection: str) -> FieldBoosts:
    """Return the field boosts of a collection; the defaults before its first document."""
    return _boosts(await connection.fetchval(_BOOSTS, collection))


async def set_field_boosts(connection: Connection, collection_id: int, boosts: FieldBoosts) -> None:
    """Reindex a collection with other field boosts. Cost: linear in its texts."""
    await connection.execute(_SET_BOOSTS, collection_id, _numbers(boosts))
    await ensure_indexed(connection, collection_id)


def _numbers(boosts: FieldBoosts) -> list[int]:
    return [boosts.title, boosts.heading, boosts.path]


def _boosts(numbers: Sequence[int] | None) -> FieldBoosts:
    if numbers is None:
        return FieldBoosts()
    title, heading, path = numbers
    return FieldBoosts(title=title, heading=heading, path=path)

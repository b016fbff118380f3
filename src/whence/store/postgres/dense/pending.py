"""Vectors that are made after their documents were stored, and the second set of vectors of a collection."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from pgvector import Vector

from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import BadInput
from whence.store.postgres import change_log
from whence.store.postgres.collection_version import (
    ReaderView,
    check_version,
    fetch_versioned,
    versioned,
)
from whence.store.postgres.collections import (
    lock_collection,
    model_of,
    writable_collection,
    write_settings,
)
from whence.store.postgres.dense.vector_index import VISIBLE_CHUNKS
from whence.store.postgres.dense.vector_sets import graph_name, vector_table
from whence.store.postgres.document_rows import EMBEDDED_TEXT
from whence.store.postgres.driver import Connection, read_transaction, write_transaction
from whence.store.postgres.part import PostgresPart
from whence.store.protocols import (
    OtherVectors,
    PassageVector,
    PendingPassage,
    SampledText,
    VectorProgress,
    VectorShare,
)
from whence.store.validation import check_model, check_passage_vectors, is_text, missing_collection

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: First half of the key of the advisory lock on some passages: "whev" in ASCII.
_LOCK: Final = 0x77686576
#: Chunks with neighbouring numbers that one process embeds at a time.
_BLOCK: Final = 128
_FIRST = """
SELECT min(p.ord) FROM vector_pending p
WHERE p.collection_id = $1 AND p.number = $2 AND p.ord >= $3 AND p.refused = ''
"""
_CLAIMED = f"""
SELECT p.ord, p.token_codes, c.chunk_key, d.document_id, {EMBEDDED_TEXT} AS text
FROM vector_pending p JOIN chunk c ON c.ord = p.ord JOIN document d ON d.id = c.document
WHERE p.collection_id = $1 AND p.number = $2 AND p.ord >= $3 AND p.ord < $4 AND p.refused = ''
ORDER BY p.ord LIMIT $5
"""  # noqa: S608 - only constants
# Of several chunks of one text the first counts.
# `OFFSET 0` makes the server look up each text by the index. By statistics that lag behind a load it would read
# all chunks for each batch.
_KNOWN = f"""
SELECT DISTINCT ON (w.n) w.n, v.e, k.codes
FROM unnest($2::text[]) WITH ORDINALITY w(text, n)
CROSS JOIN LATERAL (SELECT c.ord FROM chunk c
    WHERE c.collection_id = $1 AND hashtextextended({EMBEDDED_TEXT}, 0) = hashtextextended(w.text, 0)
        AND {EMBEDDED_TEXT} = w.text OFFSET 0) c
CROSS JOIN LATERAL (SELECT v.e FROM {{vectors}} v WHERE v.ord = c.ord AND v.collection_id = $1 OFFSET 0) v
LEFT JOIN LATERAL (SELECT k.codes FROM chunk_codes k WHERE k.ord = c.ord OFFSET 0) k ON true
ORDER BY w.n, c.ord
"""  # noqa: S608 - only constants
# A chunk that was removed meanwhile, or has a vector already, is left out.
_STORE = """
WITH given AS (SELECT * FROM unnest($3::int[], $4::vector[]) w(ord, e)),
taken AS (
    DELETE FROM vector_pending p USING given w
    WHERE p.collection_id = $1 AND p.number = $2 AND p.ord = w.ord RETURNING p.ord
)
INSERT INTO {vectors} (ord, collection_id, class_id, e)
SELECT t.ord, $1, c.class_id, w.e FROM taken t JOIN given w ON w.ord = t.ord JOIN chunk c ON c.ord = t.ord
ORDER BY t.ord RETURNING ord
"""
_STORE_CODES = """
INSERT INTO chunk_codes (ord, codes) SELECT w.ord, w.codes FROM unnest($1::int[], $2::bytea[]) w(ord, codes)
JOIN chunk c ON c.ord = w.ord ON CONFLICT (ord) DO NOTHING
"""
_REFUSE = """
UPDATE vector_pending p SET refused = w.reason FROM unnest($3::int[], $4::text[]) w(ord, reason)
WHERE p.collection_id = $1 AND p.number = $2 AND p.ord = w.ord
"""
_NEW_VERSION = "UPDATE lexicon SET chunks = chunks WHERE collection_id = $1"
_PENDING_VISIBLE = versioned(
    "SELECT count(*) AS pending FROM vector_pending p JOIN chunk c ON c.ord = p.ord"
    " WHERE p.collection_id = $1 AND p.number = $2 AND c.class_id = ANY($3::int[])",
    4,
)
_SHARE = "vector_share"
_PENDING_COLLECTIONS = """
SELECT c.name FROM collection c WHERE EXISTS (
    SELECT FROM vector_pending p WHERE p.collection_id = c.id AND p.number = c.vector_set AND p.refused = '')
ORDER BY c.name
"""
_PENDING_DOCUMENTS = """
SELECT d.document_id, count(*) AS pending FROM collection n
JOIN vector_pending p ON p.collection_id = n.id AND p.number = n.vector_set
JOIN chunk c ON c.ord = p.ord JOIN document d ON d.id = c.document
WHERE n.name = $1 AND ($2::text[] IS NULL OR d.document_id = ANY($2::text[])) GROUP BY 1
"""
_PROGRESS = """
SELECT c.model_name, c.model_revision, c.model_precision, c.dimension, coalesce(l.chunks, 0) AS chunks,
    o.number AS other, o.former, o.model_name AS other_name, o.model_revision AS other_revision,
    o.model_precision AS other_precision, o.dimension AS other_dimension,
    (SELECT count(*) FROM vector_pending p
        WHERE p.collection_id = c.id AND p.number = c.vector_set AND p.refused = '') AS pending,
    (SELECT count(*) FROM vector_pending p
        WHERE p.collection_id = c.id AND p.number = c.vector_set AND p.refused <> '') AS refused,
    (SELECT count(*) FROM vector_pending p
        WHERE p.collection_id = c.id AND p.number = o.number AND p.refused = '') AS other_pending
FROM collection c LEFT JOIN lexicon l ON l.collection_id = c.id LEFT JOIN vector_set o ON o.collection_id = c.id
WHERE c.name = $1
"""
_OTHER = "SELECT * FROM vector_set WHERE collection_id = $1"
_NUMBERS = """
SELECT c.id, c.vector_set, o.number AS other FROM collection c LEFT JOIN vector_set o ON o.collection_id = c.id
WHERE c.name = $1
"""
_ADD_SET = "INSERT INTO vector_set VALUES ($1, $2, $3, $4, $5, $6, false)"
_NEW_AGAIN = "UPDATE vector_set SET former = false WHERE collection_id = $1"
_DROP_SET = "DELETE FROM vector_set WHERE collection_id = $1"
_ALL_PENDING = """
INSERT INTO vector_pending (collection_id, number, ord, token_codes)
SELECT $1, $2, c.ord, false FROM document d JOIN chunk c ON c.document = d.id WHERE d.collection_id = $1
"""
_SWITCH = """
WITH former AS (SELECT * FROM collection WHERE id = $1),
used AS (
    UPDATE collection c SET vector_set = o.number, model_name = o.model_name, model_revision = o.model_revision,
        model_precision = o.model_precision, dimension = o.dimension
    FROM vector_set o WHERE c.id = $1 AND o.collection_id = c.id RETURNING c.id
)
UPDATE vector_set o SET number = f.vector_set, model_name = f.model_name, model_revision = f.model_revision,
    model_precision = f.model_precision, dimension = f.dimension, former = true
FROM former f, used u WHERE o.collection_id = u.id
"""
_PASSAGES = """
SELECT c.chunk_key, c.heading, c.content FROM collection n JOIN document d ON d.collection_id = n.id
JOIN chunk c ON c.document = d.id
WHERE n.name = $1 ORDER BY md5(d.document_id || ':' || c.index), c.chunk_key LIMIT $2
"""
_NEAREST = """
SELECT c.chunk_key FROM {vectors} v JOIN chunk c ON c.ord = v.ord
WHERE v.collection_id = $1 ORDER BY v.e <#> $2::vector, c.chunk_key LIMIT $3
"""


async def known_vectors(
    connection: Connection, collection_id: int, number: int, texts: Sequence[str]
) -> dict[str, tuple[Any, bytes | None]]:
    """Return the vectors and token codes of those texts that a chunk of the collection has, by text.

    Cost: one look-up of an index a text.
    """
    wanted = list(dict.fromkeys(texts))
    statement = _KNOWN.format(vectors=vector_table(number))
    rows = await connection.fetch(statement, collection_id, wanted)
    return {wanted[row["n"] - 1]: (row["e"], row["codes"]) for row in rows}


class PostgresVectors(PostgresPart):
    """Implements the part of `ChunkStore` that makes vectors later, and the sets of vectors."""

    async def vector_progress(self, collection: str) -> VectorProgress | None:
        """Return how many passages have vectors; see `ChunkStore`."""
        if not is_text(collection):
            return None
        async with self.pool.connection() as connection:
            row = await connection.fetchrow(_PROGRESS, collection)
        if row is None:
            return None
        other = None
        if row["other"] is not None:
            model = EmbeddingModel(
                name=row["other_name"],
                revision=row["other_revision"],
                precision=row["other_precision"],
                dimension=row["other_dimension"],
            )
            pending = row["other_pending"]
            other = OtherVectors(model=model, pending=pending, former=row["former"])
        return VectorProgress(
            model=model_of(row),
            passages=row["chunks"],
            pending=row["pending"],
            refused=row["refused"],
            other=other,
        )

    async def pending_collections(self) -> list[str]:
        """Return the collections with passages that wait for vectors; see `ChunkStore`."""
        async with self.pool.connection() as connection:
            return [row["name"] for row in await connection.fetch(_PENDING_COLLECTIONS)]

    async def pending_documents(
        self, collection: str, document_ids: Sequence[str] | None = None
    ) -> dict[str, int]:
        """Return how many passages of documents have no vector; see `ChunkStore`."""
        if not is_text(collection):
            return {}
        ids = None if document_ids is None else list(filter(is_text, document_ids))
        async with self.pool.connection() as connection:
            rows = await connection.fetch(_PENDING_DOCUMENTS, collection, ids)
        return {row["document_id"]: row["pending"] for row in rows}

    @contextlib.asynccontextmanager
    async def claim_passages(
        self, collection: str, limit: int, *, other: bool = False
    ) -> AsyncIterator[list[PendingPassage]]:
        """Claim passages without vector for the time of a block; see `ChunkStore`.

        A lock of the session keeps other processes away; it goes with the connection of one that is killed.
        """
        async with self.pool.connection() as connection:
            row = await connection.fetchrow(_NUMBERS, collection) if is_text(collection) else None
            number = row and row["other" if other else "vector_set"]
            if row is None or number is None:
                raise missing_collection(collection)
            block = await _lock_block(connection, row["id"], number)
            if block is None:
                yield []
                return
            try:
                span = (block * _BLOCK, (block + 1) * _BLOCK)
                rows = await connection.fetch(_CLAIMED, row["id"], number, *span, limit)
                yield [
                    PendingPassage(
                        key=(number, one["ord"]),
                        chunk_id=one["chunk_key"],
                        document_id=one["document_id"],
                        text=one["text"],
                        token_codes=one["token_codes"],
                    )
                    for one in rows
                ]
            finally:
                if not connection.is_closed():
                    await connection.execute("SELECT pg_advisory_unlock($1, $2)", _LOCK, block)

    async def known_vectors(
        self, collection: str, passages: Sequence[PendingPassage]
    ) -> list[PassageVector]:
        """Return the vectors of those claimed passages whose text has one; see `ChunkStore`."""
        if not passages:
            return []
        number = passages[0].key[0]
        async with self.pool.connection() as connection:
            row = await connection.fetchrow(_NUMBERS, collection)
            if row is None or number not in (row["vector_set"], row["other"]):
                return []
            async with read_transaction(connection, *write_settings(self.write_timeout_s)):
                found = await known_vectors(
                    connection, row["id"], number, [one.text for one in passages]
                )
        return [
            PassageVector(passage=one, vector=vector.to_numpy(), token_codes=codes or b"")
            for one in passages
            if one.text in found
            for vector, codes in [found[one.text]]
        ]

    async def store_vectors(self, collection: str, vectors: Sequence[PassageVector]) -> int:
        """Store vectors of claimed passages; see `ChunkStore`."""
        if not vectors:
            return 0
        number = vectors[0].passage.key[0]
        async with self.pool.connection() as connection:
            await writable_collection(connection, collection)
            async with write_transaction(connection, *write_settings(self.write_timeout_s)):
                locked = await lock_collection(connection, collection)
                other = await connection.fetchrow(_OTHER, locked.id)
                if number == locked.vector_set:
                    model = locked.info.model
                elif other is not None and other["number"] == number:
                    model = model_of(other)
                else:
                    return 0
                check_passage_vectors(model, vectors)
                values = {one.passage.key[1]: one for one in vectors}
                rows = await connection.fetch(
                    _STORE.format(vectors=vector_table(number)),
                    locked.id,
                    number,
                    list(values),
                    [Vector(one.vector) for one in values.values()],
                )
                stored = [row["ord"] for row in rows]
                coded = [one for one in stored if values[one].token_codes]
                if coded:
                    codes = [values[one].token_codes for one in coded]
                    await connection.execute(_STORE_CODES, coded, codes)
                # What searches do not use makes no version, so that they keep what they have cached.
                if number == locked.vector_set:
                    await connection.execute(_NEW_VERSION, locked.id)
            await self.maintenance.start_needed(connection, collection)
        return len(stored)

    async def refuse_passages(
        self, collection: str, reasons: Iterable[tuple[PendingPassage, str]]
    ) -> None:
        """Note texts that the encoder does not take; see `ChunkStore`."""
        given = [(passage.key, reason) for passage, reason in reasons]
        if not given:
            return
        async with self.pool.connection() as connection:
            row = await connection.fetchrow(_NUMBERS, collection)
            if row is not None:
                ords = [key[1] for key, _ in given]
                texts = [reason or "refused" for _, reason in given]
                await connection.execute(_REFUSE, row["id"], given[0][0][0], ords, texts)

    async def begin_vectors(self, collection: str, model: EmbeddingModel) -> None:
        """Begin or continue a second set of vectors; see `ChunkStore`."""
        check_model(model)
        async with self.pool.connection() as connection:
            await writable_collection(connection, collection)
            row = await connection.fetchrow(_NUMBERS, collection)
            other = await connection.fetchrow(_OTHER, row["id"])
            if other is not None and model_of(other) == model:
                await connection.execute(_NEW_AGAIN, row["id"])
                return
            number = max(row["vector_set"], row["other"] or 0) + 1
            number += (number - row["vector_set"] + 1) % 2
            # Its expression has the dimension of the vectors that go.
            await connection.execute(
                f"DROP INDEX CONCURRENTLY IF EXISTS {graph_name(number, row['id'])}"
            )
            async with write_transaction(connection, *write_settings(self.write_timeout_s)):
                locked = await lock_collection(connection, collection)
                if locked.vector_set != row["vector_set"]:
                    raise BadInput(f"the vectors of {collection!r} were changed meanwhile")
                await _drop_set(connection, locked.id, number)
                values = (model.name, model.revision, model.precision, model.dimension)
                await connection.execute(_ADD_SET, locked.id, number, *values)
                await connection.execute(_ALL_PENDING, locked.id, number)

    async def switch_vectors(self, collection: str) -> None:
        """Have searches use the second set of vectors; see `ChunkStore`."""
        async with self.pool.connection() as connection:
            await writable_collection(connection, collection)
            async with write_transaction(connection, *write_settings(self.write_timeout_s)):
                locked = await lock_collection(connection, collection)
                if await connection.fetchrow(_OTHER, locked.id) is None:
                    raise BadInput(
                        f"collection {collection!r} has no second set of vectors",
                        hint="make one: whence reembed --embedder NAME",
                    )
                await change_log.log_settings(connection, locked.id, self.clock())
                await connection.execute(_SWITCH, locked.id)
                await connection.execute(_NEW_VERSION, locked.id)
            await self.maintenance.start_needed(connection, collection)

    async def sample_passages(self, collection: str, limit: int) -> list[SampledText]:
        """Return passages that represent a collection; see `ChunkStore`."""
        async with self.pool.connection() as connection:
            rows = await connection.fetch(_PASSAGES, collection, limit)
        return [
            SampledText(chunk_id=row["chunk_key"], heading=row["heading"], text=row["content"])
            for row in rows
        ]

    async def nearest_passages(
        self, collection: str, vector: NDArray[np.float32], limit: int, *, other: bool = False
    ) -> list[str]:
        """Return the nearest passages in one of the sets, hidden ones included; see `ChunkStore`."""
        async with self.pool.connection() as connection:
            row = await connection.fetchrow(_NUMBERS, collection)
            number = None if row is None else row["other" if other else "vector_set"]
            if number is None:
                raise missing_collection(collection)
            statement = _NEAREST.format(vectors=vector_table(number))
            found = await connection.fetch(statement, row["id"], vector, limit)
        return [one["chunk_key"] for one in found]


async def _lock_block(connection: Connection, collection_id: int, number: int) -> int | None:
    """Lock the first block of waiting chunks that no other process has; None when there is none."""
    start = 0
    while True:
        first = await connection.fetchval(_FIRST, collection_id, number, start)
        if first is None:
            return None
        block: int = first // _BLOCK
        if await connection.fetchval("SELECT pg_try_advisory_lock($1, $2)", _LOCK, block):
            # Whoever had it may just have stored the vectors.
            again = await connection.fetchval(_FIRST, collection_id, number, first)
            if again is not None and again // _BLOCK == block:
                return block
            await connection.execute("SELECT pg_advisory_unlock($1, $2)", _LOCK, block)
        start = (block + 1) * _BLOCK


async def _drop_set(connection: Connection, collection_id: int, number: int) -> None:
    """Remove all vectors of a table, which are those beside the ones that searches use."""
    await connection.execute(_DROP_SET, collection_id)
    await connection.execute(
        f"DELETE FROM {vector_table(number)} WHERE collection_id = $1",  # noqa: S608 - only constants
        collection_id,
    )
    await connection.execute(
        "DELETE FROM vector_pending WHERE collection_id = $1 AND number % 2 = $2",
        collection_id,
        number % 2,
    )


async def read_vector_share(
    connection: Connection, view: ReaderView, *, check: bool = True
) -> tuple[VectorShare]:
    """Return how many of the visible passages have no vector. Cached with the version.

    Args:
        connection: To the database.
        view: The collection as the reader sees it.
        check: Whether a cached value is checked; not needed where another statement of the read does that.
    """
    key = view.key(_SHARE)
    version = view.version
    known: tuple[VectorShare] | None = view.cache.get(key)
    if known is not None:
        if check:
            await check_version(connection, version)
        return known
    rows = await fetch_versioned(
        connection, _PENDING_VISIBLE, version, version.id, version.vector_set, view.classes
    )
    pending = rows[0]["pending"]
    visible = 0
    if pending:
        visible = await connection.fetchval(VISIBLE_CHUNKS, version.id, view.classes)
    found = (VectorShare(pending=pending, passages=visible),)
    view.cache.put(key, found, 4 * len(view.classes))
    return found

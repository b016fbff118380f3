"""Removal of unreachable snapshots of code, a table at a time.

The foreign keys would delete row by row, with look-ups in eight tables for each node. Here one statement
deletes from each table. Where the role may not switch those look-ups off, they find nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from whence.store.postgres.collections import write_settings
from whence.store.postgres.driver import Connection, write_transaction

#: Internal collections without a snapshot; locked, so that a second process waits.
_GONE = (
    "SELECT c.id FROM collection c WHERE c.id = ANY($1::int[]) AND c.internal"
    " AND NOT EXISTS (SELECT FROM code_snapshot s WHERE s.collection_id = c.id)"
    " ORDER BY c.id FOR UPDATE"
)
# Tables that refer to another one, by a foreign key or a trigger, come before it.
_BY_CHUNK = (
    "DELETE FROM {0} t USING chunk c, document d WHERE t.ord = c.ord AND c.document = d.id"
    " AND d.collection_id = ANY($1::int[])"
)
_BY_SEGMENT = (
    "DELETE FROM {0} t USING segment s WHERE t.segment = s.id AND s.collection_id = ANY($1::int[])"
)
_BY_COLLECTION = "DELETE FROM {0} WHERE collection_id = ANY($1::int[])"
_CHUNKS = (
    "DELETE FROM chunk c USING document d WHERE c.document = d.id"
    " AND d.collection_id = ANY($1::int[])"
)
_STATEMENTS = (
    *map(_BY_COLLECTION.format, ("code_neighbours", "code_node", "chunk_vec", "chunk_terms")),
    *map(_BY_COLLECTION.format, ("vector_pending", "vector_set", "chunk_vec_odd")),
    *map(_BY_CHUNK.format, ("passage_mention", "passage_bearer")),
    *map(_BY_COLLECTION.format, ("passage_name", "passage_links", "document_fact", "effect")),
    *map(_BY_SEGMENT.format, ("posting", "posting_dead")),
    *map(_BY_COLLECTION.format, ("segment", "term", "lexicon_class", "lexicon")),
    _CHUNKS,
    _BY_COLLECTION.format("document"),
    "UPDATE code_import SET collection_id = NULL WHERE collection_id = ANY($1::int[])",
    "DELETE FROM collection WHERE id = ANY($1::int[])",
)


async def bulk_settings(connection: Connection, timeout_s: float) -> tuple[str, ...]:
    """Return the settings of a transaction that writes rows of a snapshot, for `driver.write_transaction`.

    Where the role permits, the server does not check foreign keys: the caller writes and deletes whole
    snapshots, to which nothing else refers.
    """
    settings = (*write_settings(timeout_s), "synchronous_commit = off")
    may_skip_checks = await connection.fetchval(
        "SELECT has_parameter_privilege('session_replication_role', 'SET')"
    )
    return (*settings, "session_replication_role = replica") if may_skip_checks else settings


async def delete_hidden_collections(
    connection: Connection, collection_ids: Sequence[int], timeout_s: float
) -> None:
    """Delete internal collections without a snapshot, in one transaction.

    It does not wait for the disk: what a crash restores is unreachable, and the next import removes it. Cost:
    linear in their nodes and edges.
    """
    if not collection_ids:
        return
    async with write_transaction(connection, *await bulk_settings(connection, timeout_s)):
        rows = await connection.fetch(_GONE, list(collection_ids))
        gone = [row["id"] for row in rows]
        for statement in _STATEMENTS if gone else ():
            await connection.execute(statement, gone)

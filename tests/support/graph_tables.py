"""Puts a graph straight into the tables of a snapshot, past the import: for tests and measurements of walks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from tests.support.code_edges import CodeEdge

from whence.schema.access import DocumentTags
from whence.store.chunk_ids import chunk_key
from whence.store.postgres.acl_classes import intern_classes
from whence.store.postgres.driver import Connection

_CHUNK = (
    "ord",
    "collection_id",
    "document",
    "index",
    "chunk_key",
    "class_id",
    "content",
    "digest",
    "heading",
    "section_path",
    "span_start",
    "span_end",
    "embed_text",
)


async def write_graph(
    connection: Connection,
    tags: Mapping[str, DocumentTags],
    edges: Iterable[CodeEdge],
    *,
    collection: str = "graph",
) -> None:
    """Publish a snapshot without vectors and words; its id and repository are those of its nodes' ids.

    Args:
        connection: To a migrated database.
        tags: Rights of each node, by canonical id; one node or more.
        edges: Between these nodes, each once.
        collection: Name of the collection that gets the texts.
    """
    nodes = sorted(tags)
    repo, snapshot, *_ = nodes[0].split("::")
    classes = await intern_classes(connection, set(tags.values()))
    collection_id = await connection.fetchval(
        "INSERT INTO collection (name, model_name, model_revision, model_precision, dimension, internal)"
        " VALUES ($1, 'none', '', '', 1, true) RETURNING id",
        collection,
    )
    kinds = [node.split("::", 3)[2] for node in nodes]
    await connection.execute(
        "INSERT INTO code_snapshot (snapshot_id, repo, branch, head_sha, generated_at, collection_id, digest,"
        " nodes_cs, nodes_sql, edges_cs, edges_sql, published_at)"
        " VALUES ($1, $2, 'main', 'sha-of-it', '', $3, '', $4, $5, 0, 0, $6)",
        snapshot,
        repo,
        collection_id,
        kinds.count("cs"),
        kinds.count("sql"),
        datetime.now(UTC),
    )
    numbers = {node: number for number, node in enumerate(nodes)}
    base = await _write_texts(connection, collection_id, collection, tags, classes)
    await connection.copy_records_to_table(
        "code_node",
        records=[
            (collection_id, numbers[node], base + numbers[node], classes[tags[node]], _local(node))
            for node in nodes
        ],
        columns=("collection_id", "node", "ord", "class_id", "local_id"),
    )
    await _write_edges(connection, collection_id, numbers, edges)


async def _write_texts(
    connection: Connection,
    collection_id: int,
    collection: str,
    tags: Mapping[str, DocumentTags],
    classes: Mapping[DocumentTags, int],
) -> int:
    """Write a document of one chunk for each node; gives the number of the first chunk."""
    nodes = sorted(tags)
    rows = await connection.fetch(
        "INSERT INTO document (collection_id, document_id, digest, class_id, chunks, title, source_file,"
        " source_url, metadata) SELECT $1, n.id, '', n.class_id, 1, '', '', '', '{}'"
        " FROM unnest($2::text[], $3::int[]) n(id, class_id) RETURNING id, document_id",
        collection_id,
        nodes,
        [classes[tags[node]] for node in nodes],
    )
    documents = {row["document_id"]: row["id"] for row in rows}
    base: int = 1 + await connection.fetchval("SELECT coalesce(max(ord), 0) FROM chunk")
    records = (
        (
            base + number,
            collection_id,
            documents[node],
            0,
            chunk_key(collection, node, 0),
            classes[tags[node]],
            f"text of {node}",
            "",
            "",
            "",
            0,
            0,
            "",
        )
        for number, node in enumerate(nodes)
    )
    await connection.copy_records_to_table("chunk", records=records, columns=_CHUNK)
    return base


async def _write_edges(
    connection: Connection,
    collection_id: int,
    numbers: Mapping[str, int],
    edges: Iterable[CodeEdge],
) -> None:
    wanted = list(edges)
    names = sorted({edge.relation for edge in wanted})
    await connection.executemany(
        "INSERT INTO code_relation (name) VALUES ($1) ON CONFLICT DO NOTHING",
        [(name,) for name in names],
    )
    rows = await connection.fetch("SELECT id, name FROM code_relation")
    relations = {row["name"]: row["id"] for row in rows}
    others: dict[tuple[bool, int, int], list[int]] = {}
    for edge in wanted:
        ends = numbers[edge.from_id], numbers[edge.to_id]
        relation = relations[edge.relation]
        others.setdefault((False, ends[0], relation), []).append(ends[1])
        others.setdefault((True, ends[1], relation), []).append(ends[0])
    await connection.copy_records_to_table(
        "code_neighbours",
        records=[(collection_id, *key, sorted(found)) for key, found in others.items()],
        columns=("collection_id", "back", "node", "relation", "others"),
    )


def _local(node: str) -> str:
    return node.split("::", 3)[3]

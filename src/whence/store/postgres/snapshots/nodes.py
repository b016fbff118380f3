"""Nodes of a snapshot on its way in: documents and chunks by batch, then the numbered nodes and edges."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import chain
from urllib.parse import quote

import msgspec
import numpy as np
from numpy.typing import NDArray

from whence.schema.access import DocumentTags
from whence.schema.code import CodeNode, SnapshotInfo
from whence.schema.code_ids import kind_from_local_id
from whence.store.chunk_ids import document_key
from whence.store.postgres.acl_classes import intern_classes
from whence.store.postgres.binary_copy import copy_columns, copy_rows, int_arrays, rows_of_columns
from whence.store.postgres.driver import Connection
from whence.store.snapshot_documents import check_relation, node_text
from whence.store.snapshot_protocols import SnapshotEdges
from whence.store.validation import check_texts

_EDGE_COLUMNS = ("collection_id", "node", "relation", "back", "others")
_INSERT_RELATIONS = """
    INSERT INTO code_relation (name) SELECT w.name FROM unnest($1::text[]) w(name)
    WHERE NOT EXISTS (SELECT FROM code_relation r WHERE r.name = w.name)
    ORDER BY w.name ON CONFLICT (name) DO NOTHING"""
_RELATIONS = "SELECT name, id FROM code_relation WHERE name = ANY($1::text[])"


async def relation_ids(connection: Connection, edges: SnapshotEdges) -> NDArray[np.int32]:
    """Return the id of each name of `edges.names`; new relations are created."""
    names = sorted(set(edges.names))
    for name in names:
        check_relation(name)
    await connection.execute(_INSERT_RELATIONS, names)
    ids = {row["name"]: row["id"] for row in await connection.fetch(_RELATIONS, names)}
    return np.array([ids[name] for name in edges.names], dtype=np.int32)


async def write_edges(
    connection: Connection,
    collection_id: int,
    numbers: NDArray[np.int32],
    edges: SnapshotEdges,
    relations: NDArray[np.int32],
) -> None:
    """Write all edges, inside a transaction. Cost: m log m in the edges.

    Args:
        connection: In the transaction.
        collection_id: The collection of the snapshot.
        numbers: Number of each node, in the order of arrival.
        edges: Each once.
        relations: Id of each name of `edges.names`.
    """
    of_edges = relations[edges.relations]
    sources, targets = numbers[edges.sources], numbers[edges.targets]
    for back, nodes, others in ((b"\0", sources, targets), (b"\1", targets, sources)):
        rows = await asyncio.to_thread(_rows, collection_id, back, nodes, others, of_edges)
        await copy_rows(connection, "code_neighbours", _EDGE_COLUMNS, rows)


def _rows(
    collection_id: int,
    back: bytes,
    nodes: NDArray[np.int32],
    others: NDArray[np.int32],
    relations: NDArray[np.int32],
) -> Iterator[bytes]:
    """Yield encoded rows: the neighbours of each node by relation."""
    order = np.lexsort((others, relations, nodes))
    nodes, others, relations = nodes[order], others[order], relations[order]
    heads = np.flatnonzero(np.diff(nodes, prepend=-1) | np.diff(relations, prepend=-1))
    ends = np.append(heads[1:], len(nodes))

    def rows(at: int) -> Iterator[bytes]:
        some, to = heads[at : at + ROWS_AT_ONCE], ends[at : at + ROWS_AT_ONCE]
        return rows_of_columns(
            {"collection_id": collection_id, "node": nodes[some], "relation": relations[some]},
            {"back": [back] * len(some), "others": int_arrays(others[some[0] : to[-1]], to - some)},
        )

    return chain.from_iterable(map(rows, range(0, len(heads), ROWS_AT_ONCE)))


#: Rows encoded at a time.
ROWS_AT_ONCE = 2000
_NODE_COLUMNS = ("collection_id", "node", "ord", "class_id", "local_id")

#: First byte of the binary format of `jsonb`.
_JSONB = b"\x01"
_encoder = msgspec.json.Encoder()


class NodeBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Some nodes of a snapshot as columns; texts in UTF-8."""

    tags: list[DocumentTags]
    """The different tags of the nodes."""
    tag_of: NDArray[np.int32]
    """Index of the tags of each node."""
    local_ids: list[str]
    lengths: NDArray[np.int32]
    """Length of each text, in characters."""
    documents: dict[str, list[bytes]]
    """Columns of the rows of documents."""
    chunks: dict[str, list[bytes]]

    def __len__(self) -> int:
        return len(self.local_ids)


def prepare_nodes(snapshot: SnapshotInfo, collection: str, nodes: Sequence[CodeNode]) -> NodeBatch:
    """Prepare some nodes of a snapshot for a collection, each id once. Cost: linear in their texts."""
    # All ids have the same beginning, which is escaped once here.
    begin = f"{snapshot.repo}::{snapshot.snapshot_id}::"
    heads = {
        kind: document_key(collection, f"{begin}{kind}::").removesuffix(":")
        for kind in ("cs", "sql")
    }
    texts = [node_text(node) for node in nodes]
    for node, text in zip(nodes, texts, strict=True):
        if not text.searched.isascii() or "\0" in text.searched:
            check_texts((text.searched,), f"node {node.id!r}")
    tags: dict[DocumentTags, int] = {}
    tag_of = [tags.setdefault(node.tags, len(tags)) for node in nodes]
    titles = [text.title.encode() for text in texts]
    contents = [node.text.encode() for node in nodes]
    searched = [text.searched.encode() for text in texts]
    metadata = [_encoder.encode(text.metadata) for text in texts]
    return NodeBatch(
        tags=list(tags),
        tag_of=np.array(tag_of, dtype=np.int32),
        local_ids=[node.local_id for node in nodes],
        lengths=np.array([len(node.text) for node in nodes], dtype=np.int32),
        documents={
            "document_id": [node.id.encode() for node in nodes],
            "digest": [
                sha256(one + b"\0" + two).hexdigest().encode()
                for one, two in zip(metadata, searched, strict=True)
            ],
            "title": titles,
            "source_file": [node.file.encode() for node in nodes],
            "source_url": [b""] * len(nodes),
            "metadata": [_JSONB + one for one in metadata],
        },
        chunks={
            "chunk_key": [
                f"{heads[node.kind]}{quote(node.local_id, safe='/')}:0".encode() for node in nodes
            ],
            "content": contents,
            "digest": [sha256(content).hexdigest().encode() for content in contents],
            "heading": titles,
            "section_path": titles,
            "embed_text": searched,
        },
    )


class StagedNodes:
    """The nodes of a snapshot; all methods run inside a transaction of the caller."""

    def __init__(self, connection: Connection, collection_id: int) -> None:
        self._connection = connection
        self._collection_id = collection_id
        self._class_ids: dict[DocumentTags, int] = {}
        # Of each node in the order of arrival: number of its chunk, ascending; ACL class; local id.
        self._ords = array("i")
        self._classes = array("i")
        self._local_ids: list[str] = []

    def __len__(self) -> int:
        return len(self._ords)

    @property
    def ords(self) -> NDArray[np.int32]:
        """Numbers of the chunks, ascending; valid until the next batch."""
        return np.frombuffer(self._ords, np.int32) if self._ords else np.empty(0, np.int32)

    def classes_of(self, ords: Sequence[int]) -> NDArray[np.int32]:
        """Return the ACL classes of chunks."""
        return np.frombuffer(self._classes, np.int32)[np.searchsorted(self.ords, ords)]

    async def read_classes(self, batch: NodeBatch) -> NDArray[np.int32]:
        """Return the ACL class of each node of a batch; new classes are created."""
        new = set(batch.tags) - self._class_ids.keys()
        if new:
            self._class_ids |= await intern_classes(self._connection, new)
        ids = [self._class_ids[one] for one in batch.tags]
        return np.array(ids, dtype=np.int32)[batch.tag_of]

    async def write(
        self,
        batch: NodeBatch,
        classes: NDArray[np.int32],
        document_ids: Sequence[int],
        ords: Sequence[int],
    ) -> None:
        """Write documents and chunks of a batch under reserved numbers; `add` records them."""
        await copy_columns(
            self._connection,
            "document",
            {
                "id": document_ids,
                "collection_id": self._collection_id,
                "class_id": classes,
                "chunks": 1,
            },
            batch.documents,
            wide=("id",),
        )
        await copy_columns(
            self._connection,
            "chunk",
            {
                "document": document_ids,
                "ord": ords,
                "collection_id": self._collection_id,
                "index": 0,
                "class_id": classes,
                "span_start": 0,
                "span_end": batch.lengths,
            },
            batch.chunks,
            wide=("document",),
        )

    def add(self, batch: NodeBatch, classes: NDArray[np.int32], ords: Sequence[int]) -> None:
        """Record a batch whose transaction is committed."""
        self._local_ids += batch.local_ids
        self._ords.extend(ords)
        self._classes.extend(classes.tolist())

    async def number(self) -> NDArray[np.int32]:
        """Write the nodes of the graph; return the number of each, in the order of arrival.

        Numbers are in the order of canonical ids. Cost: n log n.
        """
        local_ids, self._local_ids = self._local_ids, []
        order = await asyncio.to_thread(_canonical_order, local_ids)
        ords, classes = (
            self.ords,
            np.frombuffer(self._classes, np.int32) if len(self) else self.ords,
        )

        def rows(at: int) -> Iterator[bytes]:
            some = order[at : at + ROWS_AT_ONCE]
            return rows_of_columns(
                {
                    "collection_id": self._collection_id,
                    "node": range(at, at + len(some)),
                    "ord": ords[some],
                    "class_id": classes[some],
                },
                {"local_id": [local_ids[place].encode() for place in some.tolist()]},
            )

        batches = map(rows, range(0, len(order), ROWS_AT_ONCE))
        await copy_rows(self._connection, "code_node", _NODE_COLUMNS, chain.from_iterable(batches))
        numbers = np.empty_like(order)
        numbers[order] = np.arange(len(order), dtype=np.int32)
        return numbers


def _canonical_order(local_ids: Sequence[str]) -> NDArray[np.int32]:
    """Return the order of canonical ids, which are alike up to the kind: C# first, then by local id."""
    order = sorted(range(len(local_ids)), key=local_ids.__getitem__)
    order.sort(key=[kind_from_local_id(one) != "cs" for one in local_ids].__getitem__)
    return np.array(order, dtype=np.int32)

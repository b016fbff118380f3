"""A snapshot on its way into PostgreSQL: its rows, written batch by batch where no reader sees them.

Rows are written by binary COPY, each batch in a transaction of its own that does not wait for the disk; the
transaction that publishes the snapshot waits for all. Where the role permits, the server does not check foreign
keys row by row, which takes more than half of its time; publishing checks the whole snapshot at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from whence.code.snapshots.catalogue import (
    find_published,
    hide_collections,
    write_snapshot,
)
from whence.code.snapshots.documents import (
    check_vectors,
    different_content,
    node_document,
)
from whence.code.snapshots.graph_rows import number_nodes, relation_ids, write_edges
from whence.code.snapshots.protocols import NodeText, SnapshotEdges, SnapshotRecord
from whence.schema.code import CodeNode, ImportReport, SnapshotInfo
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import InternalError
from whence.schema.ingest import DocumentDraft
from whence.store.postgres.acl_classes import intern_classes
from whence.store.postgres.document_rows import EMBEDDED_TEXT, insert_documents
from whence.store.postgres.driver import Connection, write_transaction
from whence.store.postgres.lexical.forward_index import add_chunk_terms
from whence.store.postgres.lexical.segments import flush_postings
from whence.store.term_counts import DEFAULT_LANGUAGES, TermVector, count_terms
from whence.store.validation import check_texts, internal_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

P = ParamSpec("P")
T = TypeVar("T")

#: Nodes from which on the statistics of the planner are updated.
_ANALYZE_FROM = 1000
_ANALYZE = """
    ANALYZE document (id, collection_id, document_id, class_id), chunk (ord, collection_id, document, class_id),
        code_node, code_neighbours"""

# Every node must have its chunk, its document, an existing ACL class, terms and a vector.
_COUNT_INCOMPLETE = """
    SELECT count(*) FILTER (WHERE v.ord IS NULL) AS without_vector,
        count(*) FILTER (WHERE g.id IS NULL OR t.ord IS NULL) AS incomplete
    FROM code_node n LEFT JOIN chunk_vec v ON v.ord = n.ord
    LEFT JOIN chunk_terms t ON t.ord = n.ord LEFT JOIN chunk c ON c.ord = n.ord
    LEFT JOIN document d ON d.id = c.document AND d.collection_id = n.collection_id
    LEFT JOIN sec_class g ON g.id = d.class_id WHERE n.collection_id = $1"""
# By the primary keys of chunks and vectors. `OFFSET 0` makes the server look each vector up: a join would read
# all vectors of the snapshot at every call.
_TEXTS = f"""
    SELECT c.ord, {EMBEDDED_TEXT} AS text FROM chunk c WHERE c.collection_id = $1 AND c.ord > $2
    AND NOT EXISTS (SELECT FROM chunk_vec v WHERE v.ord = c.ord OFFSET 0) ORDER BY c.ord LIMIT $3"""  # noqa: S608 - only constants
_SET_MODEL = """
    UPDATE collection SET model_name = $2, model_revision = $3, model_precision = $4, dimension = $5
    WHERE id = $1"""
_CLASSES = "SELECT ord, class_id FROM chunk WHERE ord = ANY($1::int[])"
_VECTOR_COLUMNS = ("ord", "collection_id", "class_id", "e")
# Nodes with the same local id and text in another snapshot of the repository, or of this import, that have a
# vector of the model. Of several the newest counts.
_COPY_EQUAL = """
    INSERT INTO chunk_vec (ord, collection_id, class_id, e)
    SELECT DISTINCT ON (n.ord) n.ord, n.collection_id, n.class_id, v.e
    FROM code_node n JOIN chunk c ON c.ord = n.ord
    JOIN collection k ON k.id = ANY($2::int[])
        OR k.id IN (SELECT s.collection_id FROM code_snapshot s WHERE s.repo = $7)
    JOIN code_node o ON o.collection_id = k.id AND o.local_id = n.local_id
    JOIN chunk d ON d.ord = o.ord AND (d.embed_text, d.embed_prefix, d.content) = (c.embed_text, c.embed_prefix, c.content)
    JOIN chunk_vec v ON v.ord = o.ord
    WHERE n.collection_id = $1
    AND (k.model_name, k.model_revision, k.model_precision, k.dimension) = ($3::text, $4::text, $5::text, $6::int)
    AND NOT EXISTS (SELECT FROM chunk_vec x WHERE x.ord = n.ord)
    ORDER BY n.ord, k.id DESC"""


def uncancellable(
    method: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Let a method finish before its cancellation takes effect.

    A transaction that is cancelled while it commits leaves the connection in an unknown state, and the import
    needs the connection to clean up.
    """

    @wraps(method)
    async def step(*args: P.args, **kwargs: P.kwargs) -> T:
        task = asyncio.create_task(method(*args, **kwargs))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()
            raise

    return step


class PostgresStagedSnapshot:
    """A snapshot on its way in; implements `StagedSnapshot`."""

    def __init__(
        self,
        connection: Connection,
        number: int,
        collection_id: int,
        snapshot: SnapshotInfo,
        refs: tuple[str, ...],
        settings: tuple[str, ...],
        siblings: Callable[[], list[int]],
    ) -> None:
        self.number = number
        self.snapshot = snapshot
        self.collection_id = collection_id
        self._connection = connection
        self._refs = refs
        self._settings = settings
        self._siblings = siblings
        self._lock = asyncio.Lock()
        #: Held while nodes are prepared, so that they keep their order; acquired before `_lock`.
        self._preparing = asyncio.Lock()
        #: Number of each node in the order of arrival, once all have arrived.
        self._numbers: NDArray[np.int32] | None = None
        #: Model of the vectors, and the chunk whose text was returned last.
        self._model: EmbeddingModel | None = None
        self._last_text = -1
        self._report: ImportReport | None = None
        self._replace = False
        self._unchanged = False

    @uncancellable
    async def add_nodes(self, nodes: Sequence[CodeNode]) -> None:
        """Write some nodes, in the order of the calls; while some are written, the next are prepared."""
        connection = self._connection
        async with self._preparing:
            drafts, words = await asyncio.to_thread(_prepare, nodes)
        async with self._lock:
            if self._numbers is not None:
                raise InternalError("all nodes come before the first edge")
            classes = await intern_classes(connection, {draft.tags for draft in drafts})
            async with self._writing():
                name = internal_name(self.number)
                _, ords = await insert_documents(
                    connection, self.collection_id, name, drafts, classes
                )
                await add_chunk_terms(connection, self.collection_id, ords, words)

    def _writing(self) -> AbstractAsyncContextManager[None]:
        """Open a transaction that writes rows of this snapshot only."""
        return write_transaction(self._connection, *self._settings)

    @uncancellable
    async def end_nodes(self) -> None:
        """Number the nodes and write their postings."""
        async with self._lock, self._writing():
            self._numbers = await number_nodes(self._connection, self.collection_id)
            await flush_postings(self._connection, self.collection_id)

    @uncancellable
    async def add_edges(self, edges: SnapshotEdges) -> None:
        """Write all edges, each once; after `end_nodes`. Cost: m log m in the edges."""
        async with self._lock:
            if self._numbers is None:
                raise InternalError("the nodes are ended before edges are added")
            relations = await relation_ids(self._connection, edges)
            async with self._writing():
                await write_edges(
                    self._connection, self.collection_id, self._numbers, edges, relations
                )

    @uncancellable
    async def close(self, report: ImportReport, *, replace: bool = False) -> bool:
        """End the writing; see `StagedSnapshot.close`."""
        async with self._lock:
            self._report, self._replace = report, replace
            snapshot_id = self.snapshot.snapshot_id
            former = (await find_published(self._connection, [snapshot_id])).get(snapshot_id)
            if self._is_published(report, former):
                self._unchanged = True
                return False
            if self._numbers is None:
                raise InternalError("the nodes are ended before a snapshot is closed")
            if len(self._numbers) >= _ANALYZE_FROM:
                async with self._writing():
                    await self._connection.execute(_ANALYZE)
            return True

    def _is_published(self, report: ImportReport, former: SnapshotRecord | None) -> bool:
        """Return whether this content is published already."""
        if former is None:
            return False
        if former.digest == report.digest:
            return True
        if not self._replace:
            raise different_content(self.snapshot, comparable=bool(former.digest))
        return False

    @uncancellable
    async def texts(self, limit: int) -> list[NodeText]:
        """Return nodes to embed; see `StagedSnapshot.texts`."""
        if self._unchanged:
            return []
        async with self._lock:
            n = limit if self._model else 1
            rows = await self._connection.fetch(_TEXTS, self.collection_id, self._last_text, n)
        if rows:
            self._last_text = rows[-1]["ord"]
        return [NodeText(key=row["ord"], text=row["text"]) for row in rows]

    @uncancellable
    async def add_vectors(
        self, keys: Sequence[int], vectors: NDArray[np.float32], model: EmbeddingModel
    ) -> None:
        """Store vectors; the first call also copies those of equal texts. See `StagedSnapshot.add_vectors`."""
        connection = self._connection
        identity = (model.name, model.revision, model.precision, model.dimension)
        async with self._lock:
            check_vectors(vectors, len(keys), model, self._model)
            async with self._writing():
                rows = await connection.fetch(_CLASSES, list(keys))
                classes = {row["ord"]: row["class_id"] for row in rows}
                await connection.copy_records_to_table(
                    "chunk_vec",
                    columns=_VECTOR_COLUMNS,
                    records=[
                        (key, self.collection_id, classes[key], vector)
                        for key, vector in zip(keys, vectors, strict=True)
                    ],
                )
                if self._model is None:
                    await connection.execute(_SET_MODEL, self.collection_id, *identity)
                    await connection.execute(
                        _COPY_EQUAL,
                        self.collection_id,
                        self._siblings(),
                        *identity,
                        self.snapshot.repo,
                    )
            self._model = model

    async def publish(self, former: SnapshotRecord | None, now: datetime) -> int | None:
        """Make the snapshot readable, inside the caller's transaction.

        Returns:
            The collection that is unreachable now, to be deleted.
        """
        connection, report = self._connection, self._report
        if report is None:
            raise InternalError("a snapshot is closed before it is published")
        unreachable: int | None = self.collection_id
        is_new = not self._is_published(report, former)
        if is_new:
            await self._check_complete()
        former_id = await write_snapshot(
            connection,
            self.snapshot,
            self._refs,
            report,
            now,
            number=self.number,
            collection_id=self.collection_id if is_new else None,
        )
        if is_new:
            unreachable = former_id
        await hide_collections(connection, [] if unreachable is None else [unreachable])
        return unreachable

    async def _check_complete(self) -> None:
        found = await self._connection.fetchrow(_COUNT_INCOMPLETE, self.collection_id)
        for n, what in (
            (found["incomplete"], "are incomplete"),
            (found["without_vector"], "have no vector"),
        ):
            if n:
                raise InternalError(f"{n} nodes of {self.snapshot.repo} {what}")


def _prepare(nodes: Sequence[CodeNode]) -> tuple[list[DocumentDraft], list[TermVector]]:
    """Return documents and term vectors of nodes. Cost: linear in their texts."""
    drafts = [node_document(node) for node in nodes]
    texts = [draft.chunks[0].embed_text for draft in drafts]
    for draft, text in zip(drafts, texts, strict=True):
        check_texts((text,), f"node {draft.document_id!r}")
    return drafts, [count_terms(text, DEFAULT_LANGUAGES[0]) for text in texts]

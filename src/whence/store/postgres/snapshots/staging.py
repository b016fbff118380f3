"""A snapshot on its way into PostgreSQL: its rows, written batch by batch where no reader sees them.

Rows are written by binary COPY, each batch in a transaction of its own that does not wait for the disk; the
transaction that publishes the snapshot waits for all. Where the role permits, the server does not check foreign
keys row by row, which takes more than half of its time; publishing checks the whole snapshot at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from whence.schema.code import CodeNode, ImportReport, SnapshotInfo
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import InternalError
from whence.store.postgres.driver import Connection, writing
from whence.store.postgres.identity_columns import reserve_all
from whence.store.postgres.lexical.segments import flush
from whence.store.postgres.snapshots.catalogue import find_published, hide, write_snapshot
from whence.store.postgres.snapshots.nodes import (
    StagedNodes,
    prepare_nodes,
    relation_ids,
    write_edges,
)
from whence.store.postgres.snapshots.term_index import SnapshotTermWriter, TermCounter
from whence.store.postgres.snapshots.vectors import SnapshotVectors
from whence.store.snapshot_documents import different_content, internal_name
from whence.store.snapshot_protocols import NodeText, SnapshotEdges, SnapshotRecord
from whence.store.term_counts import DEFAULT_LANGUAGES

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


async def _analyze(connection: Connection) -> None:
    await connection.execute(_ANALYZE)


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


# Removing the collection waits for this lock.
_LOCK_COLLECTION = "SELECT true FROM collection WHERE id = $1 FOR KEY SHARE"


class BackgroundWrites:
    """Runs work for a collection on another connection: one after the other, each in a transaction."""

    def __init__(
        self,
        lend: Callable[[], AbstractAsyncContextManager[Connection]],
        collection_id: int,
        settings: tuple[str, ...],
    ) -> None:
        self._lend = lend
        self._collection_id = collection_id
        self._settings = settings
        self._last: asyncio.Task[None] | None = None

    def start(self, work: Callable[[Connection], Awaitable[object]]) -> None:
        """Start some work after that which was started before."""
        self._last = asyncio.create_task(self._run(work, self._last))

    async def wait(self) -> None:
        """Wait for all work; raise what it failed with."""
        if self._last is not None:
            await self._last

    async def wait_ignoring_errors(self) -> None:
        """Wait for all work, before the import is removed."""
        if self._last is not None:
            await asyncio.gather(self._last, return_exceptions=True)

    async def _run(
        self, work: Callable[[Connection], Awaitable[object]], former: asyncio.Task[None] | None
    ) -> None:
        if former is not None:
            await former
        async with self._lend() as connection, writing(connection, *self._settings):
            if not await connection.fetchval(_LOCK_COLLECTION, self._collection_id):
                raise InternalError("the import was given up", hint="run the same command again")
            await work(connection)


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
        lend: Callable[[], AbstractAsyncContextManager[Connection]],
    ) -> None:
        self.number = number
        self.snapshot = snapshot
        self.collection_id = collection_id
        self.background = BackgroundWrites(lend, collection_id, settings)
        self._connection = connection
        self._refs = refs
        self._settings = settings
        self._lock = asyncio.Lock()
        #: Held while terms are counted; acquired before `_lock`.
        self._counting = asyncio.Lock()
        self._counter = TermCounter(DEFAULT_LANGUAGES[0])
        self._terms = SnapshotTermWriter(connection, collection_id)
        self._nodes = StagedNodes(connection, collection_id)
        #: Number of each node in the order of arrival, once all have arrived.
        self._numbers: NDArray[np.int32] | None = None
        self._vectors = SnapshotVectors(
            connection, collection_id, snapshot.repo, self._nodes, siblings
        )
        self._report: ImportReport | None = None
        self._replace = False
        self._unchanged = False

    @uncancellable
    async def add_nodes(self, nodes: Sequence[CodeNode]) -> None:
        """Write some nodes, in the order of the calls; while some are written, the next can be counted."""
        async with self._counting:
            name = internal_name(self.number)
            batch = await asyncio.to_thread(prepare_nodes, self.snapshot, name, nodes)
            counted = await asyncio.to_thread(self._counter.count_bytes, batch.chunks["embed_text"])
        async with self._lock:
            if self._numbers is not None:
                raise InternalError("all nodes come before the first edge")
            if self._terms.is_full(len(batch)):
                await self.background.wait()
                self.background.start(self._terms.segment())
            classes = await self._nodes.read_classes(batch)
            async with self._writing():
                # Inside the transaction, since a transaction of its own would wait for the disk.
                document_ids, ords, term_ids = await reserve_all(
                    self._connection,
                    ("document", "id", len(batch)),
                    ("chunk", "ord", len(batch)),
                    ("term", "id", len(counted.new)),
                )
                await self._nodes.write(batch, classes, document_ids, ords)
                await self._terms.write(ords, classes, counted, term_ids)
            self._nodes.add(batch, classes, ords)

    def _writing(self) -> AbstractAsyncContextManager[None]:
        """Open a transaction that writes rows of this snapshot only."""
        return writing(self._connection, *self._settings)

    @uncancellable
    async def end_nodes(self) -> None:
        """Number the nodes, while another connection writes the last terms."""
        async with self._lock:
            self._counter = TermCounter(DEFAULT_LANGUAGES[0])  # Frees its memory.
            self.background.start(self._finish_terms)
            async with self._writing():
                self._numbers = await self._nodes.number()

    async def _finish_terms(self, connection: Connection) -> None:
        await self._terms.finish(connection)
        await flush(connection, self.collection_id, merge_all=True)

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
            await self.background.wait()
            if len(self._nodes) >= _ANALYZE_FROM:
                self.background.start(_analyze)
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
            return await self._vectors.texts(limit)

    @uncancellable
    async def add_vectors(
        self, keys: Sequence[int], vectors: NDArray[np.float32], model: EmbeddingModel
    ) -> None:
        """Store vectors; see `StagedSnapshot.add_vectors`."""
        async with self._lock:
            await self._vectors.add(keys, vectors, model, self._writing())

    async def publish(self, former: SnapshotRecord | None, now: datetime) -> int | None:
        """Make the snapshot readable, inside the caller's transaction.

        Returns:
            The collection that is unreachable now, to be deleted.
        """
        connection, report = self._connection, self._report
        if report is None:
            raise InternalError("a snapshot is closed before it is published")
        await self.background.wait()
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
        await hide(connection, [] if unreachable is None else [unreachable])
        return unreachable

    async def _check_complete(self) -> None:
        found = await self._connection.fetchrow(_COUNT_INCOMPLETE, self.collection_id)
        for n, what in (
            (found["incomplete"], "are incomplete"),
            (found["without_vector"], "have no vector"),
        ):
            if n:
                raise InternalError(f"{n} nodes of {self.snapshot.repo} {what}")

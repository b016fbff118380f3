"""One snapshot on its way into PostgreSQL: its rows, written batch by batch where nobody looks.

Rows go in by binary COPY, each batch in a transaction of its own that does not wait for the disk: nothing
counts before the transaction that publishes, and that one waits for all. Where the role may, the server does
not look up the referred row for each row that is written, which takes more than half of its time; all of a
snapshot is checked at once before it is published.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import wraps
from itertools import chain
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import msgspec
import numpy as np

from whence.schema.access import DocumentTags
from whence.schema.code import ImportReport, SnapshotInfo
from whence.schema.code_ids import kind_from_local_id
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import InternalError
from whence.store.postgres.acl_classes import intern_classes
from whence.store.postgres.binary_copy import (
    copy_columns,
    copy_rows,
    copy_vectors,
    int_arrays,
    rows_of_columns,
)
from whence.store.postgres.driver import Connection, writing
from whence.store.postgres.identity_columns import reserve_all
from whence.store.postgres.lexical import segments
from whence.store.postgres.snapshots.catalogue import find_published, hide
from whence.store.postgres.snapshots.node_batches import NodeBatch, NodePreparer
from whence.store.postgres.snapshots.term_index import SnapshotTermWriter, WordCounter
from whence.store.snapshot_documents import (
    check_relation,
    check_vectors,
    different_content,
    internal_name,
)
from whence.store.snapshot_protocols import NodeText, SnapshotEdges, SnapshotRecord
from whence.store.term_counts import DEFAULT_LANGUAGES
from whence.store.validation import json_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ("PostgresStagedSnapshot", "uncancellable")

P = ParamSpec("P")
T = TypeVar("T")

#: From here on it pays to tell the planner what has changed.
_ANALYZE_FROM = 1000
_ANALYZE = (
    "ANALYZE document (id, collection_id, document_id, class_id),"
    " chunk (ord, collection_id, document, class_id), code_node, code_neighbours"
)

#: Rows of nodes made at once.
_NODES_AT_ONCE = 2000
_NODE = ("collection_id", "node", "ord", "class_id", "local_id")
_NEIGHBOURS = ("collection_id", "node", "relation", "back", "others")

# Texts that have a vector of this model in another snapshot of the repository. Of several the newest counts.
_KNOWN_VECTORS = (
    "INSERT INTO chunk_vec (ord, collection_id, class_id, e)"
    " SELECT DISTINCT ON (n.ord) n.ord, n.collection_id, n.class_id, v.e"
    " FROM code_node n JOIN chunk c ON c.ord = n.ord"
    " JOIN collection k ON k.id = ANY($2::int[]) OR k.id IN"
    " (SELECT s.collection_id FROM code_snapshot s WHERE s.repo = $7)"
    " JOIN code_node o ON o.collection_id = k.id AND o.local_id = n.local_id"
    " JOIN chunk d ON d.ord = o.ord AND d.embed_text = c.embed_text"
    " JOIN chunk_vec v ON v.ord = o.ord"
    " WHERE n.collection_id = $1 AND (k.model_name, k.model_revision, k.model_precision, k.dimension)"
    " = ($3::text, $4::text, $5::text, $6::int)"
    " AND NOT EXISTS (SELECT FROM chunk_vec x WHERE x.ord = n.ord)"
    " ORDER BY n.ord, k.id DESC"
)

# Every node must have its chunk, its document, rights that exist, words and a vector.
_COMPLETE = (
    "SELECT count(*) FILTER (WHERE v.ord IS NULL) AS bare,"
    " count(*) FILTER (WHERE g.id IS NULL OR t.ord IS NULL) AS torn"
    " FROM code_node n LEFT JOIN chunk_vec v ON v.ord = n.ord"
    " LEFT JOIN chunk_terms t ON t.ord = n.ord LEFT JOIN chunk c ON c.ord = n.ord"
    " LEFT JOIN document d ON d.id = c.document AND d.collection_id = n.collection_id"
    " LEFT JOIN sec_class g ON g.id = d.class_id WHERE n.collection_id = $1"
)


def _in_order(local_ids: Sequence[str]) -> NDArray[np.int32]:
    """Return the order of canonical ids, which are alike up to the kind: C# first, which the local id tells."""
    order = sorted(range(len(local_ids)), key=local_ids.__getitem__)
    order.sort(key=[kind_from_local_id(one) != "cs" for one in local_ids].__getitem__)
    return np.array(order, dtype=np.int32)


async def _analyze(connection: Connection) -> None:
    await connection.execute(_ANALYZE)


def uncancellable(
    method: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Let a step finish before its cancellation takes effect.

    A transaction that is cut off while it commits leaves the connection in a state that nobody knows, and
    the import needs it to clean up.
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
        lend: Callable[[], AbstractAsyncContextManager[Connection]],
    ) -> None:
        self.number = number
        self.snapshot = snapshot
        self._connection = connection
        self.collection_id = collection_id
        self._siblings = siblings
        self._lend = lend
        #: What another connection does meanwhile.
        self._aside: asyncio.Task[None] | None = None
        self._refs = refs
        self._settings = settings
        self._lock = asyncio.Lock()
        #: Held while words are counted; taken before the other.
        self._counting = asyncio.Lock()
        self._counter = WordCounter(DEFAULT_LANGUAGES[0])
        self._words = SnapshotTermWriter(connection, collection_id)
        self._classes: dict[DocumentTags, int] = {}
        #: Of each node, in the order they came: number of its chunk, ascending, and its class.
        self._ords = array("i")
        self._class_of = array("i")
        self._locals: list[str] = []
        self._ended = False
        #: Number of each node, in the order they came, once all are there.
        self._numbers: NDArray[np.int32] | None = None
        self._relations: dict[str, int] = {}
        self._report: ImportReport | None = None
        self._replace = False
        self._unchanged = False
        self._model: EmbeddingModel | None = None
        #: Numbers of the chunks without a vector whose text was not given out, once all are there.
        self._waiting: NDArray[np.int32] | None = None

    def preparer(self) -> NodePreparer:
        """Return what makes batches of nodes for `add_prepared`."""
        return NodePreparer(self.snapshot, internal_name(self.number))

    @uncancellable
    async def add_prepared(self, batch: NodeBatch) -> None:
        """Write some nodes, in the order of the calls; memory keeps the local ids. Cost: linear in their texts.

        While some are written, the words of the next can be counted.
        """
        if self._ended:
            raise InternalError("all nodes come before the first edge")
        async with self._counting:
            words = await asyncio.to_thread(self._counter.count_bytes, batch.chunks["embed_text"])
        async with self._lock:
            if self._words.is_full(len(batch)):
                await self._aside_done()
                self._begin_aside(self._words.segment())
            connection = self._connection
            known = await self._class_ids(batch.tags)
            classes = np.array(known, dtype=np.int32)[batch.tag_of]
            async with self._writing():
                # Within the transaction: by itself it would wait for the disk, and for all written before.
                numbers, ords, terms = await reserve_all(
                    connection,
                    ("document", "id", len(batch)),
                    ("chunk", "ord", len(batch)),
                    ("term", "id", len(words.new)),
                )
                await copy_columns(
                    connection,
                    "document",
                    {
                        "id": numbers,
                        "collection_id": self.collection_id,
                        "class_id": classes,
                        "chunks": 1,
                    },
                    batch.documents,
                    wide=("id",),
                )
                await copy_columns(
                    connection,
                    "chunk",
                    {
                        "document": numbers,
                        "ord": ords,
                        "collection_id": self.collection_id,
                        "index": 0,
                        "class_id": classes,
                        "span_start": 0,
                        "span_end": batch.lengths,
                    },
                    batch.chunks,
                    wide=("document",),
                )
                await self._words.write(ords, classes, words, terms)
            self._locals += batch.local_ids
            self._ords.extend(ords)
            self._class_of.extend(classes.tolist())

    async def _class_ids(self, tags: Sequence[DocumentTags]) -> list[int]:
        new = set(tags) - self._classes.keys()
        if new:
            self._classes |= await intern_classes(self._connection, new)
        return [self._classes[one] for one in tags]

    def _writing(self) -> AbstractAsyncContextManager[None]:
        """Open a transaction that writes rows of this snapshot and nothing else."""
        return writing(self._connection, *self._settings)

    async def _number_nodes(self) -> NDArray[np.int32]:
        """Write the nodes under their numbers, once; return that of each. Cost: n log n."""
        if self._numbers is not None:
            return self._numbers
        local = self._locals
        places = await asyncio.to_thread(_in_order, local)
        ords, classes = (np.frombuffer(column, np.int32) for column in (self._ords, self._class_of))

        def rows(at: int) -> Iterator[bytes]:
            some = places[at : at + _NODES_AT_ONCE]
            return rows_of_columns(
                {
                    "collection_id": self.collection_id,
                    "node": range(at, at + len(some)),
                    "ord": ords[some],
                    "class_id": classes[some],
                },
                {"local_id": [local[place].encode() for place in some.tolist()]},
            )

        every = map(rows, range(0, len(places), _NODES_AT_ONCE))
        async with self._writing():
            await copy_rows(self._connection, "code_node", _NODE, chain.from_iterable(every))
        self._locals = []
        self._numbers = numbers = np.empty_like(places)
        numbers[places] = np.arange(len(places), dtype=np.int32)
        return numbers

    # --- edges -------------------------------------------------------------------------------------

    @uncancellable
    async def end_nodes(self) -> None:
        """Number the nodes, while another connection writes what is kept of their words."""
        async with self._lock:
            self._ended = True
            self._counter = WordCounter(DEFAULT_LANGUAGES[0])  # Forgets what it knew.
            self._begin_aside(self._write_words)
            await self._number_nodes()

    async def _write_words(self, connection: Connection) -> None:
        await self._words.finish(connection)
        await segments.flush(connection, self.collection_id, merge_all=True)

    def _begin_aside(self, work: Callable[[Connection], Awaitable[object]]) -> None:
        """Begin to do some work on another connection, after what is done there already."""
        self._aside = asyncio.create_task(self._do_aside(work, self._aside))

    async def _do_aside(
        self, work: Callable[[Connection], Awaitable[object]], former: asyncio.Task[None] | None
    ) -> None:
        """Do some work on another connection, in a transaction.

        Raises:
            InternalError: The import was given up meanwhile: this process lost the lock that tells it lives.
        """
        if former is not None:
            await former
        async with self._lend() as connection, writing(connection, *self._settings):
            # Whoever removes the collection waits for this row.
            if not await connection.fetchval(
                "SELECT true FROM collection WHERE id = $1 FOR KEY SHARE", self.collection_id
            ):
                raise InternalError("the import was given up", hint="run the same command again")
            await work(connection)

    async def rest(self) -> None:
        """Wait for what is done aside, and leave its errors to whoever needs it done."""
        if self._aside is not None:
            await asyncio.gather(self._aside, return_exceptions=True)

    async def _aside_done(self) -> None:
        """Wait for what is done aside; raises what it failed with."""
        if self._aside is not None:
            await self._aside

    @uncancellable
    async def add_edges(self, edges: SnapshotEdges) -> None:
        """Write all edges, each once; after the last node. Cost: m log m in the edges."""
        async with self._lock:
            numbers = await self._number_nodes()
            await self._know_relations(set(edges.names))
            ids = np.array([self._relations[name] for name in edges.names], dtype=np.int32)
            relations = ids[edges.relations]
            sources, targets = numbers[edges.sources], numbers[edges.targets]
            ways = (b"\0", sources, targets), (b"\1", targets, sources)
            async with self._writing():
                for way in ways:
                    rows = await asyncio.to_thread(self._neighbours, *way, relations)
                    await copy_rows(self._connection, "code_neighbours", _NEIGHBOURS, rows)

    def _neighbours(
        self,
        back: bytes,
        nodes: NDArray[np.int32],
        others: NDArray[np.int32],
        relations: NDArray[np.int32],
    ) -> Iterator[bytes]:
        """Yield rows of what each node has at the other end of its edges, by relation."""
        order = np.lexsort((others, relations, nodes))
        nodes, others, relations = nodes[order], others[order], relations[order]
        heads = np.flatnonzero(np.diff(nodes, prepend=-1) | np.diff(relations, prepend=-1))
        ends = np.append(heads[1:], len(nodes))

        def rows(at: int) -> Iterator[bytes]:
            some, to = heads[at : at + _NODES_AT_ONCE], ends[at : at + _NODES_AT_ONCE]
            return rows_of_columns(
                {
                    "collection_id": self.collection_id,
                    "node": nodes[some],
                    "relation": relations[some],
                },
                {
                    "back": [back] * len(some),
                    "others": int_arrays(others[some[0] : to[-1]], to - some),
                },
            )

        return chain.from_iterable(map(rows, range(0, len(heads), _NODES_AT_ONCE)))

    async def _know_relations(self, names: set[str]) -> None:
        new = sorted(names - self._relations.keys())
        if not new:
            return
        for name in new:
            check_relation(name)
        await self._connection.execute(
            "INSERT INTO code_relation (name) SELECT w.name FROM unnest($1::text[]) w(name)"
            " WHERE NOT EXISTS (SELECT FROM code_relation r WHERE r.name = w.name)"
            " ORDER BY w.name ON CONFLICT (name) DO NOTHING",
            new,
        )
        rows = await self._connection.fetch(
            "SELECT name, id FROM code_relation WHERE name = ANY($1::text[])", new
        )
        self._relations |= {row["name"]: row["id"] for row in rows}

    # --- the end -----------------------------------------------------------------------------------

    @uncancellable
    async def close(self, report: ImportReport, *, replace: bool = False) -> bool:
        """End the writing; return False when the published snapshot has the same content already.

        Raises:
            BadInput: The snapshot is published with other content and `replace` is False.
        """
        async with self._lock:
            self._report, self._replace = report, replace
            snapshot_id = self.snapshot.snapshot_id
            former = (await find_published(self._connection, [snapshot_id])).get(snapshot_id)
            if self._is_known(former):
                self._unchanged = True
                return False
            if not self._ended:
                raise InternalError("the nodes are ended before a snapshot is closed")
            await self._aside_done()
            if len(self._ords) >= _ANALYZE_FROM:
                self._begin_aside(_analyze)
            return True

    def _is_known(self, former: SnapshotRecord | None) -> bool:
        """Return whether this content is published already.

        Raises:
            BadInput: Other content is, and it may not be replaced.
        """
        if former is None:
            return False
        assert self._report is not None
        if former.digest == self._report.digest:
            return True
        if not self._replace:
            raise different_content(self.snapshot, comparable=bool(former.digest))
        return False

    @uncancellable
    async def texts(self, limit: int) -> list[NodeText]:
        """Return some nodes that have no vector and were not given before; the first call gives one."""
        if self._unchanged:
            return []
        async with self._lock:
            if self._waiting is None:
                self._waiting = np.array(self._ords, dtype=np.int32)
            n = limit if self._model else 1
            some, self._waiting = self._waiting[:n], self._waiting[n:]
            rows = await self._connection.fetch(
                "SELECT ord, embed_text FROM chunk WHERE ord = ANY($1::int[]) ORDER BY ord",
                some.tolist(),
            )
            return [NodeText(key=row["ord"], text=row["embed_text"]) for row in rows]

    @uncancellable
    async def add_vectors(
        self, keys: Sequence[int], vectors: NDArray[np.float32], model: EmbeddingModel
    ) -> None:
        """Store the vectors of nodes.

        Raises:
            ModelMismatch: It is another model than that of the first call.
            BadInput: The vectors cannot be stored.
        """
        check_vectors(vectors, len(keys), model, self._model)
        async with self._lock:
            connection = self._connection
            places = np.searchsorted(np.frombuffer(self._ords, np.int32), keys)
            async with self._writing():
                if self._model is None:
                    await self._use_model(model)
                await copy_vectors(
                    connection,
                    "chunk_vec",
                    {
                        "ord": keys,
                        "collection_id": self.collection_id,
                        "class_id": np.frombuffer(self._class_of, np.int32)[places],
                    },
                    "e",
                    vectors,
                )
                if self._model is None:
                    await self._reuse_vectors(model)
            self._model = model

    async def _use_model(self, model: EmbeddingModel) -> None:
        await self._connection.execute(
            "UPDATE collection SET model_name = $2, model_revision = $3, model_precision = $4,"
            " dimension = $5 WHERE id = $1",
            self.collection_id,
            model.name,
            model.revision,
            model.precision,
            model.dimension,
        )

    async def _reuse_vectors(self, model: EmbeddingModel) -> None:
        """Copy the vectors of equal texts from other snapshots of the repository or import."""
        await self._connection.execute(
            _KNOWN_VECTORS,
            self.collection_id,
            [one for one in self._siblings() if one != self.collection_id],
            model.name,
            model.revision,
            model.precision,
            model.dimension,
            self.snapshot.repo,
        )
        rows = await self._connection.fetch(
            "SELECT ord FROM chunk_vec WHERE collection_id = $1", self.collection_id
        )
        if self._waiting is not None:
            done = np.fromiter((row["ord"] for row in rows), np.int32, len(rows))
            self._waiting = np.setdiff1d(self._waiting, done)

    async def publish(self, former: SnapshotRecord | None, now: datetime) -> int | None:
        """Make the snapshot readable, inside the caller's transaction.

        Gives the collection that nobody can reach any more.

        Raises:
            BadInput: Other content was published under its id meanwhile.
            InternalError: It was not closed, or a node has no vector.
        """
        connection, report = self._connection, self._report
        if report is None:
            raise InternalError("a snapshot is closed before it is published")
        await self._aside_done()
        gone = self.collection_id if self._is_known(former) else None
        if gone is None:
            await self._check_complete()
            gone = await self._put(report, now)
        await connection.executemany(
            "INSERT INTO code_ref (ref, snapshot_id) VALUES ($1, $2) ON CONFLICT DO NOTHING",
            [(ref, self.snapshot.snapshot_id) for ref in self._refs],
        )
        await connection.execute(
            "UPDATE code_import SET status = 'completed', finished_at = $2, report = $3,"
            " collection_id = NULL WHERE id = $1",
            self.number,
            now,
            json_text(msgspec.to_builtins(report)),
        )
        await hide(connection, [] if gone is None else [gone])
        return gone

    async def _check_complete(self) -> None:
        found = await self._connection.fetchrow(_COMPLETE, self.collection_id)
        for n, what in ((found["torn"], "are not whole"), (found["bare"], "have no vector")):
            if n:
                raise InternalError(f"{n} nodes of {self.snapshot.repo} {what}")

    async def _put(self, report: ImportReport, now: datetime) -> int | None:
        """Write the row by which the snapshot is found; return the collection it had before."""
        connection, snapshot = self._connection, self.snapshot
        former: int | None = await connection.fetchval(
            "SELECT collection_id FROM code_snapshot WHERE snapshot_id = $1", snapshot.snapshot_id
        )
        await connection.execute(
            "INSERT INTO code_snapshot (snapshot_id, repo, branch, head_sha, generated_at,"
            " collection_id, digest, nodes_cs, nodes_sql, edges_cs, edges_sql, published_at)"
            " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
            " ON CONFLICT (snapshot_id) DO UPDATE SET branch = $3, generated_at = $5,"
            " collection_id = $6, digest = $7, nodes_cs = $8, nodes_sql = $9, edges_cs = $10,"
            " edges_sql = $11, published_at = $12, published = DEFAULT",
            snapshot.snapshot_id,
            snapshot.repo,
            snapshot.branch,
            snapshot.head_sha,
            snapshot.generated_at,
            self.collection_id,
            report.digest,
            report.nodes.cs,
            report.nodes.sql,
            report.edges.cs,
            report.edges.sql,
            now,
        )
        return former

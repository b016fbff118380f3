"""Getting snapshots of code into PostgreSQL: staged out of sight, then published in one transaction.

A run writes into an internal collection that nobody can find, batch by batch, each by binary COPY in a
transaction of its own. While it runs its process holds a lock of the session; a run that is marked running and
whose lock is free has died, and the next import removes what it left. Readers meet a snapshot only through its
row in `code_snapshot`, which the last transaction writes: they see the former content or the new one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from urllib.parse import quote

import msgspec

from whence.schema.access import DocumentTags
from whence.schema.code import CodeEdge, CodeNode, ImportReport, SnapshotInfo
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import BadInput, InternalError, WhenceError
from whence.schema.ingest import DocumentDraft
from whence.store import postings
from whence.store.checks import check_text, content_digest, json_text
from whence.store.classes import intern_classes
from whence.store.code import NodeText, SetMember, SnapshotRecord, SnapshotSet
from whence.store.code_documents import (
    check_relation,
    check_vectors,
    different_content,
    internal_name,
    node_document,
    refs_of,
)
from whence.store.code_snapshots import discard, find_published, hide, write_set
from whence.store.driver import Connection, errors
from whence.store.failures import DRIVER_ERRORS
from whence.store.keys import document_key
from whence.store.words import DEFAULT_LANGUAGES, Words, count_words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ("PostgresImport", "importing")

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

#: First of the two keys of the lock that a run holds, the other is its id: "code" in ASCII.
_RUN_LOCK = 0x636F6465
#: Held while publishing, so that two runs do not publish one snapshot at once: "codepub" in ASCII.
_PUBLISH_LOCK = 0x636F6465707562
#: From here on it pays to tell the planner what has changed.
_ANALYZE_FROM = 1000
#: No model has 0 dimensions; stands in a row until the first vector comes.
_NO_MODEL = ("", "", "", 1)

_DOCUMENT_COLUMNS = (
    "id", "collection_id", "document_id", "digest", "class_id", "chunks", "title",
    "source_file", "source_url", "metadata",
)  # fmt: skip
_CHUNK_COLUMNS = (
    "ord", "collection_id", "document", "index", "chunk_key", "class_id", "content", "digest",
    "heading", "section_path", "span_start", "span_end", "embed_text",
)  # fmt: skip
_NODE_COLUMNS = ("collection_id", "node", "ord", "class_id", "local_id")
_EDGE_COLUMNS = ("collection_id", "from_node", "to_node", "relation")

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


def _to_its_end(
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


@asynccontextmanager
async def importing(
    connection: Connection, *, timeout_s: float, clock: Callable[[], datetime]
) -> AsyncIterator[PostgresImport]:
    """Run an import for the time of a block, on a connection that nothing else uses meanwhile.

    Args:
        connection: Lent for the whole block.
        timeout_s: Longest one statement may take, in seconds.
        clock: Gives the time with its zone.
    """
    run = PostgresImport(connection, timeout_s, clock)
    await run.sweep()
    try:
        yield run
    except BaseException as error:
        await run.abandon(error)
        raise
    await run.abandon(InternalError("the import ended before it was published"))


class PostgresImport:
    """One import; implements `CodeImport`."""

    def __init__(
        self, connection: Connection, timeout_s: float, clock: Callable[[], datetime]
    ) -> None:
        self._connection = connection
        self._timeout_s = timeout_s
        self._clock = clock
        self._staged: list[_Staged] = []
        self._published = False

    @_to_its_end
    async def sweep(self) -> None:
        """Remove what runs have left whose process died, and what was published over."""
        running = await self._connection.fetch(
            "SELECT id FROM code_import WHERE status = 'running' ORDER BY id"
        )
        for row in running:
            if not await self._connection.fetchval(
                "SELECT pg_try_advisory_lock($1::int, $2::int)", _RUN_LOCK, row["id"]
            ):
                continue
            await self._fail(row["id"], "the process that ran it has ended")
            await self._connection.execute(
                "SELECT pg_advisory_unlock($1::int, $2::int)", _RUN_LOCK, row["id"]
            )
        left = await self._connection.fetch(
            "SELECT c.id FROM collection c WHERE c.internal"
            " AND NOT EXISTS (SELECT FROM code_snapshot s WHERE s.collection_id = c.id)"
            " AND NOT EXISTS (SELECT FROM code_import i WHERE i.collection_id = c.id)"
        )
        await discard(self._connection, [row["id"] for row in left], self._timeout_s)

    @_to_its_end
    async def stage(
        self, import_id: str, snapshot: SnapshotInfo, *, tags: Sequence[str] = ()
    ) -> _Staged:
        """Begin to write a snapshot.

        Raises:
            BadInput: The same snapshot is in this import already, or a name cannot be stored.
        """
        if any(one.snapshot.snapshot_id == snapshot.snapshot_id for one in self._staged):
            raise BadInput(
                f"{snapshot.repo} at {snapshot.head_sha} is given twice",
                hint="give each state of a repository once",
            )
        refs = refs_of(snapshot, tags)
        number, collection_id = await self._begin(import_id, snapshot, ",".join(tags))
        staged = _Staged(
            self._connection,
            number,
            collection_id,
            snapshot,
            refs,
            self._timeout_s,
            self._collections,
        )
        self._staged.append(staged)
        return staged

    def _collections(self) -> list[int]:
        """Give the collections of this import."""
        return [one.collection_id for one in self._staged]

    async def _begin(self, import_id: str, snapshot: SnapshotInfo, tag: str) -> tuple[int, int]:
        """Note the run and make its collection; gives both numbers."""
        connection = self._connection
        async with connection.transaction():
            number = await connection.fetchval(
                "INSERT INTO code_import (import_id, snapshot_id, repo, branch, head_sha, tag,"
                " status, started_at) VALUES ($1, $2, $3, $4, $5, $6, 'running', $7) RETURNING id",
                import_id,
                snapshot.snapshot_id,
                snapshot.repo,
                snapshot.branch,
                snapshot.head_sha,
                tag,
                self._clock(),
            )
            # Before anybody can see the run: nobody can take it for a dead one.
            await connection.execute("SELECT pg_advisory_lock($1::int, $2::int)", _RUN_LOCK, number)
            collection_id = await connection.fetchval(
                "INSERT INTO collection"
                " (name, internal, model_name, model_revision, model_precision, dimension)"
                " VALUES ($1, true, $2, $3, $4, $5) RETURNING id",
                internal_name(number),
                *_NO_MODEL,
            )
            await connection.execute(
                "UPDATE code_import SET collection_id = $2 WHERE id = $1", number, collection_id
            )
            await postings.open_lexicon(connection, collection_id)
        return number, collection_id

    @_to_its_end
    async def publish(
        self, *, set_name: str = "", refs: Sequence[str] = ()
    ) -> tuple[list[SnapshotRecord], SnapshotSet | None]:
        """Make everything staged readable, in one transaction; gives the snapshots in the order staged.

        Raises:
            BadInput: The name of the set cannot be, the snapshots are not of one repository, or one was
                published with other content meanwhile.
            InternalError: A snapshot was not closed, or a node has no vector.
        """
        connection, now = self._connection, self._clock()
        ids = [one.snapshot.snapshot_id for one in self._staged]
        made: SnapshotSet | None = None
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", _PUBLISH_LOCK)
            former = await find_published(connection, ids)
            gone = [
                await one.publish(former.get(one.snapshot.snapshot_id), now) for one in self._staged
            ]
            if set_name:
                members = [
                    SetMember(ref=ref, snapshot_id=snapshot_id)
                    for ref, snapshot_id in zip(refs, ids, strict=True)
                ]
                repos = [one.snapshot.repo for one in self._staged]
                made = await write_set(connection, set_name, repos, members, now)
            records = await find_published(connection, ids)
        self._published = True
        await self._clear([one for one in gone if one is not None])
        return [records[one] for one in ids], made

    @_to_its_end
    async def abandon(self, error: BaseException) -> None:
        """Remove what was staged, unless it was published; errors here are left to the next import."""
        if self._published or not self._staged:
            return
        reason = error.message if isinstance(error, WhenceError) else type(error).__name__
        try:
            for one in self._staged:
                await self._fail(one.number, reason)
        except (*DRIVER_ERRORS, OSError):
            logger.warning("a failed import is not removed yet", extra={"action": "import"})

    async def _fail(self, number: int, reason: str) -> None:
        connection = self._connection
        async with connection.transaction():
            collection_id = await connection.fetchval(
                "SELECT collection_id FROM code_import WHERE id = $1", number
            )
            await connection.execute(
                "UPDATE code_import SET status = 'failed', finished_at = $2, error = $3,"
                " collection_id = NULL WHERE id = $1",
                number,
                self._clock(),
                reason.replace("\0", ""),
            )
            await hide(connection, [] if collection_id is None else [collection_id])
        if collection_id is not None:
            await discard(connection, [collection_id], self._timeout_s)

    async def _clear(self, collection_ids: Sequence[int]) -> None:
        """Delete what nobody can reach any more; when that fails, the next import does it."""
        try:
            await discard(self._connection, collection_ids, self._timeout_s)
        except (errors.PostgresError, OSError):
            logger.warning("a replaced snapshot is not removed yet", extra={"action": "import"})


class _Staged:
    """A snapshot on its way in; implements `StagedSnapshot`."""

    def __init__(
        self,
        connection: Connection,
        number: int,
        collection_id: int,
        snapshot: SnapshotInfo,
        refs: tuple[str, ...],
        timeout_s: float,
        siblings: Callable[[], list[int]],
    ) -> None:
        self.number = number
        self.snapshot = snapshot
        self._connection = connection
        self.collection_id = collection_id
        self._siblings = siblings
        self._refs = refs
        self._timeout_s = timeout_s
        self._lock = asyncio.Lock()
        self._classes: dict[DocumentTags, int] = {}
        #: Place of each node's chunk and its class, by canonical id.
        self._rows: dict[str, tuple[int, int]] = {}
        #: Class of each node by the place of its chunk.
        self._class_of: dict[int, int] = {}
        #: Number of each node by canonical id, once all nodes are there.
        self._nodes: dict[str, int] | None = None
        self._relations: dict[str, int] = {}
        self._report: ImportReport | None = None
        self._replace = False
        self._unchanged = False
        self._model: EmbeddingModel | None = None
        #: The last node whose text was given out.
        self._given = -1

    @_to_its_end
    async def add_nodes(self, nodes: Sequence[CodeNode]) -> None:
        """Write some nodes, each id once. Cost: linear in their texts; memory keeps the ids."""
        if self._nodes is not None:
            raise InternalError("all nodes come before the first edge")
        drafts, words = await asyncio.to_thread(_prepared, nodes)
        async with self._lock:
            connection = self._connection
            classes = await self._class_ids([node.tags for node in nodes])
            numbers = await _reserve(connection, "document", "id", len(nodes))
            ords = await _reserve(connection, "chunk", "ord", len(nodes))
            async with self._writing():
                await connection.copy_records_to_table(
                    "document",
                    columns=_DOCUMENT_COLUMNS,
                    records=self._document_rows(drafts, numbers, classes),
                )
                await connection.copy_records_to_table(
                    "chunk",
                    columns=_CHUNK_COLUMNS,
                    records=self._chunk_rows(drafts, numbers, ords, classes),
                )
                await postings.add_words(connection, self.collection_id, ords, words)
            for node, ord_, class_id in zip(nodes, ords, classes, strict=True):
                self._rows[node.id] = (ord_, class_id)
                self._class_of[ord_] = class_id

    async def _class_ids(self, tags: Sequence[DocumentTags]) -> list[int]:
        new = set(tags) - self._classes.keys()
        if new:
            self._classes |= await intern_classes(self._connection, new)
        return [self._classes[one] for one in tags]

    def _document_rows(
        self, drafts: Sequence[DocumentDraft], numbers: Sequence[int], classes: Sequence[int]
    ) -> Iterable[tuple[Any, ...]]:
        for number, draft, class_id in zip(numbers, drafts, classes, strict=True):
            yield (
                number, self.collection_id, draft.document_id, draft.digest, class_id, 1,
                draft.title, draft.source_file, "", json_text(draft.metadata),
            )  # fmt: skip

    def _chunk_rows(
        self,
        drafts: Sequence[DocumentDraft],
        numbers: Sequence[int],
        ords: Sequence[int],
        classes: Sequence[int],
    ) -> Iterable[tuple[Any, ...]]:
        begin = f"{self.snapshot.repo}::{self.snapshot.snapshot_id}::"
        collection = internal_name(self.number)
        # All ids begin alike: that part is escaped once, and the rest seldom needs it.
        head = {
            kind: document_key(collection, f"{begin}{kind}::").removesuffix(":")
            for kind in ("cs", "sql")
        }
        for number, ord_, draft, class_id in zip(numbers, ords, drafts, classes, strict=True):
            chunk = draft.chunks[0]
            kind, local = draft.document_id.removeprefix(begin).split("::", 1)
            yield (
                ord_, self.collection_id, number, 0, f"{head[kind]}{quote(local, safe='/')}:0",
                class_id, chunk.content, content_digest(chunk.content), chunk.heading,
                chunk.section_path, chunk.start, chunk.end, chunk.embed_text,
            )  # fmt: skip

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[None]:
        """Open a transaction whose statements may take their time."""
        async with self._connection.transaction():
            await self._connection.fetchval(
                "SELECT set_config('statement_timeout', $1, true)", str(int(self._timeout_s * 1000))
            )
            yield

    async def _number_nodes(self) -> dict[str, int]:
        """Write the nodes under their numbers, once. Cost: n log n."""
        if self._nodes is None:
            ids = await asyncio.to_thread(sorted, self._rows)
            self._nodes = {node_id: number for number, node_id in enumerate(ids)}
            async with self._writing():
                await self._connection.copy_records_to_table(
                    "code_node",
                    columns=_NODE_COLUMNS,
                    records=(
                        (self.collection_id, number, *self._rows[one], one.split("::", 3)[3])
                        for number, one in enumerate(ids)
                    ),
                )
        return self._nodes

    # --- edges -------------------------------------------------------------------------------------

    @_to_its_end
    async def add_edges(self, edges: Sequence[CodeEdge]) -> None:
        """Write some edges between nodes that were added, each once. Cost: linear in the edges."""
        async with self._lock:
            nodes = await self._number_nodes()
            await self._know_relations({edge.relation for edge in edges})
            relations, collection_id = self._relations, self.collection_id
            async with self._writing():
                await self._connection.copy_records_to_table(
                    "code_edge",
                    columns=_EDGE_COLUMNS,
                    records=(
                        (collection_id, nodes[e.from_id], nodes[e.to_id], relations[e.relation])
                        for e in edges
                    ),
                )

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

    @_to_its_end
    async def close(self, report: ImportReport, *, replace: bool = False) -> bool:
        """Say that all was written; False when the published snapshot has the same content already.

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
            nodes = await self._number_nodes()
            async with self._writing():
                await postings.settle(self._connection, self.collection_id, everything=True)
                if len(nodes) >= _ANALYZE_FROM:
                    await self._connection.execute("ANALYZE document, chunk, code_node, code_edge")
            return True

    def _is_known(self, former: SnapshotRecord | None) -> bool:
        """Tell whether this content is published already.

        Raises:
            BadInput: Other content is, and it may not be replaced.
        """
        if former is None:
            return False
        assert self._report is not None
        if former.digest == self._report.digest:
            return True
        if not self._replace:
            raise different_content(self.snapshot)
        return False

    @_to_its_end
    async def texts(self, limit: int) -> list[NodeText]:
        """Give some nodes that have no vector and were not given before; the first call gives one."""
        if self._unchanged:
            return []
        async with self._lock:
            rows = await self._connection.fetch(
                "SELECT n.node, n.ord, c.embed_text FROM code_node n JOIN chunk c ON c.ord = n.ord"
                " WHERE n.collection_id = $1 AND n.node > $2"
                " AND NOT EXISTS (SELECT FROM chunk_vec v WHERE v.ord = n.ord)"
                " ORDER BY n.node LIMIT $3",
                self.collection_id,
                self._given,
                limit if self._model else 1,
            )
            if rows:
                self._given = rows[-1]["node"]
            return [NodeText(key=row["ord"], text=row["embed_text"]) for row in rows]

    @_to_its_end
    async def add_vectors(
        self, keys: Sequence[int], vectors: NDArray[np.float32], model: EmbeddingModel
    ) -> None:
        """Give nodes their vectors.

        Raises:
            ModelMismatch: It is another model than that of the first call.
            BadInput: The vectors cannot be stored.
        """
        check_vectors(vectors, len(keys), model, self._model)
        async with self._lock:
            connection = self._connection
            classes = self._class_of
            async with self._writing():
                if self._model is None:
                    await self._use_model(model)
                await connection.copy_records_to_table(
                    "chunk_vec",
                    columns=("ord", "collection_id", "class_id", "e"),
                    records=(
                        (key, self.collection_id, classes[key], vector)
                        for key, vector in zip(keys, vectors, strict=True)
                    ),
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
        """Give nodes the vectors that their texts have in other snapshots of the repository or import."""
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
        bare = await self._connection.fetchval(
            "SELECT count(*) FROM code_node n WHERE n.collection_id = $1"
            " AND NOT EXISTS (SELECT FROM chunk_vec v WHERE v.ord = n.ord)",
            self.collection_id,
        )
        if bare:
            raise InternalError(f"{bare} nodes of {self.snapshot.repo} have no vector")

    async def _put(self, report: ImportReport, now: datetime) -> int | None:
        """Write the row by which the snapshot is found; gives the collection it had before."""
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


def _prepared(nodes: Sequence[CodeNode]) -> tuple[list[DocumentDraft], list[Words]]:
    """Give documents and words of nodes; the part of the work that needs no database."""
    drafts = [node_document(node) for node in nodes]
    texts = [draft.chunks[0].embed_text for draft in drafts]
    for draft, text in zip(drafts, texts, strict=True):
        check_text(text, f"node {draft.document_id!r}")
    return drafts, [count_words(text, DEFAULT_LANGUAGES[0]) for text in texts]


async def _reserve(connection: Connection, table: str, column: str, n: int) -> list[int]:
    """Take n numbers of an identity column, ascending."""
    numbers: list[int] = await connection.fetchval(
        "SELECT array_agg(number ORDER BY number) FROM (SELECT"
        " nextval(pg_get_serial_sequence($1, $2)) AS number FROM generate_series(1, $3::int)) w",
        table,
        column,
        n,
    )
    return numbers or []

"""The store on PostgreSQL with pgvector: one pool of connections, every error one of ours."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from pgvector.asyncpg import register_vector

from whence.schema.access import Access, DocumentTags
from whence.schema.document_rag import TraceRecord
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import Overloaded, Unavailable, WhenceError
from whence.schema.filters import Filters
from whence.schema.graph import ExpandRequest, ExpandResponse
from whence.schema.idempotency import EffectKind, Effects
from whence.schema.search import Candidate, Match
from whence.schema.texts import ChunkText
from whence.store.field_boosts import FieldBoosts
from whence.store.postgres import chunk_reader as search
from whence.store.postgres import documents as written
from whence.store.postgres import traces
from whence.store.postgres.cached_search import Shortcuts
from whence.store.postgres.code import PostgresCode
from whence.store.postgres.dense import vector_index
from whence.store.postgres.driver import Pool, connect, create_pool
from whence.store.postgres.errors import DRIVER_ERRORS, address, check_url, is_lost, translate
from whence.store.postgres.ledger import PostgresLedger, find_effects
from whence.store.postgres.lexical import postings
from whence.store.postgres.lexical import search as lexical
from whence.store.postgres.links.queries import LinkStatisticsCache
from whence.store.postgres.migrate import SCHEMA, extension_schema, migrate, migrations
from whence.store.postgres.names import PostgresNames
from whence.store.postgres.overview import overview
from whence.store.postgres.quick import QuickPool
from whence.store.postgres.server.server import EmbeddedServer
from whence.store.postgres.snapshots import expansion as code_graph
from whence.store.protocols import (
    CollectionInfo,
    DocumentParts,
    DocumentState,
    EmbeddedDocument,
    StoredTrace,
    StoreOverview,
)
from whence.store.validation import check_tags, is_text, missing_collection

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ("PostgresStore",)

logger = logging.getLogger(__name__)

T = TypeVar("T")

_CONNECT_TIMEOUT_S = 10.0
_CLOSE_TIMEOUT_S = 10.0
_ACQUIRE_TIMEOUT_S = 30.0
_LOCK_TIMEOUT_S = 60.0
#: Four to eight connections a core are the plateau of throughput; more only queue inside the server.
_CONNECTIONS_PER_CORE = 4


def _now() -> datetime:
    return datetime.now(UTC)


class PostgresStore(PostgresNames, PostgresCode):
    """Chunks, traces and code in PostgreSQL; implements `ChunkStore`, `TraceStore` and `CodeStore`.

    Open it with `async with PostgresStore.open(...)`.
    """

    def __init__(
        self,
        pool: Pool,
        quick_pool: QuickPool,
        where: str,
        *,
        server: EmbeddedServer | None,
        write_timeout_s: float,
        clock: Callable[[], datetime],
        untouched: set[int],
    ) -> None:
        self._pool = pool
        self._quick_pool = quick_pool
        self._untouched = untouched
        self._where = where
        self._server = server
        self._write_timeout_s = write_timeout_s
        self._clock = clock
        self._maintenance: dict[str, asyncio.Task[None]] = {}
        self._indexing: dict[str, asyncio.Task[None]] = {}
        self._looked_at: set[str] = set()
        self._link_shares = LinkStatisticsCache()
        self._shortcuts = Shortcuts(lambda: self._connection(touched=False), self._quick_connection)

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls, source: str | EmbeddedServer, **options: Any
    ) -> AsyncIterator[PostgresStore]:
        """Connect for the time of a block; arguments and errors as for `connect`."""
        store = await cls.connect(source, **options)
        try:
            yield store
        finally:
            await store.aclose()

    @classmethod
    async def connect(
        cls,
        source: str | EmbeddedServer,
        *,
        pool_size: int | None = None,
        statement_timeout_s: float = 60.0,
        write_timeout_s: float = 600.0,
        clock: Callable[[], datetime] = _now,
    ) -> PostgresStore:
        """Connect and bring the database to the schema of this version.

        Args:
            source: A URL `postgresql://...`, or an embedded server that was started.
            pool_size: Most connections at once, 1 or more; None for four a core. Half as many may be opened
                beside them for searches that take a millisecond.
            statement_timeout_s: Longest a read may take, in seconds.
            write_timeout_s: Longest one statement of a write may take, in seconds.
            clock: Gives the time a trace is recorded, with its zone.

        Raises:
            ConfigError: The URL is none, the server refuses us, is too old or lacks pgvector.
            HomeTooNew: A newer version of Whence has migrated the database.
            Unavailable: The server cannot be reached.
        """
        server = source if isinstance(source, EmbeddedServer) else None
        url = source if isinstance(source, str) else source.url()
        check_url(url)
        where = address(url)
        with _translated(where):
            vector_schema = await _migrate(url)
            untouched: set[int] = set()
            pool = await _pool(url, vector_schema, pool_size, statement_timeout_s, untouched)
            quick_pool = await _quick_pool(url, vector_schema, pool_size, statement_timeout_s)
        return cls(
            pool,
            quick_pool,
            where,
            server=server,
            write_timeout_s=write_timeout_s,
            clock=clock,
            untouched=untouched,
        )

    async def aclose(self) -> None:
        """Close all connections; work still going on after 10 s is cut off, maintenance at once."""
        # Whoever comes late finds no connection: that is no sign of a server that died.
        self._server = None
        running = [*self._maintenance.values(), *self._indexing.values()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._shortcuts.aclose()
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._quick_pool.close()
                await self._pool.close()
        except TimeoutError:
            self._quick_pool.terminate()
            self._pool.terminate()

    @contextlib.asynccontextmanager
    async def _connection(self, *, touched: bool = True) -> AsyncIterator[Any]:
        """Lend a connection; errors of the driver become ours, a dead embedded server is started again.

        Args:
            touched: Whether the connection's own settings and locks may be changed, which has to be undone.
        """
        async with self._reviving():
            connection = await self._acquire(self._pool)
            try:
                self._untouched.discard(connection.get_server_pid())
                yield connection
                if not touched:
                    self._untouched.add(connection.get_server_pid())
            finally:
                await self._pool.release(connection)

    def _quick_connection(self) -> _Lent:
        """Lend a connection for a statement that leaves nothing behind, see `_quick_pool`."""
        return _Lent(self._quick_pool, self._acquire, self._reviving)

    @contextlib.asynccontextmanager
    async def _reviving(self) -> AsyncIterator[None]:
        """Raise our errors in place of the driver's; start an embedded server again that died."""
        try:
            with _translated(self._where):
                yield
        except Unavailable as error:
            if self._server is not None and error.__cause__ and is_lost(error.__cause__):
                logger.warning("the embedded server died", extra={"action": "revive"})
                await self._server.revive()
            raise

    async def _acquire(self, pool: Pool | QuickPool) -> Any:
        try:
            return await pool.acquire(timeout=_ACQUIRE_TIMEOUT_S)
        except TimeoutError as error:
            if pool.get_size() < pool.get_max_size():
                raise
            raise Overloaded(
                f"all {pool.get_size()} connections to {self._where} are in use"
            ) from error

    # --- documents ---------------------------------------------------------------------------------

    async def collection(self, name: str) -> CollectionInfo | None:
        """Give a collection, or None when it does not exist."""
        if not is_text(name):
            return None
        async with self._connection() as connection:
            return await written.find_collection(connection, name)

    async def collection_model(self, name: str) -> EmbeddingModel | None:
        """Give the model of a collection, or None when it does not exist; counts nothing."""
        if not is_text(name):
            return None
        async with self._connection() as connection:
            return await written.find_model(connection, name)

    async def collections(self) -> list[CollectionInfo]:
        """Give all collections by name."""
        async with self._connection() as connection:
            return await written.list_collections(connection)

    async def ensure_collection(self, name: str, model: EmbeddingModel) -> CollectionInfo:
        """Give a collection, made for this model when it does not exist.

        Raises:
            ModelMismatch: It exists with another model, precision or dimension.
            BadInput: The name or the dimension cannot be.
        """
        async with self._connection() as connection:
            return await written.ensure_collection(connection, name, model)

    async def document_states(
        self, collection: str, document_ids: Sequence[str]
    ) -> dict[str, DocumentState]:
        """Give the state of each of these documents that exists."""
        ids = [one for one in document_ids if is_text(one)]
        async with self._connection() as connection:
            return await written.document_states(connection, collection, ids)

    def ledger(self, **options: float) -> PostgresLedger:
        """Give a ledger in this database; options as of `PostgresLedger`, closed by the caller."""
        return PostgresLedger(self._connection, **options)

    async def effects_of(self, collection: str, message_id: str) -> dict[str, EffectKind]:
        """Give what a message did to documents before, by document id."""
        async with self._connection() as connection:
            return await find_effects(connection, collection, message_id)

    async def replace_documents(
        self,
        collection: str,
        documents: Sequence[EmbeddedDocument],
        *,
        effects: Effects | None = None,
    ) -> None:
        """Store documents in one transaction, each in the place of its former self.

        Raises:
            NotFound: There is no such collection.
            ModelMismatch: A vector's length is not the collection's dimension.
            BadInput: A document cannot be stored.
        """
        async with self._connection() as connection:
            await written.replace_documents(
                connection, collection, documents, self._write_timeout_s, effects
            )
            await self._keep_up(connection, collection)

    async def retag_documents(
        self,
        collection: str,
        tags: Mapping[str, DocumentTags],
        *,
        effects: Effects | None = None,
    ) -> None:
        """Change the tags of documents in one transaction; documents that do not exist are left out.

        Raises:
            NotFound: There is no such collection.
            BadInput: A tag cannot be stored.
        """
        known = {one: tag for one, tag in tags.items() if is_text(one)}
        for one, tag in known.items():
            check_tags(tag, f"document {one[:100]!r}")
        async with self._connection() as connection:
            await written.retag_documents(
                connection, collection, known, self._write_timeout_s, effects
            )
            await self._keep_up(connection, collection)

    async def boost_fields(self, collection: str, boosts: FieldBoosts) -> None:
        """Have words of some fields count more often, in what is stored and in what will be.

        Raises:
            NotFound: There is no such collection.
        """
        async with self._connection() as connection:
            await written.boost_fields(connection, collection, boosts, self._write_timeout_s)

    async def source_digests(self, collection: str, document_ids: Sequence[str]) -> dict[str, str]:
        """Give the source digests of those of these documents that exist and have one."""
        ids = [one for one in document_ids if is_text(one)]
        if not ids or not is_text(collection):
            return {}
        async with self._connection() as connection:
            return await written.source_digests(connection, collection, ids)

    async def note_sources(self, collection: str, digests: Mapping[str, str]) -> None:
        """Set the source digests of documents that are stored already; unknown ids are left out."""
        known = {one: digest for one, digest in digests.items() if is_text(one) and is_text(digest)}
        if not known or not is_text(collection):
            return
        async with self._connection() as connection:
            await written.note_sources(connection, collection, known)

    async def remove_documents(self, collection: str, document_ids: Sequence[str]) -> int:
        """Remove documents with all that hangs on them; gives how many there were."""
        ids = [one for one in document_ids if is_text(one)]
        async with self._connection() as connection:
            removed = await written.remove_documents(
                connection, collection, ids, self._write_timeout_s
            )
            await self._keep_up(connection, collection)
            return removed

    async def erase_document(
        self, collection: str, document_id: str
    ) -> tuple[DocumentParts, DocumentParts]:
        """Remove a document and its postings in segments; gives what was found of it before and after."""
        if not is_text(document_id):
            return DocumentParts(), DocumentParts()
        async with self._connection() as connection:
            parts = await written.erase_document(
                connection, collection, document_id, self._write_timeout_s
            )
            await self._keep_up(connection, collection)
            return parts

    async def document_ids(self, collection: str, *, prefix: str = "") -> list[str]:
        """Give the sorted ids that begin with `prefix`; for the owner's eyes only."""
        if not is_text(prefix):
            return []
        async with self._connection() as connection:
            return await written.document_ids(connection, collection, prefix)

    # --- maintenance of the words ------------------------------------------------------------------

    async def _keep_up(self, connection: Any, collection: str) -> None:
        """Start what a write left to do, when it left any."""
        if not is_text(collection):
            return
        if await postings.merge_pending(connection, collection):
            self._maintain(collection)
        await self._keep_indexed(connection, collection)

    def _maintain(self, collection: str) -> asyncio.Task[None]:
        """Give the running maintenance of a collection, started when there is none."""
        if collection not in self._maintenance:
            task = asyncio.create_task(self._run_maintenance(collection))
            self._maintenance[collection] = task
            task.add_done_callback(lambda done: self._end_maintenance(collection, done))
        return self._maintenance[collection]

    async def _run_maintenance(self, collection: str) -> None:
        async with self._connection() as connection:
            await written.maintain(connection, collection, self._write_timeout_s)

    def _end_maintenance(self, collection: str, task: asyncio.Task[None]) -> None:
        del self._maintenance[collection]
        # Nothing is lost: it was undone as a whole, and the next write or search starts it again.
        if not task.cancelled() and task.exception() is not None:
            logger.warning(
                "maintenance of the words failed",
                extra={"action": "maintain", "collection": collection},
                exc_info=task.exception(),
            )

    async def _keep_indexed(self, connection: Any, collection: str) -> None:
        """Start building the graph over a collection's vectors, when it needs one and has none."""
        collection_id = await connection.fetchval(
            "SELECT id FROM collection WHERE name = $1", collection
        )
        if collection in self._indexing or not await vector_index.index_due(
            connection, collection_id
        ):
            return
        task = asyncio.create_task(self._build_index(collection_id))
        self._indexing[collection] = task
        task.add_done_callback(lambda done: self._end_indexing(collection, done))

    async def _build_index(self, collection_id: int) -> None:
        async with self._connection() as connection:
            await vector_index.build_index(connection, collection_id)
            await vector_index.drop_orphans(connection)

    def _end_indexing(self, collection: str, task: asyncio.Task[None]) -> None:
        del self._indexing[collection]
        # Searches are exact until there is a graph; the next write or start tries again.
        if not task.cancelled() and task.exception() is not None:
            logger.warning(
                "building the index of vectors failed",
                extra={"action": "index", "collection": collection},
                exc_info=task.exception(),
            )

    async def _with_words(self, collection: str, read: Callable[[Any], Awaitable[T | None]]) -> T:
        """Read what needs the words or facts of a collection; one of a former version is indexed first.

        Indexing goes on when the caller gives up, so a large collection is ready at the next attempt.
        """
        if not is_text(collection):
            raise missing_collection(collection)
        for _ in range(2):
            async with self._connection(touched=False) as connection:
                found = await read(connection)
            if found is not None:
                return found
            await asyncio.shield(self._maintain(collection))
        raise Unavailable(
            f"the words of collection {collection!r} are being indexed by another version of Whence",
            hint="use one version of Whence on a database",
        )

    # --- search ------------------------------------------------------------------------------------

    async def _look_at(self, connection: Any, collection: str) -> None:
        """See to a build that was cut off, or a collection of a former version, at the first search."""
        if collection not in self._looked_at:
            self._looked_at.add(collection)
            await self._keep_indexed(connection, collection)

    async def _prime(self, collection: str, access: Access) -> None:
        """Let a filtered search be answered by memory from the first one on: it looks up what is kept once."""
        if not is_text(collection):
            return
        if collection not in self._looked_at:
            async with self._connection() as connection:
                await self._look_at(connection, collection)
        await self._shortcuts.prime(collection, access)

    async def search_dense(
        self,
        collection: str,
        vector: NDArray[np.float32],
        *,
        limit: int,
        access: Access,
        threshold: float = 0.0,
        filters: Filters = (),
        exact: bool = False,
    ) -> list[Candidate]:
        """Give the visible chunks nearest to a unit vector, by cosine, ties by chunk id.

        Where very many are visible, a graph is asked for those near by; `exact` looks at all.

        Raises:
            NotFound: There is no such collection.
            ModelMismatch: The vector's length is not the collection's dimension.
            BadInput: Limit, threshold or vector is out of range, or no visible document has a key of the
                filters.
        """

        async def read(connection: Any) -> list[Candidate] | None:
            await self._look_at(connection, collection)
            return await search.search_dense(
                connection,
                collection,
                vector,
                limit=limit,
                access=access,
                threshold=threshold,
                filters=filters,
                counts=None if exact else self._shortcuts.counts,
                standings=self._shortcuts.standings,
            )

        if filters:
            await self._prime(collection, access)
        found = await self._shortcuts.dense(
            collection,
            vector,
            limit=limit,
            access=access,
            threshold=threshold,
            exact=exact,
            filters=filters,
        )
        if found is not None:
            return found
        return await self._with_words(collection, read)

    async def search_lexical(
        self,
        collection: str,
        query_text: str,
        *,
        limit: int,
        access: Access,
        filters: Filters = (),
        match: Match = "any",
    ) -> list[Candidate]:
        """Rank the visible chunks with a word of a query, or with all, by BM25, ties by chunk id.

        Raises:
            NotFound: There is no such collection.
            BadInput: The limit is below 1, or no visible document has a key of the filters.
        """
        if filters:
            await self._prime(collection, access)
        found = await self._shortcuts.lexical(
            collection, query_text, limit=limit, access=access, match=match, filters=filters
        )
        if found is not None:
            return found
        return await self._with_words(
            collection,
            lambda connection: lexical.search_lexical(
                connection,
                collection,
                query_text,
                limit=limit,
                access=access,
                filters=filters,
                match=match,
                standings=self._shortcuts.standings,
            ),
        )

    async def lexical_scores(
        self,
        collection: str,
        query_text: str,
        chunk_ids: Sequence[str],
        access: Access,
        *,
        match: Match = "any",
    ) -> dict[str, float]:
        """Give the lexical share of those chunks that exist and are visible; 0 of one that does not match.

        Raises:
            NotFound: There is no such collection.
        """
        return await self._with_words(
            collection,
            lambda connection: lexical.lexical_scores(
                connection, collection, query_text, chunk_ids, access, match
            ),
        )

    async def dense_scores(
        self,
        collection: str,
        vector: NDArray[np.float32],
        chunk_ids: Sequence[str],
        access: Access,
    ) -> dict[str, float]:
        """Give the exact cosine of those chunks that exist and are visible.

        Raises:
            NotFound: There is no such collection.
            ModelMismatch: The vector's length is not the collection's dimension.
            BadInput: The vector is no unit vector.
        """
        if not is_text(collection):
            raise missing_collection(collection)
        async with self._connection() as connection:
            return await search.dense_scores(connection, collection, vector, chunk_ids, access)

    async def chunk_texts(
        self, collection: str, chunk_ids: Sequence[str], access: Access
    ) -> list[ChunkText]:
        """Give the texts of chunks that exist and are visible, in the order asked."""
        async with self._connection() as connection:
            return await search.chunk_texts(connection, collection, chunk_ids, access)

    async def visible_chunks(
        self, collection: str, chunk_ids: Sequence[str], access: Access
    ) -> frozenset[str]:
        """Tell which of these chunks exist and are visible."""
        async with self._connection() as connection:
            return await search.visible_chunks(connection, collection, chunk_ids, access)

    # --- graphs of code ----------------------------------------------------------------------------

    async def expand(self, request: ExpandRequest, *, travel: bool = False) -> ExpandResponse:
        """Walk the graph of a snapshot from some nodes, breadth first, as far as a reader may see it.

        Raises:
            BadInput: A limit is out of range, there are more seeds than `max_nodes`, or a seed is of
                another snapshot.
            NotFound: There is no such snapshot, or a seed does not exist or is hidden.
        """
        async with self._connection() as connection:
            return await code_graph.expand(connection, request, travel=travel)

    # --- traces ------------------------------------------------------------------------------------

    async def record_trace(self, record: TraceRecord) -> bool:
        """Keep a trace in one transaction; False when that answer id is recorded already.

        Raises:
            BadInput: It could not be given back as it is.
        """
        async with self._connection() as connection:
            return await traces.record_trace(connection, record, self._clock())

    async def trace(self, answer_id: str) -> StoredTrace | None:
        """Give a trace, or None when there is none."""
        if not is_text(answer_id):
            return None
        async with self._connection() as connection:
            return await traces.find_trace(connection, answer_id)

    async def recent_traces(self, limit: int = 20) -> list[StoredTrace]:
        """Give the latest traces, newest first."""
        async with self._connection() as connection:
            return await traces.latest_traces(connection, limit)

    async def known_chunks(self, collection: str, chunk_ids: Sequence[str]) -> frozenset[str]:
        """Tell which of these chunks exist, whoever may see them; for the owner's eyes only."""
        async with self._connection() as connection:
            return await search.known_chunks(connection, collection, chunk_ids)

    async def overview(self) -> StoreOverview:
        """Describe the database and how much of what it holds; for the owner's eyes only."""
        async with self._connection() as connection:
            return await overview(connection)

    async def traces_about(self, collection: str, document_id: str) -> list[str]:
        """Give the ids of the answers whose traces name a document or its chunks, sorted."""
        if not (is_text(collection) and is_text(document_id)):
            return []
        async with self._connection() as connection:
            return await traces.traces_about(connection, collection, document_id)

    async def rewrite_trace(self, record: TraceRecord) -> bool:
        """Put a trace in the place of the one with its answer id; False when there is none.

        Raises:
            BadInput: It could not be given back as it is.
        """
        async with self._connection() as connection:
            return await traces.rewrite_trace(connection, record)


class _Lent:
    """A connection of the quick pool, for the time of a block; generators within each other take longer.

    Args:
        pool: Lends it.
        acquire: Waits for one.
        reviving: Gives what makes the driver's errors ours.
    """

    def __init__(
        self,
        pool: QuickPool,
        acquire: Callable[[QuickPool], Awaitable[Any]],
        reviving: Callable[[], contextlib.AbstractAsyncContextManager[None]],
    ) -> None:
        self._pool = pool
        self._acquire = acquire
        self._reviving = reviving

    async def __aenter__(self) -> Any:
        try:
            self._connection = await self._acquire(self._pool)
        except Exception:
            async with self._reviving():
                raise
        return self._connection

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            await self._pool.release(self._connection, whole=True)
            return
        async with self._reviving():
            await self._pool.release(self._connection, whole=False)
            raise error


@contextlib.contextmanager
def _translated(where: str) -> Iterator[None]:
    """Raise our errors in place of the driver's."""
    try:
        yield
    except WhenceError:
        raise
    except (*DRIVER_ERRORS, OSError, TimeoutError) as error:
        raise translate(error, where) from error


async def _migrate(url: str) -> str:
    """Bring the database up to date; gives the schema that pgvector is in."""
    connection = await connect(url, _CONNECT_TIMEOUT_S)
    try:
        await migrate(connection, migrations())
        return await extension_schema(connection) or "public"
    finally:
        await connection.close(timeout=_CLOSE_TIMEOUT_S)


async def _pool(
    url: str,
    vector_schema: str,
    pool_size: int | None,
    statement_timeout_s: float,
    untouched: set[int],
) -> Pool:
    """Open the pool.

    Settings go into the start-up message: what `init` sets is undone when a connection is given back. Nothing
    is to be undone on the connections of `untouched` processes, which saves a message for each search.
    """

    async def prepare(connection: Any) -> None:
        await register_vector(connection, schema=vector_schema)

    async def undo(connection: Any) -> None:
        pid = connection.get_server_pid()
        if pid in untouched:
            untouched.discard(pid)
        else:
            await connection.reset()

    return await create_pool(
        url,
        min_size=1,
        max_size=_most_connections(pool_size),
        init=prepare,
        reset=undo,
        timeout=_CONNECT_TIMEOUT_S,
        server_settings={
            **_settings(vector_schema, statement_timeout_s),
            # A plan that fits every array of classes fits none: generic plans took 400 times longer.
            "plan_cache_mode": "force_custom_plan",
        },
    )


async def _quick_pool(
    url: str, vector_schema: str, pool_size: int | None, statement_timeout_s: float
) -> QuickPool:
    """Make a pool for statements that look up a few rows, and for those that walk a graph.

    To plan them takes longer than to run them, so a plan is made once; sorts are avoided so that it takes the
    graph. No connection is open before the first is needed, and nothing on them is ever to be undone.
    """

    async def prepare(connection: Any) -> None:
        await register_vector(connection, schema=vector_schema)

    async def keep(connection: Any) -> None:
        del connection

    pool = await create_pool(
        url,
        min_size=0,
        max_size=max(1, _most_connections(pool_size) // 2),
        init=prepare,
        reset=keep,
        timeout=_CONNECT_TIMEOUT_S,
        server_settings={
            **_settings(vector_schema, statement_timeout_s),
            "plan_cache_mode": "force_generic_plan",
            "enable_sort": "off",
            "hnsw.iterative_scan": "relaxed_order",
        },
    )
    return QuickPool(pool)


def _most_connections(pool_size: int | None) -> int:
    return pool_size or _CONNECTIONS_PER_CORE * (os.cpu_count() or 1)


def _settings(vector_schema: str, statement_timeout_s: float) -> dict[str, str]:
    """Give what all connections have in common."""
    return {
        "application_name": "whence",
        "search_path": f'{SCHEMA}, public, "{vector_schema}"',
        "jit": "off",
        "statement_timeout": str(int(statement_timeout_s * 1000)),
        "lock_timeout": str(int(_LOCK_TIMEOUT_S * 1000)),
        "idle_in_transaction_session_timeout": str(int(_LOCK_TIMEOUT_S * 1000)),
    }

"""The store on PostgreSQL keeps to the rules of every store, and to those of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import numpy as np
import pytest

from whence.schema.access import Access, DocumentTags
from whence.schema.document_rag import TraceRecord
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import (
    ConfigError,
    DeadlineExceeded,
    HomeTooNew,
    Overloaded,
    Unavailable,
    WhenceError,
)
from whence.store.memory.store import MemoryStore
from whence.store.postgres import documents
from whence.store.postgres.acl_classes import allowed_classes
from whence.store.postgres.document_rows import EMBEDDED_TEXT, STORED_EMBED_TEXT
from whence.store.postgres.driver import Connection
from whence.store.postgres.migrate import Migration, migrate, migrations
from whence.store.postgres.server.server import EmbeddedServer
from whence.store.postgres.store import PostgresStore
from whence.testing.store_samples import ids_of, make_document, unit
from whence.testing.store_suite import StoreSuite

pytestmark = pytest.mark.postgres

MODEL = EmbeddingModel(name="test", dimension=4)
QUERY = unit(1, 0, 0, 0)


class TestPostgresStore(StoreSuite):
    """All behaviours, on PostgreSQL."""

    @pytest.fixture
    def store(self, postgres_store: PostgresStore) -> PostgresStore:
        return postgres_store


async def _plan(url: str, query: str) -> str:
    connection = await asyncpg.connect(url)
    try:
        return "\n".join(row[0] for row in await connection.fetch(query))
    finally:
        await connection.close()


async def test_both_stores_rank_alike(postgres_store: PostgresStore) -> None:
    """Random vectors have the same order in memory and in PostgreSQL."""
    rng = np.random.default_rng(7)
    model = EmbeddingModel(name="random", dimension=32)
    memory = MemoryStore()
    vectors = rng.normal(size=(300, 32))
    documents = [
        make_document(f"d{n:03}", [unit(*row)], DocumentTags(("a", "b")[n % 2 :]))
        for n, row in enumerate(vectors)
    ]
    for store in (memory, postgres_store):
        await store.ensure_collection("r", model)
        await store.replace_documents("r", documents)
    query = unit(*rng.normal(size=32))
    rankings = [
        await store.search_dense("r", query, limit=200, access=Access({"b"}))
        for store in (memory, postgres_store)
    ]

    assert ids_of(rankings[0]) == ids_of(rankings[1])
    assert [hit.dense_score for hit in rankings[0]] == pytest.approx(
        [hit.dense_score for hit in rankings[1]], abs=1e-6
    )


@pytest.mark.parametrize("dimension", [1, 1024, 2000, 3072, 16000])
async def test_every_dimension_can_be_stored(postgres_store: PostgresStore, dimension: int) -> None:
    """Vectors longer than a page of the database are stored and found."""
    model = EmbeddingModel(name="wide", dimension=dimension)
    vector = unit(*np.random.default_rng(1).normal(size=dimension))
    await postgres_store.ensure_collection("wide", model)
    await postgres_store.replace_documents("wide", [make_document("d", [vector, -vector])])
    hits = await postgres_store.search_dense("wide", vector, limit=2, access=Access.public())

    assert [hit.score for hit in hits] == pytest.approx([1.0, 0.0], abs=1e-5)


async def test_vectors_are_stored_in_line(postgres_store: PostgresStore, database_url: str) -> None:
    """Vectors of common models are not stored out of line, which would make scans twice as slow."""
    model = EmbeddingModel(name="m", dimension=1536)
    rng = np.random.default_rng(2)
    await postgres_store.ensure_collection("m", model)
    await postgres_store.replace_documents(
        "m", [make_document("d", [unit(*rng.normal(size=1536)) for _ in range(20)])]
    )
    outside = await _plan(
        database_url,
        "SELECT pg_relation_size(reltoastrelid)::text FROM pg_class WHERE oid = 'whence.chunk_vec'::regclass",
    )

    assert outside == "0"


async def test_connection_settings_survive_a_reset(database_url: str) -> None:
    """Settings of a connection hold after it was released to the pool."""
    async with await PostgresStore.connect(
        database_url, pool_size=1, statement_timeout_s=7
    ) as store:
        for _ in range(2):
            async with store.pool.connection() as connection:
                found = {
                    name: await connection.fetchval(f"SHOW {name}")
                    for name in ("plan_cache_mode", "jit", "statement_timeout", "application_name")
                }

    assert found == {
        "plan_cache_mode": "force_custom_plan",
        "jit": "off",
        "statement_timeout": "7s",
        "application_name": "whence",
    }


async def test_a_write_scans_no_table(database_url: str) -> None:
    """A write uses indexes, also where plans were made when the tables were tiny."""
    tables = ["document", "chunk", "chunk_vec", "chunk_terms", "term", "passage_name"]
    async with await PostgresStore.connect(database_url, pool_size=1) as store:
        await store.ensure_collection("c", MODEL)
        await store.replace_documents("c", [make_document("first", [QUERY])])
        async with store.pool.connection() as connection:
            await connection.execute("ANALYZE")

        async def read_whole() -> dict[str, int]:
            async with store.pool.connection() as connection:
                await connection.execute("SELECT pg_stat_force_next_flush()")
                rows = await connection.fetch(
                    "SELECT relname, seq_tup_read FROM pg_stat_user_tables"
                    " WHERE schemaname = 'whence' AND relname = ANY($1::text[])",
                    tables,
                )
            return dict(map(tuple, rows))

        before = await read_whole()
        for n in range(10):
            await store.replace_documents(
                "c", [make_document(f"{n}-{k}", [QUERY]) for k in range(10)]
            )
        after = await read_whole()

    assert len(before) == len(tables)
    assert after == before


async def test_a_write_plans_each_statement_once(
    postgres_store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One generic plan serves all rows of a write."""
    kept: list[str] = []

    async def note(connection: Connection, *_: object) -> None:
        kept.append(await connection.fetchval("SHOW plan_cache_mode"))

    monkeypatch.setattr(documents, "delete_unused_titles", note)
    await postgres_store.ensure_collection("c", MODEL)
    await postgres_store.replace_documents("c", [make_document("d", [QUERY])])
    await postgres_store.remove_documents("c", ["d"])

    assert kept == ["force_generic_plan"] * 2


async def test_a_read_sees_one_snapshot(postgres_store: PostgresStore) -> None:
    """While tags flip between two visible classes, the document never disappears."""
    await postgres_store.ensure_collection("flip", MODEL)
    await postgres_store.replace_documents("flip", [make_document("d")])
    done = asyncio.Event()

    async def flip() -> None:
        for number in range(60):
            tags = DocumentTags(("a", f"only-{number}"))
            await postgres_store.retag_documents("flip", {"d": tags})
        done.set()

    async def read() -> list[int]:
        counts = []
        await postgres_store.retag_documents("flip", {"d": DocumentTags(("a",))})
        while not done.is_set():
            hits = await postgres_store.search_dense("flip", QUERY, limit=5, access=Access({"a"}))
            counts.append(len(hits))
        return counts

    _, *counts = await asyncio.gather(flip(), read(), read())

    assert {count for some in counts for count in some} == {1}


async def test_a_first_search_reads_one_snapshot(
    postgres_store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A class that is created after the reader's classes were read does not change that search."""
    await postgres_store.ensure_collection("flip", MODEL)
    await postgres_store.replace_documents("flip", [make_document("d")])
    await postgres_store.retag_documents("flip", {"d": DocumentTags(("a",))})

    async def classes_then_flip(*arguments: Any) -> list[int]:
        classes = await allowed_classes(*arguments)
        await postgres_store.retag_documents("flip", {"d": DocumentTags(("a", "new"))})
        return classes

    monkeypatch.setattr(
        "whence.store.postgres.collection_version.allowed_classes", classes_then_flip
    )
    hits = await postgres_store.search_dense("flip", QUERY, limit=5, access=Access({"a"}))

    assert [hit.document_id for hit in hits] == ["d"]


async def test_a_failed_write_changes_nothing(
    postgres_store: PostgresStore, database_url: str
) -> None:
    """When a write fails, the former documents are unchanged."""
    await postgres_store.ensure_collection("c", MODEL)
    await postgres_store.replace_documents("c", [make_document("d", digest="old")])
    await _plan(database_url, "ALTER TABLE whence.chunk_vec ADD CHECK (ord < 2) NOT VALID")

    with pytest.raises(WhenceError):
        await postgres_store.replace_documents(
            "c", [make_document("d", [QUERY] * 3, digest="new"), make_document("e")]
        )
    states = await postgres_store.document_states("c", ["d", "e"])
    assert {one: state.digest for one, state in states.items()} == {"d": "old"}


async def test_a_trace_is_recorded_by_the_given_clock(database_url: str) -> None:
    """The time of a recording comes from the clock, in UTC."""
    moment = datetime(2024, 2, 29, 12, 30, 0, 123456, tzinfo=UTC)
    record = TraceRecord(
        answer_id="a", collection="c", question="q", access=Access.public(), events=()
    )
    async with await PostgresStore.connect(database_url, clock=lambda: moment) as store:
        await store.record_trace(record)
        stored = await store.trace("a")

    assert stored is not None
    assert stored.recorded_at == "2024-02-29T12:30:00.123456+00:00"


#: The migration that stores texts once; a document of before it, and a chunk of it.
_TEXTS_ONCE = 50
_OLDER_DOCUMENT = """
    INSERT INTO whence.collection (name, model_name, model_revision, model_precision, dimension)
    VALUES ('c', 'm', '', '', 1);
    INSERT INTO whence.sec_class (digest, acl, labels, clearance) VALUES ('x', '{}', '{}', 0);
    INSERT INTO whence.document (collection_id, document_id, digest, class_id, chunks, title, source_file,
        source_url, metadata) VALUES (1, 'd', '', 1, 7, '', '', '', '{}');
    INSERT INTO whence.former_document (collection_id, document_id, valid_from, valid_to, replaced_at, digest,
        title, source_file, source_url, metadata, gaps, places)
    VALUES (1, 'd', 1, 2, now(), '', '', '', '', '{}', '{}', '[]')"""
_OLDER_CHUNK = {
    "chunk": """
        INSERT INTO whence.chunk (collection_id, document, index, chunk_key, class_id, content, digest, heading,
            section_path, span_start, span_end, embed_text)
        VALUES (1, 1, $1, 'c' || $1::int, 1, $2, '', '', '', 0, 0, $3)""",
    "former_chunk": """
        INSERT INTO whence.former_chunk (document, index, content, heading, section_path, span_start, span_end,
            embed_text, page) VALUES (1, $1, $2, '', '', 0, 0, $3, 0)""",
}

# --- migrations ------------------------------------------------------------------------------------


async def test_migrations_are_applied_once(postgres_server: EmbeddedServer) -> None:
    """Of many processes that open a new database at once, one migrates it."""
    admin = await asyncpg.connect(postgres_server.url())
    await admin.execute("CREATE DATABASE fresh")
    try:
        url = postgres_server.url("fresh")
        connections = [await asyncpg.connect(url) for _ in range(5)]
        applied = await asyncio.gather(*(migrate(one, migrations()) for one in connections))
        for connection in connections:
            await connection.close()
    finally:
        await admin.execute("DROP DATABASE fresh WITH (FORCE)")
        await admin.close()

    assert sorted(applied) == [0, 0, 0, 0, len(migrations())]


async def test_no_two_migrations_have_one_number() -> None:
    """Migrations are applied in the order of their numbers."""
    numbers = [migration.version for migration in migrations()]
    assert numbers == sorted(set(numbers))
    assert numbers[0] == 1


@pytest.mark.parametrize("table", ["chunk", "former_chunk"])
async def test_texts_of_an_older_home_are_stored_once(
    postgres_server: EmbeddedServer, table: str
) -> None:
    """What is embedded is the same after the migration, and content is not stored in it again."""
    texts = [
        ("Body.", ""),
        ("Body.", "Title\nBody."),
        ("Body.", "Body."),
        ("Body.", "other"),
        ("100% _a_\n\u00fc", "T\n\n100% _a_\n\u00fc"),
        ("", "Title alone"),
        ("", ""),
    ]
    before = [one for one in migrations() if one.version < _TEXTS_ONCE]
    admin = await asyncpg.connect(postgres_server.url())
    await admin.execute("CREATE DATABASE older")
    try:
        connection = await asyncpg.connect(postgres_server.url("older"))
        await migrate(connection, before)
        await connection.execute(_OLDER_DOCUMENT)
        for index, (content, embed_text) in enumerate(texts):
            await connection.execute(_OLDER_CHUNK[table], index, content, embed_text)
        await migrate(connection, migrations())
        rows = await connection.fetch(
            f"SELECT {EMBEDDED_TEXT} AS text, {STORED_EMBED_TEXT} AS draft, embed_text, embed_prefix"
            f" FROM whence.{table} c ORDER BY index"
        )
        await connection.close()
    finally:
        await admin.execute("DROP DATABASE older WITH (FORCE)")
        await admin.close()

    assert [row["text"] for row in rows] == [embedded or content for content, embedded in texts]
    assert [row["draft"] or content for row, (content, _) in zip(rows, texts, strict=True)] == [
        embedded or content for content, embedded in texts
    ]
    assert [row["embed_text"] for row in rows] == ["", "", "", "other", "", "", ""]
    assert rows[1]["embed_prefix"] == "Title\n"


async def test_a_newer_database_is_refused(database_url: str) -> None:
    """A database that a newer version has migrated is not changed."""
    connection = await asyncpg.connect(database_url)
    await connection.execute(
        "INSERT INTO whence.migration (version, name, checksum) VALUES (9999, 'future', '')"
    )
    await connection.close()

    with pytest.raises(HomeTooNew, match="schema 9999"):
        await PostgresStore.connect(database_url)


async def test_a_changed_migration_is_refused(database_url: str) -> None:
    """An applied file that was changed later is an error."""
    first, *rest = migrations()
    changed = (Migration(first.version, first.name, first.sql + "-- changed"), *rest)
    connection = await asyncpg.connect(database_url)
    try:
        with pytest.raises(ConfigError, match="0001"):
            await migrate(connection, changed)
    finally:
        await connection.close()


async def test_a_failed_migration_is_rolled_back(database_url: str) -> None:
    """A failed migration is rolled back as a whole and can be repeated."""
    number = migrations()[-1].version + 1
    broken = Migration(number, "broken", "CREATE TABLE half (x int); SELECT 1/0;")
    repaired = Migration(number, "broken", "CREATE TABLE half (x int);")
    connection = await asyncpg.connect(database_url)
    try:
        with pytest.raises(asyncpg.DivisionByZeroError):
            await migrate(connection, (*migrations(), broken))
        applied = await migrate(connection, (*migrations(), repaired))
    finally:
        await connection.close()

    assert applied == 1


async def test_a_missing_right_to_install_pgvector_is_explained(
    postgres_server: EmbeddedServer,
) -> None:
    """The error names the statement that the owner of the database has to run."""
    admin = await asyncpg.connect(postgres_server.url())
    await admin.execute("CREATE ROLE plain LOGIN")
    await admin.execute("CREATE DATABASE plain OWNER plain")
    try:
        url = postgres_server.url("plain").replace("//postgres@", "//plain@")
        with pytest.raises(ConfigError, match="install pgvector") as caught:
            await PostgresStore.connect(url)
        owner = await asyncpg.connect(postgres_server.url("plain"))
        await owner.execute("CREATE SCHEMA extra; CREATE EXTENSION vector SCHEMA extra")
        await owner.execute("GRANT USAGE ON SCHEMA extra TO plain")
        await owner.close()
        async with await PostgresStore.connect(url) as store:
            await store.ensure_collection("c", MODEL)
            await store.replace_documents("c", [make_document("d")])
            hits = await store.search_dense("c", QUERY, limit=1, access=Access.public())
    finally:
        await admin.execute("DROP DATABASE plain WITH (FORCE)")
        await admin.execute("DROP ROLE plain")
        await admin.close()

    assert "CREATE EXTENSION vector" in caught.value.hint
    assert ids_of(hits) == ["d"]


# --- faults ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("postgresql://me:secret@127.0.0.1:1/db", Unavailable),
        ("postgresql://me:secret@no-such-host.invalid/db", Unavailable),
        ("postgresql:///db?host=/nonexistent", Unavailable),
        ("mysql://me:secret@127.0.0.1/db", ConfigError),
        ("secret", ConfigError),
        ("postgresql://me:secret@127.0.0.1:port/db", ConfigError),
        ("postgresql://me:secret@127.0.0.1/db?sslmode=nonsense", ConfigError),
    ],
)
async def test_an_unreachable_server_is_named_without_password(
    url: str, error: type[WhenceError]
) -> None:
    """The error contains the address without the password."""
    with pytest.raises(error) as caught:
        await PostgresStore.connect(url)

    assert "secret" not in f"{caught.value.message} {caught.value.hint}"
    assert caught.value.hint


async def test_a_missing_database_is_a_configuration_error(postgres_server: EmbeddedServer) -> None:
    """A database that does not exist is not waited for."""
    with pytest.raises(ConfigError, match="nowhere"):
        await PostgresStore.connect(postgres_server.url("nowhere"))


async def test_a_slow_statement_is_stopped(database_url: str) -> None:
    """A read over the statement timeout raises `DeadlineExceeded`, and the connection stays usable."""
    async with await PostgresStore.connect(
        database_url, pool_size=1, statement_timeout_s=0.05
    ) as store:
        with pytest.raises(DeadlineExceeded):
            async with store.pool.connection() as connection:
                await connection.fetch("SELECT pg_sleep(5)")
        assert await store.collections() == []


async def test_a_cut_connection_is_replaced(database_url: str) -> None:
    """A connection that the server closes is `Unavailable`; the next call gets a new one."""
    async with await PostgresStore.connect(database_url, pool_size=1) as store:
        with pytest.raises(Unavailable):
            async with store.pool.connection() as connection:
                await connection.fetch("SELECT pg_terminate_backend(pg_backend_pid())")
        assert await store.collections() == []


async def test_an_exhausted_pool_is_overloaded(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When all connections stay in use, a call raises `Overloaded`."""
    monkeypatch.setattr("whence.store.postgres.pool._ACQUIRE_TIMEOUT_S", 0.05)
    async with (
        await PostgresStore.connect(database_url, pool_size=1) as store,
        store.pool.connection(),
    ):
        with pytest.raises(Overloaded, match="1 connections"):
            await store.collections()


async def test_a_cancelled_call_releases_its_connection(database_url: str) -> None:
    """Cancelling stops the statement on the server and releases the connection."""
    async with await PostgresStore.connect(database_url, pool_size=1) as store:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05), store.pool.connection() as connection:
                await connection.fetch("SELECT pg_sleep(30)")
        assert await store.collections() == []


async def test_a_closed_store_starts_no_server(tmp_path: Path) -> None:
    """A call after closing is an error and does not restart the server."""
    home = tmp_path / "home"
    async with EmbeddedServer(home) as server, await PostgresStore.connect(server) as store:
        await store.collections()
    with pytest.raises(Unavailable, match="closed"):
        await store.collections()

    assert not (home / "postgres" / "postmaster.pid").exists()


async def test_the_store_survives_a_killed_server(tmp_path: Path) -> None:
    """SIGKILL during a query is `Unavailable`; the next call runs on a restarted server."""
    async with (
        EmbeddedServer(tmp_path / "home") as server,
        await PostgresStore.connect(server, pool_size=2) as store,
    ):
        await store.ensure_collection("c", MODEL)
        await store.replace_documents("c", [make_document("d")])
        postmaster = int((tmp_path / "home/postgres/postmaster.pid").read_text().split()[0])

        async def sleep_on() -> None:
            async with store.pool.connection() as connection:
                await connection.fetch("SELECT pg_sleep(60)")

        running = asyncio.ensure_future(sleep_on())
        await asyncio.sleep(0.2)
        backends = subprocess.run(
            ["pgrep", "-P", str(postmaster)], capture_output=True, text=True, check=False
        ).stdout.split()
        for process in (postmaster, *map(int, backends)):
            os.kill(process, signal.SIGKILL)
        with pytest.raises(Unavailable):
            await running
        hits = await store.search_dense("c", QUERY, limit=1, access=Access.public())

    assert ids_of(hits) == ["d"]

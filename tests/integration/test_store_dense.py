"""The dense leg on PostgreSQL: exact where few rows are visible, a graph where many are, never short."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncpg
import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.statements import rows_of

from whence.schema.access import Access, DocumentTags
from whence.schema.embedding import EmbeddingModel
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.postgres.dense import search, vector_index
from whence.store.postgres.store import PostgresStore
from whence.store.protocols import EmbeddedDocument

pytestmark = pytest.mark.postgres

DIMENSION = 16
MODEL = EmbeddingModel(name="dense", dimension=DIMENSION)
ALL = Access(frozenset({"a", "b"}))
SOME = Access(frozenset({"b"}))
_GRAPHS = "SELECT relname, indisvalid FROM pg_class JOIN pg_index ON indexrelid = oid WHERE relname ^@ 'chunk_vec_near_'"


def _vectors(n: int, seed: int) -> NDArray[np.float32]:
    drawn = np.random.default_rng(seed).normal(size=(n, DIMENSION))
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)


def _document(n: int, vector: NDArray[np.float32], tag: str) -> EmbeddedDocument:
    draft = DocumentDraft(
        document_id=f"d{n:04}", chunks=(ChunkDraft(content="red"),), tags=DocumentTags((tag,))
    )
    return EmbeddedDocument(draft=draft, vectors=vector[None])


async def _filled(store: PostgresStore, n: int = 400, *, name: str = "c", start: int = 0) -> None:
    """Store n documents; every tenth has the tag b."""
    await store.ensure_collection(name, MODEL)
    documents = [
        _document(start + k, vector, "a" if k % 10 else "b")
        for k, vector in enumerate(_vectors(n, start))
    ]
    await store.replace_documents(name, documents)


async def _indexed(store: PostgresStore) -> None:
    await store.maintenance.wait()


async def _found(
    store: PostgresStore, vector: NDArray[np.float32], access: Access = ALL, **options: Any
) -> list[tuple[str, float]]:
    hits = await store.search_dense("c", vector, access=access, **{"limit": 10, **options})
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    return [(hit.document_id, hit.dense_score or 0.0) for hit in hits]


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes at which a few hundred rows have a graph, asked whenever more than the limit is visible."""
    monkeypatch.setattr(vector_index, "_MIN_CHUNKS", 200)
    monkeypatch.setattr(vector_index, "_STEP_COST", 0)
    monkeypatch.setattr(vector_index, "_MIN_VISIBLE", 0)


def _recall(found: Sequence[Any], exact: Sequence[Any]) -> float:
    return len({one[0] for one in found} & {one[0] for one in exact}) / max(1, len(exact))


async def test_a_graph_finds_what_a_scan_finds(
    postgres_store: PostgresStore, database_url: str, graphs: None
) -> None:
    """A search of the graph finds the nearest rows, in order, with exact cosines."""
    await _filled(postgres_store)
    await _indexed(postgres_store)
    assert [row["indisvalid"] for row in await rows_of(database_url, _GRAPHS)] == [True]
    recalls = []
    for vector in _vectors(20, 99):
        for access in (ALL, SOME):
            near = await _found(postgres_store, vector, access)
            exact = await _found(postgres_store, vector, access, exact=True)
            scores = dict(await _found(postgres_store, vector, access, exact=True, limit=400))
            assert near == sorted(near, key=lambda one: (-one[1], one[0]))
            assert all(scores[one] == score for one, score in near)
            recalls.append(_recall(near, exact))
            assert len(near) == 10

    assert np.mean(recalls) >= 0.99


async def test_the_graph_is_searched(
    postgres_store: PostgresStore, graphs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search uses the graph where many rows are visible, unless it is exact."""
    await _filled(postgres_store)
    await _indexed(postgres_store)
    (vector,) = _vectors(1, 5)
    plans: list[str] = []
    fetch_versioned = search.fetch_versioned

    async def explained(connection: Any, statement: str, version: Any, *arguments: Any) -> Any:
        values = (*arguments, version.info.name, version.id, version.version, version.epoch)
        plans.extend(row[0] for row in await connection.fetch(f"EXPLAIN {statement}", *values))
        return await fetch_versioned(connection, statement, version, *arguments)

    monkeypatch.setattr(search, "fetch_versioned", explained)
    for options in ({"exact": True}, {"limit": 400}):
        await _found(postgres_store, vector, **options)
    assert not any("chunk_vec_near_" in line for line in plans)
    await _found(postgres_store, vector)

    assert any("Index Scan using chunk_vec_near_" in line for line in plans)


async def test_a_ranking_is_full(
    postgres_store: PostgresStore, graphs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scan completes a ranking when the graph finds too few rows."""
    await _filled(postgres_store)
    await _indexed(postgres_store)
    (vector,) = _vectors(1, 7)
    exact = await _found(postgres_store, vector, SOME, exact=True, limit=40)

    assert len(exact) == 40
    for limit in (1, 39, 40, 41, 400, 10**9):
        for access, there in ((SOME, 40), (ALL, 400), (Access.public(), 0)):
            found = await _found(postgres_store, vector, access, limit=limit)
            assert len(found) == min(limit, there)
    assert await _found(postgres_store, vector, SOME, limit=40) == exact


async def test_rights_hold_in_the_graph(postgres_store: PostgresStore, graphs: None) -> None:
    """Hidden and removed documents are not found, and new tags hold for the next search."""
    await _filled(postgres_store)
    await _indexed(postgres_store)
    (vector,) = _vectors(1, 3)
    best = [one for one, _ in await _found(postgres_store, vector)]
    await postgres_store.retag_documents("c", dict.fromkeys(best[:5], DocumentTags(("z",))))
    await postgres_store.remove_documents("c", best[5:])
    after = await _found(postgres_store, vector)

    assert len(after) == 10
    assert not {one for one, _ in after} & set(best)
    assert all(int(one[1:]) % 10 == 0 for one, _ in await _found(postgres_store, vector, SOME))


async def test_a_threshold_cuts_results_of_the_graph(
    postgres_store: PostgresStore, graphs: None
) -> None:
    """No hit is below the threshold, and none above it is missing."""
    await _filled(postgres_store)
    await _indexed(postgres_store)
    (vector,) = _vectors(1, 2)
    everything = await _found(postgres_store, vector)
    middle = everything[4][1]

    assert await _found(postgres_store, vector, threshold=middle) == everything[:5]


async def test_later_rows_are_found(postgres_store: PostgresStore, graphs: None) -> None:
    """Rows written after the graph was built are in it."""
    await _filled(postgres_store)
    await _indexed(postgres_store)
    await _filled(postgres_store, 50, start=1000)
    for k, vector in enumerate(_vectors(50, 1000)):
        assert (await _found(postgres_store, vector, limit=1))[0][0] == f"d{1000 + k}"


async def test_each_large_collection_has_its_own_graph(
    postgres_store: PostgresStore, database_url: str, graphs: None
) -> None:
    """A small collection has no graph, and a graph has rows of one collection."""
    await _filled(postgres_store)
    await _filled(postgres_store, 250, name="other")
    await _filled(postgres_store, 20, name="small")
    await _indexed(postgres_store)
    names = {row["relname"] for row in await rows_of(database_url, _GRAPHS)}
    (vector,) = _vectors(1, 8)
    hits = await postgres_store.search_dense("other", vector, limit=10, access=ALL)

    assert len(names) == 2
    assert all(hit.chunk_id.startswith("urn:chunk:other:") for hit in hits)


async def test_an_interrupted_build_is_repeated(
    database_url: str, graphs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An invalid graph is not searched; the next start replaces it."""
    async with await PostgresStore.connect(database_url, pool_size=3) as store:
        await _filled(store)
        await _indexed(store)
        (vector,) = _vectors(1, 4)
        expected = await _found(store, vector)
    await rows_of(
        database_url,
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid IN"
        " (SELECT oid FROM pg_class WHERE relname ^@ 'chunk_vec_near_')",
        "SELECT 1",
    )
    async with await PostgresStore.connect(database_url, pool_size=3) as store:
        assert await _found(store, vector) == expected
        await _indexed(store)
        assert await _found(store, vector) == expected

    assert [row["indisvalid"] for row in await rows_of(database_url, _GRAPHS)] == [True]


async def test_one_process_builds(
    postgres_store: PostgresStore, database_url: str, graphs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one process builds a graph, others leave the unfinished graph alone."""
    with monkeypatch.context() as patch:
        patch.setattr(vector_index, "_MIN_CHUNKS", 10_000)
        await _filled(postgres_store)
    number = (await rows_of(database_url, "SELECT id FROM collection WHERE name = 'c'"))[0][0]
    holder = await asyncpg.connect(database_url)
    try:
        await holder.fetchval("SELECT pg_try_advisory_lock($1, $2)", vector_index._LOCK, number)
        async with postgres_store.pool.connection() as connection:
            assert not await vector_index.build_index(connection, number)
    finally:
        await holder.close()
    async with postgres_store.pool.connection() as connection:
        assert await vector_index.build_index(connection, number)
        assert not await vector_index.build_index(connection, number)


async def test_graphs_of_deleted_collections_are_dropped(
    postgres_store: PostgresStore, database_url: str, graphs: None
) -> None:
    """A deleted collection leaves no graph."""
    await _filled(postgres_store)
    await _indexed(postgres_store)
    await rows_of(
        database_url,
        "DELETE FROM document",
        "DELETE FROM collection",
        "SELECT 1",
    )
    async with postgres_store.pool.connection() as connection:
        await vector_index.drop_orphan_indexes(connection)

    assert await rows_of(database_url, _GRAPHS) == []


async def test_searches_and_writes_go_on_while_a_graph_is_built(
    postgres_store: PostgresStore, graphs: None
) -> None:
    """A build blocks no statement, and rows written meanwhile are in the graph."""
    await _filled(postgres_store, 1500)
    rounds = 0
    while postgres_store.maintenance.is_running:
        await _filled(postgres_store, 5, start=2000 + 10 * rounds)
        (vector,) = _vectors(1, rounds)
        assert len(await _found(postgres_store, vector)) == 10
        rounds += 1
    for k in range(rounds):
        for n, vector in enumerate(_vectors(5, 2000 + 10 * k)):
            assert (await _found(postgres_store, vector, limit=1))[0][0] == f"d{2000 + 10 * k + n}"


async def test_filters_apply_to_the_graph(postgres_store: PostgresStore, graphs: None) -> None:
    """A filter gives the same results with the graph as with a scan."""
    from whence.schema.filters import parse_filters

    await postgres_store.ensure_collection("c", MODEL)
    documents = []
    for k, vector in enumerate(_vectors(300, 21)):
        draft = DocumentDraft(
            document_id=f"d{k:04}",
            chunks=(ChunkDraft(content="red"),),
            tags=DocumentTags(("a",)),
            metadata={"side": "left" if k % 2 else "right"},
        )
        documents.append(EmbeddedDocument(draft=draft, vectors=vector[None]))
    await postgres_store.replace_documents("c", documents)
    await _indexed(postgres_store)
    filters = parse_filters({"side": "left"})
    (vector,) = _vectors(1, 22)
    found = await _found(postgres_store, vector, filters=filters)
    exact = await _found(postgres_store, vector, filters=filters, exact=True)

    assert all(int(one[1:]) % 2 for one, _ in found)
    assert _recall(found, exact) >= 0.9
    assert len(found) == 10


async def _measured(url: str) -> list[str]:
    rows = await rows_of(
        url,
        "SELECT obj_description(oid, 'pg_class') AS note FROM pg_class"
        " WHERE relname ^@ 'chunk_vec_near_'",
    )
    return [row["note"] for row in rows]


async def test_a_graph_is_measured(
    postgres_store: PostgresStore, database_url: str, graphs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ef_search` is measured once, and again when the collection has doubled."""
    await _filled(postgres_store)
    await _indexed(postgres_store)
    first = await _measured(database_url)
    number, name = (
        await rows_of(database_url, "SELECT id, 'chunk_vec_near_' || id FROM collection")
    )[0]
    async with postgres_store.pool.connection() as connection:
        assert not await vector_index.build_index(connection, number)
        await connection.execute(f"COMMENT ON INDEX {name} IS NULL")
    (vector,) = _vectors(1, 5)
    unmeasured = await _found(postgres_store, vector)
    await _indexed(postgres_store)
    again = await _measured(database_url)
    monkeypatch.setattr(vector_index, "_GROWTH", 0.5)
    async with postgres_store.pool.connection() as connection:
        assert await vector_index.needs_index_build(connection, number)

    assert first == again == ["ef_search=40,100 chunks=400"]
    assert await _found(postgres_store, vector) == unmeasured


async def test_a_graph_of_low_recall_uses_the_ef_search_of_its_size(
    postgres_store: PostgresStore, database_url: str, graphs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no smaller value reaches the recall, the default is used."""

    async def none_does(*_: Any) -> list[None]:
        return [None, None]

    monkeypatch.setattr(vector_index, "least_ef_search", none_does)
    await _filled(postgres_store)
    await _indexed(postgres_store)

    assert await _measured(database_url) == ["ef_search=106,400 chunks=400"]


def test_the_measured_ef_search_is_for_readers_who_see_nearly_all() -> None:
    """The measurement does not apply where a search skips hidden rows."""

    def widths(share: float, limit: int = 10) -> tuple[int, int]:
        found = (vector_index.GraphSearch(limit, share, 20_000, one) for one in (None, (40, 150)))
        plain, measured = found
        assert plain.fetched >= measured.fetched > limit
        return plain.ef_search, measured.ef_search

    assert widths(1.0) == (100, 40)
    assert widths(0.9) == (100, 45)
    assert widths(0.89) == (100, 100)
    assert widths(1.0, 100) == (400, 150)
    assert widths(0.9, 200) == (800, 334)
    assert widths(0.89, 100) == (400, 400)

"""Cached searches give the same answers as uncached ones, in every version, and outlive no right."""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from whence.schema.access import Access, DocumentTags
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import BadInput, ModelMismatch, NotFound
from whence.schema.filters import parse_filters
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.schema.search import Candidate
from whence.store import acl_check
from whence.store.postgres.cache import ByteCache
from whence.store.postgres.dense import search as dense
from whence.store.postgres.dense import vector_index
from whence.store.postgres.lexical import search as lexical
from whence.store.postgres.lexical import visible_postings
from whence.store.postgres.store import PostgresStore
from whence.store.protocols import EmbeddedDocument

pytestmark = pytest.mark.postgres

DIMENSION = 8
MODEL = EmbeddingModel(name="cache", dimension=DIMENSION)
WORDS = ("red", "green", "blue", "yellow", "black")
READERS = {
    "all": Access(frozenset({"a", "b"})),
    "some": Access(frozenset({"b"})),
    "none": Access.public(),
}


def _vectors(n: int, seed: int) -> NDArray[np.float32]:
    # Few different values: many ties.
    drawn = np.random.default_rng(seed).integers(-1, 2, size=(n, DIMENSION)) + 0.25
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)


def _document(rng: random.Random, number: int) -> EmbeddedDocument:
    draft = DocumentDraft(
        document_id=f"d{number:03}",
        chunks=(ChunkDraft(content=" ".join(rng.choices(WORDS, k=6))),),
        tags=DocumentTags((rng.choice("ab"),)),
        metadata={"year": rng.randrange(2000, 2010), "team": rng.choice(["t1", "t2"])},
    )
    return EmbeddedDocument(draft=draft, vectors=_vectors(1, rng.randrange(10**6)))


async def _write(store: PostgresStore, rng: random.Random, numbers: list[int]) -> None:
    await store.replace_documents("c", [_document(rng, number) for number in numbers])


def _clear(store: PostgresStore) -> None:
    store.cache._values.clear()
    store.cache.size = 0


async def _answers(store: PostgresStore, *, cold: bool = False) -> dict[str, list[Candidate]]:
    """Run all searches; `cold` without anything cached."""
    found: dict[str, list[Candidate]] = {}
    given: list[dict[str, Any]] = [
        {}, {"year": {"gte": 2001}}, {"team": "t1"}, {"year": 2003, "team": ["t1", "t2"]}
    ]  # fmt: skip
    for reader, access in READERS.items():
        for filters in map(parse_filters, given):
            searches = [
                *((store.search_dense, vector) for vector in _vectors(1, 1)),
                *((store.search_lexical, query) for query in ("green blue red", "none")),
                (partial(_both, store), "green blue red"),
            ]
            for number, (search, query) in enumerate(searches):
                for limit in (3, 500):
                    if cold:
                        _clear(store)
                    name = f"{reader} {number} {limit} {filters}"
                    try:
                        found[name] = await search(
                            "c", query, limit=limit, access=access, filters=filters
                        )
                    except BadInput:
                        # No visible document has the key.
                        found[name] = []
    return found


async def _both(
    store: PostgresStore, collection: str, query: str, **options: Any
) -> list[Candidate]:
    (vector,) = _vectors(1, 1)
    found = await store.search_both(collection, query, vector, **options)
    return [*found.lexical, *found.dense]


@pytest.fixture
async def two(database_url: str) -> AsyncIterator[tuple[PostgresStore, PostgresStore]]:
    """Two stores on one database, as of two processes."""
    async with (
        await PostgresStore.connect(database_url, pool_size=3) as one,
        await PostgresStore.connect(database_url, pool_size=3) as other,
    ):
        await one.ensure_collection("c", MODEL)
        await _write(one, random.Random(0), list(range(60)))
        yield one, other


async def test_cached_searches_answer_as_the_database_does(
    two: tuple[PostgresStore, PostgresStore],
) -> None:
    """After every write of another process, a search with the cache returns what one without it returns."""
    writer, reader = two
    rng = random.Random(3)
    for turn in range(6):
        expected = await _answers(writer, cold=True)
        assert await _answers(reader) == expected
        assert await _answers(reader) == expected
        some = [f"d{n:03}" for n in rng.sample(range(60), 5)]
        if turn % 3 == 0:
            await _write(writer, rng, rng.sample(range(70), 4))
        elif turn % 3 == 1:
            tags = {one: DocumentTags((rng.choice(["a", "b", f"new{turn}"]),)) for one in some}
            await writer.retag_documents("c", tags)
        else:
            await writer.remove_documents("c", some)


async def test_a_cached_search_is_one_statement(
    two: tuple[PostgresStore, PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search through the graph, or by words, sends one statement once its version is cached."""
    writer, reader = two
    for name, value in {"_MIN_CHUNKS": 40, "_STEP_COST": 0, "_MIN_VISIBLE": 0}.items():
        monkeypatch.setattr(vector_index, name, value)
    await _write(writer, random.Random(4), list(range(100, 300)))
    await writer.maintenance.wait()
    (vector,) = _vectors(1, 9)
    access = READERS["all"]
    sent: list[str] = []
    lend = reader.pool.search_connection

    @contextlib.asynccontextmanager
    async def logged() -> AsyncIterator[Any]:
        connection: Any
        async with lend() as connection:
            with connection.query_logger(lambda record: sent.append(record.query)):
                yield connection

    monkeypatch.setattr(reader.pool, "search_connection", logged)
    counts = []
    for _ in range(2):
        sent.clear()
        await reader.search_lexical("c", "green blue", limit=5, access=access)
        found = await reader.search_dense("c", vector, limit=10, access=access)
        counts.append(len(sent))
    exact = await reader.search_dense("c", vector, limit=10, access=access, exact=True)

    assert counts[0] > counts[1] == 2
    assert [one.dense_score for one in found] == [one.dense_score for one in exact]


@pytest.mark.parametrize("given", [{"team": ["t1", "t2"]}, {"year": {"gte": 2002}}, {"team": "t1"}])
async def test_a_filtered_search_uses_the_graph(
    two: tuple[PostgresStore, PostgresStore], monkeypatch: pytest.MonkeyPatch, given: Any
) -> None:
    """It finds what a scan of the kept rows finds, also where the graph returns too few of them."""
    writer, reader = two
    for name, value in {"_MIN_CHUNKS": 40, "_STEP_COST": 0, "_MIN_VISIBLE": 0}.items():
        monkeypatch.setattr(vector_index, name, value)
    await _write(writer, random.Random(4), list(range(100, 700)))
    await writer.maintenance.wait()
    versioned: list[str] = []
    fetch = dense.fetch_versioned

    async def cut(connection: Any, statement: str, *arguments: Any) -> Any:
        """Return every second time only the first few of the graph's rows."""
        rows = await fetch(connection, statement, *arguments)
        if "AS packed" in statement:
            versioned.append(statement)
            if len(versioned) % 2:
                return [{"packed": rows[0]["packed"][:24]}]
        return rows

    monkeypatch.setattr(dense, "fetch_versioned", cut)
    filters = parse_filters(given)
    for seed in range(6):
        (vector,) = _vectors(1, seed)
        found, exact = [
            await reader.search_dense(
                "c", vector, limit=5, access=READERS["all"], filters=filters, exact=one
            )
            for one in (False, True)
        ]
        assert len(found) == 5
        assert [one.dense_score for one in found] == [one.dense_score for one in exact]

    assert len(versioned) == 6


async def test_errors_are_those_of_the_current_version(
    two: tuple[PostgresStore, PostgresStore],
) -> None:
    """A collection that was replaced by one of another model, or removed, is not confused with the former."""
    writer, reader = two
    await _answers(reader)
    (vector,) = _vectors(1, 1)
    access = READERS["all"]
    with pytest.raises(BadInput):
        await reader.search_dense("c", vector, limit=0, access=access)
    with pytest.raises(BadInput):
        await reader.search_lexical("c", "red", limit=0, access=access)
    async with writer.pool.connection() as connection:
        await connection.execute("DELETE FROM collection")
    for _ in range(2):
        with pytest.raises(NotFound):
            await reader.search_dense("c", vector, limit=1, access=access)
        with pytest.raises(NotFound):
            await reader.search_lexical("c", "red", limit=1, access=access)
    await writer.ensure_collection("c", EmbeddingModel(name="other", dimension=2))
    with pytest.raises(ModelMismatch):
        await reader.search_dense("c", vector, limit=1, access=access)
    assert await reader.search_lexical("c", "red", limit=1, access=access) == []


def _seen(cached: tuple[Any, int]) -> tuple[int, int]:
    """Return how much a reader sees by a cached value: its bytes, and the chunks that it counts."""
    return cached[1], getattr(cached[0], "chunks", 0)


def _poison(store: PostgresStore) -> None:
    """Store for every reader what the reader who sees most has cached."""
    values = store.cache._values
    most: dict[Any, Any] = {}
    for key, found in values.items():
        if isinstance(key, tuple) and len(key) > 3:
            most[key[3:]] = max(found, most.get(key[3:], found), key=_seen)
    for key in values:
        if isinstance(key, tuple) and len(key) > 3:
            values[key] = most[key[3:]]


async def test_wrong_cached_values_reveal_nothing(
    two: tuple[PostgresStore, PostgresStore], monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """Rights are applied by the final statement, and once more by the second check."""
    _, reader = two
    await _answers(reader)
    visible = {
        name: {one.document_id for one in await _everything(reader, access)}
        for name, access in READERS.items()
    }
    for broken in ("cache", "cache and statement", "cache and second line"):
        with monkeypatch.context() as patch:
            await _answers(reader)
            _poison(reader)
            if broken == "cache and statement":
                for module, name, rule in (
                    (dense, "_NEAREST", "v.class_id = ANY($2::int[])"),
                    (dense, "_NEAREST_AND_TIES", "v.class_id = ANY($2::int[])"),
                    (lexical, "_CHUNKS", "c.class_id = ANY($2::int[])"),
                ):
                    statement = getattr(module, name)
                    assert rule in statement
                    patch.setattr(module, name, statement.replace(rule, "$2::int[] IS NOT NULL"))
            if broken == "cache and second line":
                patch.setattr(acl_check, "DocumentTags", lambda *_: DocumentTags())
            caplog.clear()
            found = await _answers(reader)
            withheld = [one for one in caplog.records if one.name == acl_check.__name__]
        for name, hits in found.items():
            assert {one.document_id for one in hits} <= visible[name.split()[0]], (broken, name)
        assert bool(withheld) == (broken == "cache and statement")
        _clear(reader)


async def _everything(store: PostgresStore, access: Access) -> list[Candidate]:
    (vector,) = _vectors(1, 1)
    return await store.search_dense("c", vector, limit=1000, access=access, exact=True)


async def test_readers_of_many_classes_get_the_same_ranking(
    two: tuple[PostgresStore, PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Postings of more than a hundred classes are found by another statement."""
    _, reader = two
    expected = await _answers(reader, cold=True)
    monkeypatch.setattr(visible_postings, "_MANY_CLASSES", 0)
    _clear(reader)

    assert await _answers(reader) == expected


async def test_a_full_cache_changes_no_answer(two: tuple[PostgresStore, PostgresStore]) -> None:
    """Searches go on when hardly anything can be cached."""
    _, reader = two
    expected = await _answers(reader, cold=True)
    _clear(reader)
    reader.cache._max_bytes = 1000

    assert await _answers(reader) == expected
    assert isinstance(reader.cache, ByteCache)
    assert reader.cache.size <= 1000

"""Searches by what is remembered: the same answers as without memory, in every state, and no right outlived."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from whence.schema.access import Access, DocumentTags
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import BadInput, ModelMismatch, NotFound
from whence.schema.filters import parse_filters
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.schema.search import Candidate
from whence.store import acl_check as guard
from whence.store.postgres import cached_search as shortcuts
from whence.store.postgres import chunk_reader as search
from whence.store.postgres import filter_cache as held_filters
from whence.store.postgres.dense import vector_cache as held_vectors
from whence.store.postgres.dense import vector_index
from whence.store.postgres.lexical import search as lexical
from whence.store.postgres.store import PostgresStore
from whence.store.protocols import EmbeddedDocument

pytestmark = pytest.mark.postgres

DIMENSION = 8
MODEL = EmbeddingModel(name="shortcuts", dimension=DIMENSION)
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


async def _settled(store: PostgresStore) -> None:
    memory = store.search._shortcuts
    await store.maintenance.wait()
    while memory._loading:
        await asyncio.gather(*memory._loading)


async def _nothing(*_: Any) -> None:
    """Leave all to the search without memory."""


async def _filtered_answers(
    store: PostgresStore, name: str, access: Access, *, cold: bool
) -> dict[str, list[Candidate]]:
    """Ask both legs with filters that keep most, some and few; `cold` without memory."""
    found: dict[str, list[Candidate]] = {}
    (vector,) = _vectors(1, 1)
    for given in ({"year": {"gte": 2001}}, {"team": "t1"}, {"year": 2003, "team": ["t1", "t2"]}):
        filters = parse_filters(given)
        for limit in (1, 7, 500):
            with pytest.MonkeyPatch.context() as patch:
                if cold:
                    store.search._shortcuts.standings.forget("c")
                    patch.setattr(store.search, "_prime", _nothing)
                try:
                    found[f"dense {name} {given} {limit}"] = await store.search_dense(
                        "c", vector, limit=limit, access=access, filters=filters
                    )
                    if cold:
                        store.search._shortcuts.standings.forget("c")
                    found[f"words {name} {given} {limit}"] = await store.search_lexical(
                        "c", "green blue red", limit=limit, access=access, filters=filters
                    )
                except BadInput:
                    # Nobody whom the reader may see has the key.
                    found[f"refused {name} {given} {limit}"] = []
    return found


async def _answers(store: PostgresStore, *, cold: bool = False) -> dict[str, list[Candidate]]:
    """Ask everything; `cold` without memory."""
    found: dict[str, list[Candidate]] = {}
    for name, access in READERS.items():
        found |= await _filtered_answers(store, name, access, cold=cold)
        for seed in (1, 2):
            (vector,) = _vectors(1, seed)
            for limit in (1, 7, 500):
                if cold:
                    store.search._shortcuts.standings.forget("c")
                found[f"dense {name} {seed} {limit}"] = await store.search_dense(
                    "c", vector, limit=limit, access=access
                )
        for query in ("red", "green blue red", "nothing of that", "…"):
            if cold:
                store.search._shortcuts.standings.forget("c")
            found[f"words {name} {query}"] = await store.search_lexical(
                "c", query, limit=7, access=access
            )
    return found


@pytest.fixture
async def two(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[PostgresStore, PostgresStore]]:
    """Two stores on one database, as of two processes; vectors are held from the second scan on.

    All chunks are looked up for a filter that keeps a sixth of the documents, and not for the others.
    """
    monkeypatch.setattr(held_vectors, "SCANS", 2)
    monkeypatch.setattr(held_filters, "_MANY", 0)
    async with (
        PostgresStore.open(database_url, pool_size=3) as one,
        PostgresStore.open(database_url, pool_size=3) as other,
    ):
        await one.ensure_collection("c", MODEL)
        await _write(one, random.Random(0), list(range(60)))
        yield one, other


async def _warm(store: PostgresStore) -> None:
    for _ in range(3):
        await _answers(store)
        await _settled(store)


async def test_what_is_remembered_answers_as_the_database_does(
    two: tuple[PostgresStore, PostgresStore],
) -> None:
    """Whatever another process writes between: a search with memory gives what one without gives."""
    writer, reader = two
    rng = random.Random(3)
    for turn in range(12):
        await _warm(reader)
        expected = await _answers(writer, cold=True)
        assert await _answers(reader) == expected
        held = reader.search._shortcuts._vectors._held
        assert any(one.readers for one in held.values()), "nothing was held"
        some = [f"d{n:03}" for n in rng.sample(range(60), 5)]
        if turn % 3 == 0:
            await _write(writer, rng, rng.sample(range(70), 4))
        elif turn % 3 == 1:
            tags = {one: DocumentTags((rng.choice(["a", "b", f"new{turn}"]),)) for one in some}
            await writer.retag_documents("c", tags)
        else:
            await writer.remove_documents("c", some)
        assert await _answers(reader) == await _answers(writer, cold=True)


async def test_a_graph_asked_by_memory_finds_what_is_near(
    two: tuple[PostgresStore, PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search through the graph takes one message, with exact cosines, and is full."""
    writer, reader = two
    for name, value in {"_INDEX_FROM": 40, "_STEP": 0, "_SCANNED": 0}.items():
        monkeypatch.setattr(vector_index, name, value)
    await _write(writer, random.Random(4), list(range(100, 300)))
    await _settled(writer)
    asked: list[str] = []
    near = search.recalled_near

    async def noted(*arguments: Any) -> Any:
        asked.append("near")
        return await near(*arguments)

    monkeypatch.setattr("whence.store.postgres.cached_search.recalled_near", noted)
    (vector,) = _vectors(1, 9)
    access = READERS["all"]
    for _ in range(3):
        found = await reader.search_dense("c", vector, limit=10, access=access)
    exact = await reader.search_dense("c", vector, limit=10, access=access, exact=True)

    assert asked == ["near"] * 2
    assert [one.dense_score for one in found] == [one.dense_score for one in exact]


@pytest.mark.parametrize("given", [{"team": ["t1", "t2"]}, {"year": {"gte": 2002}}, {"team": "t1"}])
async def test_a_filtered_search_takes_what_is_kept_from_the_graph(
    two: tuple[PostgresStore, PostgresStore], monkeypatch: pytest.MonkeyPatch, given: Any
) -> None:
    """It finds what a scan of the kept rows finds, and is full, also where the graph gives too few of them."""
    writer, reader = two
    for name, value in {"_INDEX_FROM": 40, "_STEP": 0, "_SCANNED": 0}.items():
        monkeypatch.setattr(vector_index, name, value)
    await _write(writer, random.Random(4), list(range(100, 700)))
    await _settled(writer)
    asked: list[int] = []
    near = shortcuts.recalled_numbers_near

    async def noted(*arguments: Any) -> Any:
        asked.append(arguments[-1].fetched)
        ords, distances = await near(*arguments)
        return (ords, distances) if len(asked) % 2 else (ords[:20:9], distances[:20:9])

    monkeypatch.setattr(shortcuts, "recalled_numbers_near", noted)
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

    assert len(asked) == 6


async def test_who_asks_for_a_filter_at_once_waits_for_one_look(
    two: tuple[PostgresStore, PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both legs of many searches look up once what is kept, and anew after a write."""
    writer, reader = two
    looks: list[int] = []
    look = held_filters.matching_documents

    async def noted(*arguments: Any) -> Any:
        looks.append(1)
        return await look(*arguments)

    monkeypatch.setattr(held_filters, "matching_documents", noted)
    filters = parse_filters({"team": "t1"})
    (vector,) = _vectors(1, 1)
    access = READERS["all"]

    async def ask() -> None:
        await reader.search_dense("c", vector, limit=5, access=access, filters=filters)
        await reader.search_lexical("c", "red", limit=5, access=access, filters=filters)

    await ask()
    await asyncio.gather(*(ask() for _ in range(10)))
    assert len(looks) == 1
    await _write(writer, random.Random(9), [3])
    await ask()
    await ask()
    assert len(looks) <= 3


async def test_filters_that_keep_many_share_one_look_at_all_chunks(
    two: tuple[PostgresStore, PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is taken once for each reader and state, and every filter keeps what it keeps without it."""
    writer, reader = two
    looks: list[tuple[int, ...]] = []
    look = held_filters.visible_numbers

    async def noted(connection: Any, collection_id: int, classes: tuple[int, ...]) -> Any:
        looks.append(classes)
        return await look(connection, collection_id, classes)

    async def kept() -> dict[str, set[str]]:
        (vector,) = _vectors(1, 1)
        found = {}
        for given in ({"team": "t1"}, {"team": "t1", "year": {"lt": 2006}}, {"year": 2003}):
            for name in ("all", "some"):
                hits = await reader.search_dense(
                    "c", vector, limit=99, access=READERS[name], filters=parse_filters(given)
                )
                found[f"{name} {given}"] = {one.chunk_id for one in hits}
        return found

    for turn in (1, 2):
        with monkeypatch.context() as patch:
            # As of a collection of few documents: each filter looks up its own.
            patch.setattr(held_filters, "_MANY", 1000)
            expected = await kept()
        reader.search._shortcuts._filters = held_filters.HeldFilters()
        with monkeypatch.context() as patch:
            patch.setattr(held_filters, "visible_numbers", noted)
            assert await kept() == expected
            assert len(looks) == 2 * turn
        await _write(writer, random.Random(turn), [3, 4, 5])


async def test_what_filters_look_up_is_bounded(two: tuple[PostgresStore, PostgresStore]) -> None:
    """Beyond its bound only what the last filter keeps is held, and searches go on."""
    _, reader = two
    expected = await _answers(reader, cold=True)
    reader.search._shortcuts._filters = held_filters.HeldFilters(most_bytes=10)

    assert await _answers(reader) == expected
    assert len(reader.search._shortcuts._filters._held) == 1
    assert not reader.search._shortcuts._filters._visible


async def test_errors_are_those_of_the_state_at_hand(
    two: tuple[PostgresStore, PostgresStore],
) -> None:
    """A collection that was made anew for another model, or is gone, is not taken for the old one."""
    writer, reader = two
    await _warm(reader)
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


def _poison(store: PostgresStore) -> None:
    """Put into memory, for every reader, what the reader of everything sees."""
    memory = store.search._shortcuts
    for held in memory._vectors._held.values():
        everything = max(held.readers.values(), key=lambda one: len(one._ords))
        held.readers = dict.fromkeys(held.readers, everything)
    postings = memory._postings._held
    most = max(postings.values(), key=lambda terms: sum(len(t.postings) for t in terms.values()))
    for key in postings:
        postings[key] = dict(most)
    kept = memory._filters._held
    for key in kept:
        kept[key] = max(
            (one for other, one in kept.items() if other[-1] == key[-1]),
            key=lambda one: len(one.ords),
        )


async def test_a_memory_gone_wrong_shows_nothing_hidden(
    two: tuple[PostgresStore, PostgresStore], monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """Memory only proposes: rights are applied by the statement, and once more by the second line."""
    _, reader = two
    await _warm(reader)
    for broken in ("memory", "memory and statement", "memory and second line"):
        with monkeypatch.context() as patch:
            _poison(reader)
            if broken == "memory and statement":
                rule = "v.class_id = ANY($4::int[])"
                assert rule in search._STAMPED_HELD
                patch.setattr(
                    search,
                    "_STAMPED_HELD",
                    search._STAMPED_HELD.replace(rule, "$4::int[] IS NOT NULL"),
                )
                rule = "c.class_id = ANY($2::int[])"
                assert rule in lexical._STAMPED_CHUNKS
                patch.setattr(
                    lexical,
                    "_STAMPED_CHUNKS",
                    lexical._STAMPED_CHUNKS.replace(rule, "$2::int[] IS NOT NULL"),
                )
            if broken == "memory and second line":
                patch.setattr(guard, "_allowed", lambda row, access: True)
            caplog.clear()
            found = await _answers(reader)
            withheld = [one for one in caplog.records if one.name == guard.__name__]
        for name, hits in found.items():
            visible = {one.chunk_id for one in await _everything(reader, name)}
            assert {one.chunk_id for one in hits} <= visible, (broken, name)
        assert bool(withheld) == (broken == "memory and statement")


async def _everything(store: PostgresStore, name: str) -> list[Candidate]:
    """Give all that the reader of an answer may see, without memory."""
    store.search._shortcuts.standings.forget("c")
    (vector,) = _vectors(1, 1)
    return await store.search_dense("c", vector, limit=1000, access=READERS[name.split()[1]])


async def test_readers_of_many_classes_use_memory(
    two: tuple[PostgresStore, PostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Postings of more classes than a hundred are found by another statement, with the same result."""
    _, reader = two
    expected = await _answers(reader, cold=True)
    monkeypatch.setattr(lexical, "_MANY_CLASSES", 0)
    await _warm(reader)

    assert await _answers(reader) == expected
    assert reader.search._shortcuts._postings._held


async def test_vectors_that_are_too_many_are_not_held(
    two: tuple[PostgresStore, PostgresStore],
) -> None:
    """Beyond its bound nothing is held, and searches go on."""
    _, reader = two
    expected = await _answers(reader, cold=True)
    reader.search._shortcuts._vectors._most = 10
    await _warm(reader)

    assert await _answers(reader) == expected
    assert sum(one.size for one in reader.search._shortcuts._vectors._held.values()) <= 10


async def test_searches_at_once_are_answered_as_one_by_one(
    two: tuple[PostgresStore, PostgresStore],
) -> None:
    """Worked on together, each search gets its own ranking, also when others give up meanwhile."""
    _, reader = two
    await _warm(reader)
    access = READERS["all"]
    vectors = _vectors(100, 17)

    async def ask(number: int) -> list[Candidate]:
        return await reader.search_dense("c", vectors[number], limit=1 + number % 9, access=access)

    expected = [await ask(number) for number in range(100)]
    tasks = [asyncio.create_task(ask(number)) for number in range(100)]
    await asyncio.sleep(0.002)
    for task in tasks[::7]:
        task.cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)

    assert any(isinstance(one, asyncio.CancelledError) for one in found)
    for one, right in zip(found, expected, strict=True):
        assert one == right or isinstance(one, asyncio.CancelledError)


async def test_a_threshold_cuts_what_memory_ranks(
    two: tuple[PostgresStore, PostgresStore],
) -> None:
    """No hit is below the threshold, and none above it is missing."""
    _, reader = two
    await _warm(reader)
    (vector,) = _vectors(1, 1)
    every = await reader.search_dense("c", vector, limit=60, access=READERS["all"])
    cut = every[len(every) // 3].score
    found = await reader.search_dense("c", vector, limit=60, access=READERS["all"], threshold=cut)

    assert found == [one for one in every if one.score >= cut]
    assert msgspec.json.encode(found)

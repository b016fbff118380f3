"""The lexical leg on PostgreSQL keeps to the rules of every store, whatever its segments look like."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import numpy as np
import pytest
from tests.support.statements import rows_of

from whence.schema.access import Access, DocumentTags
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import Unavailable
from whence.store.memory.store import MemoryStore
from whence.store.postgres import maintenance
from whence.store.postgres.lexical import (
    merge_policy,
    merging,
    posting_writer,
    reindexing,
    segments,
    visible_postings,
)
from whence.store.postgres.store import PostgresStore
from whence.testing.lexical_samples import text_document
from whence.testing.lexical_suite import LexicalSuite

pytestmark = pytest.mark.postgres

MODEL = EmbeddingModel(name="words", dimension=2)
#: A row for each posting, and the slot that its place stands for.
_POSTED = (
    "FROM segment s JOIN posting p ON p.segment = s.id,"
    " unnest(p.terms, array_prepend(0, p.ends), p.ends) u(term, start, stop),"
    " generate_series(u.start, u.stop - 1) n"
)
_SLOT = (
    "substr(s.slots, 4 * (get_byte(p.places, 2 * n) + 256 * get_byte(p.places, 2 * n + 1)) + 1, 4)"
)
PUBLIC = Access.public()


async def _settled(store: PostgresStore) -> None:
    await store.maintenance.wait()


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes at which every handful of chunks is merged, cut and maintained in the background."""
    sizes = {
        "_ROW_LISTS": 2,
        "_ROW_POSTINGS": 3,
        "MAX_SEGMENT_CHUNKS": 6,
        "_BATCH_POSTINGS": 4,
        "_MAX_POSTINGS": 8,
        "_MAX_SMALL_SEGMENTS": 2,
        "_INLINE_CHUNKS": 4,
        "_BATCH_DOCUMENTS": 2,
    }
    modules = (merge_policy, merging, posting_writer, reindexing, segments)
    for name, value in sizes.items():
        places = [module for module in modules if hasattr(module, name)]
        assert places, name
        for module in places:
            monkeypatch.setattr(module, name, value)
    # And the way of readers of many classes.
    monkeypatch.setattr(visible_postings, "_MANY_CLASSES", 0)


class TestPostgresLexical(LexicalSuite):
    """All behaviours, on PostgreSQL."""

    @pytest.fixture
    def store(self, postgres_store: PostgresStore) -> PostgresStore:
        return postgres_store


class TestPostgresLexicalTiny(LexicalSuite):
    """All behaviours, with merges at every turn."""

    @pytest.fixture
    def store(self, tiny: None, postgres_store: PostgresStore) -> PostgresStore:
        return postgres_store

    async def settled(self, store: Any) -> None:
        await _settled(store)


async def _filled(store: PostgresStore, name: str, n: int, *, start: int = 0) -> None:
    """Store n documents, each in a write of its own."""
    await store.ensure_collection(name, MODEL)
    for k in range(start, start + n):
        text = "red " * (k % 3 + 1) + f"word{k % 5} word{k} tail"
        await store.replace_documents(name, [text_document(f"d{k}", text)])


async def _ranking(store: Any, query: str = "red word3 tail") -> list[tuple[str, float]]:
    hits = await store.search_lexical("c", query, limit=1000, access=PUBLIC)
    return [(hit.chunk_id, hit.sparse_score or 0.0) for hit in hits]


async def test_both_stores_compute_equal_scores(postgres_store: PostgresStore) -> None:
    """The same chunks have equal scores, to the last bit, in memory and in PostgreSQL."""
    rng = np.random.default_rng(11)
    vocabulary = [f"w{n}" for n in range(300)]
    corpus = [
        text_document(f"d{n}", " ".join(rng.choice(vocabulary, rng.integers(1, 60))))
        for n in range(400)
    ]
    memory = MemoryStore()
    for store in (memory, postgres_store):
        await store.ensure_collection("c", MODEL)
        await store.replace_documents("c", corpus)

    for query in ("w1 w2 w3", "w7", "w1 w1 w299 unseen", " ".join(vocabulary)):
        assert await _ranking(memory, query) == await _ranking(postgres_store, query)


@pytest.mark.parametrize("first", ["search", "score", "write", "remove", "retag"])
@pytest.mark.parametrize("former", ["DELETE FROM lexicon", "UPDATE lexicon SET analyzer = '0'"])
async def test_collections_of_former_versions_are_indexed(
    postgres_store: PostgresStore, database_url: str, tiny: None, first: str, former: str
) -> None:
    """Collections without postings, or of another analyzer, return the results of a new index."""
    await _filled(postgres_store, "c", 9)
    await _settled(postgres_store)
    expected = dict(await _ranking(postgres_store))
    if former.startswith("DELETE"):
        for table in ("posting", "segment", "chunk_terms", "term"):
            await rows_of(database_url, f"DELETE FROM {table}")
    await rows_of(database_url, former)
    if first == "score":
        keys = list(expected)
        scores = await postgres_store.lexical_scores("c", "red word3 tail", keys, PUBLIC)
        assert scores == pytest.approx(expected, rel=0.05)
    elif first == "write":
        await postgres_store.replace_documents("c", [text_document("d1", "red red word1 tail")])
    elif first == "remove":
        await postgres_store.remove_documents("c", ["d8"])
        expected.pop("urn:chunk:c:d8:0")
    elif first == "retag":
        await postgres_store.retag_documents("c", {"d8": DocumentTags(("a",))})
        expected.pop("urn:chunk:c:d8:0")

    assert {key for key, _ in await _ranking(postgres_store)} == set(expected)


async def test_indexing_continues_after_its_search_is_cancelled(
    postgres_store: PostgresStore, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that cancels does not undo the work: the next one finds it done."""
    await _filled(postgres_store, "c", 5)
    expected = {key for key, _ in await _ranking(postgres_store)}
    await rows_of(database_url, "DELETE FROM lexicon")
    started = asyncio.Event()
    maintain = maintenance.maintain

    async def noted(*args: Any) -> None:
        started.set()
        await maintain(*args)

    monkeypatch.setattr(maintenance, "maintain", noted)
    search = asyncio.create_task(_ranking(postgres_store))
    await started.wait()
    search.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await search
    await _settled(postgres_store)
    analyzers = await rows_of(database_url, "SELECT analyzer FROM lexicon")

    assert len(analyzers) == 1
    assert {key for key, _ in await _ranking(postgres_store)} == expected


async def test_a_home_with_two_analyzers_is_an_error(
    postgres_store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When reindexing does not help, the reader gets an error instead of a loop."""
    await _filled(postgres_store, "c", 1)
    monkeypatch.setattr("whence.store.postgres.lexical.search.ANALYZER_VERSION", "other")

    with pytest.raises(Unavailable, match="another version"):
        await _ranking(postgres_store)


async def test_segments_stay_few(
    postgres_store: PostgresStore, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After many writes a query reads few segments, and each chunk is in one."""
    monkeypatch.setattr(merge_policy, "_MAX_SMALL_SEGMENTS", 4)
    await _filled(postgres_store, "c", 60)
    await _settled(postgres_store)
    (row,) = await rows_of(
        database_url, "SELECT count(*) AS n, sum(chunks - dead) AS live FROM segment"
    )
    doubles = await rows_of(
        database_url, f"SELECT 1 {_POSTED} GROUP BY u.term, {_SLOT} HAVING count(*) > 1"
    )

    assert row["n"] <= 4
    assert row["live"] == 60
    assert doubles == []


async def test_removal_deletes_terms_and_postings(
    postgres_store: PostgresStore, database_url: str
) -> None:
    """Terms, counts and postings of removed documents are deleted."""
    await _filled(postgres_store, "c", 12)
    await postgres_store.remove_documents("c", [f"d{n}" for n in range(12)])
    for table in ("term", "chunk_terms", "segment", "posting"):
        assert await rows_of(database_url, f"SELECT 1 FROM {table}") == []


async def test_postings_follow_new_tags(postgres_store: PostgresStore) -> None:
    """Postings move with their chunk to its new class; a segment without such a chunk is not rewritten."""
    hidden = [text_document(f"d{n}", f"red word{n}", tags=DocumentTags(("a",))) for n in range(4)]
    await postgres_store.ensure_collection("c", MODEL)
    await postgres_store.replace_documents("c", hidden)
    await postgres_store.retag_documents("c", {"d2": DocumentTags()})

    assert [key for key, _ in await _ranking(postgres_store, "red")] == ["urn:chunk:c:d2:0"]


async def test_a_half_deleted_segment_is_rewritten(
    postgres_store: PostgresStore, database_url: str
) -> None:
    """Deleted postings are counted, and removed when they are half of a segment."""
    await postgres_store.ensure_collection("c", MODEL)
    same = [text_document(f"d{n}", "red blue") for n in range(10)]
    await postgres_store.replace_documents("c", same)
    sizes, posted = [], []
    for gone in (4, 5):
        await postgres_store.remove_documents("c", [f"d{n}" for n in range(gone)])
        sizes += await rows_of(database_url, "SELECT chunks, dead FROM segment")
        posted += await rows_of(
            database_url,
            f"SELECT DISTINCT n FROM (SELECT count(*) AS n {_POSTED} GROUP BY p.segment, u.term) g",
        )

    assert [tuple(size) for size in sizes] == [(10, 4), (5, 0)]
    assert [tuple(size) for size in posted] == [(10,), (5,)]


async def test_the_class_of_the_chunk_decides(
    postgres_store: PostgresStore, database_url: str
) -> None:
    """Postings of a class that differs from the chunk's own reveal nothing."""
    await _filled(postgres_store, "c", 3)
    await postgres_store.replace_documents(
        "c", [text_document("h", "red", tags=DocumentTags(("a",)))]
    )
    await rows_of(
        database_url,
        "UPDATE chunk SET class_id = (SELECT id FROM sec_class WHERE acl <> '{}')"
        " WHERE chunk_key = 'urn:chunk:c:d0:0'",
    )

    assert "urn:chunk:c:d0:0" not in dict(await _ranking(postgres_store))


async def test_a_failed_write_changes_no_postings(
    postgres_store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks and postings are written in one transaction: both or neither."""
    await _filled(postgres_store, "c", 4)
    before = await _ranking(postgres_store)

    async def fail(*args: Any, **options: Any) -> None:
        raise OSError("disk on fire")

    monkeypatch.setattr(segments.PostingLists, "write", fail)
    with pytest.raises(Unavailable):
        await postgres_store.replace_documents("c", [text_document("d1", "blue")])

    assert await _ranking(postgres_store) == before
    info = await postgres_store.collection("c")
    assert info is not None
    assert info.chunks == 4


async def test_maintenance_does_not_affect_readers(
    postgres_store: PostgresStore, tiny: None
) -> None:
    """During writes and merges every reader gets complete rankings without duplicates."""
    await _filled(postgres_store, "c", 10)
    stop = asyncio.Event()

    async def read() -> int:
        rounds = 0
        while not stop.is_set():
            keys = [key for key, _ in await _ranking(postgres_store)]
            assert len(keys) == len(set(keys))
            assert {f"urn:chunk:c:d{n}:0" for n in range(10)} <= set(keys)
            rounds += 1
        return rounds

    readers = [asyncio.create_task(read()) for _ in range(2)]
    await _filled(postgres_store, "c", 15, start=10)
    await _settled(postgres_store)
    stop.set()

    assert all(rounds > 0 for rounds in await asyncio.gather(*readers))


async def test_the_memory_of_a_merge_is_bounded(
    postgres_store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A merge of four times as many chunks keeps no more postings in memory: one batch and one row."""
    monkeypatch.setattr(merging, "_BATCH_POSTINGS", 256)
    monkeypatch.setattr(posting_writer, "_ROW_POSTINGS", 32)
    merged: list[int] = []
    batch = merging.PostingLists

    def spy(*columns: Any) -> Any:
        merged.append(len(columns[0]))
        return batch(*columns)

    monkeypatch.setattr(merging, "PostingLists", spy)
    await postgres_store.ensure_collection("c", MODEL)
    held = []
    for chunks in (100, 400):
        merged.clear()
        for start in range(0, chunks, chunks // 10):
            # Each word is in few chunks, however many there are.
            texts = [
                " ".join(f"w{n}x{k}" if k % 2 else f"v{n // 10}x{k}" for k in range(20))
                for n in range(start, start + chunks // 10)
            ]
            await postgres_store.replace_documents(
                "c", [text_document(f"{chunks}-{start}-{n}", one) for n, one in enumerate(texts)]
            )
        assert sum(merged) >= 20 * chunks // 2
        held.append(max(merged))

    assert held[1] <= 256 + 12 * 32, held
    assert held[1] <= 1.2 * held[0]


async def test_concurrent_writers_keep_counts_right(
    postgres_store: PostgresStore, tiny: None
) -> None:
    """Concurrent writers of one collection, with merges between them, lose no count."""
    await postgres_store.ensure_collection("c", MODEL)
    await asyncio.gather(
        *(
            postgres_store.replace_documents("c", [text_document(f"d{n}", f"red word{n}")])
            for n in range(20)
        )
    )
    await _settled(postgres_store)
    memory = MemoryStore()
    await memory.ensure_collection("c", MODEL)
    await memory.replace_documents("c", [text_document(f"d{n}", f"red word{n}") for n in range(20)])

    assert await _ranking(postgres_store) == await _ranking(memory)


async def test_closing_ends_maintenance(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed store leaves no task and no partial merge."""
    store = await PostgresStore.connect(database_url, pool_size=2)
    await _filled(store, "c", 3)
    expected = await _ranking(store)
    started = asyncio.Event()

    async def sleep_on(*args: Any) -> None:
        started.set()
        await asyncio.sleep(60)

    monkeypatch.setattr(reindexing, "ensure_indexed", sleep_on)
    task = store.maintenance.start("c")
    await started.wait()
    await store.aclose()
    monkeypatch.undo()

    assert task.cancelled()
    async with await PostgresStore.connect(database_url, pool_size=2) as store:
        assert await _ranking(store) == expected


async def test_failed_maintenance_is_logged_and_retried(
    postgres_store: PostgresStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure of maintenance harms no write; it is logged once, and maintenance is retried when due."""
    await _filled(postgres_store, "c", 2)

    async def fail(*args: Any) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setattr("whence.store.postgres.maintenance.maintain", fail)
        with pytest.raises(Unavailable):
            await postgres_store.maintenance.start("c")
        await asyncio.sleep(0)
    await postgres_store.maintenance.start("c")

    assert [record.getMessage() for record in caplog.records] == [
        "maintenance of collection 'c' failed"
    ]
    assert not postgres_store.maintenance.is_running

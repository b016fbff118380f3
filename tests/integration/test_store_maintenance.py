"""Merging and indexing anew: nobody waits or notices more than need be, and what is cut off harms nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import numpy as np
import pytest
from tests.support.statements import rows_of

from whence.schema.access import Access, DocumentTags
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import Unavailable
from whence.schema.filters import Condition
from whence.store.field_boosts import FieldBoosts
from whence.store.memory.store import MemoryStore
from whence.store.postgres.lexical import (
    merge_policy,
    merging,
    posting_writer,
    reindexing,
    segments,
)
from whence.store.postgres.lexical.posting_writer import PostingLists
from whence.store.postgres.maintenance import Maintenance
from whence.store.postgres.store import PostgresStore
from whence.testing.lexical_samples import text_document
from whence.text.analysis import ANALYZER_VERSION

pytestmark = pytest.mark.postgres

MODEL = EmbeddingModel(name="words", dimension=2)
SECRET = DocumentTags(("a",))
READERS = (Access.public(), Access(frozenset({"a"})))
QUERY = "red word1 word2 word7 tail"
#: Seconds after which a test that waits for a lock fails.
_PATIENCE_S = 60.0
Act = Callable[[Any], Awaitable[object]]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes at which a dozen chunks are due to be merged, in batches of some postings."""
    monkeypatch.setattr(merge_policy, "MAX_SEGMENT_CHUNKS", 40)
    monkeypatch.setattr(merge_policy, "_MAX_SMALL_SEGMENTS", 3)
    monkeypatch.setattr(merge_policy, "_INLINE_CHUNKS", 4)
    monkeypatch.setattr(merging, "_BATCH_POSTINGS", 8)
    monkeypatch.setattr(posting_writer, "_ROW_POSTINGS", 4)
    monkeypatch.setattr(reindexing, "_BATCH_DOCUMENTS", 3)
    for module in (reindexing, segments):
        monkeypatch.setattr(module, "MAX_SEGMENT_CHUNKS", 4)


class Pause:
    """Stops the first merge beside the writes once.

    Args:
        monkeypatch: Puts it in place.
        midway: In the middle of the postings; else where they are written, and it is to take the writers' lock.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, midway: bool = False) -> None:
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()
        self.begun = 0
        self.sources: set[int] = set()
        self._midway = midway
        self._batches = 0
        self._begin, self._write = merging._write_merged, PostingLists.write
        monkeypatch.setattr(merging, "_write_merged", self._begun)

        async def write(batch: PostingLists, *where: Any) -> None:
            await self._written(batch, *where)

        monkeypatch.setattr(PostingLists, "write", write)

    async def _begun(self, *where: Any, record_deleted: bool = False) -> Any:
        if not record_deleted:
            return await self._begin(*where)
        self.begun += 1
        merge = await self._begin(*where, record_deleted=True)
        if self.begun == 1:
            self.sources = set(merge.sources)
            await self._stop(midway=False)
        return merge

    async def _written(self, *batch: Any) -> None:
        await self._write(*batch)
        self._batches += self.begun == 1
        if self._batches == 1:
            await self._stop(midway=True)

    async def _stop(self, *, midway: bool) -> None:
        if midway == self._midway and not self.reached.is_set():
            self.reached.set()
            await self.go_on.wait()


async def _within(what: Awaitable[Any]) -> Any:
    async with asyncio.timeout(_PATIENCE_S):
        return await what


@contextlib.asynccontextmanager
async def _merging(store: PostgresStore, pause: Pause) -> AsyncIterator[asyncio.Task[None]]:
    """Do something in the middle of a merge, which is ended then."""
    task = store.maintenance.start("c")
    async with asyncio.timeout(_PATIENCE_S):
        reached = asyncio.create_task(pause.reached.wait())
        await asyncio.wait([task, reached], return_when=asyncio.FIRST_COMPLETED)
        assert reached.done(), "no merge was due"
        try:
            yield task
        finally:
            pause.go_on.set()
            await asyncio.wait([task])
    await task


async def _filled(*stores: Any, n: int = 20) -> None:
    """Store n documents in a write each, with merges beside them left undone; every third is hidden."""
    for store in stores:
        await store.ensure_collection("c", MODEL)
        for k in range(n):
            await store.replace_documents("c", [_document(k)])


def _document(k: int, *, words: str = "") -> Any:
    text = words or "red " * (k % 3 + 1) + f"word{k % 5} word{k} tail"
    return text_document(f"d{k}", text, tags=SECRET if k % 3 == 0 else DocumentTags())


@pytest.fixture
def lazy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes that leave merges for later."""

    async def nothing(self: Maintenance, connection: Any, collection: str) -> None:
        del self, connection, collection

    monkeypatch.setattr(Maintenance, "start_needed", nothing)


async def _rankings(store: Any) -> list[list[tuple[str, float | None]]]:
    found = []
    for access in READERS:
        hits = await store.search_lexical("c", QUERY, limit=1000, access=access)
        found.append([(hit.chunk_id, hit.sparse_score) for hit in hits])
    return found


async def _check_index(url: str) -> None:
    """See that postings say what the words of chunks say, the dead are counted, and nothing else is there."""
    words = await rows_of(
        url,
        "SELECT t.slot, c.class_id, t.terms FROM chunk_terms t JOIN chunk c ON c.ord = t.ord",
    )
    expected = {
        (int(term), row["class_id"], row["slot"])
        for row in words
        for term in np.frombuffer(row["terms"], "<i4")
    }
    segments = {row["id"]: row for row in await rows_of(url, "SELECT * FROM segment")}
    posted: list[tuple[int, int, int]] = []
    dead: Counter[tuple[int, int, int]] = Counter()
    dead_slots: set[int] = set()
    for row in await rows_of(url, "SELECT * FROM posting"):
        slots = np.frombuffer(segments[row["segment"]]["slots"], ">i4")
        at = 0
        for term, class_id, to in zip(row["terms"], row["classes"], row["ends"], strict=True):
            for slot in slots[np.frombuffer(row["places"], "<u2")[at:to]].tolist():
                if (term, class_id, slot) in expected:
                    posted.append((term, class_id, slot))
                else:
                    dead[row["segment"], term, class_id] += 1
                    dead_slots.add(slot)
            at = to
    counted = await rows_of(url, "SELECT segment, term, class_id, chunks FROM posting_dead")

    assert sorted(posted) == sorted(expected)
    assert {tuple(row)[:3]: row["chunks"] for row in counted} == dict(dead)
    assert sum(row["dead"] for row in segments.values()) == len(dead_slots)
    assert sum(row["chunks"] for row in segments.values()) == len(dead_slots) + len(words)


async def _segments(url: str) -> set[int]:
    return {row["id"] for row in await rows_of(url, "SELECT id FROM segment")}


async def _append(store: Any) -> None:
    await store.replace_documents("c", [_document(100), _document(101)])


async def _remove(store: Any) -> None:
    await store.remove_documents("c", ["d1", "d3", "d8"])


async def _retag(store: Any) -> None:
    await store.retag_documents("c", {"d2": SECRET, "d3": DocumentTags(), "d9": DocumentTags()})


async def _change(store: Any) -> None:
    await store.replace_documents("c", [_document(4, words="red word7 word7"), _document(5)])


async def _all(store: Any) -> None:
    for act in (_change, _retag, _append, _remove):
        await act(store)


@pytest.mark.parametrize(
    ("act", "before", "midway"),
    [
        *((_all, before, midway) for before in (False, True) for midway in (False, True)),
        # All of them one after the other may hide that one fails alone.
        (_append, False, False),
        (_remove, True, True),
        (_retag, False, True),
        (_change, True, False),
    ],
)
async def test_writes_do_not_wait_for_a_merge(
    postgres_store: PostgresStore,
    database_url: str,
    lazy: None,
    monkeypatch: pytest.MonkeyPatch,
    act: Act,
    before: bool,
    midway: bool,
) -> None:
    """A write during a merge is not blocked, and results equal those of the memory store."""
    memory = MemoryStore()
    await _filled(memory, postgres_store)
    if before:
        for store in (memory, postgres_store):
            await store.remove_documents("c", ["d6", "d7"])
            await store.retag_documents("c", {"d10": SECRET})
    expected, former = await _rankings(memory), await _segments(database_url)
    pause = Pause(monkeypatch, midway=midway)
    async with _merging(postgres_store, pause):
        assert await _rankings(postgres_store) == expected
        await act(postgres_store)
        await act(memory)
        assert await _rankings(postgres_store) == await _rankings(memory)
        assert len(former & await _segments(database_url)) > len(former) / 2

    assert await _rankings(postgres_store) == await _rankings(memory)
    assert not pause.sources & await _segments(database_url)
    assert pause.begun == 1 or act is _all
    await _check_index(database_url)
    # What was carried over stands at the right segment: it goes with those who are dead.
    await _all(memory)
    await _all(postgres_store)
    await postgres_store.maintenance.start("c")
    assert await _rankings(postgres_store) == await _rankings(memory)
    await _check_index(database_url)


async def _erase(store: PostgresStore) -> None:
    before, after = await store.erase_document("c", "d2")
    assert before.postings > 0
    assert after.postings == 0


async def _boost(store: PostgresStore) -> None:
    await store.boost_fields("c", FieldBoosts(path=2))


@pytest.mark.parametrize("act", [_erase, _boost])
@pytest.mark.parametrize("midway", [False, True], ids=["at the end", "midway"])
async def test_a_merge_without_its_sources_is_abandoned(
    postgres_store: PostgresStore,
    database_url: str,
    lazy: None,
    monkeypatch: pytest.MonkeyPatch,
    act: Act,
    midway: bool,
) -> None:
    """Chunks erased or reindexed during a merge do not return with its result."""
    await _filled(postgres_store)
    pause = Pause(monkeypatch, midway=midway)
    async with _merging(postgres_store, pause):
        await act(postgres_store)
        expected = await _rankings(postgres_store)
        await _check_index(database_url)

    assert await _rankings(postgres_store) == expected
    await _check_index(database_url)
    assert merge_policy.plan_background_merges(await _planned(database_url)) == []


async def _planned(url: str) -> list[merge_policy.Segment]:
    rows = await rows_of(
        url, "SELECT first_slot, last_slot, chunks, dead FROM segment ORDER BY first_slot"
    )
    return [merge_policy.Segment(*row) for row in rows]


@pytest.mark.parametrize("midway", [False, True], ids=["at the end", "midway"])
async def test_a_collection_can_be_dropped_during_a_merge(
    postgres_store: PostgresStore,
    database_url: str,
    lazy: None,
    monkeypatch: pytest.MonkeyPatch,
    midway: bool,
) -> None:
    """The merge restores nothing of the dropped collection, and does not fail."""
    await _filled(postgres_store)
    async with _merging(postgres_store, Pause(monkeypatch, midway=midway)):
        await rows_of(database_url, "DELETE FROM collection")

    for table in ("segment", "posting", "posting_dead", "chunk_terms", "term", "lexicon"):
        assert await rows_of(database_url, f"SELECT 1 FROM {table}") == []


@pytest.mark.parametrize("by", ["the server", "closing"])
async def test_an_interrupted_merge_changes_nothing(
    database_url: str, lazy: None, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """The source segments stay whole, and the next maintenance merges them."""
    memory = MemoryStore()
    pause = Pause(monkeypatch)
    async with await PostgresStore.connect(database_url, pool_size=4) as store:
        await _filled(memory, store)
        task = store.maintenance.start("c")
        await _within(pause.reached.wait())
        for some in (memory, store):
            await _all(some)
        if by == "the server":
            await rows_of(
                database_url,
                "SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a JOIN pg_locks l USING (pid)"
                f" WHERE l.locktype = 'advisory' AND l.classid = {merging._LOCK}",
            )
            pause.go_on.set()
            with pytest.raises(Unavailable):
                await _within(task)
    assert task.done()
    assert pause.sources <= await _segments(database_url)
    await _check_index(database_url)
    async with await PostgresStore.connect(database_url, pool_size=4) as store:
        assert await _rankings(store) == await _rankings(memory)
        await store.maintenance.start("c")
        assert await _rankings(store) == await _rankings(memory)

    assert pause.begun > 1
    assert not pause.sources & await _segments(database_url)
    await _check_index(database_url)


async def test_one_process_merges(
    postgres_store: PostgresStore, database_url: str, lazy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one process merges, the maintenance of another ends at once."""
    memory = MemoryStore()
    await _filled(memory, postgres_store)
    pause = Pause(monkeypatch)
    async with (
        await PostgresStore.connect(database_url, pool_size=2) as other,
        _merging(postgres_store, pause) as task,
    ):
        await _within(other.maintenance.start("c"))
        await _all(other)
        await _all(memory)
        assert pause.begun == 1
        assert not task.done()

    assert await _rankings(postgres_store) == await _rankings(memory)
    await _check_index(database_url)


async def test_a_merge_waits_for_a_concurrent_write(
    postgres_store: PostgresStore, database_url: str, lazy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks that the write removes are deleted in the merged segment, whichever commits last."""
    memory = MemoryStore()
    await _filled(memory, postgres_store)
    pause = Pause(monkeypatch)
    async with _merging(postgres_store, pause) as task:
        holder = await asyncpg.connect(database_url)
        async with holder.transaction():
            await holder.execute("SELECT FROM whence.collection FOR NO KEY UPDATE")
            pause.go_on.set()
            writer = asyncio.create_task(_remove(postgres_store))
            await _until_waiting(database_url, 2)
            assert not task.done()
            assert not writer.done()
            assert await _rankings(postgres_store) == await _rankings(memory)
        await holder.close()
        await _within(writer)
    await _remove(memory)

    assert await _rankings(postgres_store) == await _rankings(memory)
    await _check_index(database_url)


async def _until_waiting(url: str, n: int) -> None:
    """Wait until so many transactions of a database wait for a lock."""
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            (row,) = await rows_of(
                url,
                "SELECT count(*) AS n FROM pg_stat_activity"
                " WHERE wait_event_type = 'Lock' AND datname = current_database()",
            )
            if row["n"] >= n:
                return


async def test_random_writes_and_merges_keep_the_index_right(
    postgres_store: PostgresStore, database_url: str, lazy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After random writes before and during merges, results equal those of the store in memory."""
    rng = np.random.default_rng(7)
    memory = MemoryStore()
    await _filled(memory, postgres_store, n=12)

    async def write(n: int) -> None:
        for _ in range(n):
            k = int(rng.integers(30))
            act = rng.choice(["put", "put", "remove", "retag"])
            tags = SECRET if rng.integers(2) else DocumentTags()
            words = " ".join(rng.choice(["red", "word1", "word2", "word7", "tail"], 4))
            for store in (memory, postgres_store):
                if act == "put":
                    await store.replace_documents("c", [_document(k, words=words)])
                elif act == "remove":
                    await store.remove_documents("c", [f"d{k}"])
                else:
                    await store.retag_documents("c", {f"d{k}": tags})

    merges = 0
    for _ in range(8):
        await write(12)
        with monkeypatch.context() as patch:
            pause = Pause(patch, midway=bool(rng.integers(2)))
            if merge_policy.plan_background_merges(await _planned(database_url)):
                async with _merging(postgres_store, pause):
                    await write(6)
            merges += pause.begun
        assert await _rankings(postgres_store) == await _rankings(memory)
        await _check_index(database_url)
    assert merges >= 4


# --- indexing anew ---------------------------------------------------------------------------------


class Count:
    """Counts the chunks whose words are indexed anew, and stops after some.

    Args:
        monkeypatch: Puts it in place.
        stop_after: Chunks.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stop_after: int = 10**9) -> None:
        self.chunks = 0
        self.reached = asyncio.Event()
        self._stop_after = stop_after
        self._index = reindexing.reindex_batch
        counted = reindexing._analyze

        def count(rows: Any, *options: Any, **named: Any) -> Any:
            self.chunks += len(rows)
            return counted(rows, *options, **named)

        monkeypatch.setattr(reindexing, "_analyze", count)
        monkeypatch.setattr(reindexing, "reindex_batch", self._stopped)

    async def _stopped(self, connection: Any, collection_id: int) -> bool:
        done = await self._index(connection, collection_id)
        if self.chunks > self._stop_after:
            self.reached.set()
            await asyncio.Event().wait()
        return done


async def _cut_off(url: str) -> MemoryStore:
    """Leave a collection of 20 chunks with the first nine indexed by this analyzer; gives what is in it."""
    memory = MemoryStore()
    async with await PostgresStore.connect(url, pool_size=4) as store:
        await _filled(memory, store)
        await rows_of(url, "UPDATE lexicon SET analyzer = '0'")
        with pytest.MonkeyPatch.context() as patch:
            count = Count(patch, stop_after=9)
            task = store.maintenance.start("c")
            await _within(count.reached.wait())
            # What is cut off is the fourth portion; closing the store does it.
            await store.aclose()
        assert task.cancelled()
        assert count.chunks == 12
    (row,) = await rows_of(url, "SELECT count(*) AS n FROM chunk_terms")
    assert row["n"] == 9
    return memory


@pytest.mark.parametrize(
    "act", [None, _append, _remove, _retag, _change], ids=lambda act: getattr(act, "__name__", "")
)
async def test_reindexing_is_resumable(
    database_url: str, lazy: None, monkeypatch: pytest.MonkeyPatch, act: Act | None
) -> None:
    """The next search or write indexes the remaining chunks, none twice."""
    memory = await _cut_off(database_url)
    count = Count(monkeypatch)
    async with await PostgresStore.connect(database_url, pool_size=4) as store:
        if act is not None:
            await act(store)
            await act(memory)
        assert await _rankings(store) == await _rankings(memory)

    assert count.chunks == 11
    await _check_index(database_url)


async def test_two_processes_share_a_reindexing(
    database_url: str, lazy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two concurrent searches after a change of the analyzer index each chunk once."""
    memory = await _cut_off(database_url)
    count = Count(monkeypatch)
    async with (
        await PostgresStore.connect(database_url, pool_size=2) as one,
        await PostgresStore.connect(database_url, pool_size=2) as other,
    ):
        found = await _within(asyncio.gather(_rankings(one), _rankings(other)))

    assert found == [await _rankings(memory)] * 2
    assert count.chunks == 11
    await _check_index(database_url)


async def test_a_partial_index_is_not_searched(
    database_url: str, lazy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """During a reindexing dense searches find all chunks, and an erasure counts all parts."""
    memory = await _cut_off(database_url)
    vector = np.array([1, 0], dtype=np.float32)
    filters = (Condition(key="document_id", prefix="d1"),)
    async with await PostgresStore.connect(database_url, pool_size=4) as store:
        for some in ((), filters, filters, ()):
            hits = [
                await one.search_dense("c", vector, limit=100, access=READERS[1], filters=some)
                for one in (store, memory)
            ]
            assert hits[0] == hits[1]
            assert len(hits[0]) == (11 if some else 20)
        assert not await _indexed(database_url)
        before, after = await store.erase_document("c", "d19")
        assert before.postings > 0
        assert after.postings == 0
        await memory.remove_documents("c", ["d19"])
        assert await _rankings(store) == await _rankings(memory)
    await _check_index(database_url)


async def _indexed(url: str) -> bool:
    rows = await rows_of(url, "SELECT analyzer FROM lexicon")
    return [row["analyzer"] for row in rows] == [ANALYZER_VERSION]

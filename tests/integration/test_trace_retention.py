"""Old traces are removed, and the chain stays whole."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from whence.schema.access import Access, DocumentTags
from whence.schema.errors import BadInput
from whence.store.chain_key import ChainKey
from whence.store.change_log import net_changes
from whence.store.postgres.store import PostgresStore
from whence.store.reader_records import Feedback
from whence.testing.store_samples import fill_collection, make_document, make_trace

pytestmark = pytest.mark.postgres

START = datetime(2026, 1, 1, tzinfo=UTC)


class _Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


async def test_old_traces_are_removed(database_url: str, tmp_path: Path) -> None:
    """Those before the time go, the others stay; the chain is whole, and none comes back unseen."""
    clock, key = _Clock(), ChainKey(tmp_path)
    db = await asyncpg.connect(database_url, server_settings={"search_path": "whence"})
    async with await PostgresStore.connect(database_url, clock=clock, key=key) as store:
        for day in range(6):
            clock.now = START + timedelta(days=day)
            await store.record_trace(make_trace(f"day-{day}"))
        await db.execute("CREATE TEMP TABLE kept AS TABLE trace")
        before = START + timedelta(days=3)
        counted = await store.remove_traces(before, dry_run=True)
        removed = await store.remove_traces(before)
        again = await store.remove_traces(before)
        left = [one.record.answer_id for one in await store.recent_traces(9)]
        report = await store.check_traces()
        gone = await store.check_trace("day-0")
        await db.execute("INSERT INTO trace SELECT * FROM kept WHERE answer_id = 'day-1'")
        back = await store.check_traces()
    await db.close()

    assert (counted.removed, removed.removed, again.removed) == (3, 3, 0)
    assert left == ["day-5", "day-4", "day-3"]
    assert (report.ok, report.traces) == (True, 3)
    assert gone.ok
    assert [fault.answer_id for fault in back.faults] == ["day-1"]


async def test_a_trace_that_was_made_older_stays(database_url: str, tmp_path: Path) -> None:
    """Nobody has a trace removed by changing its time; the fault stays, too."""
    clock = _Clock()
    db = await asyncpg.connect(database_url, server_settings={"search_path": "whence"})
    async with await PostgresStore.connect(
        database_url, clock=clock, key=ChainKey(tmp_path)
    ) as store:
        for name in ("a", "b"):
            await store.record_trace(make_trace(name))
        await db.execute("UPDATE trace SET recorded_at = '1999-01-01' WHERE answer_id = 'a'")
        done = await store.remove_traces(START - timedelta(days=1))
        report = await store.check_traces()
    await db.close()

    assert (done.removed, done.faulty) == (0, 1)
    assert [fault.answer_id for fault in report.faults] == ["a"]


async def test_recorders_remove_what_is_older_than_the_setting(
    database_url: str, tmp_path: Path
) -> None:
    """A recorder removes old traces with the first one it writes, then every hour."""
    clock, counts = _Clock(), []
    key = ChainKey(tmp_path)
    async with await PostgresStore.connect(
        database_url, clock=clock, key=key, keep_traces=timedelta(days=2)
    ) as store:
        for hours in (0, 47, 49, 49.5, 97, 98.5):
            clock.now = START + timedelta(hours=hours)
            await store.record_trace(make_trace(f"h{hours}"))
            counts.append(len(await store.recent_traces(9)))
        report = await store.check_traces()

    assert counts == [1, 2, 2, 3, 3, 2]
    assert report.ok


async def test_the_change_log_ends_with_the_traces(database_url: str, tmp_path: Path) -> None:
    """Entries that no trace or former version needs go; what is left says the same of later versions."""
    clock = _Clock()
    async with await PostgresStore.connect(
        database_url, clock=clock, key=ChainKey(tmp_path), keep_versions=timedelta(days=5)
    ) as store:
        name = await fill_collection(store, *(make_document(one, digest="1") for one in "abc"))
        async with store.pool.connection() as connection:
            await connection.execute("UPDATE collection SET logged_since = $1", START)
        for day, change in enumerate(
            (
                store.replace_documents(name, [make_document("a", digest="2")]),
                store.retag_documents(name, {"a": DocumentTags(("hr",))}),
                store.remove_documents(name, ["b"]),
                store.erase_document(name, "c"),
                store.replace_documents(name, [make_document("d", digest="1")]),
                store.retag_documents(name, {"a": DocumentTags()}),
            ),
            1,
        ):
            clock.now = START + timedelta(days=10 * day)
            await change
        version, before = await store.collection_version(name), START + timedelta(days=46)
        after = await store.version_at(name, before)
        later = await store.changes(name, Access.public(), after=after, whole=True)
        counted = await store.remove_traces(before, dry_run=True)
        removed = await store.remove_traces(before)
        left = await store.changes(name, Access.public())
        kept = await store.changes(name, Access.public(), after=after, whole=True)
        again = await store.remove_traces(before)
        await store.replace_documents(name, [make_document("a", digest="3")])
        past = await store.store_at(name, Access.public(), version, clock.now)
        with pytest.raises(BadInput, match="is known from"):
            await store.store_at(name, Access.public(), 1, START)

    assert counted.changes == removed.changes == 4
    assert again.changes == 0
    assert [(one.version, one.kind, one.document_id) for one in left] == [
        (2, "changed", "a"),
        (3, "tagged", "a"),
        (6, "added", "d"),
        (7, "tagged", "a"),
    ]
    was, now = Access.public(), Access.public()
    assert net_changes(kept, after, version, was=was, now=now) == net_changes(
        later, after, version, was=was, now=now
    )
    assert await past.document_ids(name) == ["a", "d"]


async def test_what_readers_said_goes_with_the_trace(database_url: str, tmp_path: Path) -> None:
    """Histories and feedback keep nothing of a trace that was removed; those of others stay."""
    clock, key = _Clock(), ChainKey(tmp_path)
    db = await asyncpg.connect(database_url, server_settings={"search_path": "whence"})
    async with await PostgresStore.connect(database_url, clock=clock, key=key) as store:
        for day in range(2):
            clock.now, name = START + timedelta(days=day), f"day-{day}"
            await store.record_trace(make_trace(name))
            await store.note_asked(name, "r")
            given = Feedback(answer_id=name, reader="r", verdict="wrong", note="why")
            await store.put_feedback(given)
        await store.remove_traces(START + timedelta(days=1))
        left = [
            [row["answer_id"] for row in await db.fetch(f"SELECT answer_id FROM {table}")]
            for table in ("reader_answer", "reader_feedback")
        ]
    await db.close()

    assert left == [["day-1"], ["day-1"]]

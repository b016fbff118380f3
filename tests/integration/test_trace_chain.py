"""Every change of a stored trace that Whence did not make is found."""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import re
import threading
import zlib
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from whence.schema.document_rag import TraceRecord
from whence.schema.errors import NotFound
from whence.schema.integrity import ChainEntry
from whence.schema.terms import Triple, iri, literal
from whence.store.chain_key import ChainKey
from whence.store.commitment import commit, entry_hash
from whence.store.postgres.store import PostgresStore
from whence.testing.samples import sample

pytestmark = pytest.mark.postgres

#: Alterations to try; `WHENCE_ALTERATIONS=1000` was run by hand.
_ALTERATIONS = int(os.environ.get("WHENCE_ALTERATIONS", "60"))
_TRACES = 8
_Alter = Callable[[asyncpg.Connection, random.Random], Awaitable[object]]


def _record(number: int) -> TraceRecord:
    """Return a trace with two stages, rights, settings and an answer."""
    record = sample(TraceRecord)
    name = f"answer-{number}"
    stage = record.events[0]
    triples = tuple(
        Triple(
            iri(f"urn:{name}/{place // 3}"), iri(f"urn:p{place}"), literal(f"{number}.{place}", "")
        )
        for place in range(9)
    )
    events = tuple(
        msgspec.structs.replace(stage, answer_id=name, sequence=n, triples=triples)
        for n in range(2)
    )
    return msgspec.structs.replace(
        record, answer_id=name, events=events, asked_at=f"2026-01-0{number}"
    )


@pytest.fixture
def key(tmp_path: Path) -> ChainKey:
    """A key of a home."""
    return ChainKey(tmp_path / "integrity")


async def _store_traces(store: PostgresStore) -> None:
    for number in range(1, _TRACES + 1):
        assert await store.record_trace(_record(number))
    assert await store.rewrite_trace(_record(3))


# --- what somebody with the database could do -------------------------------------------------------


async def _rewrite_body(
    db: asyncpg.Connection, rng: random.Random, change: Callable[[Any], Any]
) -> None:
    name, body = await _pick(db, rng, "answer_id, body")
    fields = change(msgspec.json.decode(zlib.decompress(body)))
    body = zlib.compress(msgspec.json.encode(fields))
    await db.execute("UPDATE trace SET body = $2 WHERE answer_id = $1", name, body)


async def _pick(
    db: asyncpg.Connection, rng: random.Random, columns: str, table: str = "trace"
) -> Any:
    rows = await db.fetch(f"SELECT {columns} FROM {table} ORDER BY number")
    return rng.choice(rows)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all texts and numbers of a JSON value."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _places(part, (*path, name))
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield from _places(part, (*path, place))
    elif value is not None:
        yield path


async def _change_value(db: asyncpg.Connection, rng: random.Random) -> None:
    """Change one text or number anywhere in a record."""

    def change(fields: Any) -> Any:
        *way, last = rng.choice(list(_places(fields)))
        holder = fields
        for step in way:
            holder = holder[step]
        value = holder[last]
        holder[last] = (
            (not value)
            if isinstance(value, bool)
            else value + 1
            if not isinstance(value, str)
            else f"{value}'"
        )
        return fields

    await _rewrite_body(db, rng, change)


async def _drop_triple(db: asyncpg.Connection, rng: random.Random) -> None:
    def change(fields: Any) -> Any:
        columns = rng.choice(fields["events"])["columns"]
        place = rng.randrange(len(columns["s"]))
        for column in columns.values():
            del column[place]
        return fields

    await _rewrite_body(db, rng, change)


async def _reorder(db: asyncpg.Connection, rng: random.Random) -> None:
    def change(fields: Any) -> Any:
        columns = list(fields["events"][1]["columns"].values())
        lists = rng.choice([[fields["events"]], columns])
        place = rng.randrange(len(lists[0]) - 1)
        for one in lists:
            one.append(one.pop(place))
        return fields

    await _rewrite_body(db, rng, change)


async def _drop_field(db: asyncpg.Connection, rng: random.Random) -> None:
    def change(fields: Any) -> Any:
        del fields[rng.choice(["answer", "settings", "asked_at"])]
        return fields

    await _rewrite_body(db, rng, change)


async def _damage(db: asyncpg.Connection, rng: random.Random) -> None:
    name, body = await _pick(db, rng, "answer_id, body")
    place = rng.randrange(len(body))
    damaged = rng.choice(
        [body[:place], body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :], body + b"\0"]
    )
    await db.execute("UPDATE trace SET body = $2 WHERE answer_id = $1", name, damaged)


async def _change_column(db: asyncpg.Connection, rng: random.Random) -> None:
    (name,) = await _pick(db, rng, "answer_id")
    change = rng.choice(
        [
            "collection = collection || 'x'",
            "names = names[2:]",
            "acl_tags = '{}'",
            "labels = array_append(labels, 'x')",
            "clearance = clearance + 1",
            "recorded_at = recorded_at - interval '1 microsecond'",
            "salt = substring(salt FROM 2)",
            "salt = NULL",
            "number = number + 100",
            "answer_id = answer_id || 'x'",
        ]
    )
    await db.execute(f"UPDATE trace SET {change} WHERE answer_id = $1", name)


async def _swap(db: asyncpg.Connection, rng: random.Random) -> None:
    column = rng.choice(["body", "salt", "recorded_at", "number", "answer_id"])
    one, other = rng.sample(
        [row["answer_id"] for row in await db.fetch("SELECT answer_id FROM trace")], 2
    )
    if column == "answer_id":
        for old, new in ((one, "x"), (other, one), ("x", other)):
            await db.execute("UPDATE trace SET answer_id = $2 WHERE answer_id = $1", old, new)
        return
    await db.execute(
        f"UPDATE trace t SET {column} = o.{column} FROM trace o"
        " WHERE (t.answer_id, o.answer_id) IN (($1, $2), ($2, $1))",
        one,
        other,
    )


async def _remove(db: asyncpg.Connection, rng: random.Random) -> None:
    (name,) = await _pick(db, rng, "answer_id")
    await db.execute("DELETE FROM trace WHERE answer_id = $1", name)
    if rng.random() < 0.5:
        await db.execute("DELETE FROM trace_chain WHERE answer_id = $1", name)


async def _insert(db: asyncpg.Connection, rng: random.Random) -> None:
    (name,) = await _pick(db, rng, "answer_id")
    columns = "collection, body, names, acl_tags, labels, clearance, salt, recorded_at"
    await db.execute(
        f"INSERT INTO trace (number, answer_id, {columns})"
        f" SELECT 90, 'new', {columns} FROM trace WHERE answer_id = $1",
        name,
    )


async def _change_entry(db: asyncpg.Connection, rng: random.Random) -> None:
    (number,) = await _pick(db, rng, "number", "trace_chain")
    change = rng.choice(
        [
            "kind = CASE kind WHEN 'record' THEN 'prune' ELSE 'record' END",
            "answer_id = answer_id || 'x'",
            "digest = sha256(digest)",
            "digest = ''",
            "written_at = written_at + interval '1 second'",
            "hash = sha256(hash)",
            "signature = set_byte(signature, 5, (get_byte(signature, 5) + 1) % 256)",
            "signature = ''",
            "number = -number",
            "number = number + 1000",
        ]
    )
    await db.execute(f"UPDATE trace_chain SET {change} WHERE number = $1", number)


async def _swap_entries(db: asyncpg.Connection, rng: random.Random) -> None:
    one, other = rng.sample(range(1, _TRACES + 2), 2)
    for old, new in ((one, -1), (other, one), (-1, other)):
        await db.execute("UPDATE trace_chain SET number = $2 WHERE number = $1", old, new)


async def _cut(db: asyncpg.Connection, rng: random.Random) -> None:
    """Remove entries from some number on or up to it, and perhaps their traces."""
    number = rng.randint(1, _TRACES + 1)
    which = rng.choice(["number >= $1", "number <= $1", "number = $1"])
    if rng.random() < 0.5:
        await db.execute(f"DELETE FROM trace WHERE {which}", number)
    await db.execute(f"DELETE FROM trace_chain WHERE {which}", number)


async def _remove_tables(db: asyncpg.Connection, rng: random.Random) -> None:
    await db.execute("DELETE FROM trace_chain")
    if rng.random() < 0.5:
        await db.execute("DELETE FROM trace")


async def _forge(db: asyncpg.Connection, rng: random.Random) -> None:
    """Change a trace and compute all hashes anew, as somebody can who knows how but has no key."""
    await _change_value(db, rng)
    rows = await db.fetch("SELECT * FROM trace_chain ORDER BY number")
    previous = b""
    for row in rows:
        stored = await db.fetchrow("SELECT * FROM trace WHERE answer_id = $1", row["answer_id"])
        at = stored["recorded_at"].astimezone(UTC).isoformat()
        digest = commit(zlib.decompress(stored["body"]), stored["body"], at, stored["salt"])
        written_at = row["written_at"].astimezone(UTC).isoformat()
        previous = entry_hash(
            row["number"], row["kind"], row["answer_id"], digest, written_at, previous
        )
        await db.execute(
            "UPDATE trace_chain SET digest = $2, hash = $3 WHERE number = $1",
            row["number"],
            digest,
            previous,
        )


_ALTERS: tuple[_Alter, ...] = (
    *(_change_value, _drop_triple, _reorder, _drop_field, _damage, _change_column, _swap, _remove),
    *(_insert, _change_entry, _swap_entries, _cut, _remove_tables, _forge),
)


async def test_every_alteration_is_found(database_url: str, key: ChainKey) -> None:
    """Values, rows, order, truncation, whole traces, entries: each change by SQL is a fault, and only then."""
    missed, found = [], 0
    db = await asyncpg.connect(database_url, server_settings={"search_path": "whence"})
    async with await PostgresStore.connect(database_url, key=key) as store:
        await _store_traces(store)
        for table in ("trace", "trace_chain"):
            await db.execute(f"CREATE TEMP TABLE kept_{table} AS TABLE {table}")
        before = await store.check_traces()
        for seed in range(_ALTERATIONS):
            alter = _ALTERS[seed % len(_ALTERS)]
            await alter(db, random.Random(seed))
            report = await store.check_traces()
            found += not report.ok
            if report.ok or not report.faults:
                missed.append((alter.__name__, seed))
            for table in ("trace", "trace_chain"):
                await db.execute(f"TRUNCATE {table}")
                await db.execute(f"INSERT INTO {table} SELECT * FROM kept_{table}")
        after = await store.check_traces()
    await db.close()

    assert before.ok
    assert not before.unchecked
    assert before.traces == _TRACES
    assert after == before
    assert missed == []
    assert found == _ALTERATIONS


async def test_the_faults_name_the_answer(database_url: str, key: ChainKey) -> None:
    """A check of one trace finds its own faults, and none of another's."""
    db = await asyncpg.connect(database_url, server_settings={"search_path": "whence"})
    async with await PostgresStore.connect(database_url, key=key) as store:
        await _store_traces(store)
        await db.execute("UPDATE trace SET recorded_at = now() WHERE answer_id = 'answer-2'")
        await db.execute("DELETE FROM trace WHERE answer_id = 'answer-5'")
        everything = await store.check_traces()
        each = [await store.check_trace(f"answer-{n}") for n in range(1, _TRACES + 1)]
        with pytest.raises(NotFound):
            await store.check_trace("answer-99")
    await db.close()

    assert [fault.answer_id for fault in everything.faults] == ["answer-2", "answer-5"]
    assert [one.ok for one in each] == [n not in {2, 5} for n in range(1, _TRACES + 1)]


async def test_recorders_append_one_after_the_other(database_url: str, tmp_path: Path) -> None:
    """Several recorders with one folder make one chain; a trace that is delivered twice has one entry."""
    folder = tmp_path / "integrity"
    records = [_record(n) for n in range(1, _TRACES + 1)] * 2
    async with (
        await PostgresStore.connect(database_url, key=ChainKey(folder)) as one,
        await PostgresStore.connect(database_url, key=ChainKey(folder)) as other,
    ):
        recorded = await asyncio.gather(
            *((one, other)[n % 3 == 0].record_trace(record) for n, record in enumerate(records))
        )
        report = await other.check_traces()
    head = ChainKey(folder).head()

    assert sum(recorded) == _TRACES
    assert report.ok
    assert head is not None
    assert head.number == _TRACES


class _BusyKey(ChainKey):
    """The key of a folder in which another process records a trace whenever the newest entry is read."""

    def __init__(self, folder: Path, database_url: str) -> None:
        super().__init__(folder)
        self.reads = 0
        self._url = database_url

    def head(self) -> ChainEntry | None:
        self.reads += 1
        other = threading.Thread(target=lambda: asyncio.run(self._record()))
        other.start()
        other.join()
        return super().head()

    async def _record(self) -> None:
        async with await PostgresStore.connect(self._url, key=ChainKey(self.folder)) as store:
            await store.record_trace(_record(1 + self.reads))


async def test_traces_are_whole_while_others_are_recorded(
    database_url: str, tmp_path: Path
) -> None:
    """A trace that is recorded during a check is no fault of it."""
    folder = tmp_path / "integrity"
    async with await PostgresStore.connect(database_url, key=ChainKey(folder)) as store:
        await store.record_trace(_record(1))
    busy = _BusyKey(folder, database_url)
    async with await PostgresStore.connect(database_url, key=busy) as store:
        one, everything = await store.check_trace("answer-1"), await store.check_traces()

    assert (one.faults, everything.faults) == ((), ())
    assert busy.reads >= 2


async def test_the_newest_entry_is_read_whole(tmp_path: Path) -> None:
    """Who reads the newest entry waits for who writes it; a file that has no entry yet counts as none."""
    key = ChainKey(tmp_path)
    entry = ChainEntry(
        number=1, kind="record", answer_id="a", digest=b"", written_at="", previous=b"", hash=b"h"
    )
    key.remember(entry)
    with (tmp_path / "head.json").open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        whole = file.read()
        file.truncate(20)
        reading = asyncio.create_task(asyncio.to_thread(key.head))
        done, _ = await asyncio.wait([reading], timeout=0.1)
        file.seek(0)
        file.write(whole)

    assert not done
    assert await reading == entry
    (tmp_path / "head.json").write_bytes(b"")
    assert key.head() is None


async def test_a_cut_chain_stays_cut(database_url: str, key: ChainKey) -> None:
    """New traces are recorded behind a gap; they do not make the chain whole again."""
    db = await asyncpg.connect(database_url, server_settings={"search_path": "whence"})
    async with await PostgresStore.connect(database_url, key=key) as store:
        await _store_traces(store)
        await db.execute("DELETE FROM trace_chain WHERE number > 6")
        await db.execute("DELETE FROM trace WHERE number > 6")
        for n in range(20, 25):
            assert await store.record_trace(msgspec.structs.replace(_record(1), answer_id=f"n{n}"))
        report = await store.check_traces()
    await db.close()

    assert not report.ok
    assert any("entry 7" in fault.what for fault in report.faults)


async def test_a_rewrite_does_not_make_an_altered_trace_good(
    database_url: str, key: ChainKey
) -> None:
    """The words of a document can be erased from an altered trace; that it was altered stays known."""
    db = await asyncpg.connect(database_url, server_settings={"search_path": "whence"})
    async with await PostgresStore.connect(database_url, key=key) as store:
        await _store_traces(store)
        await _change_value(db, random.Random(1))
        (wrong,) = {fault.answer_id for fault in (await store.check_traces()).faults}
        for n in range(1, _TRACES + 1):
            assert await store.rewrite_trace(_record(n))
        report = await store.check_traces()
    await db.close()

    assert {fault.answer_id for fault in report.faults} == {wrong}


async def test_the_digest_of_a_rewritten_trace_cannot_be_guessed(
    database_url: str, key: ChainKey
) -> None:
    """The salt goes with the trace: equal records have other digests, and the former salt is nowhere."""
    db = await asyncpg.connect(database_url, server_settings={"search_path": "whence"})
    async with await PostgresStore.connect(database_url, key=key) as store:
        await store.record_trace(_record(1))
        former = await db.fetchval("SELECT salt FROM trace")
        await store.rewrite_trace(_record(1))
        digests = await db.fetch("SELECT DISTINCT digest FROM trace_chain")
        salt = await db.fetchval("SELECT salt FROM trace")
    await db.close()

    assert len(digests) == 2
    assert len(salt) == len(former) == 16
    assert salt != former


async def test_only_the_owner_can_read_the_key(database_url: str, key: ChainKey) -> None:
    """The key has mode 600 in a folder of mode 700, and signs for all who know its public part."""
    async with await PostgresStore.connect(database_url, key=key) as store:
        await store.record_trace(_record(1))

    assert (key.folder / "key.pem").stat().st_mode & 0o777 == 0o600
    assert key.folder.stat().st_mode & 0o777 == 0o700
    assert all(re.fullmatch("[0-9a-f]{64}", one) for one in key.trusted)
    assert len(key.trusted) == 1


async def test_another_key_is_no_key(database_url: str, tmp_path: Path, key: ChainKey) -> None:
    """Entries of another key are faults, until it is trusted; without any key they are unchecked."""
    other = ChainKey(tmp_path / "other")
    async with await PostgresStore.connect(database_url, key=key) as store:
        await store.record_trace(_record(1))
    other.sign(b"")
    async with await PostgresStore.connect(database_url, key=other) as store:
        strange = await store.check_traces()
        with (other.folder / "trusted").open("a") as file:
            file.write(f"{key.trusted[0]}\n")
        (other.folder / "head.json").write_bytes((key.folder / "head.json").read_bytes())
        known = await store.check_traces()
    async with await PostgresStore.connect(database_url) as store:
        bare = await store.check_traces()

    assert any("signature" in fault.what for fault in strange.faults)
    assert (known.ok, known.unchecked) == (True, ())
    assert bare.ok
    assert len(bare.unchecked) == 2


async def test_without_its_newest_entry_a_chain_is_at_fault(
    database_url: str, key: ChainKey
) -> None:
    """The file with the newest entry must be there, whole, signed and in the table."""
    async with await PostgresStore.connect(database_url, key=key) as store:
        await store.record_trace(_record(1))
        path = key.folder / "head.json"
        good = path.read_bytes()
        faults = []
        for bad in (b"", b"{}", good.replace(b'"number":1', b'"number":2'), None):
            path.unlink() if bad is None else path.write_bytes(bad)
            faults.append(len((await store.check_traces()).faults))
        path.write_bytes(good)
        again = await store.check_traces()

    assert faults == [1, 1, 1, 1]
    assert again.ok


def test_each_database_has_its_newest_entry(tmp_path: Path) -> None:
    """One folder serves several databases; user, password and other parts of an address do not matter."""
    entry = ChainEntry(
        number=1, kind="record", answer_id="a", digest=b"", written_at="", previous=b"", hash=b"h"
    )
    first = ChainKey(tmp_path, "postgresql://one@host/db?sslmode=require")
    first.remember(entry)
    same = ("postgresql://two:secret@host/db",)
    others = ("", "postgresql://host/other", "postgresql://other/db", "postgresql://host/db?port=1")

    assert [ChainKey(tmp_path, url).head() for url in same] == [entry]
    assert [ChainKey(tmp_path, url).head() for url in others] == [None] * 4


async def test_traces_of_an_earlier_version_join_the_chain(
    database_url: str, key: ChainKey
) -> None:
    """They join it when the store is opened to write, and keep their order and times."""
    db = await asyncpg.connect(database_url, server_settings={"search_path": "whence"})
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    for n in (1, 2):
        body = msgspec.json.encode(_record(n))
        await db.execute(
            "INSERT INTO trace (number, answer_id, collection, body, names, recorded_at)"
            " VALUES ($1, $2, 'c', $3, '{}', $4)",
            *(n * 7, f"answer-{n}", body if n == 1 else zlib.compress(body), moment + timedelta(n)),
        )
    read_only = f"{database_url}&default_transaction_read_only=on"
    async with await PostgresStore.connect(read_only) as store:
        before = await store.check_traces()
    async with await PostgresStore.connect(database_url, key=key) as store:
        joined = await store.check_traces()
        await store.record_trace(_record(3))
        after = await store.check_traces()
        latest = await store.recent_traces(3)
    await db.close()

    assert before.ok
    assert any("earlier version" in what for what in before.unchecked)
    assert (joined.ok, joined.unchecked, joined.traces) == (True, (), 2)
    assert (after.ok, after.unchecked, after.traces) == (True, (), 3)
    assert [one.record for one in latest] == [_record(n) for n in (3, 2, 1)]
    assert latest[1].recorded_at == (moment + timedelta(2)).isoformat()

"""The chain of traces in PostgreSQL: append an entry in the transaction of its change, and check all of it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

from whence.schema.errors import CodecError, ConfigError, NotFound
from whence.schema.integrity import ChainEntry, EntryKind, Fault, Integrity, TraceProof
from whence.store.chain_key import ChainKey
from whence.store.commitment import entry_hash, expected_hash
from whence.store.postgres.driver import Connection, iso_utc, read_transaction, write_transaction
from whence.store.postgres.part import PostgresPart
from whence.store.postgres.trace_rows import (
    COLUMNS,
    TraceRow,
    make_row,
    row_faults,
)
from whence.store.trace_body import read_record, unpack

logger = logging.getLogger(__name__)

#: Key of the advisory lock of whoever appends: "chain" in ASCII.
_LOCK = 0x636861696E
_BEGIN = f"SELECT pg_advisory_xact_lock({_LOCK})"
_COLUMNS = "number, kind, answer_id, digest, written_at, hash, signature"
_ENTRIES = f"SELECT {_COLUMNS} FROM trace_chain WHERE number > $1 ORDER BY number LIMIT $2"  # noqa: S608 - only constants
_LAST = f"SELECT {_COLUMNS} FROM trace_chain ORDER BY number DESC LIMIT 1"  # noqa: S608 - only constants
_APPEND = f"INSERT INTO trace_chain ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7)"  # noqa: S608 - only constants
#: Whether there are traces and no chain, and this connection may write.
_HAS_NO_CHAIN = """
SELECT current_setting('transaction_read_only') = 'off' AND NOT EXISTS (SELECT FROM trace_chain)
    AND EXISTS (SELECT FROM trace)
"""
_HASH = "SELECT hash FROM trace_chain WHERE number = $1"
_TRACE = f"SELECT number, {COLUMNS} FROM trace WHERE answer_id = $1"  # noqa: S608 - only constants
_TRACES = f"SELECT number, {COLUMNS} FROM trace WHERE answer_id > $1 ORDER BY answer_id LIMIT $2"  # noqa: S608 - only constants
_UNCHAINED = f"SELECT {COLUMNS} FROM trace WHERE salt IS NULL ORDER BY number LIMIT 50"  # noqa: S608 - only constants
_ADOPT = """
UPDATE trace SET number = $1, collection = $3, body = $4, names = $5, acl_tags = $6, labels = $7, clearance = $8,
    salt = $9, recorded_at = $10 WHERE answer_id = $2
"""
_LINKED = """
SELECT e.number, e.kind, e.answer_id, e.digest, e.written_at, e.hash, e.signature, b.hash AS previous
FROM trace_chain e LEFT JOIN trace_chain b ON b.number = e.number - 1
"""
_OF_ANSWER = f"{_LINKED} WHERE e.answer_id = $1 ORDER BY e.number"
_HEAD = f"{_LINKED} ORDER BY e.number DESC LIMIT 1"
_TABLE = "SELECT to_regclass('trace_chain')"
#: Rows read at once.
_BATCH = 200
_BEFORE_ALL = -(2**63)
_NO_KEY = "signatures: this folder has no key of the chain"
_NO_HEAD = "the end of the chain: this process keeps no head of it"
_NO_ENTRY = "traces of an earlier version, which are in no chain yet"


async def lock_traces(connection: Connection) -> None:
    """Let no other transaction change traces until this one ends."""
    await connection.execute(_BEGIN)


class TraceChain:
    """Appends entries.

    Args:
        key: Signs entries; None when nothing is signed.
        clock: Returns the time with its zone.
    """

    def __init__(self, key: ChainKey | None, clock: Callable[[], datetime]) -> None:
        self._key = key
        self._clock = clock

    async def begin(self, connection: Connection) -> ChainEntry | None:
        """Let this transaction alone append until it ends; return the last entry."""
        await lock_traces(connection)
        row = await connection.fetchrow(_LAST)
        return None if row is None else _entry(row, b"")

    def next_entry(
        self, last: ChainEntry | None, kind: EntryKind, answer_id: str, digest: bytes, at: datetime
    ) -> ChainEntry:
        """Return the signed entry that follows the last one."""
        head = self.known_head()
        # Where entries were removed from the end, the gap stays.
        number = max(last.number if last else 0, head.number if head else 0) + 1
        previous = last.hash if last else b""
        hash_ = entry_hash(number, kind, answer_id, digest, iso_utc(at), previous)
        return ChainEntry(
            number=number,
            kind=kind,
            answer_id=answer_id,
            digest=digest,
            written_at=iso_utc(at),
            previous=previous,
            hash=hash_,
            signature=self._key.sign(hash_) if self._key else b"",
        )

    async def append(
        self,
        connection: Connection,
        last: ChainEntry | None,
        kind: EntryKind,
        changed: Sequence[tuple[str, bytes]],
    ) -> ChainEntry | None:
        """Append an entry for each changed answer and its new digest; return the last entry."""
        now = self._clock()
        for answer_id, digest in changed:
            last = self.next_entry(last, kind, answer_id, digest, now)
            await connection.execute(_APPEND, *entry_columns(last, now))
        return last

    async def remember(self, connection: Connection, entry: ChainEntry | None) -> None:
        """Keep a committed entry as the head, if the former head is in its chain."""
        if entry is None or self._key is None:
            return
        head = self.known_head()
        if head is not None and head.number < entry.number:
            before = (
                entry.previous
                if head.number == entry.number - 1
                else await connection.fetchval(_HASH, head.number)
            )
            if before != head.hash:
                logger.warning(
                    "the chain of traces lacks its entry %d; run whence verify", head.number
                )
                return
        try:
            self._key.remember(entry)
        except ConfigError as error:
            logger.warning("%s", error.message)

    def known_head(self) -> ChainEntry | None:
        """Return the newest entry that is known here; None when there is none, or its file cannot be read."""
        try:
            return self._key.head() if self._key else None
        except ConfigError as error:
            # A question is answered and recorded all the same; a check reports the file.
            logger.warning("%s", error.message)
            return None


class PostgresIntegrity(PostgresPart):
    """Implements `SupportsIntegrity`."""

    @cached_property
    def _chain(self) -> TraceChain:
        return TraceChain(self._key, self.clock)

    async def adopt_traces(self) -> None:
        """Take the traces that earlier versions stored into a new chain, in one transaction.

        Cost: linear in their triples, once; later one statement.
        """
        async with self.pool.connection() as connection:
            if not await connection.fetchval(_HAS_NO_CHAIN) or self._chain.known_head() is not None:
                return
            async with write_transaction(connection):
                if await self._chain.begin(connection) is not None:
                    return
                last: ChainEntry | None = None
                while rows := await connection.fetch(_UNCHAINED):
                    last = await self._adopt(connection, rows, last)
            await self._chain.remember(connection, last)

    async def _adopt(
        self, connection: Connection, rows: Sequence[Any], last: ChainEntry | None
    ) -> ChainEntry | None:
        now = self.clock()
        for row in rows:
            try:
                new, digest = make_row(read_record(row["body"]), row["recorded_at"])
            except CodecError:
                # Kept as it is; a check says that it has faults.
                new, digest = TraceRow(**dict(row))._replace(salt=b""), b""
            last = self._chain.next_entry(last, "record", new.answer_id, digest, now)
            await connection.execute(_APPEND, *entry_columns(last, now))
            await connection.execute(_ADOPT, last.number, *new)
        return last

    async def check_trace(self, answer_id: str) -> Integrity:
        """Check one trace, its entries with those before them, and the head. Cost: linear in its triples.

        Raises:
            NotFound: There is no such trace and no entry of one.
        """
        check = _Check(self._key)
        async with self.pool.connection() as connection:
            async with read_transaction(connection):
                row = await connection.fetchrow(_TRACE, answer_id)
                if await connection.fetchval(_TABLE) is None:
                    return check.without_table(int(row is not None))
                entries = await connection.fetch(_OF_ANSWER, answer_id)
                if row is None and not entries:
                    raise NotFound(
                        f"there is no answer {answer_id!r}", hint="`whence ask` prints the id"
                    )
                for one in entries:
                    check.entry(_entry(one, one["previous"]))
                if row is not None:
                    has_chain = await connection.fetchrow(_LAST) is not None
                    check.trace(row, has_chain=has_chain)
                check.missing()
            await check.head(connection)
        return check.result(1)

    async def check_traces(self) -> Integrity:
        """Check all traces, all entries and the head. Cost: linear in all triples; memory: in the entries."""
        check = _Check(self._key)
        async with self.pool.connection() as connection:
            async with read_transaction(connection):
                traces, number, previous = 0, 0, None
                if await connection.fetchval(_TABLE) is None:
                    return check.without_table(
                        await connection.fetchval("SELECT count(*) FROM trace")
                    )
                async for row in _batches(connection, _ENTRIES, _BEFORE_ALL, "number"):
                    if row["number"] != number + 1:
                        check.fault("", f"the chain has no entry {number + 1}")
                    check.entry(_entry(row, previous))
                    number, previous = row["number"], row["hash"]
                async for row in _batches(connection, _TRACES, "", "answer_id"):
                    traces += 1
                    check.trace(row, has_chain=previous is not None)
                check.missing()
            await check.head(connection)
        return check.result(traces)

    async def trace_proof(self, answer_id: str) -> TraceProof | None:
        """Return a trace with what verifies it; None when there is none, or it is in no chain."""
        async with self.pool.connection() as connection, read_transaction(connection):
            row = await connection.fetchrow(_TRACE, answer_id)
            entries = await connection.fetch(_OF_ANSWER, answer_id)
            if row is None or not entries:
                return None
            head = await connection.fetchrow(_HEAD)
        return TraceProof(
            packed=unpack(row["body"]),
            body=row["body"],
            recorded_at=iso_utc(row["recorded_at"]),
            salt=row["salt"] or b"",
            entries=tuple(_entry(one, one["previous"]) for one in entries),
            head=_entry(head, head["previous"]),
            public_keys=() if self._key is None else self._key.trusted,
        )


class _Check:
    """Collects faults; entries come before traces, both in order."""

    def __init__(self, key: ChainKey | None) -> None:
        self._key = key
        self._faults: list[Fault] = []
        self._unchecked: dict[str, None] = {}
        self._latest: dict[str, ChainEntry] = {}
        self._recorded: dict[str, int] = {}
        self._present: set[str] = set()
        self._is_signed = None
        try:
            self._is_signed = None if key is None else key.verifier()
        except ConfigError as error:
            self.fault("", error.message)
        if self._is_signed is None:
            self._unchecked[_NO_KEY] = None

    def fault(self, answer_id: str, what: str) -> None:
        self._faults.append(Fault(answer_id, what))

    def entry(self, entry: ChainEntry) -> None:
        name = f"entry {entry.number} of the chain"
        if expected_hash(entry) != entry.hash:
            self.fault(entry.answer_id, f"{name} is not the one that was written")
        elif self._is_signed is not None and not self._is_signed(entry.hash, entry.signature):
            self.fault(entry.answer_id, f"{name} has no signature of a trusted key")
        elif not entry.digest and entry.kind != "prune":
            what = "without the words of a document" if entry.kind == "erase" else "again"
            self.fault(entry.answer_id, f"the trace had faults when it was written {what}")
        if entry.kind == "record":
            self._recorded[entry.answer_id] = entry.number
        self._latest[entry.answer_id] = entry

    def trace(self, row: Any, *, has_chain: bool) -> None:
        answer_id = row["answer_id"]
        self._present.add(answer_id)
        entry = self._latest.get(answer_id)
        if entry is None:
            if has_chain:
                self.fault(answer_id, "the trace is in no entry of the chain")
            else:
                self._unchecked[_NO_ENTRY] = None
            return
        if entry.kind == "prune":
            self.fault(answer_id, "the trace was removed and is there again")
            return
        if row["number"] != self._recorded.get(answer_id):
            self.fault(answer_id, "the trace is not in its place among the others")
        if entry.digest:
            for what in row_faults(row, entry.digest):
                self.fault(answer_id, what)

    def missing(self) -> None:
        for answer_id, entry in self._latest.items():
            if entry.kind != "prune" and answer_id not in self._present:
                self.fault(answer_id, "the trace is gone")

    async def head(self, connection: Connection) -> None:
        """Look for the newest entry that is known here, after the reading: entries may have come meanwhile."""
        try:
            head = None if self._key is None else self._key.head()
        except ConfigError as error:
            self.fault("", error.message)
            return
        if head is None:
            if self._is_signed is not None and self._latest:
                self.fault("", "the file with the newest entry of the chain is gone")
            self._unchecked[_NO_HEAD] = None
            return
        is_own = self._is_signed is None or self._is_signed(head.hash, head.signature)
        if expected_hash(head) != head.hash or not is_own:
            self.fault("", "the file with the newest entry of the chain was changed")
        elif await connection.fetchval(_HASH, head.number) != head.hash:
            self.fault("", f"the chain has lost its entry {head.number}, or those before it")

    def without_table(self, traces: int) -> Integrity:
        self.fault("", "the table of the chain is gone")
        return self.result(traces)

    def result(self, traces: int) -> Integrity:
        return Integrity(
            traces=traces,
            ok=not self._faults,
            faults=tuple(self._faults),
            unchecked=tuple(self._unchecked),
        )


def entry_columns(entry: ChainEntry, written_at: datetime) -> tuple[Any, ...]:
    """Return the columns of an entry in their order."""
    return (
        *(entry.number, entry.kind, entry.answer_id, entry.digest),
        *(written_at, entry.hash, entry.signature),
    )


def _entry(row: Any, previous: bytes | None) -> ChainEntry:
    return ChainEntry(
        number=row["number"],
        kind=row["kind"],
        answer_id=row["answer_id"],
        digest=row["digest"],
        written_at=iso_utc(row["written_at"]),
        previous=previous or b"",
        hash=row["hash"],
        signature=row["signature"],
    )


async def _batches(
    connection: Connection, query: str, after: Any, column: str
) -> AsyncIterator[Any]:
    """Yield the rows of a query in the order of a column."""
    while rows := await connection.fetch(query, after, _BATCH):
        for row in rows:
            yield row
        after = rows[-1][column]

"""Both ledgers are held to one list of behaviours, the one in the database to a few more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.clock import ManualClock

from whence.broker.idempotency import ClaimState, Ledger, MemoryLedger
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import Unavailable
from whence.schema.idempotency import Effects
from whence.store.memory.store import MemoryStore
from whence.store.postgres.ledger import PostgresLedger
from whence.store.postgres.store import PostgresStore
from whence.store.protocols import ChunkStore
from whence.testing.ledger_suite import LedgerBench, LedgerSuite
from whence.testing.store_samples import make_document

MODEL = EmbeddingModel(name="suite", dimension=4)


class MemoryBench:
    """One ledger in memory serves as all: no other process can see it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.ledger: Ledger | None = None

    def make(self, *, keep_s: float = 3600.0) -> Ledger:
        if self.ledger is None:
            self.ledger = MemoryLedger(keep_s=keep_s, clock=self.clock)
        return self.ledger

    async def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)


class PostgresBench:
    """Ledgers over one database; time passes by moving what is written there."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.made: list[PostgresLedger] = []

    def make(self, *, keep_s: float = 3600.0) -> PostgresLedger:
        # A lease that is not renewed while a test runs.
        ledger = PostgresLedger(self.store.pool.connection, keep_s=keep_s, lease_s=100.0)
        self.made.append(ledger)
        return ledger

    async def advance(self, seconds: float) -> None:
        await self.run(
            "UPDATE ledger SET expires_at = expires_at - make_interval(secs => $1)", seconds
        )
        await self.run(
            "UPDATE effect SET written_at = written_at - make_interval(secs => $1)", seconds
        )

    async def run(self, statement: str, *values: Any) -> Any:
        async with self.store.pool.connection() as connection:
            return await connection.fetch(statement, *values)

    async def aclose(self) -> None:
        for ledger in self.made:
            await ledger.aclose()


class TestMemoryLedger(LedgerSuite):
    """The ledger of one process."""

    @pytest.fixture
    def bench(self) -> LedgerBench:
        return MemoryBench()


@pytest.mark.postgres
class TestPostgresLedger(LedgerSuite):
    """The ledger that a fleet shares."""

    @pytest.fixture
    async def bench(self, postgres_store: PostgresStore) -> AsyncIterator[PostgresBench]:
        bench = PostgresBench(postgres_store)
        yield bench
        await bench.aclose()

    async def test_a_claim_is_renewed_while_its_process_lives(self, bench: PostgresBench) -> None:
        """A short lease is renewed while its owner lives and needs it, and expires afterwards."""
        lend = bench.store.pool.connection
        owner, other = PostgresLedger(lend, lease_s=0.3), PostgresLedger(lend, lease_s=0.3)
        await owner.claim("g", "m", lease_s=600.0)
        await asyncio.sleep(0.8)
        kept = await other.claim("g", "m", lease_s=600.0)
        await owner.aclose()
        async with asyncio.timeout(30):
            while (taken := await other.claim("g", "m", lease_s=600.0)).state is ClaimState.BUSY:
                await asyncio.sleep(0.02)
        await other.aclose()

        assert kept.state is ClaimState.BUSY
        assert (taken.state, taken.deaths) == (ClaimState.CLAIMED, 1)

    async def test_a_lost_claim_cannot_be_released(self, bench: PostgresBench) -> None:
        """The former owner of a claim cannot release it, but can still mark the message as done."""
        late, now = bench.make(), bench.make()
        await late.claim("g", "m", lease_s=5.0)
        await bench.advance(6.0)
        await now.claim("g", "m", lease_s=5.0)
        await late.release("g", "m")

        assert (await late.claim("g", "m", lease_s=5.0)).state is ClaimState.BUSY
        await late.done("g", "m")
        assert (await now.claim("g", "m", lease_s=5.0)).state is ClaimState.DONE

    async def test_expired_rows_are_deleted(self, bench: PostgresBench) -> None:
        """Expired rows of completed messages are deleted with their effects; others stay."""
        ledger = bench.make(keep_s=60.0)
        await bench.store.ensure_collection("c", MODEL)
        effects = Effects(message_id="old", outcomes={"d": "added"})
        await bench.store.replace_documents("c", [make_document("d")], effects=effects)
        await ledger.done("g", "old")
        await bench.advance(61.0)
        await ledger.claim("g", "open", lease_s=5.0)
        await ledger.done("g", "new")
        await ledger.forget()

        rows = await bench.run("SELECT message_id FROM ledger ORDER BY 1")
        assert [row["message_id"] for row in rows] == ["new", "open"]
        assert await bench.store.effects_of("c", "old") == {}

    async def test_a_closed_database_is_reported(
        self, bench: PostgresBench, database_url: str
    ) -> None:
        """Without its database a ledger raises an error, so that nothing is handled."""
        async with await PostgresStore.connect(database_url, pool_size=1) as store:
            ledger = store.ledger()
        with pytest.raises(Unavailable):
            await ledger.claim("g", "m", lease_s=5.0)


async def test_effects_in_memory() -> None:
    """The memory store records by message what was done to which document."""
    await _check_effects(MemoryStore())


@pytest.mark.postgres
async def test_effects_in_postgres(postgres_store: PostgresStore) -> None:
    """The PostgreSQL store records by message what was done to which document."""
    await _check_effects(postgres_store)


async def _check_effects(store: ChunkStore) -> None:
    """The first telling of a document counts; a write without effects leaves none."""
    await store.ensure_collection("c", MODEL)
    documents = [make_document("a"), make_document("b")]
    first = Effects(message_id="m", outcomes={"a": "added", "b": "updated"})
    await store.replace_documents("c", documents, effects=first)
    again = Effects(message_id="m", outcomes={"a": "updated"})
    await store.replace_documents("c", documents[:1], effects=again)
    tagged = Effects(message_id="n", outcomes={"a": "tagged"})
    await store.retag_documents("c", {"a": documents[0].draft.tags}, effects=tagged)
    await store.replace_documents("c", documents)

    assert await store.effects_of("c", "m") == {"a": "added", "b": "updated"}
    assert await store.effects_of("c", "n") == {"a": "tagged"}
    assert await store.effects_of("c", "other") == await store.effects_of("d", "m") == {}


@pytest.mark.postgres
async def test_effects_of_a_refused_write_are_not_kept(postgres_store: PostgresStore) -> None:
    """Effects that were rolled back are not recorded."""
    await postgres_store.ensure_collection("c", MODEL)
    wrong = Effects(message_id="m", outcomes={"a": "lost"})  # type: ignore[dict-item]
    with pytest.raises(Exception, match="effect_outcome_check"):
        await postgres_store.replace_documents("c", [make_document("a")], effects=wrong)

    assert await postgres_store.effects_of("c", "m") == {}
    assert await postgres_store.document_ids("c") == []

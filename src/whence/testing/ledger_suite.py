"""The contract of a ledger, as tests: subclass `LedgerSuite` and add a `bench` fixture.

A bench makes ledgers that share their records, as copies of a processor would, and moves their time. Needs
pytest and pytest-asyncio in auto mode.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Protocol

import pytest

from whence.broker.idempotency import Claim, ClaimState, Ledger
from whence.schema.errors import ConfigError


class LedgerBench(Protocol):
    """Makes ledgers over the same records."""

    def make(self, *, keep_s: float = 3600.0) -> Ledger:
        """Return one more ledger over the same records.

        Raises:
            ConfigError: `keep_s` is not above 0.
        """
        ...

    async def advance(self, seconds: float) -> None:
        """Let time pass for all records, none of their owners alive meanwhile."""
        ...


class LedgerSuite:
    """The behaviours of a ledger."""

    async def _claim(self, ledger: Ledger, group: str = "g", message_id: str = "m") -> Claim:
        return await ledger.claim(group, message_id, lease_s=5.0)

    async def test_a_message_is_claimed_once(self, bench: LedgerBench) -> None:
        """While a claim lasts, others have to wait, at most until it expires."""
        first, second = bench.make(), bench.make()

        assert (await self._claim(first)).state is ClaimState.CLAIMED
        other = await self._claim(second)

        assert other.state is ClaimState.BUSY
        assert 0 < other.retry_after_s <= 5.0
        assert (await self._claim(first)).state is ClaimState.BUSY

    async def test_one_of_many_concurrent_claims_wins(self, bench: LedgerBench) -> None:
        """Of twenty concurrent claims one wins and nineteen wait."""
        ledgers = [bench.make() for _ in range(4)]
        claims = await asyncio.gather(*(self._claim(ledgers[n % 4]) for n in range(20)))

        assert Counter(claim.state for claim in claims) == {
            ClaimState.CLAIMED: 1,
            ClaimState.BUSY: 19,
        }

    async def test_claims_are_per_group_and_message(self, bench: LedgerBench) -> None:
        """The same message in another group, and another message, are other claims."""
        ledger = bench.make()
        for group, message_id in (("g", "m"), ("h", "m"), ("g", "n")):
            assert (await self._claim(ledger, group, message_id)).state is ClaimState.CLAIMED

    async def test_a_completed_message_stays_completed(self, bench: LedgerBench) -> None:
        """Every copy finds a completed message, and releasing it changes nothing."""
        first, second = bench.make(), bench.make()
        await self._claim(first)
        await first.done("g", "m")
        await first.release("g", "m")

        again = await self._claim(second)

        assert again.state is ClaimState.DONE

    async def test_a_released_message_is_new(self, bench: LedgerBench) -> None:
        """A released claim leaves no trace."""
        first, second = bench.make(), bench.make()
        await self._claim(first)
        await first.release("g", "m")

        again = await self._claim(second)

        assert (again.state, again.deaths) == (ClaimState.CLAIMED, 0)

    async def test_deaths_are_counted(self, bench: LedgerBench) -> None:
        """An expired claim can be taken over, and the number of such claims is reported."""
        ledger = bench.make()
        await self._claim(ledger)
        deaths = []
        for _ in range(3):
            await bench.advance(6.0)
            claim = await self._claim(bench.make())
            assert claim.state is ClaimState.CLAIMED
            deaths.append(claim.deaths)

        assert deaths == [1, 2, 3]

    async def test_completed_messages_expire(self, bench: LedgerBench) -> None:
        """After `keep_s` seconds a message is new, and its counted deaths are forgotten."""
        ledger = bench.make(keep_s=60.0)
        await self._claim(ledger)
        await bench.advance(6.0)
        await self._claim(ledger)
        await ledger.done("g", "m")

        await bench.advance(59.0)
        assert (await self._claim(ledger)).state is ClaimState.DONE
        await bench.advance(2.0)
        again = await self._claim(ledger)

        assert (again.state, again.deaths) == (ClaimState.CLAIMED, 0)

    async def test_a_useless_keep_time_is_refused(self, bench: LedgerBench) -> None:
        """A time out of range is refused."""
        with pytest.raises(ConfigError):
            bench.make(keep_s=0.0)

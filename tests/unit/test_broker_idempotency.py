"""The ledger of what was begun and done."""

from __future__ import annotations

import pytest
from tests.support.clock import ManualClock

from whence.broker.idempotency import ClaimState, MemoryLedger
from whence.schema.errors import ConfigError


async def claim(ledger: MemoryLedger, group: str = "g", message_id: str = "m") -> ClaimState:
    """Claim for ten seconds and give the state only."""
    return (await ledger.claim(group, message_id, lease_s=10.0)).state


async def test_a_message_is_claimed_once() -> None:
    """While a claim lasts, a second one gets the time to wait."""
    clock = ManualClock()
    ledger = MemoryLedger(clock=clock)

    assert await claim(ledger) is ClaimState.CLAIMED
    clock.advance(4)
    second = await ledger.claim("g", "m", lease_s=10.0)
    assert (second.state, second.retry_after_s) == (ClaimState.BUSY, pytest.approx(6.0))


async def test_claims_are_per_group() -> None:
    """The same message in another group is another claim."""
    ledger = MemoryLedger()

    assert await claim(ledger, "one") is ClaimState.CLAIMED
    assert await claim(ledger, "two") is ClaimState.CLAIMED


async def test_a_completed_message_stays_completed() -> None:
    """A completed message is reported as done, and releasing it changes nothing."""
    ledger = MemoryLedger()
    await claim(ledger)
    await ledger.done("g", "m")
    await ledger.release("g", "m")

    again = await ledger.claim("g", "m", lease_s=10.0)

    assert again.state is ClaimState.DONE


async def test_a_released_message_can_be_claimed() -> None:
    """A released claim leaves no trace."""
    ledger = MemoryLedger()
    await claim(ledger)
    await ledger.release("g", "m")

    again = await ledger.claim("g", "m", lease_s=10.0)

    assert (again.state, again.deaths) == (ClaimState.CLAIMED, 0)


async def test_expired_claims_are_counted_as_deaths() -> None:
    """An expired claim can be taken over, and is counted."""
    clock = ManualClock()
    ledger = MemoryLedger(clock=clock)
    await claim(ledger)

    deaths = []
    for _ in range(3):
        clock.advance(11)
        again = await ledger.claim("g", "m", lease_s=10.0)
        assert again.state is ClaimState.CLAIMED
        deaths.append(again.deaths)

    assert deaths == [1, 2, 3]


async def test_completed_messages_expire() -> None:
    """After `keep_s` seconds a message is new again and uses no memory."""
    clock = ManualClock()
    ledger = MemoryLedger(keep_s=60, clock=clock)
    await ledger.done("g", "old")
    clock.advance(61)

    assert await claim(ledger, message_id="old") is ClaimState.CLAIMED
    assert len(ledger) == 1


async def test_records_are_bounded() -> None:
    """Above the limit the oldest completed record is removed first; open claims are kept."""
    ledger = MemoryLedger(max_records=2)
    await claim(ledger, message_id="open")
    for name in "abc":
        await ledger.done("g", name)

    assert len(ledger) == 3
    assert await claim(ledger, message_id="a") is ClaimState.CLAIMED
    assert await claim(ledger, message_id="c") is ClaimState.DONE
    assert await claim(ledger, message_id="open") is ClaimState.BUSY


def test_a_useless_keep_time_is_refused() -> None:
    """Numbers out of range are refused."""
    with pytest.raises(ConfigError):
        MemoryLedger(keep_s=0)
    with pytest.raises(ConfigError):
        MemoryLedger(max_records=0)

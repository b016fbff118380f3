"""Idempotency: a ledger of claimed and finished messages gives each one effect, however often it is delivered.

A worker claims a message before the handler runs and marks it done before it acknowledges. A claim that is
neither done nor released belongs to a worker that died; it expires, and the number of such claims
shows which message kills its workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from whence.broker.clock import Clock, SystemClock
from whence.schema.errors import ConfigError
from whence.schema.idempotency import Claim, ClaimState

__all__ = ("Claim", "ClaimState", "Ledger", "MemoryLedger")


class Ledger(Protocol):
    """Claimed and finished messages, keyed by consumer group and message id."""

    async def claim(self, group: str, message_id: str, *, lease_s: float) -> Claim:
        """Claim a message for `lease_s` seconds.

        Raises:
            Unavailable: The ledger does not answer; the message must not be handled now.
        """
        ...

    async def done(self, group: str, message_id: str) -> None:
        """Mark a claimed message as done."""
        ...

    async def release(self, group: str, message_id: str) -> None:
        """Release a claim, so that the message can be handled again; what is done stays done."""
        ...


@dataclass(slots=True)
class _Record:
    expires_at: float
    deaths: int = 0


class MemoryLedger:
    """A ledger that lives as long as this process. Every call costs O(1) on average.

    Args:
        keep_s: Seconds for which a message stays done; longer than any redelivery may take.
        max_records: Records kept; beyond that the oldest that are done are forgotten early.
        clock: Source of time.

    Raises:
        ConfigError: A number is not above 0.
    """

    def __init__(
        self,
        *,
        keep_s: float = 24 * 3600.0,
        max_records: int = 100_000,
        clock: Clock | None = None,
    ) -> None:
        if keep_s <= 0 or max_records < 1:
            raise ConfigError(f"a ledger of {max_records} records for {keep_s} s keeps nothing")
        self._keep_s = keep_s
        self._max_records = max_records
        self._clock: Clock = clock or SystemClock()
        self._claims: dict[tuple[str, str], _Record] = {}
        #: In the order in which they were done, which is the order in which they expire.
        self._done: dict[tuple[str, str], _Record] = {}

    def __len__(self) -> int:
        return len(self._claims) + len(self._done)

    async def claim(self, group: str, message_id: str, *, lease_s: float) -> Claim:
        """Claim a message for `lease_s` seconds."""
        now = self._clock.monotonic()
        self._forget(now)
        key = (group, message_id)
        if key in self._done:
            return Claim(state=ClaimState.DONE)
        record = self._claims.get(key)
        if record is None:
            self._claims[key] = _Record(now + lease_s)
            return Claim(state=ClaimState.CLAIMED)
        if record.expires_at > now:
            return Claim(state=ClaimState.BUSY, retry_after_s=record.expires_at - now)
        record.deaths += 1
        record.expires_at = now + lease_s
        return Claim(state=ClaimState.CLAIMED, deaths=record.deaths)

    async def done(self, group: str, message_id: str) -> None:
        """Mark a claimed message as done."""
        key = (group, message_id)
        record = self._claims.pop(key, None) or _Record(0.0)
        now = self._clock.monotonic()
        record.expires_at = now + self._keep_s
        self._done.pop(key, None)
        self._done[key] = record
        self._forget(now)

    async def release(self, group: str, message_id: str) -> None:
        """Release a claim, so that the message can be handled again; what is done stays done."""
        self._claims.pop((group, message_id), None)

    def _forget(self, now: float) -> None:
        """Drop from the front what expired or is too much; each record is dropped once."""
        while self._done:
            key, record = next(iter(self._done.items()))
            if record.expires_at > now and len(self._done) <= self._max_records:
                return
            del self._done[key]

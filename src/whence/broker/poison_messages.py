"""Messages that may have killed a worker: counted, one at a time, before they are handled again.

A broker does not report how often a consumer died holding a message: Pulsar's redelivery count stays 0 when
consumers are killed (measured on 4.0.6, with and without others in the group). A ledger keeps that count for
processors that have one (`broker.idempotency`). For all others the message carries it: a message that was
published before this worker started, and so may have been held by a dead one, is published again with one death
more before it is handled. One message at a time is on probation, so that a death is attributed to one message;
and only as many as a dead worker could hold, so that a restart does not hold up a long queue. A message with a
deadline is never suspected: its deadline ends it.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum

from whence.broker.clock import Clock
from whence.broker.transport import Delivery, Headers, number_of

#: A message that another consumer took for its probation is waited for this long, seconds.
_LOST_S = 5.0


class Decision(StrEnum):
    """What to do with a delivery."""

    HANDLE = "handle"
    """It is not suspected, or its death is counted."""
    COUNT = "count"
    """Have it come again with the headers of `count_headers`."""
    HOLD = "hold"
    """Another message is on probation: hold this one, and decide again when that is over."""
    POSTPONE = "postpone"
    """There is no room to hold it: have it come again in a moment."""
    DEAD_LETTER = "dead_letter"
    """Too many workers died of it."""


class Probation:
    """What one worker suspects; a decision costs O(budget).

    Args:
        clock: Source of time.
        budget: Suspected messages at a time, as many as a worker holds: one on probation, the others held. As
            many again may follow.
        max_deaths: Workers that may die of one message, 1 or more.
    """

    def __init__(self, clock: Clock, *, budget: int, max_deaths: int) -> None:
        self._clock = clock
        self._budget = budget
        self._max_deaths = max_deaths
        self._started_at = clock.time()
        #: Ids of all suspected messages, and of those whose probation is not over.
        self._suspected: set[str] = set()
        self._open: set[str] = set()
        #: As many again, which may be suspected later.
        self._postponed: set[str] = set()
        #: Suspected messages that this worker holds until another's probation is over.
        self.held: deque[Delivery] = deque()
        #: Id of the message on probation; empty when there is none.
        self.current = ""
        self._until = 0.0

    @property
    def is_free(self) -> bool:
        """True when no message is on probation."""
        return not self.current or self._clock.monotonic() >= self._until

    def decide(self, delivery: Delivery) -> Decision:
        """Return what to do with a delivery that has not been handled."""
        message_id = delivery.message_id
        if not self._is_suspect(delivery):
            return Decision.HANDLE
        # The first death was not counted, for nothing was suspected then.
        if deaths_of(delivery) + 1 >= self._max_deaths:
            return Decision.DEAD_LETTER
        if self.current and self.is_free:
            self._close(self.current)
        if len(self._suspected) >= self._budget and message_id not in (
            self._suspected | self._postponed
        ):
            if not self._open:
                return Decision.HANDLE
            # The poison message may be queued behind the ones on probation.
            if len(self._postponed) < self._budget:
                self._postponed.add(message_id)
            return Decision.POSTPONE
        if len(self._open - {message_id}) >= self._budget:
            return Decision.POSTPONE
        self._suspected.add(message_id)
        self._open.add(message_id)
        if self.current != message_id and not self.is_free:
            return Decision.HOLD
        self.current = message_id
        self._until = self._clock.monotonic() + _LOST_S
        return Decision.COUNT

    def _is_suspect(self, delivery: Delivery) -> bool:
        if not delivery.redelivered or Headers.DEADLINE in delivery.headers:
            return False
        counted_at = number_of(delivery.headers.get(Headers.COUNTED_AT)) / 1000
        return max(delivery.published_at, counted_at) < self._started_at

    def count_headers(self, delivery: Delivery) -> dict[str, str]:
        """Return the headers of a message whose probation begins."""
        return {
            Headers.DEATHS: str(deaths_of(delivery) + 1),
            Headers.COUNTED_AT: str(round(self._clock.time() * 1000) + 1),
        }

    def begin(self, delivery: Delivery) -> None:
        """Extend the probation of a message until `end`: its handler runs."""
        if delivery.message_id == self.current:
            self._until = float("inf")

    def end(self, delivery: Delivery) -> None:
        """End the probation of a message: the worker survived it."""
        if delivery.message_id == self.current:
            self._close(self.current)

    def _close(self, message_id: str) -> None:
        self.current = ""
        self._open.discard(message_id)


def deaths_of(delivery: Delivery) -> int:
    """Return how many workers are known to have died of a message."""
    return number_of(delivery.headers.get(Headers.DEATHS))

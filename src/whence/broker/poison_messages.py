"""Messages that may have killed a worker: counted, one at a time, before they are handled again.

A broker does not tell how often a member died with a message in its hands: Pulsar's redelivery count stays 0
over killed consumers (measured on 4.0.6, with and without others in the group). A store keeps that count for
the processors that have one (`broker.idempotency`). For all others the message carries it: what was published
before this worker came, and so may have been in the hands of a dead one, is published anew with one death more
before it is handled. One at a time is on trial, so that a death is put down to one message; and only as many
as a dead worker could hold, so that a long queue is not held up by a restart. A message with a deadline is
above suspicion: its deadline ends it.
"""

from __future__ import annotations

from enum import StrEnum

from whence.broker.clock import Clock
from whence.broker.transport import Delivery, Headers

__all__ = ("Suspects", "Verdict", "deaths_of")

#: A message that went to another member for its trial is waited for this long, seconds.
_LOST_S = 5.0


class Verdict(StrEnum):
    """What to do with a delivery."""

    HANDLE = "handle"
    """It is above suspicion, or its death is counted."""
    COUNT = "count"
    """Publish it anew with the headers of `counted`, then ack it."""
    WAIT = "wait"
    """Another is on trial: hold it, and judge again when that is over."""
    POSTPONE = "postpone"
    """There is no room to hold it: have it come again in a moment."""
    DEAD_LETTER = "dead_letter"
    """Too many workers died of it."""


class Suspects:
    """What one worker suspects; a question costs O(budget).

    Args:
        clock: Source of time.
        budget: Messages on trial together, as many as a worker holds; all but one of them wait in its
            hands meanwhile. As many again may follow.
        max_deaths: Workers that may die of one message, 1 or more.
    """

    def __init__(self, clock: Clock, *, budget: int, max_deaths: int) -> None:
        self._clock = clock
        self._budget = budget
        self._max_deaths = max_deaths
        self._started_at = clock.time()
        #: All that were put on trial, and those of them whose trial is not over.
        self._docket: set[str] = set()
        self._open: set[str] = set()
        #: As many again, who may come on the docket later.
        self._postponed: set[str] = set()
        #: Name of the message on trial; empty when there is none.
        self.on_trial = ""
        self._until = 0.0

    @property
    def is_free(self) -> bool:
        """True when no message is on trial."""
        return not self.on_trial or self._clock.monotonic() >= self._until

    def judge(self, delivery: Delivery) -> Verdict:
        """Tell what to do with a delivery that nobody handles yet."""
        name = _name(delivery)
        if not self._is_suspect(delivery):
            return Verdict.HANDLE
        # The first death was not counted: nobody suspected anything.
        if deaths_of(delivery) + 1 >= self._max_deaths:
            return Verdict.DEAD_LETTER
        if self.on_trial and self.is_free:
            self._close(self.on_trial)
        if len(self._docket) >= self._budget and name not in self._docket | self._postponed:
            if not self._open:
                return Verdict.HANDLE
            # Who kills may be behind those on trial, and would take their trials down.
            if len(self._postponed) < self._budget:
                self._postponed.add(name)
            return Verdict.POSTPONE
        if len(self._open - {name}) >= self._budget:
            return Verdict.POSTPONE
        self._docket.add(name)
        self._open.add(name)
        if self.on_trial != name and not self.is_free:
            return Verdict.WAIT
        self.on_trial = name
        self._until = self._clock.monotonic() + _LOST_S
        return Verdict.COUNT

    def _is_suspect(self, delivery: Delivery) -> bool:
        if not delivery.redelivered or Headers.DEADLINE in delivery.headers:
            return False
        counted_at = _number(delivery.headers.get(Headers.COUNTED_AT, "")) / 1000
        return max(delivery.published_at, counted_at) < self._started_at

    def counted(self, delivery: Delivery) -> dict[str, str]:
        """Give the headers of a message whose trial begins."""
        return {
            Headers.DEATHS: str(deaths_of(delivery) + 1),
            Headers.COUNTED_AT: str(round(self._clock.time() * 1000) + 1),
        }

    def begin(self, delivery: Delivery) -> None:
        """Take note that a handler has it: the trial lasts until `end`."""
        if self.on_trial and _name(delivery) == self.on_trial:
            self._until = float("inf")

    def end(self, delivery: Delivery) -> None:
        """Take note that it was survived."""
        if self.on_trial and _name(delivery) == self.on_trial:
            self._close(self.on_trial)

    def _close(self, name: str) -> None:
        self.on_trial = ""
        self._open.discard(name)


def deaths_of(delivery: Delivery) -> int:
    """Give the workers that are known to have died with a message."""
    return _number(delivery.headers.get(Headers.DEATHS, ""))


def _name(delivery: Delivery) -> str:
    return delivery.headers.get(Headers.MESSAGE_ID) or delivery.id


def _number(text: str) -> int:
    """Read a number that came from elsewhere; 0 when it is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else 0

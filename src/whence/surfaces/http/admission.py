"""Which requests run now, which wait, and which are refused because they would wait too long.

A fixed number of requests runs at the same time; more would make all of them slower and complete none sooner.
A request waits only when, by the measured times of requests of its kind, it can be done within its deadline;
else it is refused at once, with the time after which it is worth trying again. Callers who wait
take turns; the requests of one caller keep their order.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic

from whence.schema.errors import Overloaded

#: Share of the newest measurement in the expected time of a kind of requests.
_NEWEST = 0.2
#: Part of a deadline that the expected time may fill; measured times vary.
_FILL = 0.7
#: Expected seconds of a kind that was not measured yet.
_UNMEASURED_S = 1.0
#: Longest time after which a refused caller is asked to try again, in seconds.
_LONGEST_RETRY_S = 60.0


class TooManyRequests(Overloaded):
    """The request cannot be done within its deadline, because of those before it."""

    code = "too_many_requests"


class _Request:
    """A request that waits or runs."""

    def __init__(self, kind: str, caller: str) -> None:
        self.kind, self.caller = kind, caller
        self.turn = asyncio.Event()


class Admission:
    """Admits requests.

    Args:
        concurrent: How many run at the same time, 1 or more.
        clock: Seconds that never go back.
    """

    def __init__(self, concurrent: int, clock: Callable[[], float] = monotonic) -> None:
        self._concurrent = concurrent
        self._clock = clock
        self._running: list[_Request] = []
        self._waiting: list[_Request] = []
        self._measured_s: dict[str, float] = {}
        #: Turns of each caller since requests began to wait.
        self._turns: Counter[str] = Counter()

    def check(self, kind: str, caller: str, timeout_s: float) -> None:
        """Refuse a request that cannot be done in time.

        Raises:
            TooManyRequests: By the expected times of those before it and its own.
        """
        ahead_s = self._ahead_s(caller)
        if ahead_s and ahead_s + self._expected(kind) > _FILL * timeout_s:
            raise _refused(ahead_s)

    @asynccontextmanager
    async def admit(self, kind: str, caller: str, timeout_s: float) -> AsyncIterator[float]:
        """Wait for a turn, and hold it for the time of a block.

        Cost: linear in the number of waiting requests.

        Args:
            kind: Requests of one kind take similar times.
            caller: Whose request this is.
            timeout_s: Seconds within which the request must be done.

        Yields:
            The seconds that are left.

        Raises:
            TooManyRequests: It cannot be done in time.
        """
        self.check(kind, caller, timeout_s)
        one = _Request(kind, caller)
        arrived = self._clock()
        # A caller who comes later has no turns to catch up on.
        least = min((self._turns[each.caller] for each in self._waiting), default=0)
        self._turns[caller] = max(self._turns[caller], least)
        self._waiting.append(one)
        self._start_next()
        try:
            await self._turn(one, timeout_s)
            began = self._clock()
            try:
                yield timeout_s - (began - arrived)
            finally:
                # Those that fail count, too: a request over its time limit took at least that.
                self._measure(kind, self._clock() - began)
        finally:
            (self._waiting if one in self._waiting else self._running).remove(one)
            self._start_next()

    async def _turn(self, one: _Request, timeout_s: float) -> None:
        if one in self._running:
            return
        try:
            async with asyncio.timeout(timeout_s):
                await one.turn.wait()
        except TimeoutError as error:
            raise _refused(self._ahead_s(one.caller)) from error

    def _ahead_s(self, caller: str) -> float:
        """Return the expected seconds until a request of a caller that comes now has its turn."""
        if len(self._running) < self._concurrent:
            return 0.0
        # Of each other caller as many go first as the caller has.
        position = 1 + sum(one.caller == caller for one in self._waiting)
        seen: Counter[str] = Counter()
        # Those that run are half done on average.
        ahead_s = sum(self._expected(one.kind) for one in self._running) / 2
        for one in self._waiting:
            seen[one.caller] += 1
            if seen[one.caller] <= position:
                ahead_s += self._expected(one.kind)
        return ahead_s / self._concurrent

    def _expected(self, kind: str) -> float:
        return self._measured_s.get(kind, _UNMEASURED_S)

    def _measure(self, kind: str, seconds: float) -> None:
        former = self._measured_s.get(kind, seconds)
        self._measured_s[kind] = former + _NEWEST * (seconds - former)

    def _start_next(self) -> None:
        if not self._waiting:
            self._turns.clear()
        elif len(self._running) < self._concurrent:
            one = min(self._waiting, key=lambda each: self._turns[each.caller])
            self._turns[one.caller] += 1
            self._waiting.remove(one)
            self._running.append(one)
            one.turn.set()


def _refused(retry_after_s: float) -> TooManyRequests:
    return TooManyRequests(
        "too many requests: this one could not be done within its time limit",
        hint="try again later, or with a longer time limit",
        retry_after_s=min(_LONGEST_RETRY_S, max(1.0, retry_after_s)),
    )

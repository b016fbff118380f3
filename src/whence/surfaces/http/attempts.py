"""Slows down those who try tokens: after some wrong ones an address waits, longer with each."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from whence.surfaces.http.admission import TooManyRequests

#: Wrong tokens that cost no time: a reader may paste the wrong one.
FREE: Final = 5
#: Wait after the next one, in seconds; it doubles with each up to the longest.
FIRST_WAIT_S: Final = 2.0
LONGEST_WAIT_S: Final = 300.0
#: Time after which wrong tokens are forgotten, in seconds.
_FORGET_S: Final = 1800.0
#: Addresses that are remembered; the oldest are forgotten first.
_MOST_ADDRESSES: Final = 10_000


class _Failed(NamedTuple):
    times: int
    at: float


class Attempts:
    """Counts wrong tokens by address.

    Args:
        clock: Seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed: dict[str, _Failed] = {}

    def check(self, address: str) -> None:
        """Refuse an address that has to wait.

        Raises:
            TooManyRequests: It sent too many wrong tokens; says for how long it waits.
        """
        found = self._failed.get(address)
        if found is None or found.times < FREE:
            return
        wait_s = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(found.times - FREE, 16))
        left_s = found.at + wait_s - self._clock()
        if left_s > 0:
            raise TooManyRequests(
                f"too many wrong tokens: the next one is taken in {max(1, round(left_s))} s",
                hint="wait, then sign in with a token of this server",
                retry_after_s=left_s,
            )

    def failed(self, address: str) -> None:
        """Note a wrong token."""
        before, now = self._failed.pop(address, None), self._clock()
        count = before.times if before is not None and now - before.at < _FORGET_S else 0
        self._failed[address] = _Failed(count + 1, now)
        if len(self._failed) > _MOST_ADDRESSES:
            del self._failed[next(iter(self._failed))]

    def succeeded(self, address: str) -> None:
        """Forget the wrong tokens of an address."""
        self._failed.pop(address, None)

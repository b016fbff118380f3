"""When the work on the current message must end, for code that waits deep inside of it."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Final

#: End of the current work, by the clock of the event loop; None for no end.
WORK_ENDS: Final[ContextVar[float | None]] = ContextVar("whence_work_ends", default=None)


def seconds_left(most: float) -> float:
    """Return the seconds until the current work must end, at most `most` and never negative."""
    ends = WORK_ENDS.get()
    if ends is None:
        return most
    return min(most, max(0.0, ends - asyncio.get_running_loop().time()))

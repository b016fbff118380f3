"""Rate limits: the time that the headers of a reply ask a client to wait."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

_DURATION = re.compile(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9}(?:\.\d{1,9})?)s)?\Z")
_MILLISECONDS = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)ms\Z")
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,9})?\Z")
_RESET: Final = "x-ratelimit-reset"
_REMAINING: Final = "x-ratelimit-remaining"
#: A plain number above this is a time since the epoch, and no duration.
_EPOCH_S: Final = 1e9
_EPOCH_MS: Final = 1e12


def requested_wait_s(headers: Mapping[str, str], now: float, *, refused: bool) -> float | None:
    """Return the seconds to wait before the next request; None when the headers do not ask for a wait.

    `Retry-After` (seconds or a date) and `retry-after-ms` come first. Else, of each pair
    `x-ratelimit-remaining-*` and `x-ratelimit-reset-*` that has nothing left, the longest reset counts. When a
    request was refused and no counter is at zero, the longest reset of all counts.

    Args:
        headers: Of a reply, names in lower case.
        now: Seconds since the epoch.
        refused: Whether the reply refuses a request for too many of them.
    """
    asked = _retry_after(headers, now)
    if asked is not None:
        return asked
    resets = {
        name.removeprefix(_RESET): seconds
        for name, value in headers.items()
        if name.startswith(_RESET) and (seconds := _seconds(value, now)) is not None
    }
    spent = [
        seconds
        for name, seconds in resets.items()
        if headers.get(_REMAINING + name, "").strip() == "0"
    ]
    return max(spent or (resets.values() if refused else ()), default=None)


def _retry_after(headers: Mapping[str, str], now: float) -> float | None:
    milliseconds = headers.get("retry-after-ms", "").strip()
    if _NUMBER.match(milliseconds):
        return float(milliseconds) / 1e3
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    if (seconds := _number(value)) is not None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, OverflowError, OSError):
        return None


def _seconds(value: str, now: float) -> float | None:
    """Return a reset as seconds from now: `1.5`, `6m0s`, `120ms`, or a time since the epoch."""
    value = value.strip().lower()
    if (number := _number(value)) is not None:
        if number >= _EPOCH_S:
            return max(0.0, (number / 1e3 if number >= _EPOCH_MS else number) - now)
        return number
    return duration_s(value)


def duration_s(value: str) -> float | None:
    """Return the seconds of `6m0s` or `120ms`; None for anything else."""
    if found := _MILLISECONDS.match(value):
        return float(found[1]) / 1e3
    found = _DURATION.match(value)
    if not value or not found:
        return None
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds


def in_words(seconds: float) -> str:
    """Return a wait as people say it.

    >>> in_words(34), in_words(970), in_words(40_000)
    ('34 seconds', '17 minutes', '12 hours')
    """
    for unit, size in (("hours", 3600), ("minutes", 60)):
        if seconds > 2 * size:
            return f"{math.ceil(seconds / size)} {unit}"
    return f"{math.ceil(seconds)} seconds"


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None

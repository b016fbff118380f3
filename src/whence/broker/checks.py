"""Rules that transports share: what may be published, what a nack may ask, headers that came from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping

from whence.broker.transport import Headers
from whence.schema.errors import BadInput

#: Reasons of dead letters are for people; headers are no place for a whole traceback.
_MAX_REASON = 1_000
#: Longer numbers are neither dates nor counts, and do not fit a float.
_MAX_DIGITS = 18


def check_message(
    topic: str,
    payload: object,
    headers: Mapping[str, str],
    delay_s: float | None,
    max_payload_bytes: int,
) -> None:
    """Check what is about to be published.

    Raises:
        BadInput: The payload is too large or not bytes, a header is not a string, or the delay is negative.
    """
    if not isinstance(payload, bytes | bytearray):
        raise BadInput(
            f"a payload for {topic} is {type(payload).__name__}, not bytes", hint="encode it first"
        )
    if len(payload) > max_payload_bytes:
        raise BadInput(
            f"a payload for {topic} has {len(payload)} bytes, {max_payload_bytes} are allowed",
            hint="send it in several messages",
        )
    for name, value in headers.items():
        if type(name) is not str or type(value) is not str:
            raise BadInput(f"header {name!r} for {topic} is {value!r}, not a string")
    if delay_s is not None and not 0 <= delay_s < math.inf:
        raise BadInput(f"a delay of {delay_s!r} seconds for {topic}", hint="use 0 or more")


def check_nack(delay_s: float | None, attempts: int) -> None:
    """Check the arguments of a nack.

    Raises:
        BadInput: The delay or the number of attempts is negative.
    """
    if attempts < 0 or (delay_s is not None and not 0 <= delay_s < math.inf):
        raise BadInput(f"nack with delay {delay_s!r} after {attempts!r} attempts")


def check_prefetch(prefetch: int, topic: str) -> None:
    """Check a prefetch.

    Raises:
        BadInput: It is below 1.
    """
    if prefetch < 1:
        raise BadInput(f"a prefetch of {prefetch} for {topic}", hint="use 1 or more")


def dead_letter_headers(
    headers: Mapping[str, str],
    *,
    reason: str,
    exception: str,
    group: str,
    topic: str,
    attempts: int,
    first_at: float,
    last_at: float,
) -> dict[str, str]:
    """Return the headers of a dead letter: those of the message and why, by whom and when it was given up.

    Args:
        headers: Of the message.
        reason: One line; may be empty.
        exception: Class of the last error; may be empty.
        group: Subscription that gave it up.
        topic: Full name of the topic it was first published to.
        attempts: Attempts made.
        first_at: First delivery, seconds since the epoch.
        last_at: Now, seconds since the epoch.
    """
    return {
        **headers,
        Headers.REASON: (reason or "attempts ran out")[:_MAX_REASON],
        Headers.GROUP: group,
        Headers.ORIGIN: topic,
        Headers.EXCEPTION: exception,
        Headers.ATTEMPTS: str(attempts),
        Headers.FIRST_AT: str(round(first_at * 1000)),
        Headers.LAST_AT: str(round(last_at * 1000)),
    }


def number_of(text: str | None) -> int:
    """Return the number in a header that came from elsewhere; 0 when it holds none."""
    if not text:
        return 0
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS else 0


def deadline_of(headers: Mapping[str, str]) -> float | None:
    """Return the deadline in seconds since the epoch; None when there is none that can be read."""
    text = headers.get(Headers.DEADLINE)
    if not text or not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS):
        return None
    return int(text) / 1000


def message_wait_s(headers: Mapping[str, str], longest_s: float, now: float) -> float:
    """Return how long a full queue may hold up a message: up to `longest_s`, never past its deadline."""
    deadline = deadline_of(headers)
    return longest_s if deadline is None else min(longest_s, max(0.0, deadline - now))

"""One message at work: as its handler sees it, what comes back, and how far it has got."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from hashlib import blake2b
from typing import Any

import msgspec

from whence.broker.clock import Clock
from whence.broker.limits import Limit
from whence.broker.requests import deadline_of
from whence.broker.transport import Delivery, Headers
from whence.schema.wire import Body

__all__ = ("MARGIN_S", "Handler", "Outgoing", "Run", "Work", "new_digest")

#: The handler stops this long before the deadline, so that the answer is on time: a share, and at most.
_MARGIN_SHARE = 0.1
MARGIN_S = 0.05


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """A reply on its way out."""

    payload: Body
    """The body."""
    headers: Mapping[str, str] = {}
    """At least `type`; where it goes and its place in the stream are added by the worker."""
    end: bool = True
    """True for the last reply to a request."""


class Work:
    """One message as its handler sees it.

    Args:
        delivery: The message.
        attempt: 1 on the first try, whoever makes it.
        clock: Source of time.
    """

    __slots__ = ("_clock", "attempt", "deadline", "delivery")

    def __init__(self, delivery: Delivery, attempt: int, clock: Clock) -> None:
        self.delivery = delivery
        self.attempt = attempt
        #: When the caller gives up, seconds since the epoch; None when it did not say.
        self.deadline = deadline_of(delivery.headers)
        self._clock = clock

    @property
    def message_id(self) -> str:
        """Id of the message; the same when it is delivered again."""
        return self.delivery.headers.get(Headers.MESSAGE_ID) or self.delivery.id

    @property
    def correlation_id(self) -> str:
        """Id of the request; empty for a message that asks for nothing."""
        return self.delivery.headers.get(Headers.CORRELATION_ID, "")

    @property
    def reply_to(self) -> str:
        """Topic that the caller waits at; empty for a message that asks for nothing."""
        return self.delivery.headers.get(Headers.REPLY_TO, "")

    def remaining_s(self) -> float | None:
        """Seconds until the caller gives up, never negative; None when the caller set no deadline."""
        if self.deadline is None:
            return None
        return max(0.0, self.deadline - self._clock.time())

    def patience_s(self) -> float | None:
        """Seconds that a handler may take: a little less than the caller waits; None without a deadline."""
        if self.deadline is None:
            return None
        remaining = self.deadline - self._clock.time()
        return remaining - min(MARGIN_S, remaining * _MARGIN_SHARE)

    @property
    def trace_headers(self) -> dict[str, str]:
        """Headers to put on every message sent on behalf of this one."""
        headers = self.delivery.headers
        names = (Headers.TRACEPARENT, Headers.TRACESTATE)
        return {name: headers[name] for name in names if name in headers}

    @property
    def call_headers(self) -> dict[str, str]:
        """Headers to put on every request made on behalf of this one: the trace and the deadline."""
        headers = self.trace_headers
        if self.deadline is not None:
            headers[Headers.DEADLINE] = self.delivery.headers[Headers.DEADLINE]
        return headers


Handler = Callable[[Work], AsyncIterator[Outgoing] | Coroutine[Any, Any, Outgoing | None]]
"""Yields its replies, or is awaited for the one that it gives, None for none."""


class Run(msgspec.Struct, eq=False):
    """One delivery at work: its replies so far and the switch that stops it."""

    work: Work
    """As the handler sees it on the first try of this delivery."""
    delivery: Delivery
    digest: blake2b | None
    """Of all replies, for the ledger; None where there is none."""
    attempts: int = 0
    """Tries of this delivery so far."""
    outputs: int = 0
    """Replies published."""
    ended: bool = False
    """True once the last reply was published."""
    cancelled: bool = False
    stopped: bool = False
    limit: Limit | None = None

    @property
    def attempt(self) -> int:
        """The try at hand, those of earlier deliveries included."""
        return self.delivery.attempt + max(self.attempts, 1) - 1

    @property
    def answered(self) -> bool:
        """True once a caller has got a part of the answer: the rest must come from the same try."""
        return bool(self.outputs and self.delivery.headers.get(Headers.REPLY_TO))

    def begin_anew(self) -> None:
        """Begin another try; what an earlier one published is published again under the same ids."""
        self.outputs = 0
        self.ended = False
        if self.digest is not None:
            self.digest = new_digest()

    def stop(self, *, cancelled: bool) -> None:
        """Interrupt the handler now, or before it begins."""
        self.cancelled = self.cancelled or cancelled
        self.stopped = True
        if self.limit is not None:
            self.limit.strike_soon()


def new_digest() -> blake2b:
    """Give an empty digest of replies."""
    return blake2b(digest_size=16)

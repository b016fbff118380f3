"""One message on its way through a worker: what its handler sees, what it sends, and how far it has got."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import msgspec

from whence.broker.clock import Clock
from whence.broker.idempotency import Ledger
from whence.broker.transport import (
    Delivery,
    Headers,
    RetryPolicy,
    Subscription,
    Transport,
    deadline_of,
)
from whence.schema.errors import WhenceError

#: The handler stops this long before the deadline, so that the answer is on time: a share, and at most.
_MARGIN_SHARE = 0.1
MARGIN_S = 0.05


class OutgoingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A reply on its way out."""

    payload: bytes
    """The body."""
    headers: Mapping[str, str] = {}
    """At least `type`; the worker adds where it goes and its place in the stream."""
    end: bool = True
    """True for the last reply to a request."""


class IncomingMessage:
    """One message as its handler sees it.

    Args:
        delivery: The message.
        attempt: 1 on the first attempt, over all deliveries.
        clock: Source of time.
    """

    def __init__(self, delivery: Delivery, attempt: int, clock: Clock) -> None:
        self.delivery = delivery
        self.attempt = attempt
        #: When the caller gives up, seconds since the epoch; None when it did not say.
        self.deadline = deadline_of(delivery.headers)
        self._clock = clock

    @property
    def message_id(self) -> str:
        """Id of the message; the same when it is delivered again."""
        return self.delivery.message_id

    @property
    def correlation_id(self) -> str:
        """Id of the request; empty for a message that is not one."""
        return self.delivery.headers.get(Headers.CORRELATION_ID, "")

    @property
    def reply_to(self) -> str:
        """Topic that the caller waits at; empty for a message that is not a request."""
        return self.delivery.headers.get(Headers.REPLY_TO, "")

    def remaining_s(self) -> float | None:
        """Return the seconds until the caller gives up, never negative; None without a deadline."""
        return None if self.deadline is None else max(0.0, self.deadline - self._clock.time())

    def handling_s(self) -> float | None:
        """Return the seconds that a handler may take, a little less than the caller waits."""
        if self.deadline is None:
            return None
        remaining = max(0.0, self.deadline - self._clock.time())
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


Handler = Callable[
    [IncomingMessage],
    AsyncIterator[OutgoingMessage] | Coroutine[Any, Any, OutgoingMessage | None],
]
"""Yields its replies, or is awaited for its only reply, None for none."""


class ActiveDelivery(msgspec.Struct, eq=False):
    """One delivery in progress: its attempts, its replies so far, and the switch that stops its handler."""

    delivery: Delivery
    subscription: Subscription
    attempts: int = 0
    """Attempts at this delivery so far."""
    replies: int = 0
    """Replies of this attempt that were published."""
    ended: bool = False
    """True once the last reply was published."""
    digest: blake2b = msgspec.field(default_factory=lambda: blake2b(digest_size=16))
    """Of the replies of this attempt, for the idempotency ledger."""
    cancelled: bool = False
    """True when the caller cancelled the request."""
    stopped: bool = False
    """True when the handler is to stop: the request was cancelled or the worker closes."""
    timeout: asyncio.Timeout | None = None
    """Bounds the handler while it runs."""

    @property
    def attempt(self) -> int:
        """Number of the current attempt, those of earlier deliveries included."""
        return self.delivery.attempt + max(self.attempts, 1) - 1

    @property
    def is_request(self) -> bool:
        """True when a caller waits for replies."""
        return bool(self.delivery.headers.get(Headers.REPLY_TO))

    @property
    def is_answered(self) -> bool:
        """True once the caller has a part of the answer: the other parts must come from the same attempt."""
        return self.is_request and self.replies > 0

    def begin_attempt(self) -> None:
        """Count an attempt; what an earlier one published is published again under the same ids."""
        self.attempts += 1
        if self.attempts > 1:
            self.replies = 0
            self.ended = False
            self.digest = blake2b(digest_size=16)

    def stop(self, *, cancelled: bool) -> None:
        """Interrupt the handler now, or before it begins."""
        self.cancelled = self.cancelled or cancelled
        self.stopped = True
        if self.timeout is not None and not self.timeout.expired():
            self.timeout.reschedule(0.0)


@dataclass(slots=True)
class WorkerCounters:
    """What happened to messages, since the start."""

    received: int = 0
    handled: int = 0
    replies: int = 0
    """Replies published, errors included."""
    unpublished: int = 0
    """Times that a reply could not be published."""
    retries: int = 0
    """Attempts that failed and were followed, or will be, by another."""
    failed: int = 0
    dead_letters: int = 0
    expired: int = 0
    cancelled: int = 0
    duplicates: int = 0
    handed_back: int = 0
    """Deliveries returned to the broker because the worker stopped."""


@dataclass(kw_only=True)
class WorkerState:
    """The state of one worker; see `Worker` for its settings."""

    name: str
    topic: str
    group: str
    transport: Transport
    retry: RetryPolicy
    clock: Clock
    uniform: Callable[[], float]
    ledger: Ledger | None
    lease_s: float
    reply_topic: str | None
    concurrency: int
    counters: WorkerCounters = field(default_factory=WorkerCounters)
    instance: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Id of this worker, new at every start."""
    started_at: float = field(default_factory=time.time)
    """Seconds since the epoch by the worker's clock."""
    subscription: Subscription | None = None
    active: set[ActiveDelivery] = field(default_factory=set)
    """Deliveries in progress."""
    idle: set[asyncio.Task[None]] = field(default_factory=set)
    """Tasks that wait for a message."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    failure: WhenceError | None = None
    """Why the worker stopped; None when it was asked to."""

    def stop_receiving(self) -> None:
        """Take no more messages."""
        self.stopping.set()
        if self.subscription is not None:
            self.subscription.pause()
        for task in list(self.idle):
            task.cancel()

    def fail(self, error: WhenceError) -> None:
        """Take no more messages because none can be handled."""
        if not self.stopping.is_set():
            self.failure = error
            self.stop_receiving()

    def log_fields(self, delivery: Delivery | None = None, **fields: Any) -> dict[str, Any]:
        """Return the fields of a log line about the worker and one of its deliveries."""
        known = {"processor": self.name, **fields}
        if delivery is not None:
            known["message_id"] = delivery.message_id
            known["correlation_id"] = delivery.headers.get(Headers.CORRELATION_ID, "")
            known["attempt"] = delivery.attempt
        return known

"""What the parts of one worker share: its settings, its connections, its counters and its end."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from whence.broker.clock import Clock
from whence.broker.delivery import ActiveDelivery
from whence.broker.idempotency import Ledger
from whence.broker.transport import Delivery, Headers, RetryPolicy, Subscription, Transport
from whence.schema.errors import WhenceError


@dataclass(slots=True)
class WorkerCounters:
    """What happened to messages, since the start."""

    received: int = 0
    """Deliveries taken."""
    handled: int = 0
    """Messages done and acknowledged."""
    replies: int = 0
    """Replies published, errors included."""
    unpublished: int = 0
    """Times that a reply could not be published."""
    retries: int = 0
    """Attempts that failed and were followed, or will be, by another."""
    failed: int = 0
    """Messages given up, with an error reply or a dead letter."""
    dead_letters: int = 0
    """Messages given up that became dead letters."""
    expired: int = 0
    """Messages whose deadline passed before they came."""
    cancelled: int = 0
    """Messages whose caller cancelled them."""
    duplicates: int = 0
    """Deliveries of what was done before."""
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

"""The contract of a transport: bytes from a publisher to the consumer groups of a topic, at least once.

`broker.memory` and `broker.pulsar` implement it; `whence.testing.transport_suite` tests any implementation.
Delivery is unordered, except that `Mode.KEY_ORDERED` hands out one message of a key at a time. A message is
durable when `publish` returns. Closing never drops a group's backlog.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Collection, Mapping
from enum import StrEnum
from typing import Annotated, NamedTuple, Protocol, runtime_checkable

import msgspec

from whence.schema.errors import BadInput
from whence.schema.message import Message


class Headers:
    """Names of the headers we set; all values are strings, any Unicode."""

    TYPE = "type"
    MESSAGE_ID = "message-id"
    """Set once by the first publisher, kept over retries; the key of idempotency."""
    CORRELATION_ID = "correlation-id"
    REPLY_TO = "reply-to"
    """Full name of the topic that replies go to."""
    ATTEMPT = "attempt"
    """1 on first delivery; one more for each retry, by any consumer."""
    DEADLINE = "deadline"
    """When the caller stops waiting, milliseconds since the epoch."""
    SEQUENCE = "sequence"
    """Place of a reply in a stream, from 0."""
    END = "end"
    """`1` on the last reply of a stream."""
    TRACEPARENT = "traceparent"
    TRACESTATE = "tracestate"
    DEATHS = "deaths"
    """How many workers are known to have died while they handled the message."""
    COUNTED_AT = "deaths-at"
    """When the last of these was counted, milliseconds since the epoch."""
    REASON = "dlq-reason"
    GROUP = "dlq-group"
    """Group that gave it up."""
    ATTEMPTS = "dlq-attempts"
    ORIGIN = "dlq-origin"
    """Topic it was first published to."""
    EXCEPTION = "dlq-exception"
    FIRST_AT = "dlq-first-at"
    """First delivery, milliseconds since the epoch."""
    LAST_AT = "dlq-last-at"
    """When it was given up, milliseconds since the epoch."""


class Mode(StrEnum):
    """How the consumers of a group share a topic."""

    SHARED = "shared"
    """Each message to one consumer."""
    EXCLUSIVE = "exclusive"
    """One consumer only; a second one is refused."""
    KEY_ORDERED = "key_ordered"
    """Each message to one consumer, one in flight per key, in order of publishing."""
    BROADCAST = "broadcast"
    """Each message to every consumer that is connected; nothing is kept for others."""


class Start(StrEnum):
    """Where a new group begins, and each consumer of a broadcast."""

    EARLIEST = "earliest"
    LATEST = "latest"


class NackOutcome(StrEnum):
    """What a nack or reject led to."""

    RETRY = "retry"
    """It will come again, one attempt higher."""
    DEAD_LETTER = "dead_letter"
    """It went to the dead-letter topic."""
    STALE = "stale"
    """It was settled before, or handed to another consumer; nothing was done."""


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Bounded retries: attempt n+1 waits `base_delay_s * factor**(n-1)`, capped, with jitter."""

    max_attempts: Annotated[int, msgspec.Meta(ge=1, le=100)] = 5
    """Deliveries before the message is a dead letter, 1 or more."""
    base_delay_s: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 0.2
    factor: Annotated[float, msgspec.Meta(ge=1, le=100)] = 2.0
    max_delay_s: Annotated[float, msgspec.Meta(ge=0, le=86400)] = 30.0
    jitter: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.2
    """Share of the wait that is random, 0 to 1."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One message handed to one consumer of a group."""

    payload: bytes
    headers: Mapping[str, str]
    key: str | None = None
    id: str
    """Id of this delivery; a redelivery has another."""
    topic: str
    """Full name of the topic it was published to (not of a retry topic)."""
    attempt: int = 1
    redelivered: bool = False
    """True when it may have been delivered before."""
    published_at: float = 0.0
    """Seconds since the epoch."""

    @property
    def message_id(self) -> str:
        """Id of the message; the same when it is delivered again."""
        return self.headers.get(Headers.MESSAGE_ID) or self.id


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """One reply to a request."""

    payload: bytes
    headers: Mapping[str, str]
    """The headers; `type` names the message type, `error.v1` a failure."""
    sequence: int = 0
    end: bool = True


class TopicStats(NamedTuple):
    """How far a group is behind."""

    backlog: int
    """Messages waiting, those that wait for a retry included."""
    in_flight: int
    """Messages handed out and not settled."""
    oldest_age_s: float
    """Age of the oldest message waiting or in flight, in seconds; 0 when there is none."""

    @classmethod
    def total(cls, each: Collection[TopicStats]) -> TopicStats:
        """Add up statistics of several queues."""
        return cls(
            backlog=sum(one.backlog for one in each),
            in_flight=sum(one.in_flight for one in each),
            oldest_age_s=max((one.oldest_age_s for one in each), default=0.0),
        )


class Subscription(Protocol):
    """One consumer of a group of a topic."""

    async def receive(self) -> Delivery:
        """Wait for the next message. Cancelling loses nothing.

        Raises:
            Unavailable: The subscription was closed, also while waiting.
        """
        ...

    async def ack(self, delivery: Delivery) -> bool:
        """Settle as done; False when it was settled before or is no longer this consumer's."""
        ...

    async def nack(
        self,
        delivery: Delivery,
        *,
        delay_s: float | None = None,
        reason: str = "",
        exception: str = "",
        attempts: int = 1,
        headers: Mapping[str, str] | None = None,
    ) -> NackOutcome:
        """Ask for another attempt after `delay_s` seconds, the retry policy's wait when None.

        Args:
            delivery: The message.
            delay_s: Seconds until it may come again, 0 or more.
            reason: For the dead letter it may become, one line.
            exception: Class of the error, for the same.
            attempts: Attempts that the consumer made: more than 1 when it retried itself, 0 when it made none.
            headers: Set on the message when it comes again.

        Raises:
            Unavailable: The broker cannot be reached; the message is still this consumer's.
            Overloaded: The dead-letter topic stayed full; the message is still this consumer's.
        """
        ...

    async def reject(self, delivery: Delivery, *, reason: str, exception: str = "") -> NackOutcome:
        """Move the message to the dead-letter topic at once.

        Raises:
            Unavailable: The broker cannot be reached; the message is still this consumer's.
            Overloaded: The dead-letter topic stayed full; the message is still this consumer's.
        """
        ...

    def pause(self) -> None:
        """Hand out no more messages until `resume`."""
        ...

    def resume(self) -> None:
        """Hand out messages again."""
        ...

    async def aclose(self, *, drain_s: float = 0.0) -> None:
        """Leave the group: wait up to `drain_s` seconds for open deliveries, return the others."""
        ...


class Transport(Protocol):
    """A client of a broker."""

    @property
    def url(self) -> str:
        """Address without credentials."""
        ...

    @property
    def max_payload_bytes(self) -> int:
        """Largest payload; `publish` refuses a larger one with `BadInput`."""
        ...

    async def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
        delay_s: float | None = None,
    ) -> str:
        """Publish and wait for the receipt; returns the `message-id` header, made when not given.

        Raises:
            BadInput: The payload is too large or not bytes, a header is not a string, or the delay is negative.
            ConfigError: The name of the topic is wrong, or the credentials are refused.
            Overloaded: The queue stayed full.
            Unavailable: The broker cannot be reached; whether it was stored is unknown.
        """
        ...

    async def subscribe(
        self,
        topic: str,
        group: str,
        *,
        mode: Mode = Mode.SHARED,
        prefetch: int = 1,
        retry: RetryPolicy | None = None,
        start: Start | None = None,
    ) -> Subscription:
        """Join a consumer group of a topic; at most `prefetch` messages are held unsettled.

        Without `start` a new group begins with the earliest message that the topic has, a broadcast with
        the next message.

        Raises:
            BadInput: `prefetch` is below 1.
            ConfigError: The retry policy, the name of the topic or the credentials are wrong.
            Unavailable: The group is exclusive and taken or shares in another mode, or the broker cannot be
                reached.
        """
        ...

    async def request(
        self,
        topic: str,
        payload: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
        timeout_s: float = 30.0,
    ) -> Reply:
        """Publish a request and wait for its one reply.

        Raises:
            DeadlineExceeded: No reply within `timeout_s` seconds, or the deadline header passed before.
        """
        ...

    def stream(
        self,
        topic: str,
        payload: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
        timeout_s: float = 30.0,
    ) -> AsyncIterator[Reply]:
        """Publish a request and yield its replies in order, up to the one with `end`.

        Leaving the iterator early cancels the request.
        """
        ...

    async def cancel(self, topic: str, correlation_id: str) -> None:
        """Ask, at best effort, the worker of a request to stop."""
        ...

    async def stats(self, topic: str, group: str) -> TopicStats:
        """Return how far a group is behind."""
        ...

    async def health(self) -> None:
        """Return when the broker answers.

        Raises:
            Unavailable: It does not; the message says where it was looked for.
        """
        ...

    async def aclose(self) -> None:
        """Close subscriptions, then producers, then the connection; safe to call twice."""
        ...


@runtime_checkable
class SupportsSchemas(Protocol):
    """A transport whose broker keeps the schema of a topic and refuses what does not fit."""

    def register_topic(self, topic: str, message_type: type[Message]) -> None:
        """State the one message type of a topic, before it is published or subscribed to.

        Raises:
            ConfigError: Another type was stated, or the type cannot be described to the broker.
        """
        ...


@runtime_checkable
class SupportsStats(Protocol):
    """A transport whose statistics may cover its own process only."""

    async def has_full_stats(self) -> bool:
        """Return whether `stats` counts what waits for and is held by all processes."""
        ...


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

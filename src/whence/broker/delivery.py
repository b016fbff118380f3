"""One message on its way through a worker: what its handler sees, its attempts, replies and settlement."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ParamSpec, TypeAlias

import msgspec

from whence.broker.clock import Clock
from whence.broker.idempotency import Ledger
from whence.broker.poison_messages import Probation, deaths_of
from whence.broker.retry import ErrorKind, classify_error, wait_s
from whence.broker.transport import (
    Delivery,
    Headers,
    RetryPolicy,
    Subscription,
    Transport,
    deadline_of,
)
from whence.schema.codec import encode
from whence.schema.errors import (
    BadInput,
    CodecError,
    DeadlineExceeded,
    ErrorReply,
    InternalError,
    NotFound,
    ServerFailed,
    ServerRefused,
    WhenceError,
)
from whence.schema.time_limit import WORK_ENDS

logger = logging.getLogger(__name__)

P = ParamSpec("P")

#: The handler stops this long before the deadline, so that the answer is on time: a share, and at most.
_MARGIN_SHARE = 0.1
_MARGIN_S = 0.05
#: How long an error reply may take, in seconds.
_ERROR_REPLY_S = 5.0
#: Waits below this are spent here, holding the message; longer ones in the broker's retry queue, seconds.
_IN_PROCESS_WAIT_S = 0.5
#: Headers of a request that its replies repeat.
_REPEATED = (Headers.CORRELATION_ID, Headers.TRACEPARENT, Headers.TRACESTATE)
#: Pauses between two attempts to settle a message with a broker that does not answer.
SETTLE_RETRY = RetryPolicy(base_delay_s=0.1, max_delay_s=5.0)


class OutgoingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A reply on its way out."""

    payload: bytes
    """The body."""
    headers: Mapping[str, str] = {}
    """At least `type`; the worker adds where it goes and its place in the stream."""
    end: bool = True
    """True for the last reply to a request."""


class IncomingMessage(msgspec.Struct, frozen=True):
    """One message as its handler sees it."""

    delivery: Delivery
    attempt: int
    """1 on the first attempt, over all deliveries."""
    deadline: float | None
    """When the caller gives up, seconds since the epoch; None when it did not say."""


Replies: TypeAlias = AsyncGenerator[OutgoingMessage, None]
Handler: TypeAlias = Callable[[IncomingMessage], Replies]


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
    ledger: Ledger | None
    probation: Probation | None
    """Finds messages that kill workers, for a worker without a ledger; None to trust all."""
    reply_topic: str | None
    concurrency: int
    counters: WorkerCounters = field(default_factory=WorkerCounters)
    instance: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Id of this worker, new at every start."""
    started_at: float
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


class HandlerStopped(Exception):
    """The handler was stopped from outside: its request was cancelled, or the worker closes."""


class ActiveDelivery:
    """One delivery in progress, from its first attempt to its settlement.

    Args:
        state: The worker.
        delivery: The message.
        subscription: Settles it.
    """

    def __init__(self, state: WorkerState, delivery: Delivery, subscription: Subscription) -> None:
        self.delivery = delivery
        self.message_id = delivery.message_id
        self.deadline = deadline_of(delivery.headers)
        #: True when a caller waits for replies.
        self.is_request = bool(delivery.headers.get(Headers.REPLY_TO))
        #: Number of the current attempt, those of earlier deliveries included.
        self.attempt = delivery.attempt
        self._state = state
        self._subscription = subscription
        #: Attempts at this delivery so far.
        self._attempts = 0
        #: Replies of this attempt that were published, and whether the last one is among them.
        self._replies = 0
        self._ended = False
        #: Whether the handler is to stop, and whether its caller asked for that; else the worker closes.
        self._stopped = False
        self._cancelled = False
        #: Bounds the handler while it runs.
        self._timeout: asyncio.Timeout | None = None

    def stop(self, *, cancelled: bool) -> None:
        """Interrupt the handler now, or before it begins."""
        self._cancelled = self._cancelled or cancelled
        self._stopped = True
        if self._timeout is not None and not self._timeout.expired():
            self._timeout.reschedule(0.0)

    # Attempts

    async def handle(self, handler: Handler) -> None:
        """Run the handler until no further attempt is due here, then settle the message."""
        while True:
            try:
                await self._attempt(handler)
            except HandlerStopped:
                await self._hand_back()
            except CodecError as error:
                await self.give_up(error)
            except WhenceError as error:
                wait = self._retry_wait_s(error)
                if wait is None:
                    await self._fail(error)
                elif await self._retry(error, wait):
                    continue
            else:
                await self._done()
            return

    async def _attempt(self, handler: Handler) -> None:
        """Run the handler once, within the deadline.

        Raises:
            WhenceError: The attempt failed.
            HandlerStopped: The request was cancelled, or the worker closes.
        """
        state = self._state
        if self._stopped:
            raise HandlerStopped
        self._attempts += 1
        self.attempt = self.delivery.attempt + self._attempts - 1
        limit_s = None
        if self.deadline is not None:
            remaining = max(0.0, self.deadline - state.clock.time())
            limit_s = remaining - min(_MARGIN_S, remaining * _MARGIN_SHARE)
        timeout = self._timeout = asyncio.timeout(limit_s)
        WORK_ENDS.set(timeout.when())
        try:
            async with timeout:
                await self._publish_replies(handler)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise self._unexpected(error) from error
        except Exception as error:
            if self._stopped:
                raise HandlerStopped from error
            if isinstance(error, WhenceError):
                self._attempts += error.attempts - 1
                self.attempt += error.attempts - 1
                raise
            if isinstance(error, TimeoutError) and timeout.expired():
                text = f"{state.name} did not finish before the deadline"
                raise DeadlineExceeded(text) from error
            raise self._unexpected(error) from error
        finally:
            self._timeout = None

    def _unexpected(self, error: BaseException) -> InternalError:
        fields = self._state.log_fields(self.delivery, action="handle")
        logger.error("handler failed", exc_info=error, extra=fields)
        return InternalError(
            f"{self._state.name} failed with {type(error).__name__}",
            hint="its log says where; this is a fault of the processor",
        )

    # Replies

    async def _publish_replies(self, handler: Handler) -> None:
        """Publish what the handler yields; a repeated attempt publishes it again under the same ids."""
        self._replies = 0
        self._ended = False
        message = IncomingMessage(self.delivery, self.attempt, self.deadline)
        async with aclosing(handler(message)) as replies:
            async for reply in replies:
                await self._publish(reply)
        if self.is_request and not self._ended:
            raise InternalError(
                f"{self._state.name} ended without a last reply",
                hint="this is a fault of the processor",
            )

    async def _publish(self, reply: OutgoingMessage) -> None:
        """Publish one reply where the caller waits or to the worker's reply topic.

        Its id is derived from the request's, so that a repeated reply is recognised.
        """
        state, delivery = self._state, self.delivery
        topic = delivery.headers.get(Headers.REPLY_TO) or state.reply_topic
        if topic is not None:
            headers = {Headers.MESSAGE_ID: f"{self.message_id}/{state.group}/{self._replies}"}
            # The reply's own trace replaces the trace of the request.
            own_trace = Headers.TRACEPARENT in reply.headers
            for name in _REPEATED[:1] if own_trace else _REPEATED:
                if name in delivery.headers:
                    headers[name] = delivery.headers[name]
            headers |= reply.headers
            headers[Headers.SEQUENCE] = str(self._replies)
            headers[Headers.END] = "1" if reply.end else "0"
            try:
                await state.transport.publish(
                    topic, reply.payload, headers=headers, key=delivery.key
                )
            except WhenceError:
                state.counters.unpublished += 1
                raise
            state.counters.replies += 1
            self._replies += 1
        self._ended = self._ended or reply.end

    async def publish_error(self, error: WhenceError) -> bool:
        """Send an error to a waiting caller; False when that failed."""
        if self._ended or not self.is_request:
            return True
        reply = OutgoingMessage(
            payload=encode(error.to_reply()), headers={Headers.TYPE: ErrorReply.TYPE}
        )
        try:
            async with asyncio.timeout(_ERROR_REPLY_S):
                await self._publish(reply)
        except (WhenceError, TimeoutError) as failure:
            self._log(logging.WARNING, "error reply not published", failure, action="reply")
            return False
        return True

    # Settlement

    async def ack(self) -> None:
        """Acknowledge the message."""
        await self._settle(self._subscription.ack, self.delivery)

    async def postpone(
        self,
        delay_s: float,
        reason: str = "",
        *,
        exception: str = "",
        attempts: int = 0,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Have the message come again after `delay_s` seconds; arguments as for `Subscription.nack`."""
        await self._settle(
            self._subscription.nack,
            self.delivery,
            delay_s=delay_s,
            reason=reason,
            exception=exception,
            attempts=attempts,
            headers=headers,
        )

    async def give_up(self, error: WhenceError) -> None:
        """Report an error to the caller and keep the message as a dead letter."""
        await self.publish_error(error)
        await self._dead_letter(error)

    async def _done(self) -> None:
        """Mark the handled message as done, then acknowledge it."""
        state = self._state
        if state.ledger is not None:
            await self._settle(state.ledger.done, state.group, self.message_id)
        await self._settle(self._subscription.ack, self.delivery)
        state.counters.handled += 1

    async def _hand_back(self) -> None:
        """Settle a message whose handler was stopped; a living worker counts no death."""
        state = self._state
        await self._release()
        if self._cancelled:
            state.counters.cancelled += 1
            await self.ack()
            return
        state.counters.handed_back += 1
        deaths = deaths_of(self.delivery)
        if state.probation is not None and deaths:
            with suppress(WhenceError):
                await self.postpone(0.0, headers={Headers.DEATHS: str(deaths - 1)})
        # Closing the subscription returns any other message.

    def _retry_wait_s(self, error: WhenceError) -> float | None:
        """Return the seconds until the next attempt; None when there is none."""
        state = self._state
        if (
            classify_error(error) is not ErrorKind.RETRYABLE
            or self.attempt >= state.retry.max_attempts
            # Once the caller has a part of the answer, the other parts must come from the same attempt.
            or (self.is_request and self._replies)
        ):
            return None
        wait = wait_s(state.retry, self.attempt, error=error)
        is_late = (
            self.deadline is not None and state.clock.time() + wait >= self.deadline - _MARGIN_S
        )
        return None if is_late else wait

    async def _retry(self, error: WhenceError, wait: float) -> bool:
        """Wait for the next attempt; False when the message waits in the broker and not here."""
        state = self._state
        state.counters.retries += 1
        self._log(logging.WARNING, "attempt failed", error, action="retry", wait_s=wait)
        if wait < _IN_PROCESS_WAIT_S:
            with suppress(TimeoutError):
                await asyncio.wait_for(state.stopping.wait(), wait)
                self._stopped = True
            return True
        await self._release()
        exception = type(error).__name__
        await self.postpone(wait, error.message, exception=exception, attempts=self._attempts)
        return False

    async def _fail(self, error: WhenceError) -> None:
        """Answer the caller, or keep the message as a dead letter."""
        state = self._state
        if self.is_request:
            published = await self.publish_error(error)
            is_late = self.deadline is not None and state.clock.time() >= self.deadline
            if published or is_late:
                state.counters.failed += 1
                self._log(_level(error, answered=True), "message given up", error, action="give_up")
                await self._release()
                await self.ack()
                return
        elif classify_error(error) is ErrorKind.FATAL:
            await self._release()
            state.counters.handed_back += 1
            state.fail(error)
            return
        await self._dead_letter(error)

    async def _dead_letter(self, error: WhenceError) -> None:
        """Move a message that cannot be handled to the dead-letter topic."""
        state = self._state
        state.counters.failed += 1
        state.counters.dead_letters += 1
        self._log(_level(error, answered=False), "message given up", error, action="give_up")
        await self._release()
        reason = f"{error.message} (attempt {self.attempt} of {state.retry.max_attempts})"
        await self._settle(
            self._subscription.reject,
            self.delivery,
            reason=reason,
            exception=type(error).__name__,
        )

    async def _release(self) -> None:
        """Release the claim on a message that may be handled again."""
        state = self._state
        if state.ledger is None:
            return
        try:
            await state.ledger.release(state.group, self.message_id)
        except WhenceError as error:
            # The claim expires.
            self._log(logging.WARNING, "claim not released", error, action="release")

    async def _settle(
        self, call: Callable[P, Awaitable[object]], *args: P.args, **options: P.kwargs
    ) -> None:
        """Call the broker or the ledger as often as it takes: until then the message occupies the prefetch."""
        state = self._state
        for attempt in count(1):
            try:
                await call(*args, **options)
                return
            except WhenceError as error:
                if state.stopping.is_set() or classify_error(error) is not ErrorKind.RETRYABLE:
                    raise
                self._log(logging.WARNING, "not settled", error, action="settle")
            with suppress(TimeoutError):
                await asyncio.wait_for(state.stopping.wait(), wait_s(SETTLE_RETRY, attempt))

    def _log(self, level: int, text: str, error: Exception, **fields: Any) -> None:
        own = self._state.log_fields(self.delivery, error=str(error), **fields)
        logger.log(level, text, extra=own)


def _level(error: WhenceError, *, answered: bool) -> int:
    """Return how urgent it is that a message was given up, as a level of `logging`."""
    if isinstance(error, InternalError):
        # An unexpected exception was logged with its traceback where it was caught.
        return logging.WARNING
    if answered and isinstance(error, BadInput | NotFound | ServerFailed | ServerRefused):
        # The request cannot be answered, and its caller knows.
        return logging.INFO
    return logging.ERROR

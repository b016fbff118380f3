"""Running a handler on a delivery: attempts, deadline, cancellation, and short waits between attempts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from whence.broker.delivery import (
    MARGIN_S,
    ActiveDelivery,
    Handler,
    IncomingMessage,
    OutgoingMessage,
    WorkerState,
)
from whence.broker.retry import ErrorKind, classify, wait_s
from whence.broker.transport import Headers, RetryPolicy, deadline_of
from whence.schema.codec import encode
from whence.schema.errors import (
    BadInput,
    DeadlineExceeded,
    ErrorReply,
    InternalError,
    NotFound,
    WhenceError,
)

logger = logging.getLogger(__name__)

#: How long an error reply may take, in seconds.
_ERROR_REPLY_S = 5.0
#: Headers of a request that its replies repeat.
_REPEATED = (Headers.CORRELATION_ID, Headers.TRACEPARENT, Headers.TRACESTATE)


class ReplyPublisher:
    """Publishes the replies to a delivery, in order, where its caller waits or to the worker's reply topic."""

    def __init__(self, state: WorkerState) -> None:
        self._state = state

    async def publish(self, active: ActiveDelivery, reply: OutgoingMessage) -> None:
        """Publish one reply. Its id is derived from the request's, so that a repeated reply is recognised."""
        state, delivery = self._state, active.delivery
        topic = delivery.headers.get(Headers.REPLY_TO) or state.reply_topic
        if topic is not None:
            headers = {Headers.MESSAGE_ID: f"{delivery.message_id}/{state.group}/{active.replies}"}
            # The reply's own trace replaces the trace of the request.
            own_trace = Headers.TRACEPARENT in reply.headers
            for name in _REPEATED[:1] if own_trace else _REPEATED:
                if name in delivery.headers:
                    headers[name] = delivery.headers[name]
            headers |= reply.headers
            headers[Headers.SEQUENCE] = str(active.replies)
            headers[Headers.END] = "1" if reply.end else "0"
            try:
                await state.transport.publish(
                    topic, reply.payload, headers=headers, key=delivery.key
                )
            except WhenceError:
                state.counters.unpublished += 1
                raise
            state.counters.replies += 1
            active.replies += 1
            if state.ledger is not None:
                active.digest.update(reply.payload)
        active.ended = active.ended or reply.end

    async def publish_error(self, active: ActiveDelivery, error: WhenceError) -> bool:
        """Send an error to a waiting caller; False when that failed."""
        if active.ended or not active.is_request:
            return True
        reply = OutgoingMessage(
            payload=encode(error.to_reply()), headers={Headers.TYPE: ErrorReply.TYPE}
        )
        try:
            async with asyncio.timeout(_ERROR_REPLY_S):
                await self.publish(active, reply)
        except (WhenceError, TimeoutError) as failure:
            fields = self._state.log_fields(active.delivery, action="reply", error=str(failure))
            logger.warning("error reply not published", extra=fields)
            return False
        return True


#: Pauses between two attempts to settle a message with a broker that does not answer.
SETTLE_RETRY = RetryPolicy(base_delay_s=0.1, max_delay_s=5.0)


def retry_wait_s(state: WorkerState, active: ActiveDelivery, error: WhenceError) -> float | None:
    """Return the seconds until the next attempt; None when there is none."""
    if classify(error) is not ErrorKind.RETRYABLE or active.is_answered:
        return None
    if active.attempt >= state.retry.max_attempts:
        return None
    wait = wait_s(state.retry, active.attempt, error=error, uniform=state.uniform)
    deadline = deadline_of(active.delivery.headers)
    if deadline is not None and state.clock.time() + wait >= deadline - MARGIN_S:
        return None
    return wait


class Settlement:
    """Ends deliveries; each is settled as often as it takes, for until then it occupies the prefetch."""

    def __init__(self, state: WorkerState, replies: ReplyPublisher) -> None:
        self._state = state
        self._replies = replies

    async def ack(self, active: ActiveDelivery) -> None:
        """Acknowledge a message."""
        await self._settle(partial(active.subscription.ack, active.delivery))

    async def postpone(
        self,
        active: ActiveDelivery,
        delay_s: float,
        reason: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Have the message come again without counting an attempt."""
        await self._settle(
            partial(
                active.subscription.nack,
                active.delivery,
                delay_s=delay_s,
                reason=reason,
                attempts=0,
                headers=headers,
            )
        )

    async def done(self, active: ActiveDelivery) -> None:
        """Mark a handled message as done, then acknowledge it."""
        state, delivery = self._state, active.delivery
        if (ledger := state.ledger) is not None:
            digest = active.digest.hexdigest()
            await self._settle(
                partial(ledger.done, state.group, delivery.message_id, digest=digest)
            )
        await self._settle(partial(active.subscription.ack, delivery))
        state.counters.handled += 1

    async def cancelled(self, active: ActiveDelivery) -> None:
        """Acknowledge a message whose caller cancelled it."""
        self._state.counters.cancelled += 1
        await self.ack(active)

    async def failed(self, active: ActiveDelivery, error: WhenceError) -> None:
        """Retry later, or answer the caller, or keep the message as a dead letter."""
        state = self._state
        wait = retry_wait_s(state, active, error)
        if wait is not None:
            await self._retry_later(active, error, wait)
            return
        if not active.is_request:
            if classify(error) is ErrorKind.FATAL:
                await self.release(active)
                state.counters.handed_back += 1
                state.fail(error)
                return
            await self.dead_letter(active, error)
            return
        if not await self._replies.publish_error(active, error) and not self._is_late(active):
            await self.dead_letter(active, error)
            return
        state.counters.failed += 1
        self._log_given_up(active, error, answered=True)
        await self.release(active)
        await self.ack(active)

    async def _retry_later(self, active: ActiveDelivery, error: WhenceError, wait: float) -> None:
        await self.release(active)
        self.log_retry(active, error, wait)
        await self._settle(
            partial(
                active.subscription.nack,
                active.delivery,
                delay_s=wait,
                reason=error.message,
                exception=type(error).__name__,
                attempts=active.attempts,
            )
        )

    async def dead_letter(self, active: ActiveDelivery, error: WhenceError) -> None:
        """Move a message that cannot be handled to the dead-letter topic."""
        state = self._state
        state.counters.failed += 1
        state.counters.dead_letters += 1
        self._log_given_up(active, error)
        await self.release(active)
        reason = f"{error.message} (attempt {active.attempt} of {state.retry.max_attempts})"
        await self._settle(
            partial(
                active.subscription.reject,
                active.delivery,
                reason=reason,
                exception=type(error).__name__,
            )
        )

    async def release(self, active: ActiveDelivery) -> None:
        """Release the claim on a message that may be handled again."""
        state = self._state
        if state.ledger is None:
            return
        try:
            await state.ledger.release(state.group, active.delivery.message_id)
        except WhenceError as error:
            # The claim expires.
            fields = state.log_fields(active.delivery, action="release", error=str(error))
            logger.warning("claim not released", extra=fields)

    def log_retry(self, active: ActiveDelivery, error: WhenceError, wait: float) -> None:
        """Count and log an attempt that failed and is followed by another."""
        self._state.counters.retries += 1
        fields = self._state.log_fields(
            active.delivery, action="retry", error=str(error), wait_s=wait
        )
        logger.warning("attempt failed", extra=fields)

    async def _settle(self, action: Callable[[], Awaitable[Any]]) -> None:
        state = self._state
        attempt = 0
        while True:
            attempt += 1
            try:
                await action()
                return
            except WhenceError as error:
                if state.stopping.is_set() or classify(error) is not ErrorKind.RETRYABLE:
                    raise
                logger.warning(
                    "not settled", extra=state.log_fields(action="settle", error=str(error))
                )
            with suppress(TimeoutError):
                pause = wait_s(SETTLE_RETRY, attempt, uniform=state.uniform)
                await asyncio.wait_for(state.stopping.wait(), pause)

    def _is_late(self, active: ActiveDelivery) -> bool:
        deadline = deadline_of(active.delivery.headers)
        return deadline is not None and self._state.clock.time() >= deadline

    def _log_given_up(
        self, active: ActiveDelivery, error: WhenceError, *, answered: bool = False
    ) -> None:
        level = logging.ERROR
        if isinstance(error, InternalError):
            # An unexpected exception was logged with its traceback where it was caught.
            level = logging.WARNING
        elif answered and isinstance(error, BadInput | NotFound):
            # The request cannot be answered, and its caller knows: no operator has to act.
            level = logging.INFO
        fields = self._state.log_fields(active.delivery, action="give_up", error=str(error))
        logger.log(level, "message given up", extra=fields)


#: Waits below this are spent here, holding the message; longer ones in the broker's retry queue, seconds.
_IN_PROCESS_WAIT_S = 0.5


class HandlerStopped(Exception):
    """The handler was stopped from outside: its request was cancelled, or the worker closes."""


class HandlerRunner:
    """Runs the handler of a worker and publishes its replies."""

    def __init__(
        self,
        state: WorkerState,
        handler: Handler,
        replies: ReplyPublisher,
        settlement: Settlement,
    ) -> None:
        self._state = state
        self._handler = handler
        self._replies = replies
        self._settlement = settlement

    async def run(self, active: ActiveDelivery) -> None:
        """Run the handler until an attempt succeeds.

        Raises:
            WhenceError: An attempt failed and is not to be repeated here.
            HandlerStopped: The request was cancelled, or the worker closes.
        """
        while True:
            try:
                await self._attempt(active)
            except WhenceError as error:
                await self._wait_to_retry(active, error)
            else:
                return

    async def _wait_to_retry(self, active: ActiveDelivery, error: WhenceError) -> None:
        wait = retry_wait_s(self._state, active, error)
        if wait is None or wait >= _IN_PROCESS_WAIT_S:
            raise error
        self._settlement.log_retry(active, error, wait)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._state.stopping.wait(), wait)
            raise HandlerStopped

    async def _attempt(self, active: ActiveDelivery) -> None:
        if active.stopped:
            raise HandlerStopped
        active.begin_attempt()
        message = IncomingMessage(active.delivery, active.attempt, self._state.clock)
        timeout = active.timeout = asyncio.timeout(message.handling_s())
        try:
            async with timeout:
                await self._publish_replies(active, message)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise self._unexpected(active, error) from error
        except Exception as error:
            if active.stopped:
                raise HandlerStopped from error
            if isinstance(error, WhenceError):
                active.attempts += error.attempts - 1
                raise
            if isinstance(error, TimeoutError) and timeout.expired():
                raise DeadlineExceeded(
                    f"{self._state.name} did not finish before the deadline"
                ) from error
            raise self._unexpected(active, error) from error
        finally:
            active.timeout = None

    async def _publish_replies(self, active: ActiveDelivery, message: IncomingMessage) -> None:
        replies = self._handler(message)
        if isinstance(replies, Coroutine):
            reply = await replies
            if reply is not None:
                await self._replies.publish(active, reply)
        else:
            await self._publish_stream(active, replies)
        if active.is_request and not active.ended:
            raise InternalError(
                f"{self._state.name} ended without a last reply",
                hint="this is a fault of the processor",
            )

    async def _publish_stream(
        self, active: ActiveDelivery, replies: AsyncIterator[OutgoingMessage]
    ) -> None:
        try:
            async for reply in replies:
                await self._replies.publish(active, reply)
        finally:
            close: Any = getattr(replies, "aclose", None)
            if close is not None:
                await close()

    def _unexpected(self, active: ActiveDelivery, error: BaseException) -> InternalError:
        fields = self._state.log_fields(active.delivery, action="handle")
        logger.error("handler failed", exc_info=error, extra=fields)
        return InternalError(
            f"{self._state.name} failed with {type(error).__name__}",
            hint="its log says where; this is a fault of the processor",
        )

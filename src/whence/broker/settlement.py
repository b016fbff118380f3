"""How a delivery ends: acknowledged, retried later, given up as a dead letter, or returned to the broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from whence.broker.checks import deadline_of
from whence.broker.delivery import MARGIN_S, ActiveDelivery
from whence.broker.replies import ReplyPublisher
from whence.broker.retry import ErrorKind, classify, wait_s
from whence.broker.transport import RetryPolicy
from whence.broker.worker_state import WorkerState
from whence.schema.errors import BadInput, InternalError, NotFound, WhenceError

logger = logging.getLogger(__name__)

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
        await self._settle(lambda subscription: subscription.ack(active.delivery))

    async def postpone(
        self,
        active: ActiveDelivery,
        delay_s: float,
        reason: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Have the message come again without counting an attempt."""
        await self._settle(
            lambda subscription: subscription.nack(
                active.delivery, delay_s=delay_s, reason=reason, attempts=0, headers=headers
            )
        )

    async def done(self, active: ActiveDelivery) -> None:
        """Mark a handled message as done, then acknowledge it."""
        state, delivery = self._state, active.delivery
        if (ledger := state.ledger) is not None:
            digest = active.digest.hexdigest()
            await self._settle(
                lambda _: ledger.done(state.group, delivery.message_id, digest=digest)
            )
        await self.ack(active)
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
            lambda subscription: subscription.nack(
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
            lambda subscription: subscription.reject(
                active.delivery, reason=reason, exception=type(error).__name__
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

    async def _settle(self, action: Callable[[Any], Awaitable[Any]]) -> None:
        state = self._state
        attempt = 0
        while True:
            attempt += 1
            try:
                await action(state.subscription)
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

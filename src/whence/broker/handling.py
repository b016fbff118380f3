"""Running a handler on a delivery: attempts, deadline, cancellation, and short waits between attempts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from typing import Any

from whence.broker.delivery import ActiveDelivery, Handler, IncomingMessage, OutgoingMessage
from whence.broker.replies import ReplyPublisher
from whence.broker.settlement import Settlement, retry_wait_s
from whence.broker.worker_state import WorkerState
from whence.schema.errors import DeadlineExceeded, InternalError, WhenceError

logger = logging.getLogger(__name__)

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

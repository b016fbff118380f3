"""The worker: takes messages of a topic to a handler, publishes its replies, then acknowledges.

A handler gets one message and yields replies; it never sees an acknowledgement. Replies are published before
the message is acknowledged; after a failure in between it is delivered again (at least once).
`_process` is the way of one delivery: `_admits`, then `delivery.ActiveDelivery`.
"""

from __future__ import annotations

import asyncio
import logging
import math
from contextlib import suppress

from whence.broker.clock import Clock, SystemClock
from whence.broker.control import ControlListener
from whence.broker.delivery import SETTLE_RETRY, ActiveDelivery, Handler, WorkerState
from whence.broker.idempotency import ClaimState, Ledger
from whence.broker.poison_messages import Decision, Probation, deaths_of
from whence.broker.retry import check_policy, wait_s
from whence.broker.transport import Delivery, RetryPolicy, Start, Subscription, Transport
from whence.schema.errors import ConfigError, DeadlineExceeded, InternalError, WhenceError
from whence.schema.topics import full_topic, short_topic

logger = logging.getLogger(__name__)

#: A message whose death was counted is handled this much later, seconds: brokers hear of acknowledgements late
#: (Pulsar's client sends them every 100 ms), and when a worker dies before that its message comes twice.
_COUNTED_S = 0.25
#: How often a worker checks whether a probation is over, seconds.
_PROBATION_S = 1.0
#: Added to a deadline for the lease of a claim, seconds.
_LEASE_MARGIN_S = 1.0
#: Seconds after which another worker may take over a claimed message that has no deadline.
_LEASE_S = 300.0
#: Time that handlers get to end when they are stopped, in seconds.
_UNWIND_S = 1.0


class Worker:
    """Takes messages of a topic to a handler, several at a time.

    Args:
        transport: Where messages come from and replies go to.
        topic: Name of the topic.
        group: Consumer group to join.
        handler: Gets one message and yields its replies.
        concurrency: Messages handled at a time, 1 or more.
        prefetch: Messages held at a time; one and a half times `concurrency` when None.
        retry: Attempts and waits.
        ledger: Makes redelivery have one effect; without one a handler must be idempotent.
        reply_topic: Where replies go when the message names no topic for them; they are dropped when None.
        name: For logs; the short name of the topic when empty.
        clock: Source of time.

    Raises:
        ConfigError: A number or the retry policy is out of range, or the name of a topic is wrong.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        topic: str,
        group: str,
        handler: Handler,
        concurrency: int = 1,
        prefetch: int | None = None,
        retry: RetryPolicy | None = None,
        ledger: Ledger | None = None,
        reply_topic: str | None = None,
        name: str = "",
        clock: Clock | None = None,
    ) -> None:
        if concurrency < 1 or (prefetch is not None and prefetch < 1):
            raise ConfigError(
                f"worker of {topic}: concurrency {concurrency}, prefetch {prefetch}",
                hint="each is above 0",
            )
        clock = clock or SystemClock()
        retry = check_policy(retry or RetryPolicy())
        self._prefetch = prefetch or math.ceil(1.5 * concurrency)
        self._probation = None
        if ledger is None:
            self._probation = Probation(clock, budget=self._prefetch, max_deaths=retry.max_attempts)
        self._state = state = WorkerState(
            name=name or short_topic(topic),
            topic=full_topic(topic),
            group=group,
            transport=transport,
            retry=retry,
            clock=clock,
            ledger=ledger,
            probation=self._probation,
            reply_topic=full_topic(reply_topic) if reply_topic else None,
            concurrency=concurrency,
            started_at=clock.time(),
        )
        self.name = state.name
        self.counters = state.counters
        self._handler = handler
        self._control = ControlListener(state)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Subscribe and begin to take messages.

        Raises:
            ConfigError: The worker was started before.
            Unavailable: The broker cannot be reached, or an exclusive group is taken.
        """
        state = self._state
        if state.subscription is not None or state.stopping.is_set():
            raise ConfigError(f"worker {self.name} was started before")
        await self._control.start()
        try:
            state.subscription = await state.transport.subscribe(
                state.topic,
                state.group,
                prefetch=self._prefetch,
                retry=state.retry,
                start=Start.EARLIEST,
            )
        except WhenceError:
            await self._control.aclose()
            raise
        self._tasks = [
            asyncio.create_task(
                self._receive(state.subscription), name=f"whence-{self.name}-{number}"
            )
            for number in range(state.concurrency)
        ]

    @property
    def alive(self) -> bool:
        """True while it takes messages."""
        return bool(self._tasks) and not self._state.stopping.is_set()

    @property
    def in_flight(self) -> int:
        """Messages being handled now."""
        return len(self._state.active)

    async def join(self) -> None:
        """Wait until the worker takes no more messages.

        Raises:
            WhenceError: It did not stop because it was asked to; this is why. Call `aclose` all the same.
        """
        await self._state.stopping.wait()
        if self._state.failure is not None:
            raise self._state.failure

    async def aclose(self, drain_s: float = 10.0) -> None:
        """Stop taking messages, finish handlers within `drain_s` seconds, return the other messages.

        Safe to call twice.
        """
        state = self._state
        state.stop_receiving()
        await self._wait_for_tasks(drain_s)
        for active in state.active:
            active.stop(cancelled=False)
        await self._wait_for_tasks(_UNWIND_S)
        for task in self._tasks:
            task.cancel()
        if await self._wait_for_tasks(_UNWIND_S):
            logger.error("handler does not stop", extra=state.log_fields(action="drain"))
        await self._control.aclose()
        if state.subscription is not None:
            with suppress(WhenceError):
                await state.subscription.aclose()

    async def _wait_for_tasks(self, timeout_s: float) -> bool:
        """Wait for handlers to end; True when some did not."""
        running = [task for task in self._tasks if not task.done()]
        if running and timeout_s > 0:
            await asyncio.wait(running, timeout=timeout_s)
        return any(not task.done() for task in running)

    # One delivery

    async def _receive(self, subscription: Subscription) -> None:
        """Process one message after the other until the worker stops."""
        state, task = self._state, asyncio.current_task()
        assert task is not None
        while not state.stopping.is_set():
            state.idle.add(task)
            try:
                if self._probation is not None and self._probation.held:
                    delivery = await self._next(subscription, self._probation)
                else:
                    delivery = await subscription.receive()
            except WhenceError as error:
                state.fail(error)
                return
            finally:
                state.idle.discard(task)
            await self._process(subscription, delivery)

    async def _next(self, subscription: Subscription, probation: Probation) -> Delivery:
        """Return the next delivery: a held one when no message is on probation, else a new one."""
        while probation.held:
            if probation.is_free:
                return probation.held.popleft()
            with suppress(TimeoutError):
                async with asyncio.timeout(_PROBATION_S):
                    return await subscription.receive()
        return await subscription.receive()

    async def _process(self, subscription: Subscription, delivery: Delivery) -> None:
        """Take one delivery from its arrival to its settlement."""
        state, probation = self._state, self._probation
        state.counters.received += 1
        active = ActiveDelivery(state, delivery, subscription)
        state.active.add(active)
        try:
            if await self._admits(active):
                if probation is not None and probation.current:
                    probation.begin(delivery)
                try:
                    await active.handle(self._handler)
                finally:
                    if probation is not None and probation.current:
                        probation.end(delivery)
        except Exception:
            logger.exception("message not settled", extra=state.log_fields(delivery))
            # Without this it comes again when this consumer leaves; the nack does nothing when the message
            # was settled after all.
            with suppress(Exception):
                await subscription.nack(delivery, reason="the worker failed")
        finally:
            state.active.discard(active)

    # Admission

    async def _admits(self, active: ActiveDelivery) -> bool:
        """Return whether to handle a delivery; False when it is settled or held."""
        state = self._state
        if self._control.cancelled and self._control.was_cancelled(active.delivery):
            state.counters.cancelled += 1
            await active.ack()
            return False
        if active.deadline is not None and active.deadline <= state.clock.time():
            state.counters.expired += 1
            error = DeadlineExceeded(f"{state.name}: the deadline passed in the queue")
            await active.publish_error(error)
            await active.ack()
            return False
        if state.ledger is not None:
            return await self._claim(active, state.ledger)
        if self._probation is not None and active.delivery.redelivered:
            return await self._decide(active, self._probation)
        return True

    async def _claim(self, active: ActiveDelivery, ledger: Ledger) -> bool:
        """Claim a message in the ledger; False when it is done, or another worker's."""
        state, lease_s = self._state, _LEASE_S
        if active.deadline is not None:
            lease_s = active.deadline - state.clock.time() + _LEASE_MARGIN_S
        try:
            claim = await ledger.claim(state.group, active.message_id, lease_s=lease_s)
        except WhenceError as error:
            await active.postpone(wait_s(SETTLE_RETRY, 1), error.message)
            return False
        if claim.state is ClaimState.DONE:
            state.counters.duplicates += 1
            await active.ack()
            return False
        if claim.state is ClaimState.BUSY:
            pause = min(max(claim.retry_after_s, 0.05), state.retry.max_delay_s, 1.0)
            await active.postpone(pause, "another worker handles it")
            return False
        if claim.deaths >= state.retry.max_attempts:
            # Its workers keep dying: none of their errors ever reached the broker.
            await active.give_up(_deadly(claim.deaths))
            return False
        return True

    async def _decide(self, active: ActiveDelivery, probation: Probation) -> bool:
        """Return whether to handle a message that may have killed a worker."""
        delivery = active.delivery
        match probation.decide(delivery):
            case Decision.HANDLE:
                return True
            case Decision.COUNT:
                await active.postpone(_COUNTED_S, headers=probation.count_headers(delivery))
            case Decision.HOLD:
                probation.held.append(delivery)
            case Decision.POSTPONE:
                await active.postpone(_PROBATION_S, "other messages are on probation")
            case Decision.DEAD_LETTER:
                await active.give_up(_deadly(deaths_of(delivery) + 1))
        return False


def _deadly(deaths: int) -> InternalError:
    return InternalError(f"{deaths} workers died of this message")

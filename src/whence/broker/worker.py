"""Between a topic and a handler: acknowledging, replying, retrying, giving up, deadlines and draining.

A handler gets one message and yields replies. It never sees an acknowledgement. The order here is what makes
delivery at least once: replies are published first, the input is acknowledged second, and whatever happens in
between leaves the message to be delivered again.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import random
import socket
import uuid
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass
from functools import cache
from types import CoroutineType
from typing import Any

from whence.broker.clock import Clock, SystemClock
from whence.broker.delivery import MARGIN_S, Handler, Outgoing, Run, Work, new_digest
from whence.broker.eager import DONE, Starter, first_step, rest
from whence.broker.idempotency import Claim, ClaimState, Ledger
from whence.broker.limits import Limits
from whence.broker.poison_messages import Suspects, deaths_of
from whence.broker.poison_messages import Verdict as Trial
from whence.broker.requests import deadline_of
from whence.broker.retry import Verdict, check_policy, classify, wait_s
from whence.broker.transport import (
    Delivery,
    Headers,
    Mode,
    RetryPolicy,
    Serving,
    Start,
    Subscription,
    Transport,
)
from whence.schema.codec import encode
from whence.schema.errors import (
    BadInput,
    CodecError,
    ConfigError,
    DeadlineExceeded,
    ErrorReply,
    InternalError,
    NotFound,
    Unavailable,
    WhenceError,
)
from whence.schema.liveness import PING, ProcessorReport
from whence.schema.topics import cancel_topic, full_topic, short_topic
from whence.schema.wire import plain

__all__ = ("Worker", "WorkerCounters")

logger = logging.getLogger(__name__)

# Looked up for every message.
_MESSAGE_ID, _REPLY_TO = Headers.MESSAGE_ID, Headers.REPLY_TO
_SEQUENCE, _END = Headers.SEQUENCE, Headers.END
_CORRELATION_ID, _TRACEPARENT = Headers.CORRELATION_ID, Headers.TRACEPARENT
_TRACE = (Headers.TRACEPARENT, Headers.TRACESTATE)

#: Waits below this are spent here, holding the message; longer ones in the broker's retry queue, seconds.
_IN_PROCESS_WAIT_S = 0.5
#: Cancelled requests that are remembered in case the request comes after its cancellation.
_MAX_CANCELLED = 1_024
#: Longest pause between two tries to settle a message with a broker that does not answer, seconds.
_SETTLE = RetryPolicy(base_delay_s=0.1, max_delay_s=5.0)
#: A message whose death was counted is handled this much later, seconds: brokers hear of acks late (Pulsar's
#: client sends them every 100 ms), and what dies before that has its message come twice.
_COUNTED_S = 0.25
#: How often a worker looks whether a trial is over, seconds.
_TRIAL_S = 1.0
#: Time that handlers get to unwind when they are stopped, in seconds.
_UNWIND_S = 1.0


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
    """Messages that were not wanted any more when they came."""
    cancelled: int = 0
    """Messages that were taken back by their caller."""
    duplicates: int = 0
    """Deliveries of what was done before."""
    handed_back: int = 0
    """Deliveries left to others because the worker stopped."""


class _Stop(Exception):
    """The handler was stopped from outside: by its caller or because the worker drains."""


class Worker:
    """Takes messages of a topic to a handler, several at a time.

    Args:
        transport: Where messages come from and replies go to.
        topic: Name of the topic.
        group: Group to join.
        handler: Gets one message and yields its replies.
        concurrency: Messages handled at a time, 1 or more.
        prefetch: Messages held at a time; half as many again as are handled when None.
        mode: How the members of the group share.
        start: Where a group that is new begins.
        retry: Attempts and waits.
        ledger: Makes redelivery give one effect; without one a handler must bear being repeated.
        reply_topic: Where replies go when the message names no topic for them; they are dropped when None.
        lease_s: Seconds after which another worker may take over a claimed message that has no deadline.
        name: For logs; the short name of the topic when empty.
        clock: Source of time.
        uniform: Source of the random share of waits, numbers from 0 to 1.

    Raises:
        ConfigError: A number or the retry policy is out of range, or a name is not one of a topic.
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
        mode: Mode = Mode.SHARED,
        start: Start = Start.EARLIEST,
        retry: RetryPolicy | None = None,
        ledger: Ledger | None = None,
        reply_topic: str | None = None,
        lease_s: float = 300.0,
        name: str = "",
        clock: Clock | None = None,
        uniform: Callable[[], float] = random.random,
    ) -> None:
        if concurrency < 1 or (prefetch is not None and prefetch < 1) or lease_s <= 0:
            raise ConfigError(
                f"worker of {topic}: concurrency {concurrency}, prefetch {prefetch}, lease {lease_s} s",
                hint="each is above 0",
            )
        self.name = name or short_topic(topic)
        self.counters = WorkerCounters()
        self._transport = transport
        self._topic = full_topic(topic)
        self._group = group
        self._handler = handler
        self._concurrency = concurrency
        self._prefetch = prefetch or math.ceil(1.5 * concurrency)
        self._mode = mode
        self._start = start
        self._retry = check_policy(retry or RetryPolicy())
        self._ledger = ledger
        self._suspects: Suspects | None = None
        #: Held until another is no more on trial.
        self._waiting: deque[Delivery] = deque()
        self._reply_topic = full_topic(reply_topic) if reply_topic else None
        self._lease_s = lease_s
        self._clock: Clock = clock or SystemClock()
        self._uniform = uniform
        self._instance = uuid.uuid4().hex
        self._started_at = self._clock.time()
        self._subscription: Subscription | None = None
        self._control: Subscription | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._control_task: asyncio.Task[None] | None = None
        self._idle: set[asyncio.Task[None]] = set()
        self._runs: set[Run] = set()
        self._cancelled: OrderedDict[str, None] = OrderedDict()
        self._limits = Limits()
        self._stopping = asyncio.Event()
        self._failure: WhenceError | None = None

    # Life

    async def start(self) -> None:
        """Subscribe and begin to take messages.

        Raises:
            ConfigError: The worker was started before.
            Unavailable: The broker cannot be reached, or an exclusive group is taken.
        """
        if self._subscription is not None or self._stopping.is_set():
            raise ConfigError(f"worker {self.name} was started before")
        if self._ledger is None and self._mode is Mode.SHARED:
            self._suspects = Suspects(
                self._clock,
                budget=self._prefetch,
                max_deaths=self._retry.max_attempts,
            )
        self._control = await self._transport.subscribe(
            cancel_topic(self._topic),
            f"{self._group}.{uuid.uuid4().hex}",
            mode=Mode.BROADCAST,
            prefetch=16,
            start=Start.LATEST,
        )
        try:
            self._subscription = await self._transport.subscribe(
                self._topic,
                self._group,
                mode=self._mode,
                prefetch=self._prefetch,
                retry=self._retry,
                start=self._start,
            )
        except WhenceError:
            await self._control.aclose()
            raise
        self._control_task = asyncio.create_task(
            self._listen(self._control), name=f"whence-{self.name}-cancel"
        )
        self._tasks = [self._taker(self._subscription, n) for n in range(self._concurrency)]

    @property
    def alive(self) -> bool:
        """True while it takes messages."""
        return bool(self._tasks) and not self._stopping.is_set()

    @property
    def in_flight(self) -> int:
        """Messages being handled now."""
        return len(self._runs)

    async def join(self) -> None:
        """Wait until the worker takes no more messages.

        Raises:
            WhenceError: It did not stop because it was asked to; this is why. `aclose` is still due.
        """
        await self._stopping.wait()
        if self._failure is not None:
            raise self._failure

    async def aclose(self, drain_s: float = 10.0) -> None:
        """Stop taking messages, finish what is at work within `drain_s` seconds, hand back the rest.

        Safe to call twice.
        """
        self._stopping.set()
        if self._subscription is not None:
            self._subscription.pause()
        for task in list(self._idle):
            task.cancel()
        await self._wait_for_tasks(drain_s)
        for run in self._runs:
            run.stop(cancelled=False)
        await self._wait_for_tasks(_UNWIND_S)
        self._limits.close()
        leftovers = [*self._tasks, *([self._control_task] if self._control_task else [])]
        for task in leftovers:
            task.cancel()
        if leftovers:
            _, stuck = await asyncio.wait(leftovers, timeout=_UNWIND_S)
            if stuck:
                logger.error("handler does not stop", extra=self._facts(action="drain"))
        for subscription in (self._subscription, self._control):
            if subscription is not None:
                with suppress(WhenceError):
                    await subscription.aclose()

    async def _wait_for_tasks(self, timeout_s: float) -> None:
        running = [task for task in self._tasks if not task.done()]
        if running and timeout_s > 0:
            await asyncio.wait(running, timeout=timeout_s)

    def _give_up(self, error: WhenceError) -> None:
        """Stop taking messages because none can be handled any more."""
        if self._stopping.is_set():
            return
        self._failure = error
        self._stopping.set()
        if self._subscription is not None:
            self._subscription.pause()
        for task in list(self._idle):
            task.cancel()

    # Taking messages

    def _taker(self, subscription: Subscription, number: int) -> asyncio.Task[None]:
        """Start a task that takes messages."""
        context = copy_context()
        return asyncio.create_task(
            self._take(subscription, context),
            name=f"whence-{self.name}-{number}",
            context=context,
        )

    async def _take(self, subscription: Subscription, context: Context) -> None:
        """Take one message after the other; nothing that a handler does ends this."""
        task = asyncio.current_task()
        assert task is not None
        starter = Starter(task, context)
        receive = self._receiver(subscription, task, starter)
        while not self._stopping.is_set():
            try:
                delivery = await receive()
            except WhenceError as error:
                self._give_up(error)
                return
            except asyncio.CancelledError:
                if not starter.begun:
                    raise
                await starter.go_on(cancelled=True)
                continue
            await (starter.go_on() if starter.begun else self._work(subscription, delivery))

    def _receiver(
        self, subscription: Subscription, task: asyncio.Task[Any], starter: Starter
    ) -> Callable[[], Coroutine[Any, Any, Delivery]]:
        """Give what a task calls for its next message, which may come out of it begun."""
        serving = subscription if isinstance(subscription, Serving) else None

        def begin(delivery: Delivery) -> bool:
            self._idle.discard(task)
            done = starter.begin(self._work(subscription, delivery))
            if done:
                self._idle.add(task)
                if self._stopping.is_set():
                    task.cancel()
            return done

        async def receive() -> Delivery:
            self._idle.add(task)
            try:
                if self._waiting:
                    return await self._next(subscription)
                return await (serving.serve(begin) if serving else subscription.receive())
            finally:
                self._idle.discard(task)

        return receive

    async def _work(self, subscription: Subscription, delivery: Delivery) -> None:
        """Work on one message, from its arrival to its settlement."""
        self.counters.received += 1
        work = Work(delivery, delivery.attempt, self._clock)
        run = Run(work, delivery, None if self._ledger is None else new_digest())
        self._runs.add(run)
        try:
            if self._is_plain(work):
                await self._handle(subscription, run)
            else:
                await self._process(subscription, run)
        except Exception:
            logger.exception("message not settled", extra=self._facts(delivery))
            # At the latest it comes again when this member leaves; better now, and nothing when it
            # was settled after all.
            with suppress(Exception):
                await subscription.nack(delivery, reason="the worker failed")
        finally:
            self._runs.discard(run)

    def _is_plain(self, work: Work) -> bool:
        """Tell whether a message can be handled without looking at anything but its deadline."""
        suspects = self._suspects
        return not (
            self._cancelled
            or work.delivery.redelivered
            or self._ledger is not None
            or (suspects is not None and suspects.on_trial)
            or (work.deadline is not None and self._clock.time() >= work.deadline)
        )

    async def _next(self, subscription: Subscription) -> Delivery:
        """Give the next message: one that waited for a trial to end, else a new one."""
        while self._suspects is not None and self._waiting:
            if self._suspects.is_free:
                return self._waiting.popleft()
            with suppress(TimeoutError):
                async with asyncio.timeout(_TRIAL_S):
                    return await subscription.receive()
        return await subscription.receive()

    async def _process(self, subscription: Subscription, run: Run) -> None:
        """Take one delivery from its arrival to its settlement."""
        delivery, work = run.delivery, run.work
        if self._cancelled and self._take_back(work.correlation_id):
            run.cancelled = True
            await self._drop_cancelled(subscription, run)
            return
        if work.remaining_s() == 0.0:
            self.counters.expired += 1
            await self._answer(
                run, DeadlineExceeded(f"{self.name}: the deadline passed in the queue")
            )
            await self._settle(lambda: subscription.ack(delivery))
            return
        if self._ledger is not None and not await self._claim(subscription, run, work):
            return
        if self._suspects is None:
            await self._handle(subscription, run)
        elif not delivery.redelivered or await self._is_above_suspicion(
            subscription, run, self._suspects
        ):
            self._suspects.begin(delivery)
            try:
                await self._handle(subscription, run)
            finally:
                self._suspects.end(delivery)

    async def _handle(self, subscription: Subscription, run: Run) -> None:
        """Have a message handled, as often as it takes and may, and settle it."""
        try:
            done = False
            while not done:
                try:
                    await self._handle_once(run)
                    done = True
                except WhenceError as error:
                    await self._wait_to_try_again(run, error)
        except _Stop:
            await self._end_stopped(subscription, run)
        except CodecError as error:
            await self._dead_letter(subscription, run, error, answer=True)
        except WhenceError as error:
            await self._end_failed(subscription, run, error)
        else:
            await self._end_done(subscription, run)

    async def _wait_to_try_again(self, run: Run, error: WhenceError) -> None:
        """Wait for the next attempt, when that can help and the wait is short.

        Raises:
            WhenceError: The error that was given: it is not to be tried again here.
            _Stop: The worker stops.
        """
        wait = self._next_wait(run, error)
        if wait is None or wait >= _IN_PROCESS_WAIT_S:
            raise error
        self.counters.retries += 1
        self._log_retry(run, error, wait)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), wait)
            raise _Stop

    def _next_wait(self, run: Run, error: WhenceError) -> float | None:
        """Give the seconds until the next attempt; None when there is none."""
        if classify(error) is not Verdict.RETRYABLE or run.answered:
            return None
        if run.attempt >= self._retry.max_attempts:
            return None
        wait = wait_s(self._retry, run.attempt, error=error, uniform=self._uniform)
        deadline = run.work.deadline
        if deadline is not None and self._clock.time() + wait >= deadline - MARGIN_S:
            return None
        return wait

    async def _handle_once(self, run: Run) -> None:
        """Run the handler once and publish what it yields.

        Raises:
            WhenceError: It failed; any other exception has become an `InternalError`.
            _Stop: It was stopped.
        """
        if run.stopped:
            raise _Stop
        run.attempts += 1
        work = run.work
        if run.attempts > 1:
            run.begin_anew()
            work = Work(run.delivery, run.attempt, self._clock)
        publishing = self._publish_all(run, work)
        try:
            waits_for = first_step(publishing)
            if waits_for is not DONE:
                await self._watched(run, work, rest(publishing, waits_for))
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise self._unexpected(run, error) from error
        except Exception as error:
            if run.stopped:
                raise _Stop from error
            if isinstance(error, WhenceError):
                run.attempts += error.attempts - 1
                raise
            if isinstance(error, TimeoutError) and run.limit is not None and run.limit.struck:
                raise DeadlineExceeded(f"{self.name} did not finish before the deadline") from error
            raise self._unexpected(run, error) from error
        finally:
            run.limit = None

    async def _watched(self, run: Run, work: Work, going_on: Awaitable[None]) -> None:
        """Go on with a handler that waits for something: only such a one can take too long, or be stopped."""
        with self._limits.within(work.patience_s()) as run.limit:
            if run.stopped:
                run.limit.strike_soon()
            await going_on

    async def _publish_all(self, run: Run, work: Work) -> None:
        outgoing: Any = self._handler(work)
        if isinstance(outgoing, CoroutineType):
            only = await outgoing
            if only is not None:
                await self._publish(run, only)
        else:
            await self._publish_stream(run, outgoing)
        if not run.ended and work.reply_to:
            raise InternalError(
                f"{self.name} ended without a last reply", hint="this is a fault of the processor"
            )

    async def _publish_stream(self, run: Run, outgoing: AsyncIterator[Outgoing]) -> None:
        try:
            async for item in outgoing:
                await self._publish(run, item)
        finally:
            close: Callable[[], Awaitable[Any]] | None = getattr(outgoing, "aclose", None)
            if close is not None:
                await close()

    def _unexpected(self, run: Run, error: BaseException) -> InternalError:
        logger.error(
            "handler failed", exc_info=error, extra=self._facts(run.delivery, action="handle")
        )
        return InternalError(
            f"{self.name} failed with {type(error).__name__}",
            hint="its log says where; this is a fault of the processor",
        )

    # Replies

    async def _publish(self, run: Run, item: Outgoing) -> None:
        """Publish one reply. Its id is derived from the input's, so a repeated one can be recognised."""
        delivery, place = run.delivery, run.outputs
        headers = delivery.headers
        topic = headers.get(_REPLY_TO) or self._reply_topic
        if topic is None:
            run.ended = run.ended or item.end
            return
        own = {**item.headers, _SEQUENCE: str(place), _END: "1" if item.end else "0"}
        if _CORRELATION_ID not in own and _CORRELATION_ID in headers:
            own[_CORRELATION_ID] = headers[_CORRELATION_ID]
        if _TRACEPARENT not in own:
            own.update({name: headers[name] for name in _TRACE if name in headers})
        if _MESSAGE_ID not in own:
            own[_MESSAGE_ID] = f"{_message_id(delivery)}/{self._group}/{place}"
        try:
            await self._transport.publish(topic, item.payload, headers=own, key=delivery.key)
        except WhenceError:
            self.counters.unpublished += 1
            raise
        self.counters.replies += 1
        run.outputs = place + 1
        run.ended = run.ended or item.end
        if run.digest is not None:
            run.digest.update(plain(item.payload))

    async def _answer(self, run: Run, error: WhenceError) -> bool:
        """Tell a waiting caller what went wrong; False when that was not possible."""
        if run.ended or not run.delivery.headers.get(Headers.REPLY_TO):
            return True
        reply = Outgoing(
            payload=encode(error.to_reply()), headers={Headers.TYPE: ErrorReply.TYPE}, end=True
        )
        try:
            async with asyncio.timeout(_UNWIND_S * 5):
                await self._publish(run, reply)
        except (WhenceError, TimeoutError) as failure:
            logger.warning(
                "error reply not published",
                extra=self._facts(run.delivery, action="reply", error=str(failure)),
            )
            return False
        return True

    # Endings

    async def _end_done(self, subscription: Subscription, run: Run) -> None:
        ledger = self._ledger
        if ledger is not None:
            key = _message_id(run.delivery)
            digest = "" if run.digest is None else run.digest.hexdigest()
            await self._settle(lambda: ledger.done(self._group, key, digest=digest))
        try:
            # The most frequent way of settling one, and nearly always at once.
            await subscription.ack(run.delivery)
        except WhenceError:
            await self._settle(lambda: subscription.ack(run.delivery))
        self.counters.handled += 1

    async def _end_stopped(self, subscription: Subscription, run: Run) -> None:
        await self._release(run)
        if run.cancelled:
            await self._drop_cancelled(subscription, run)
        else:
            # Closing the subscription hands it back; nobody has answered it yet, so it can begin anew.
            self.counters.handed_back += 1
            await self._take_back_death(subscription, run)

    async def _take_back_death(self, subscription: Subscription, run: Run) -> None:
        """Count no death for a message that was on trial and is handed back by a living worker."""
        deaths = deaths_of(run.delivery)
        if self._suspects is None or not deaths:
            return
        headers = {Headers.DEATHS: str(deaths - 1)}
        with suppress(WhenceError):
            await subscription.nack(run.delivery, delay_s=0.0, attempts=0, headers=headers)

    async def _drop_cancelled(self, subscription: Subscription, run: Run) -> None:
        self.counters.cancelled += 1
        await self._settle(lambda: subscription.ack(run.delivery))

    async def _end_failed(self, subscription: Subscription, run: Run, error: WhenceError) -> None:
        """Try again later, or answer the caller, or keep the message as a dead letter."""
        wait = self._next_wait(run, error)
        if wait is not None:
            await self._release(run)
            self.counters.retries += 1
            self._log_retry(run, error, wait)
            await self._settle(
                lambda: subscription.nack(
                    run.delivery,
                    delay_s=wait,
                    reason=error.message,
                    exception=type(error).__name__,
                    attempts=run.attempts,
                )
            )
            return
        if not run.delivery.headers.get(Headers.REPLY_TO):
            if classify(error) is Verdict.FATAL:
                await self._release(run)
                self.counters.handed_back += 1
                self._give_up(error)
                return
            await self._dead_letter(subscription, run, error, answer=False)
            return
        if not await self._answer(run, error) and not _is_over(run.delivery, self._clock):
            await self._dead_letter(subscription, run, error, answer=False)
            return
        self.counters.failed += 1
        self._log_given_up(run, error, answered=True)
        await self._release(run)
        await self._settle(lambda: subscription.ack(run.delivery))

    async def _dead_letter(
        self, subscription: Subscription, run: Run, error: WhenceError, *, answer: bool
    ) -> None:
        if answer:
            await self._answer(run, error)
        self.counters.failed += 1
        self.counters.dead_letters += 1
        self._log_given_up(run, error)
        await self._release(run)
        reason = f"{error.message} (attempt {run.attempt} of {self._retry.max_attempts})"
        await self._settle(
            lambda: subscription.reject(run.delivery, reason=reason, exception=type(error).__name__)
        )

    async def _settle(self, action: Callable[[], Awaitable[Any]]) -> None:
        """Settle a message, as often as it takes: until then it keeps its place among the prefetched."""
        attempt = 0
        while True:
            attempt += 1
            try:
                await action()
                return
            except WhenceError as error:
                if self._stopping.is_set() or classify(error) is not Verdict.RETRYABLE:
                    raise
                logger.warning("not settled", extra=self._facts(action="settle", error=str(error)))
            with suppress(TimeoutError):
                pause = wait_s(_SETTLE, attempt, uniform=self._uniform)
                await asyncio.wait_for(self._stopping.wait(), pause)

    # The ledger

    async def _claim(self, subscription: Subscription, run: Run, work: Work) -> bool:
        """Claim the message; False when it is settled here because it must not be handled now."""
        assert self._ledger is not None
        remaining = work.remaining_s()
        lease = self._lease_s if remaining is None else remaining + _UNWIND_S
        try:
            claim = await self._ledger.claim(self._group, work.message_id, lease_s=lease)
        except WhenceError as error:
            await self._postpone(subscription, run, wait_s(_SETTLE, 1), error.message)
            return False
        if claim.state is ClaimState.DONE:
            self.counters.duplicates += 1
            await self._settle(lambda: subscription.ack(run.delivery))
            return False
        if claim.state is ClaimState.BUSY:
            pause = min(max(claim.retry_after_s, 0.05), self._retry.max_delay_s, 1.0)
            await self._postpone(subscription, run, pause, "another worker has it")
            return False
        return not await self._is_poison(subscription, run, claim)

    async def _is_poison(self, subscription: Subscription, run: Run, claim: Claim) -> bool:
        """Give up a message whose workers keep dying: no error of theirs ever reached the broker."""
        if claim.deaths < self._retry.max_attempts:
            return False
        error = InternalError(f"{claim.deaths} workers died of this message")
        await self._dead_letter(subscription, run, error, answer=True)
        return True

    async def _is_above_suspicion(
        self, subscription: Subscription, run: Run, suspects: Suspects
    ) -> bool:
        """Count the death of who may have died of a message; False when it is settled here for now."""
        match suspects.judge(run.delivery):
            case Trial.HANDLE:
                return True
            case Trial.COUNT:
                headers = suspects.counted(run.delivery)
                await self._settle(
                    lambda: subscription.nack(
                        run.delivery, delay_s=_COUNTED_S, attempts=0, headers=headers
                    )
                )
            case Trial.WAIT:
                self._waiting.append(run.delivery)
            case Trial.POSTPONE:
                await self._postpone(subscription, run, _TRIAL_S, "others are on trial")
            case Trial.DEAD_LETTER:
                error = InternalError(f"{deaths_of(run.delivery) + 1} workers died of this message")
                await self._dead_letter(subscription, run, error, answer=True)
        return False

    async def _postpone(
        self, subscription: Subscription, run: Run, delay_s: float, reason: str
    ) -> None:
        """Have the message come again without counting an attempt."""
        await self._settle(
            lambda: subscription.nack(run.delivery, delay_s=delay_s, reason=reason, attempts=0)
        )

    async def _release(self, run: Run) -> None:
        if self._ledger is not None:
            try:
                await self._ledger.release(self._group, _message_id(run.delivery))
            except WhenceError as error:
                # The claim expires by itself.
                logger.warning(
                    "claim not released",
                    extra=self._facts(run.delivery, action="release", error=str(error)),
                )

    # Cancelling

    async def _listen(self, control: Subscription) -> None:
        """Stop the requests whose callers take them back."""
        while True:
            try:
                delivery = await control.receive()
                if delivery.headers.get(Headers.TYPE) == PING:
                    await self._tell_presence(delivery)
                else:
                    self._cancel(delivery.payload.decode(errors="replace"))
                await control.ack(delivery)
            except WhenceError as error:
                self._give_up(Unavailable(f"{self.name} cannot hear cancellations: {error}"))
                return

    async def _tell_presence(self, asked: Delivery) -> None:
        """Answer whoever asks who is there; one that cannot be reached asks again."""
        reply_to = asked.headers.get(Headers.REPLY_TO)
        if not reply_to:
            return
        report = ProcessorReport(
            name=self.name,
            topic=self._topic,
            group=self._group,
            instance=self._instance,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=_version(),
            concurrency=self._concurrency,
            in_flight=self.in_flight,
            handled=self.counters.handled,
            failed=self.counters.failed,
            uptime_s=round(self._clock.time() - self._started_at, 3),
        )
        passed_on = (_CORRELATION_ID, *_TRACE)
        headers = {name: asked.headers[name] for name in passed_on if name in asked.headers}
        headers[Headers.TYPE] = report.TYPE
        with suppress(WhenceError, TimeoutError):
            async with asyncio.timeout(_UNWIND_S):
                await self._transport.publish(reply_to, encode(report), headers=headers)

    def _cancel(self, correlation_id: str) -> None:
        running = [
            run
            for run in self._runs
            if run.delivery.headers.get(Headers.CORRELATION_ID) == correlation_id
        ]
        for run in running:
            run.stop(cancelled=True)
        if not running:
            self._cancelled[correlation_id] = None
            while len(self._cancelled) > _MAX_CANCELLED:
                self._cancelled.popitem(last=False)

    def _take_back(self, correlation_id: str) -> bool:
        """Tell whether a request was cancelled before it came, and forget that it was."""
        if not correlation_id or correlation_id not in self._cancelled:
            return False
        del self._cancelled[correlation_id]
        return True

    # Logs

    def _log_retry(self, run: Run, error: WhenceError, wait: float) -> None:
        logger.warning(
            "attempt failed",
            extra=self._facts(run.delivery, action="retry", error=str(error), wait_s=wait),
        )

    def _log_given_up(self, run: Run, error: WhenceError, *, answered: bool = False) -> None:
        level = logging.ERROR
        if isinstance(error, InternalError):
            # An unexpected exception was logged with its traceback where it was caught.
            level = logging.WARNING
        elif answered and isinstance(error, BadInput | NotFound):
            # The caller asked what cannot be answered, and was told so: nobody else has to act.
            level = logging.INFO
        logger.log(
            level,
            "message given up",
            extra=self._facts(run.delivery, action="give_up", error=str(error)),
        )

    def _facts(self, delivery: Delivery | None = None, **facts: Any) -> dict[str, Any]:
        known = {"processor": self.name, **facts}
        if delivery is not None:
            known["message_id"] = _message_id(delivery)
            known["correlation_id"] = delivery.headers.get(Headers.CORRELATION_ID, "")
            known["attempt"] = delivery.attempt
        return known


@cache
def _version() -> str:
    from importlib.metadata import version

    return version("whence")


def _message_id(delivery: Delivery) -> str:
    return delivery.headers.get(_MESSAGE_ID) or delivery.id


def _is_over(delivery: Delivery, clock: Clock) -> bool:
    deadline = deadline_of(delivery.headers)
    return deadline is not None and clock.time() >= deadline

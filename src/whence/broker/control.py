"""The control topic of a worker: callers cancel their requests there, and ask which workers are alive.

No admin interface is needed, and a worker that answers is alive: its event loop runs and reaches the broker.
"""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections import OrderedDict
from collections.abc import Collection
from contextlib import suppress

from whence.broker.delivery import WorkerState
from whence.broker.transport import Delivery, Headers, Mode, Start, Subscription, Transport
from whence.schema.codec import decode_as, encode
from whence.schema.errors import CodecError, Unavailable, WhenceError
from whence.schema.liveness import PING, ProcessorReport
from whence.schema.topics import cancel_topic, full_topic
from whence.schema.version import VERSION

#: Cancelled requests that are remembered in case the request comes after its cancellation.
_MAX_CANCELLED = 1_024
#: How long a report may take, in seconds.
_REPORT_S = 1.0


class ControlListener:
    """Listens on the control topic of a worker."""

    def __init__(self, state: WorkerState) -> None:
        self._state = state
        self._subscription: Subscription | None = None
        self._task: asyncio.Task[None] | None = None
        #: Correlation ids of requests that were cancelled before they came.
        self.cancelled: OrderedDict[str, None] = OrderedDict()

    async def start(self) -> None:
        """Subscribe and listen.

        Raises:
            Unavailable: The broker cannot be reached.
        """
        self._subscription = await self._state.transport.subscribe(
            cancel_topic(self._state.topic),
            f"{self._state.group}.{uuid.uuid4().hex}",
            mode=Mode.BROADCAST,
            prefetch=16,
            start=Start.LATEST,
        )
        name = f"whence-{self._state.name}-control"
        self._task = asyncio.create_task(self._listen(self._subscription), name=name)

    async def aclose(self) -> None:
        """Stop listening."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._subscription is not None:
            with suppress(WhenceError):
                await self._subscription.aclose()

    def was_cancelled(self, delivery: Delivery) -> bool:
        """Return whether a request was cancelled before it came, and forget that."""
        correlation_id = delivery.headers.get(Headers.CORRELATION_ID, "")
        return self.cancelled.pop(correlation_id, self) is None

    async def _listen(self, subscription: Subscription) -> None:
        while True:
            try:
                delivery = await subscription.receive()
                if delivery.headers.get(Headers.TYPE) == PING:
                    await self._report(delivery)
                else:
                    self._cancel(delivery.payload.decode(errors="replace"))
                await subscription.ack(delivery)
            except WhenceError as error:
                self._state.fail(
                    Unavailable(f"{self._state.name} receives no cancellations: {error}")
                )
                return

    def _cancel(self, correlation_id: str) -> None:
        running = [
            active
            for active in self._state.active
            if active.delivery.headers.get(Headers.CORRELATION_ID) == correlation_id
        ]
        for active in running:
            active.stop(cancelled=True)
        if not running and correlation_id:
            self.cancelled[correlation_id] = None
            while len(self.cancelled) > _MAX_CANCELLED:
                self.cancelled.popitem(last=False)

    async def _report(self, ping: Delivery) -> None:
        """Answer a ping; a caller that cannot be reached asks again."""
        reply_to = ping.headers.get(Headers.REPLY_TO)
        if not reply_to:
            return
        state = self._state
        report = ProcessorReport(
            name=state.name,
            topic=state.topic,
            group=state.group,
            instance=state.instance,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=VERSION,
            concurrency=state.concurrency,
            in_flight=len(state.active),
            handled=state.counters.handled,
            failed=state.counters.failed,
            uptime_s=round(state.clock.time() - state.started_at, 3),
        )
        repeated = (Headers.CORRELATION_ID, Headers.TRACEPARENT, Headers.TRACESTATE)
        headers = {name: ping.headers[name] for name in repeated if name in ping.headers}
        headers[Headers.TYPE] = report.TYPE
        with suppress(WhenceError, TimeoutError):
            async with asyncio.timeout(_REPORT_S):
                await state.transport.publish(reply_to, encode(report), headers=headers)


async def ping_workers(
    transport: Transport, topics: Collection[str], *, wait_s: float = 2.0, enough: int | None = None
) -> list[ProcessorReport]:
    """Ask the workers of some topics for a report, and gather their answers.

    Args:
        transport: The broker.
        topics: Topics that the workers take messages from.
        wait_s: Seconds within which the first answer must come, and each further one after the last.
        enough: Answers after which to stop waiting.

    Returns:
        Reports, sorted by topic, name and instance.

    Raises:
        Unavailable: The broker cannot be reached.
    """
    ping_id = uuid.uuid4().hex
    reply_topic = full_topic(f"reply.{ping_id}", persistent=False)
    subscription = await transport.subscribe(
        reply_topic, "replies", mode=Mode.EXCLUSIVE, prefetch=64, start=Start.LATEST
    )
    headers = {
        Headers.TYPE: PING,
        Headers.REPLY_TO: reply_topic,
        Headers.CORRELATION_ID: ping_id,
    }
    reports: dict[str, ProcessorReport] = {}
    try:
        pings = [
            transport.publish(cancel_topic(full_topic(topic)), b"", headers=headers)
            for topic in sorted(set(topics))
        ]
        await asyncio.gather(*pings)
        with suppress(TimeoutError):
            while enough is None or len(reports) < enough:
                async with asyncio.timeout(wait_s):
                    delivery = await subscription.receive()
                with suppress(CodecError):
                    report = decode_as(delivery.payload, ProcessorReport)
                    reports[report.instance] = report
                await subscription.ack(delivery)
    finally:
        await subscription.aclose()
    return sorted(reports.values(), key=lambda one: (one.topic, one.name, one.instance))

"""Pings: every worker listens on the control topic of its topic and reports its state.

No admin interface is needed, and a worker that answers is alive: its event loop runs and reaches the broker.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection
from contextlib import suppress

from whence.broker.transport import Headers, Mode, Start, Subscription, Transport
from whence.schema.codec import decode_as
from whence.schema.errors import CodecError
from whence.schema.liveness import PING, ProcessorReport
from whence.schema.topics import cancel_topic, full_topic


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
    try:
        pings = [
            transport.publish(cancel_topic(full_topic(topic)), b"", headers=headers)
            for topic in sorted(set(topics))
        ]
        await asyncio.gather(*pings)
        reports = await _gather(subscription, wait_s, enough)
    finally:
        await subscription.aclose()
    return sorted(reports, key=lambda one: (one.topic, one.name, one.instance))


async def _gather(
    subscription: Subscription, wait_s: float, enough: int | None
) -> list[ProcessorReport]:
    reports: dict[str, ProcessorReport] = {}
    with suppress(TimeoutError):
        while enough is None or len(reports) < enough:
            async with asyncio.timeout(wait_s):
                delivery = await subscription.receive()
            with suppress(CodecError):
                report = decode_as(delivery.payload, ProcessorReport)
                reports[report.instance] = report
            await subscription.ack(delivery)
    return list(reports.values())

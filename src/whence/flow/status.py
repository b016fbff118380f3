"""Status of a flow that runs elsewhere: backlog, dead letters and live workers of its topics."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable

import msgspec

from whence.broker.control import ping_workers
from whence.broker.transport import SupportsStats, Transport
from whence.flow.definition import FlowDefinition, ProcessorDefinition
from whence.flow.loader import load_flow, shipped_flows
from whence.schema.errors import Unavailable
from whence.schema.liveness import ProcessorReport
from whence.schema.topics import DEAD_LETTER_GROUP, dead_letter_topic


class TopicStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Backlog of one processor; a number is None when the broker does not report it."""

    topic: str
    group: str
    """Consumer group, named like the processor."""
    backlog: int | None = None
    in_flight: int | None = None
    oldest_age_s: float | None = None
    """Age of the oldest of these messages in seconds; 0 when there is none."""
    dead_letters: int | None = None
    workers: int = 0


class FlowStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Status of a flow as its broker reports it."""

    flow: str
    broker: str
    topics: tuple[TopicStatus, ...]
    processors: tuple[ProcessorReport, ...]
    notes: tuple[str, ...] = ()


async def has_global_stats(transport: Transport) -> bool:
    """Return whether the broker's statistics cover all processes."""
    return await transport.has_full_stats() if isinstance(transport, SupportsStats) else True


async def flow_status(
    definition: FlowDefinition, transport: Transport, *, wait_s: float = 2.0
) -> FlowStatus:
    """Return the status of a flow. Cost: two requests to the broker for each processor."""
    inbound = [processor.inbound for processor in definition.processors]
    counted = await has_global_stats(transport)
    reports, topics = await asyncio.gather(
        ping_workers(transport, inbound, wait_s=wait_s),
        asyncio.gather(
            *(_topic(transport, processor, counted) for processor in definition.processors)
        ),
    )
    workers = Counter((report.topic, report.group) for report in reports)
    unknown = any(one.backlog is None for one in topics)
    note = "some backlogs are unknown: check WHENCE_PULSAR_ADMIN_URL, the admin interface"
    return FlowStatus(
        flow=definition.name,
        broker=transport.url,
        topics=tuple(
            msgspec.structs.replace(one, workers=workers[one.topic, one.group]) for one in topics
        ),
        processors=tuple(reports),
        notes=(note,) if unknown else (),
    )


async def _topic(
    transport: Transport, processor: ProcessorDefinition, counted: bool
) -> TopicStatus:
    topic, group = processor.inbound, processor.name
    unknown = TopicStatus(topic=topic, group=group)
    if not counted:
        return unknown
    try:
        stats = await transport.stats(topic, group)
        dead = await transport.stats(dead_letter_topic(topic), DEAD_LETTER_GROUP)
    except Unavailable:
        # Live workers are known without the admin interface.
        return unknown
    return msgspec.structs.replace(
        unknown,
        backlog=stats.backlog,
        in_flight=stats.in_flight,
        oldest_age_s=round(stats.oldest_age_s, 3),
        dead_letters=dead.backlog + dead.in_flight,
    )


def topics_of(flows: Iterable[str] = ()) -> list[str]:
    """Return the topics from which processors of flows receive messages, sorted."""
    definitions = [load_flow(flow) for flow in list(flows) or shipped_flows()]
    return sorted({one.inbound for definition in definitions for one in definition.processors})

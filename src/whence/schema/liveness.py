"""The report of a worker that answers a ping."""

from __future__ import annotations

from typing import ClassVar

from whence.schema.message import Message

#: Type of a ping on a control topic; it has no body.
PING = "ping.v1"


class ProcessorReport(Message, frozen=True, kw_only=True):
    """One worker that takes messages, in one process, at one moment."""

    TYPE: ClassVar[str] = "processor-report.v1"

    name: str
    """Name of the processor in its flow."""
    topic: str
    """Full topic that it takes messages from."""
    group: str
    """Group that it shares the work with."""
    instance: str
    """Id of this worker, new at every start."""
    host: str = ""
    """Name of the machine."""
    pid: int = 0
    """Id of the process on that machine."""
    version: str = ""
    """Version of Whence."""
    concurrency: int = 1
    """Messages handled at a time."""
    in_flight: int = 0
    """Messages being handled now."""
    handled: int = 0
    """Messages done since its start."""
    failed: int = 0
    """Messages given up since its start."""
    uptime_s: float = 0.0
    """Seconds since its start, by its own clock."""

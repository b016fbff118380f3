"""The memory transport with injected faults and a manual clock, for tests of a broker that misbehaves."""

from __future__ import annotations

from whence.broker.memory.faults import Faults
from whence.broker.memory.transport import MemoryBroker, MemoryTransport
from whence.testing.clock import ManualClock

__all__ = ("Faults", "ManualClock", "MemoryBroker", "MemoryTransport")

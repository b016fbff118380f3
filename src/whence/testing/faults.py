"""What a test needs to make a broker misbehave: the memory transport, its faults, and time in hand."""

from __future__ import annotations

from whence.broker.memory.faults import Faults
from whence.broker.memory.transport import MemoryBroker, MemoryTransport
from whence.testing.clock import ManualClock

__all__ = ("Faults", "ManualClock", "MemoryBroker", "MemoryTransport")

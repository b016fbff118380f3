"""Faults of a broker that a test injects into the memory transport."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random


def _every_topic(topic: str) -> bool:  # noqa: ARG001 - the signature of `topics`
    return True


@dataclass(slots=True)
class Faults:
    """Switches, all off at first; a number says how many of the coming operations are hit.

    Set them before or in the middle of a test. Each hit counts its switch down by one. A connection that
    breaks is not a switch but a call, `MemoryTransport.drop_connection`.
    """

    duplicate_after_ack: int = 0
    """Acked messages that are delivered once more."""
    lose_acks: int = 0
    """Acks that report success and never arrive: the message returns when the consumer leaves."""
    fail_publishes: int = 0
    """Publishes that raise `Unavailable` with nothing stored."""
    lose_receipts: int = 0
    """Publishes that raise `Unavailable` although the message was stored."""
    fill_queue: int = 0
    """Publishes that raise `Overloaded` as if a group's queue were full."""
    reorder: int = 0
    """Messages that enter a group's queue at a random place."""
    delay_tick_s: float = 0.0
    """Delays are rounded up to a multiple of this, as by a broker with a coarse timer; 0 for exact ones."""
    topics: Callable[[str], bool] = _every_topic
    """Full names of the topics that are hit; all by default."""
    random: Random = field(default_factory=lambda: Random(0))  # noqa: S311 - places in a queue
    """Source of the places chosen by `reorder`."""

    def strikes(self, switch: str, topic: str) -> bool:
        """Return whether the fault `switch` hits this operation on `topic`, and count it down."""
        left: int = getattr(self, switch)
        if left <= 0 or not self.topics(topic):
            return False
        setattr(self, switch, left - 1)
        return True

"""Producers of a Pulsar client are opened once, and closed when they are idle."""

from __future__ import annotations

import asyncio

from tests.support.clock import ManualClock

from whence.broker.pulsar.producer_pool import ProducerPool
from whence.schema.errors import Unavailable


class Opened:
    """A stand-in for the library's producer."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.closed = False

    async def close(self) -> None:
        self.closed = True


class Desk:
    """Producers over stand-ins, and all that were ever opened."""

    def __init__(self, **options: float) -> None:
        self.clock = ManualClock()
        self.opened: list[Opened] = []
        self.refusing = False
        self.producers = ProducerPool(self.open, self.clock, **options)  # type: ignore[arg-type]

    async def open(self, topic: str) -> Opened:
        """Open a stand-in."""
        await asyncio.sleep(0)
        if self.refusing:
            raise Unavailable("no broker")
        self.opened.append(Opened(topic))
        return self.opened[-1]

    async def use(self, topic: str) -> None:
        """Borrow and give back."""
        self.producers.release(await self.producers.acquire(topic))

    def closed(self) -> list[str]:
        """Return the topics whose producers were closed, in order of opening."""
        return [one.topic for one in self.opened if one.closed]


async def test_concurrent_publishers_share_a_producer() -> None:
    """Concurrent publishers to a topic share one producer."""
    desk = Desk()
    pooled = await asyncio.gather(*(desk.producers.acquire("a") for _ in range(5)))

    assert len(desk.opened) == 1
    assert {id(one) for one in pooled} == {id(pooled[0])}
    assert pooled[0].sending == 5


async def test_idle_producers_are_closed() -> None:
    """A producer that was idle for long is closed; one in use, or used recently, is not."""
    desk = Desk(idle_s=10.0)
    await desk.use("quiet")
    busy = await desk.producers.acquire("busy")
    desk.clock.advance(8.0)
    await desk.use("late")
    desk.clock.advance(8.0)
    await asyncio.sleep(0)
    assert desk.closed() == ["quiet"]

    desk.producers.release(busy)
    desk.clock.advance(40.0)
    await asyncio.sleep(0)
    assert desk.closed() == ["quiet", "busy", "late"]
    assert desk.clock.pending == 0

    await desk.use("quiet")
    assert "quiet" in desk.producers
    assert desk.clock.pending == 1


async def test_the_least_recently_used_producer_is_closed_first() -> None:
    """Above the limit the least recently used one is closed, never one that is sending."""
    desk = Desk(max_idle=2)
    sending = await desk.producers.acquire("sending")
    for topic in ("a", "b"):
        desk.clock.advance(1.0)
        await desk.use(topic)
    desk.clock.advance(1.0)
    await desk.use("c")
    await asyncio.sleep(0)

    assert desk.closed() == ["a", "b"]
    assert not sending.producer.closed  # type: ignore[attr-defined]


async def test_dropped_producers_are_replaced() -> None:
    """A producer that its broker closed is discarded once and opened again."""
    desk = Desk()
    first = await desk.producers.acquire("a")
    desk.producers.discard(first)
    second = await desk.producers.acquire("a")
    desk.producers.discard(first)

    assert first is not second
    assert "a" in desk.producers
    await asyncio.sleep(0)
    assert desk.closed() == ["a"]


async def test_a_failed_opening_fails_all_waiting() -> None:
    """Every caller waiting for a producer gets the error; the next one tries again."""
    desk = Desk()
    desk.refusing = True
    results = await asyncio.gather(
        *(desk.producers.acquire("a") for _ in range(3)), return_exceptions=True
    )
    assert [type(result) for result in results] == [Unavailable] * 3

    desk.refusing = False
    await desk.use("a")
    assert len(desk.opened) == 1


async def test_closing_closes_all_producers() -> None:
    """No producer stays open, not even one that is being opened, and no timer is left."""
    desk = Desk()
    await desk.use("a")
    opening = asyncio.create_task(desk.producers.acquire("b"))
    await asyncio.sleep(0)
    await desk.producers.aclose()
    await opening

    assert desk.closed() == ["a", "b"]
    assert len(desk.producers) == 0
    assert desk.clock.pending == 0

"""Looking at what was given up, and sending it again or dropping it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing

import msgspec

from whence.broker.transport import (
    Delivery,
    Headers,
    Mode,
    Start,
    Subscription,
    Transport,
    number_of,
)
from whence.schema.topics import DEAD_LETTER_GROUP, dead_letter_topic, full_topic

#: Headers about the failure; a replayed message has those it was first published with.
_OF_FAILURE = frozenset(
    {
        Headers.DEATHS,
        Headers.COUNTED_AT,
        Headers.REASON,
        Headers.GROUP,
        Headers.ORIGIN,
        Headers.EXCEPTION,
        Headers.ATTEMPTS,
        Headers.FIRST_AT,
        Headers.LAST_AT,
    }
)
#: Headers of a caller that no longer waits. With them the message would expire again, or its next failure
#: would be answered instead of kept.
_OF_CALLER = frozenset({Headers.DEADLINE, Headers.REPLY_TO, Headers.CORRELATION_ID})


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was given up."""

    id: str
    origin: str
    """Full name of the topic it was first published to."""
    group: str
    reason: str
    exception: str
    """Class of the last error; may be empty."""
    attempts: int
    """How often it was tried; 0 when that is not known."""
    first_at: float
    """First delivery, seconds since the epoch; 0 when that is not known."""
    last_at: float
    """When it was given up, seconds since the epoch; 0 when that is not known."""
    payload: bytes
    headers: Mapping[str, str]


class DeadLetters:
    """The dead letters of a broker's topics, one reader of a topic at a time.

    Every call reads the topic from its oldest dead letter on. Cost: O(dead letters read).

    Args:
        transport: The broker.
        wait_s: Silence in seconds after which the topic counts as read to its end.
    """

    def __init__(self, transport: Transport, *, wait_s: float = 1.0) -> None:
        self._transport = transport
        self._wait_s = wait_s

    async def count(self, topic: str) -> int:
        """Return how many there are, from the broker's statistics.

        Raises:
            Unavailable: The broker gives no statistics.
        """
        stats = await self._transport.stats(dead_letter_topic(full_topic(topic)), DEAD_LETTER_GROUP)
        return stats.backlog + stats.in_flight

    async def list(self, topic: str, *, limit: int = 100) -> list[DeadLetter]:
        """Return the dead letters of a topic, oldest first, without removing them.

        Args:
            topic: The topic they were first published to.
            limit: Most to return, 1 or more.

        Raises:
            Unavailable: The broker cannot be reached, or another client reads them.
        """
        async with aclosing(self._read(topic, limit)) as letters:
            return [_dead_letter(delivery) async for _, delivery in letters]

    async def replay(
        self, topic: str, ids: Collection[str] | None = None, *, limit: int = 1000
    ) -> int:
        """Publish dead letters again under their old ids, all among the oldest `limit` when `ids` is None.

        Attempts begin at 1. What fails again meanwhile stays a dead letter. Each is published before it is
        dropped here: a failure in between doubles it.

        Returns:
            How many were sent.

        Raises:
            Unavailable: The broker cannot be reached, or another client reads them.
            Overloaded: The topic is full; those not yet sent stay dead letters.
        """
        return await self._take(topic, ids, limit, send=True)

    async def drop(
        self, topic: str, ids: Collection[str] | None = None, *, limit: int = 1000
    ) -> int:
        """Forget dead letters, all among the oldest `limit` when `ids` is None; gives how many.

        Raises:
            Unavailable: The broker cannot be reached, or another client reads them.
        """
        return await self._take(topic, ids, limit, send=False)

    async def _take(
        self, topic: str, ids: Collection[str] | None, limit: int, *, send: bool
    ) -> int:
        taken: set[tuple[str, str]] = set()
        async with aclosing(self._read(topic, limit)) as letters:
            async for subscription, delivery in letters:
                letter = _dead_letter(delivery)
                if (letter.id, letter.group) in taken:
                    # Sent again it failed again; so will it the next time, and all that follows is as new.
                    break
                if ids is not None and letter.id not in ids:
                    continue
                if send:
                    await self._transport.publish(
                        letter.origin or full_topic(topic),
                        letter.payload,
                        headers=replay_headers(letter.headers),
                        key=delivery.key,
                    )
                await subscription.ack(delivery)
                taken.add((letter.id, letter.group))
        return len(taken)

    async def _read(
        self, topic: str, limit: int
    ) -> AsyncGenerator[tuple[Subscription, Delivery], None]:
        """Yield the dead letters of a topic, each with the subscription that settles it."""
        subscription = await self._transport.subscribe(
            dead_letter_topic(full_topic(topic)),
            DEAD_LETTER_GROUP,
            mode=Mode.EXCLUSIVE,
            prefetch=limit,
            start=Start.EARLIEST,
        )
        try:
            for _ in range(limit):
                try:
                    async with asyncio.timeout(self._wait_s):
                        delivery = await subscription.receive()
                except TimeoutError:
                    return
                yield subscription, delivery
        finally:
            await subscription.aclose()


def replay_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with which a dead letter is published again."""
    gone = _OF_FAILURE | _OF_CALLER | {Headers.ATTEMPT}
    return {name: value for name, value in headers.items() if name not in gone}


def _dead_letter(delivery: Delivery) -> DeadLetter:
    headers = delivery.headers
    return DeadLetter(
        id=delivery.message_id,
        origin=headers.get(Headers.ORIGIN, ""),
        group=headers.get(Headers.GROUP, ""),
        reason=headers.get(Headers.REASON, ""),
        exception=headers.get(Headers.EXCEPTION, ""),
        attempts=number_of(headers.get(Headers.ATTEMPTS)),
        first_at=number_of(headers.get(Headers.FIRST_AT)) / 1000,
        last_at=number_of(headers.get(Headers.LAST_AT)) / 1000,
        payload=delivery.payload,
        headers=headers,
    )

"""What the subscriptions of both transports share: settling the deliveries of a queue's consumer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from whence.broker.checks import check_nack, dead_letter_headers
from whence.broker.clock import Clock
from whence.broker.queue import Consumer, QueuedMessage
from whence.broker.retry import wait_s
from whence.broker.transport import Delivery, NackOutcome, RetryPolicy, Transport
from whence.schema.topics import dead_letter_topic


class QueueSubscription(ABC):
    """A `Subscription` over a consumer of a `SubscriptionQueue`.

    Args:
        transport: Publishes dead letters.
        consumer: Holds the deliveries.
        clock: Source of time.
        retry: Attempts and waits.
        uniform: Source of the random share of waits, numbers from 0 to 1.
    """

    def __init__(
        self,
        transport: Transport,
        consumer: Consumer,
        clock: Clock,
        retry: RetryPolicy,
        uniform: Callable[[], float],
    ) -> None:
        self.clock = clock
        self.queue = consumer.queue
        self.consumer = consumer
        self._publisher = transport
        self._retry = retry
        self._uniform = uniform

    @abstractmethod
    async def _settle(self, delivery_id: str, entry: QueuedMessage) -> bool:
        """Settle a held delivery as done; False when the broker is gone."""

    @abstractmethod
    async def _retry_later(
        self, delivery_id: str, entry: QueuedMessage, attempt: int, delay_s: float
    ) -> None:
        """Have a held message come again after `delay_s` seconds as that attempt."""

    def receive(self) -> Coroutine[Any, Any, Delivery]:
        """Wait for the next message. Cancelling loses nothing."""
        return self.consumer.receive()

    async def ack(self, delivery: Delivery) -> bool:
        """Settle as done; False when it was settled before or is no longer this consumer's."""
        entry = self.consumer.unsettled(delivery)
        return entry is not None and await self._settle(delivery.id, entry)

    async def nack(
        self,
        delivery: Delivery,
        *,
        delay_s: float | None = None,
        reason: str = "",
        exception: str = "",
        attempts: int = 1,
        headers: Mapping[str, str] | None = None,
    ) -> NackOutcome:
        """Ask for another attempt after `delay_s` seconds, the retry policy's wait when None."""
        check_nack(delay_s, attempts)
        entry = self.consumer.unsettled(delivery)
        if entry is None:
            return NackOutcome.STALE
        attempt = entry.attempt + attempts
        if attempt > self._retry.max_attempts:
            return await self._dead_letter(delivery.id, entry, attempt - 1, reason, exception)
        if delay_s is None:
            delay_s = wait_s(self._retry, attempt - 1, uniform=self._uniform)
        if headers:
            entry.message = entry.message.with_headers(headers)
        await self._retry_later(delivery.id, entry, attempt, delay_s)
        return NackOutcome.RETRY

    async def reject(self, delivery: Delivery, *, reason: str, exception: str = "") -> NackOutcome:
        """Move the message to the dead-letter topic at once."""
        entry = self.consumer.unsettled(delivery)
        if entry is None:
            return NackOutcome.STALE
        return await self._dead_letter(delivery.id, entry, entry.attempt, reason, exception)

    async def _dead_letter(
        self, delivery_id: str, entry: QueuedMessage, attempts: int, reason: str, exception: str
    ) -> NackOutcome:
        """Publish the dead letter first and settle second: a failure in between doubles, never loses."""
        message = entry.message
        headers = dead_letter_headers(
            message.headers,
            reason=reason,
            exception=exception,
            group=self.queue.name,
            topic=message.topic,
            attempts=attempts,
            first_at=entry.first_at,
            last_at=self.clock.time(),
        )
        topic = dead_letter_topic(message.topic)
        entry.settling = True
        try:
            await self._publisher.publish(topic, message.payload, headers=headers, key=message.key)
        finally:
            entry.settling = False
        if delivery_id in self.consumer.held:
            await self._settle(delivery_id, entry)
        return NackOutcome.DEAD_LETTER

    def pause(self) -> None:
        """Hand out no more messages until `resume`."""
        self.consumer.paused = True

    def resume(self) -> None:
        """Hand out messages again."""
        self.consumer.paused = False
        self.queue.dispatch()

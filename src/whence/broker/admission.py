"""Whether a delivery may be handled now: not expired, not done before, not suspected of killing workers."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

from whence.broker.delivery import ActiveDelivery, IncomingMessage
from whence.broker.idempotency import ClaimState
from whence.broker.poison_messages import Decision, Probation, deaths_of
from whence.broker.replies import ReplyPublisher
from whence.broker.retry import wait_s
from whence.broker.settlement import SETTLE_RETRY, Settlement
from whence.broker.transport import Delivery, Headers, Subscription
from whence.broker.worker_state import WorkerState
from whence.schema.errors import DeadlineExceeded, InternalError, WhenceError

#: A message whose death was counted is handled this much later, seconds: brokers hear of acknowledgements late
#: (Pulsar's client sends them every 100 ms), and when a worker dies before that its message comes twice.
_COUNTED_S = 0.25
#: How often a worker checks whether a probation is over, seconds.
_PROBATION_S = 1.0
#: Added to a deadline for the lease of a claim, seconds.
_LEASE_MARGIN_S = 1.0


class Admission:
    """Settles the deliveries that must not be handled now and admits all others.

    Args:
        state: The worker.
        settlement: Settles what is not admitted.
        replies: Publishes errors to callers.
        probation: Finds messages that kill workers, for a worker without a ledger; None to trust all.
    """

    def __init__(
        self,
        state: WorkerState,
        settlement: Settlement,
        replies: ReplyPublisher,
        probation: Probation | None,
    ) -> None:
        self._state = state
        self._settlement = settlement
        self._replies = replies
        self._probation = probation
        #: Suspected messages that this worker holds until another's probation is over.
        self._held: deque[Delivery] = deque()

    async def next(self, subscription: Subscription) -> Delivery:
        """Return the next delivery: a held one when no message is on probation, else a new one."""
        while self._probation is not None and self._held:
            if self._probation.is_free:
                return self._held.popleft()
            with suppress(TimeoutError):
                async with asyncio.timeout(_PROBATION_S):
                    return await subscription.receive()
        return await subscription.receive()

    async def admits(self, active: ActiveDelivery) -> bool:
        """Return whether to handle a delivery; False when it is settled or held."""
        state, delivery = self._state, active.delivery
        message = IncomingMessage(delivery, delivery.attempt, state.clock)
        remaining = message.remaining_s()
        if remaining == 0.0:
            state.counters.expired += 1
            error = DeadlineExceeded(f"{state.name}: the deadline passed in the queue")
            await self._replies.publish_error(active, error)
            await self._settlement.ack(active)
            return False
        if state.ledger is not None:
            return await self._claim(active, remaining)
        if self._probation is not None and delivery.redelivered:
            return await self._decide(active, self._probation)
        return True

    def begin(self, active: ActiveDelivery) -> None:
        """Record that the handler of a delivery starts."""
        if self._probation is not None:
            self._probation.begin(active.delivery)

    def end(self, active: ActiveDelivery) -> None:
        """Record that the handler of a delivery ended."""
        if self._probation is not None:
            self._probation.end(active.delivery)

    async def hand_back(self, active: ActiveDelivery) -> None:
        """Return a message because the worker closes; a living worker counts no death."""
        deaths = deaths_of(active.delivery)
        if self._probation is None or not deaths:
            # Closing the subscription returns it.
            return
        with suppress(WhenceError):
            await self._settlement.postpone(active, 0.0, headers={Headers.DEATHS: str(deaths - 1)})

    async def _claim(self, active: ActiveDelivery, remaining_s: float | None) -> bool:
        state = self._state
        assert state.ledger is not None
        lease_s = state.lease_s if remaining_s is None else remaining_s + _LEASE_MARGIN_S
        try:
            claim = await state.ledger.claim(
                state.group, active.delivery.message_id, lease_s=lease_s
            )
        except WhenceError as error:
            await self._settlement.postpone(active, wait_s(SETTLE_RETRY, 1), error.message)
            return False
        if claim.state is ClaimState.DONE:
            state.counters.duplicates += 1
            await self._settlement.ack(active)
            return False
        if claim.state is ClaimState.BUSY:
            pause = min(max(claim.retry_after_s, 0.05), state.retry.max_delay_s, 1.0)
            await self._settlement.postpone(active, pause, "another worker handles it")
            return False
        if claim.deaths >= state.retry.max_attempts:
            # Its workers keep dying: none of their errors ever reached the broker.
            await self._give_up(active, claim.deaths)
            return False
        return True

    async def _decide(self, active: ActiveDelivery, probation: Probation) -> bool:
        delivery = active.delivery
        match probation.decide(delivery):
            case Decision.HANDLE:
                return True
            case Decision.COUNT:
                headers = probation.count_headers(delivery)
                await self._settlement.postpone(active, _COUNTED_S, headers=headers)
            case Decision.HOLD:
                self._held.append(delivery)
            case Decision.POSTPONE:
                reason = "other messages are on probation"
                await self._settlement.postpone(active, _PROBATION_S, reason)
            case Decision.DEAD_LETTER:
                await self._give_up(active, deaths_of(delivery) + 1)
        return False

    async def _give_up(self, active: ActiveDelivery, deaths: int) -> None:
        error = InternalError(f"{deaths} workers died of this message")
        await self._replies.publish_error(active, error)
        await self._settlement.dead_letter(active, error)

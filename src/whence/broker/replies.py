"""Publishing the replies of a handler, and errors in their place."""

from __future__ import annotations

import asyncio
import logging

from whence.broker.delivery import ActiveDelivery, OutgoingMessage
from whence.broker.transport import Headers
from whence.broker.worker_state import WorkerState
from whence.schema.codec import encode
from whence.schema.errors import ErrorReply, WhenceError

logger = logging.getLogger(__name__)

#: How long an error reply may take, in seconds.
_ERROR_REPLY_S = 5.0
#: Headers of a request that its replies repeat.
_REPEATED = (Headers.CORRELATION_ID, Headers.TRACEPARENT, Headers.TRACESTATE)


class ReplyPublisher:
    """Publishes the replies to a delivery, in order, where its caller waits or to the worker's reply topic."""

    def __init__(self, state: WorkerState) -> None:
        self._state = state

    async def publish(self, active: ActiveDelivery, reply: OutgoingMessage) -> None:
        """Publish one reply. Its id is derived from the request's, so that a repeated reply is recognised."""
        state, delivery = self._state, active.delivery
        topic = delivery.headers.get(Headers.REPLY_TO) or state.reply_topic
        if topic is not None:
            repeated = {k: delivery.headers[k] for k in _REPEATED if k in delivery.headers}
            if Headers.TRACEPARENT in reply.headers:
                repeated.pop(Headers.TRACESTATE, None)
            headers = {
                Headers.MESSAGE_ID: f"{delivery.message_id}/{state.group}/{active.replies}",
                **repeated,
                **reply.headers,
                Headers.SEQUENCE: str(active.replies),
                Headers.END: "1" if reply.end else "0",
            }
            try:
                await state.transport.publish(
                    topic, reply.payload, headers=headers, key=delivery.key
                )
            except WhenceError:
                state.counters.unpublished += 1
                raise
            state.counters.replies += 1
            active.replies += 1
            if state.ledger is not None:
                active.digest.update(reply.payload)
        active.ended = active.ended or reply.end

    async def publish_error(self, active: ActiveDelivery, error: WhenceError) -> bool:
        """Send an error to a waiting caller; False when that failed."""
        if active.ended or not active.is_request:
            return True
        reply = OutgoingMessage(
            payload=encode(error.to_reply()), headers={Headers.TYPE: ErrorReply.TYPE}
        )
        try:
            async with asyncio.timeout(_ERROR_REPLY_S):
                await self.publish(active, reply)
        except (WhenceError, TimeoutError) as failure:
            fields = self._state.log_fields(active.delivery, action="reply", error=str(failure))
            logger.warning("error reply not published", extra=fields)
            return False
        return True

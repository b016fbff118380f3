"""Requests and replies on top of publish and subscribe.

A client has one reply topic. A request names it in `reply-to` and carries a `correlation-id`; replies find
their request by that id. Replies to requests that are over are dropped. Replies are bytes from elsewhere, so
a malformed one must not stop the client.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from itertools import count

import msgspec

from whence.broker.clock import Clock, SystemClock
from whence.broker.transport import (
    Delivery,
    Headers,
    Mode,
    Reply,
    Start,
    Subscription,
    Transport,
    deadline_of,
)
from whence.schema.errors import (
    BadInput,
    DeadlineExceeded,
    ErrorReply,
    Overloaded,
    Unavailable,
    WhenceError,
)
from whence.schema.topics import cancel_topic, full_topic

logger = logging.getLogger(__name__)

#: Replies taken from the broker ahead of their distribution, which takes microseconds each.
_PREFETCH = 64
#: Replies of one stream that may wait for a slow reader before the stream is given up.
_MAX_BUFFERED = 10_000
#: How long `aclose` waits for cancel messages that are on their way, in seconds.
_CANCEL_WAIT_S = 1.0


class _PendingRequest(msgspec.Struct, eq=False):
    """A request that waits: its deadline, its replies so far in order, and how it ended."""

    topic: str
    timeout_s: float
    """Seconds from the request on."""
    due: float
    """The deadline by the event loop's clock."""
    headers: dict[str, str]
    correlation_id: str
    late: bool = False
    """True once the deadline passed."""
    finished: bool = False
    """True once the reply with `end`, or an error, is in its place."""
    place: int = 0
    """Sequence number of the next reply in order."""
    ahead: dict[int, Reply] = {}
    """Replies that came before their turn, by sequence number."""
    ready: asyncio.Queue[Reply | WhenceError] = msgspec.field(default_factory=asyncio.Queue)
    """Replies in order, not yet read, and the error that ended the wait."""

    def add(self, reply: Reply) -> None:
        """Put a reply into its place; drop it when the place was taken or lies behind the end."""
        if self.finished or reply.sequence < self.place or reply.sequence in self.ahead:
            return
        if self.ready.qsize() + len(self.ahead) >= _MAX_BUFFERED:
            self.fail(Overloaded(f"{_MAX_BUFFERED} replies wait for a reader that does not read"))
            return
        self.ahead[reply.sequence] = reply
        while not self.finished and (following := self.ahead.pop(self.place, None)) is not None:
            self.ready.put_nowait(following)
            self.place += 1
            self.finished = following.end

    def fail(self, error: WhenceError) -> None:
        """End the wait with an error, after the replies that have arrived."""
        self.finished = True
        self.ready.put_nowait(error)

    def too_late(self) -> DeadlineExceeded:
        """Return the error of a request without a reply in time."""
        self.late = True
        waited = max(0.0, self.timeout_s)
        return DeadlineExceeded(f"no reply from {self.topic} within {waited:.3g} s")

    async def next(self) -> Reply:
        """Wait for the next reply in order, until the deadline. Cancelling loses nothing.

        A reply that is there is returned even after the deadline.
        """
        try:
            async with asyncio.timeout_at(self.due):
                reply = await self.ready.get()
        except TimeoutError as error:
            raise self.too_late() from error
        if isinstance(reply, WhenceError):
            raise reply
        return reply


class Requester:
    """The requesting side of one client process.

    The reply topic is subscribed to with the first request, before that is published.

    Args:
        transport: Where to publish and subscribe.
        instance: Name of this client, lower-case letters and digits; random when empty.
        clock: Source of time.
        persistent: Whether the broker keeps replies until this client has them. A non-persistent topic drops
            what cannot be written to the client's connection at once, for example behind a large message, and
            everything while there is no connection.

    Raises:
        ConfigError: `instance` cannot be part of a topic's name.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        instance: str = "",
        clock: Clock | None = None,
        persistent: bool = False,
    ) -> None:
        self.reply_topic = full_topic(
            f"reply.{instance or uuid.uuid4().hex}", persistent=persistent
        )
        #: Makes correlation ids unique among all clients, also when an instance's name is used again.
        self._prefix = uuid.uuid4().hex
        self._numbers = count(1)
        # The consumer of a broadcast leaves nothing behind on the broker, however it ends.
        self._mode = Mode.BROADCAST if persistent else Mode.EXCLUSIVE
        #: At first from the beginning of a topic that is new: so a broker knows where to go on when the
        #: connection breaks before the first reply.
        self._start_at = Start.EARLIEST if persistent else Start.LATEST
        self._transport = transport
        self._clock: Clock = clock or SystemClock()
        self._pending: dict[str, _PendingRequest] = {}
        self._subscription: Subscription | None = None
        self._receiver: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._cancels: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def pending(self) -> int:
        """Requests that wait for a reply now."""
        return len(self._pending)

    async def request(
        self,
        topic: str,
        payload: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
        timeout_s: float = 30.0,
    ) -> Reply:
        """See `Transport.request`. Being cancelled cancels the request.

        Raises:
            BadInput: A request with the same correlation id is waiting already.
        """
        pending = self._register(topic, headers, timeout_s)
        try:
            return await self._exchange(pending, payload, key)
        except asyncio.CancelledError:
            self._cancel_later(pending)
            raise
        finally:
            del self._pending[pending.correlation_id]

    async def stream(
        self,
        topic: str,
        payload: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
        timeout_s: float = 30.0,
    ) -> AsyncIterator[Reply]:
        """See `Transport.stream`. Nothing is published before the first reply is asked for.

        Close the iterator (`contextlib.aclosing`) to cancel the request at once.

        Raises:
            BadInput: A request with the same correlation id is waiting already.
            Overloaded: The queue of the topic stayed full, or 10 000 replies piled up unread.
        """
        pending = self._register(topic, headers, timeout_s)
        ended = False
        try:
            reply = await self._exchange(pending, payload, key)
            while not (ended := reply.end):
                yield reply
                reply = await pending.next()
            yield reply
        finally:
            del self._pending[pending.correlation_id]
            if not (ended or pending.late):
                self._cancel_later(pending)

    async def cancel(self, topic: str, correlation_id: str) -> None:
        """See `Transport.cancel`."""
        await self._transport.publish(
            cancel_topic(full_topic(topic)),
            correlation_id.encode(),
            headers={Headers.CORRELATION_ID: correlation_id},
        )

    async def aclose(self) -> None:
        """Fail what waits with `Unavailable` and leave the reply topic; safe to call twice."""
        self._closed = True
        self._fail_all(Unavailable("the client was closed while a request waited"))
        if self._cancels:
            await asyncio.wait(set(self._cancels), timeout=_CANCEL_WAIT_S)
        tasks = [*self._cancels, *([self._receiver] if self._receiver is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._receiver = None
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.aclose()

    def _register(
        self, topic: str, headers: Mapping[str, str] | None, timeout_s: float
    ) -> _PendingRequest:
        """Begin to wait; the deadline is the nearer of two when the request has one already."""
        if self._closed:
            raise Unavailable("the client is closed")
        own = dict(headers or {})
        now = self._clock.time()
        deadline_s = now + timeout_s
        given = deadline_of(own)
        if given is not None and given < deadline_s:
            deadline_s, timeout_s = given, given - now
        own[Headers.DEADLINE] = str(int(deadline_s * 1000))
        own[Headers.REPLY_TO] = self.reply_topic
        correlation_id = own.get(Headers.CORRELATION_ID) or f"{self._prefix}-{next(self._numbers)}"
        own[Headers.CORRELATION_ID] = correlation_id
        due = asyncio.get_running_loop().time() + timeout_s
        pending = _PendingRequest(topic, timeout_s, due, own, correlation_id)
        if timeout_s <= 0:
            raise pending.too_late()
        if correlation_id in self._pending:
            raise BadInput(
                f"a request with correlation id {correlation_id!r} is waiting already",
                hint="leave the correlation-id header out to have one made",
            )
        self._pending[correlation_id] = pending
        return pending

    async def _exchange(self, pending: _PendingRequest, payload: bytes, key: str | None) -> Reply:
        """Publish a request and wait for its first reply."""
        try:
            async with asyncio.timeout_at(pending.due):
                if self._subscription is None:
                    await self._start()
                await self._transport.publish(
                    pending.topic, payload, headers=pending.headers, key=key
                )
        except TimeoutError as error:
            raise pending.too_late() from error
        return await pending.next()

    async def _start(self) -> None:
        """Subscribe to the reply topic, once for all requests that come together."""
        async with self._starting:
            if self._subscription is not None:
                return
            if self._closed:
                raise Unavailable("the client is closed")
            self._subscription = await self._transport.subscribe(
                self.reply_topic,
                "replies",
                mode=self._mode,
                prefetch=_PREFETCH,
                start=self._start_at,
            )
            self._start_at = Start.LATEST
            self._receiver = asyncio.create_task(
                self._receive_replies(self._subscription), name="whence-replies"
            )

    async def _receive_replies(self, subscription: Subscription) -> None:
        """Match every reply to its request until the subscription ends; drop all other messages."""
        try:
            while True:
                delivery = await subscription.receive()
                reply = reply_of(delivery)
                if reply is not None:
                    pending = self._pending.get(reply.headers[Headers.CORRELATION_ID])
                    if pending is not None:
                        pending.add(reply)
                await subscription.ack(delivery)
        except WhenceError as error:
            # The next request subscribes again; those that wait cannot know whether their reply was lost.
            if not self._closed:
                logger.warning("reply topic lost", extra={"action": "replies", "error": str(error)})
            self._subscription = None
            self._fail_all(Unavailable(f"the reply topic was lost: {error}"))
            with suppress(WhenceError):
                await subscription.aclose()

    def _fail_all(self, error: WhenceError) -> None:
        for pending in self._pending.values():
            pending.fail(error)

    def _cancel_later(self, pending: _PendingRequest) -> None:
        """Cancel a request without delaying the caller."""
        if self._closed:
            return
        task = asyncio.create_task(self._cancel_quietly(pending), name="whence-cancel")
        self._cancels.add(task)
        task.add_done_callback(self._cancels.discard)

    async def _cancel_quietly(self, pending: _PendingRequest) -> None:
        try:
            await self.cancel(pending.topic, pending.correlation_id)
        except WhenceError as error:
            logger.debug("cancel not sent", extra={"action": "cancel", "error": str(error)})


def reply_of(delivery: Delivery) -> Reply | None:
    """Return a message as a reply; None when it is not one.

    Without a sequence number a reply is the only one. An error is always the last one.
    """
    headers = delivery.headers
    if not headers.get(Headers.CORRELATION_ID):
        return None
    number = headers.get(Headers.SEQUENCE)
    if number is None:
        return Reply(payload=delivery.payload, headers=headers)
    if not (number.isascii() and number.isdecimal() and len(number) <= 9):
        return None
    end = headers.get(Headers.END) == "1" or headers.get(Headers.TYPE) == ErrorReply.TYPE
    return Reply(payload=delivery.payload, headers=headers, sequence=int(number), end=end)

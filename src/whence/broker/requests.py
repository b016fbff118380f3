"""Asking and waiting for replies, on nothing but publish and subscribe.

A client has one reply topic. A request names it in `reply-to` and carries a `correlation-id`; replies find
their asker by that id. They are kept for an asker who is there, over broken connections too where the
transport has any, and for nobody afterwards. What comes back is bytes from elsewhere, so nothing in it may
stop the client.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Protocol

import msgspec

from whence.broker.clock import Clock, SystemClock
from whence.broker.limits import Limits
from whence.broker.transport import (
    Headers,
    Mode,
    Pushing,
    Reply,
    RetryPolicy,
    Start,
    Subscription,
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
from whence.schema.wire import Body

__all__ = ("PubSub", "Requester", "RequesterCounters", "deadline_of", "reply_of")

logger = logging.getLogger(__name__)

# Looked up for every message.
_TYPE, _CORRELATION_ID, _REPLY_TO = Headers.TYPE, Headers.CORRELATION_ID, Headers.REPLY_TO
_DEADLINE, _SEQUENCE, _END = Headers.DEADLINE, Headers.SEQUENCE, Headers.END
_ERROR = ErrorReply.TYPE
#: The first places in a stream as they are written; few have more.
_PLACES = {str(place): place for place in range(100)}

#: Replies taken from the broker ahead of their distribution, which takes microseconds each.
_PREFETCH = 64
#: Replies of one stream that may wait for a slow reader before the stream is given up.
_MAX_BUFFERED = 10_000
#: How long `aclose` waits for cancel messages that are on their way, in seconds.
_CANCEL_PATIENCE_S = 1.0


class PubSub(Protocol):
    """The part of a transport that is needed here."""

    async def publish(
        self,
        topic: str,
        payload: Body,
        *,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
        delay_s: float | None = None,
    ) -> str:
        """Publish as `Transport.publish`."""
        ...

    async def subscribe(
        self,
        topic: str,
        group: str,
        *,
        mode: Mode = Mode.SHARED,
        prefetch: int = 1,
        retry: RetryPolicy | None = None,
        start: Start | None = None,
    ) -> Subscription:
        """Subscribe as `Transport.subscribe`."""
        ...


@dataclass(slots=True)
class RequesterCounters:
    """What happened to replies, since the start."""

    requests: int = 0
    """Requests published."""
    replies: int = 0
    """Replies given to their asker."""
    late: int = 0
    """Replies dropped because nobody waits for them any more."""
    duplicate: int = 0
    """Replies of a stream dropped because their place was taken."""
    odd: int = 0
    """Replies dropped because they were not replies."""
    cancelled: int = 0
    """Requests taken back."""


class _Pending(msgspec.Struct, eq=False):
    """A request that waits: its headers, its deadline, its replies so far in order, and how it ended."""

    topic: str
    timeout_s: float
    """Seconds from the request on."""
    due: float
    """The deadline by the event loop's clock, for `Limits`."""
    correlation_id: str
    headers: dict[str, str]
    failure: WhenceError | None = None
    late: bool = False
    """True once the deadline passed."""
    finished: bool = False
    """True once the reply with `end` is in its place."""
    place: int = 0
    """Of the next reply in order."""
    ahead: dict[int, Reply] = {}
    """Replies that came before their turn, by place."""
    ready: deque[Reply] = msgspec.field(default_factory=deque)
    """Replies in order that nobody took yet."""
    waiter: asyncio.Future[None] | None = None

    def add(self, reply: Reply) -> bool:
        """Put a reply into its place; False when the place was taken or lies behind the end."""
        place, ahead, ready = reply.sequence, self.ahead, self.ready
        if self.finished or place < self.place or place in ahead:
            return False
        if len(ready) + len(ahead) >= _MAX_BUFFERED:
            self.fail(Overloaded(f"{_MAX_BUFFERED} replies wait for a reader that does not read"))
            return True
        if place > self.place:
            ahead[place] = reply
            return True
        following: Reply | None = reply
        while following is not None:
            ready.append(following)
            place += 1
            self.finished = following.end
            following = ahead.pop(place, None) if ahead and not following.end else None
        self.place = place
        self.wake()
        return True

    def fail(self, error: WhenceError) -> None:
        """End the wait with an error, after the replies that are there."""
        self.failure = error
        self.wake()

    def strike(self) -> None:
        """End the wait because the deadline passed."""
        self.late = True
        self.fail(self.too_late())

    def too_late(self) -> DeadlineExceeded:
        """Give the error of a request without a reply in time."""
        waited = max(0.0, self.timeout_s)
        return DeadlineExceeded(f"no reply from {self.topic} within {waited:.3g} s")

    def wake(self) -> None:
        """Have whoever waits look again."""
        waiter = self.waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def next(self) -> Reply:
        """Wait for the next reply in order. Cancelling loses nothing."""
        while not self.ready:
            if self.failure is not None:
                raise self.failure
            self.waiter = asyncio.get_running_loop().create_future()
            await self.waiter
        return self.ready.popleft()


class Requester:
    """The asking side of one client process.

    The reply topic is subscribed to with the first request, before it is published.

    Args:
        transport: Where to publish and subscribe.
        instance: Name of this client, lower-case letters and digits; random when empty.
        clock: Source of time.
        punctual: Whether publishing takes no longer than the deadline header says.
        kept: Whether the broker keeps replies until this client has them. Otherwise the topic is
            non-persistent: a broker drops what it cannot write to the client's connection at once, which
            any large message on that connection is enough for, and everything while there is none.

    Raises:
        ConfigError: `instance` cannot be part of a topic's name.
    """

    def __init__(
        self,
        transport: PubSub,
        *,
        instance: str = "",
        clock: Clock | None = None,
        punctual: bool = False,
        kept: bool = False,
    ) -> None:
        self.reply_topic = full_topic(f"reply.{instance or uuid.uuid4().hex}", persistent=kept)
        self.counters = RequesterCounters()
        #: Makes correlation ids unique among all clients, also when an instance's name is used again.
        self._prefix = uuid.uuid4().hex
        self._numbers = count(1)
        self._limits = Limits()
        self._punctual = punctual
        # A broadcast's member leaves nothing behind on the broker, however it ends.
        self._mode = Mode.BROADCAST if kept else Mode.EXCLUSIVE
        #: At first from the beginning of a topic that is new: so a broker knows where to go on when the
        #: connection breaks before the first reply.
        self._start_at = Start.EARLIEST if kept else Start.LATEST
        self._transport = transport
        self._clock: Clock = clock or SystemClock()
        self._pending: dict[str, _Pending] = {}
        self._subscription: Subscription | None = None
        self._pump: asyncio.Task[None] | None = None
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
        payload: Body,
        *,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
        timeout_s: float = 30.0,
    ) -> Reply:
        """Publish a request and wait for its first reply, which may be of type `error.v1`.

        Being cancelled takes the request back.

        Raises:
            DeadlineExceeded: No reply within `timeout_s` seconds, or the deadline header passed before.
            BadInput: A request with the same correlation id is waiting already.
            Overloaded: The queue of the topic stayed full.
            Unavailable: The broker cannot be reached, or the client was closed.
        """
        pending = self._register(topic, headers, timeout_s)
        try:
            if self._punctual and self._subscription is not None:
                await self._publish(pending, payload, key)
            else:
                await self._send(pending, payload, key)
            # What is answered within `publish` needs no watch.
            return pending.ready.popleft() if pending.ready else await self._next(pending)
        except asyncio.CancelledError:
            self._cancel_later(pending)
            raise
        finally:
            self._forget(pending)

    async def stream(
        self,
        topic: str,
        payload: Body,
        *,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
        timeout_s: float = 30.0,
    ) -> AsyncIterator[Reply]:
        """Publish a request and yield its replies in order, each once, up to the one with `end`.

        Nothing is published before the first reply is asked for. Leaving the iterator early takes the
        request back; close it (`contextlib.aclosing`) to do so at once.

        Raises:
            DeadlineExceeded: The stream did not end within `timeout_s` seconds, or the deadline header
                passed before.
            BadInput: A request with the same correlation id is waiting already.
            Overloaded: The queue of the topic stayed full, or 10 000 replies piled up unread.
            Unavailable: The broker cannot be reached, or the client was closed.
        """
        pending = self._register(topic, headers, timeout_s)
        ended = False
        try:
            if self._punctual and self._subscription is not None:
                await self._publish(pending, payload, key)
            else:
                await self._send(pending, payload, key)
            while not ended:
                # The time that the reader spends between two replies raises nothing inside the reader.
                reply = pending.ready.popleft() if pending.ready else await self._next(pending)
                ended = reply.end
                yield reply
        finally:
            self._forget(pending)
            if not (ended or pending.late):
                self._cancel_later(pending)

    async def cancel(self, topic: str, correlation_id: str) -> None:
        """Ask, at best effort, whoever works on a request to stop.

        Raises:
            Overloaded: The control topic stayed full.
            Unavailable: The broker cannot be reached.
        """
        self.counters.cancelled += 1
        await self._transport.publish(
            cancel_topic(full_topic(topic)),
            correlation_id.encode(),
            headers={Headers.CORRELATION_ID: correlation_id},
        )

    async def aclose(self) -> None:
        """Fail what waits with `Unavailable` and leave the reply topic; safe to call twice."""
        self._closed = True
        self._fail_all(Unavailable("the client was closed while a request waited"))
        self._limits.close()
        if self._cancels:
            await asyncio.wait(set(self._cancels), timeout=_CANCEL_PATIENCE_S)
        tasks = [*self._cancels, *([self._pump] if self._pump is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._pump = None
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.aclose()

    def _register(
        self, topic: str, headers: Mapping[str, str] | None, timeout_s: float
    ) -> _Pending:
        """Begin to wait; the deadline is the nearer of two when the request has one already."""
        if self._closed:
            raise Unavailable("the client is closed")
        own = dict(headers) if headers else {}
        now = self._clock.time()
        deadline_s = now + timeout_s
        given = deadline_of(own) if _DEADLINE in own else None
        if given is not None and given < deadline_s:
            deadline_s, timeout_s = given, given - now
        correlation_id = own.get(_CORRELATION_ID) or f"{self._prefix}-{next(self._numbers)}"
        own[_CORRELATION_ID] = correlation_id
        own[_DEADLINE] = str(int(deadline_s * 1000))
        loop = asyncio.get_running_loop()
        pending = _Pending(topic, timeout_s, loop.time() + timeout_s, correlation_id, own)
        if timeout_s <= 0:
            raise pending.too_late()
        if correlation_id in self._pending:
            raise BadInput(
                f"a request with correlation id {correlation_id!r} is waiting already",
                hint="leave the correlation-id header out to have one made",
            )
        self._pending[correlation_id] = pending
        return pending

    def _forget(self, pending: _Pending) -> None:
        del self._pending[pending.correlation_id]
        self._limits.discard(pending)

    async def _next(self, pending: _Pending) -> Reply:
        """Wait for the next reply, up to the deadline."""
        self._limits.add(pending, asyncio.get_running_loop())
        return await pending.next()

    async def _send(self, pending: _Pending, payload: Body, key: str | None) -> None:
        """Publish a request.

        Raises:
            DeadlineExceeded: That alone took longer than the request has time.
        """
        try:
            with self._limits.within(pending.timeout_s):
                if self._subscription is None:
                    await self._start()
                await self._publish(pending, payload, key)
        except TimeoutError as error:
            pending.late = True
            raise pending.too_late() from error

    def _publish(self, pending: _Pending, payload: Body, key: str | None) -> Awaitable[str]:
        headers = pending.headers
        headers[_REPLY_TO] = self.reply_topic
        self.counters.requests += 1
        return self._transport.publish(pending.topic, payload, headers=headers, key=key)

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
            self._pump = asyncio.create_task(
                self._distribute(self._subscription), name="whence-replies"
            )

    async def _distribute(self, subscription: Subscription) -> None:
        """Give every reply to its asker until the subscription ends."""
        if isinstance(subscription, Pushing):
            # Then only the end of the subscription comes out of `receive`.
            subscription.push_to(self._place)
        try:
            while True:
                delivery = await subscription.receive()
                self._place(delivery.body, delivery.headers)
                await subscription.ack(delivery)
        except WhenceError as error:
            # The next request subscribes anew; those that wait cannot know whether their reply was lost.
            if not self._closed:
                logger.warning("reply topic lost", extra={"action": "replies", "error": str(error)})
            self._subscription = None
            self._fail_all(Unavailable(f"the reply topic was lost: {error}"))
            with suppress(WhenceError):
                await subscription.aclose()

    def _place(self, body: Body, headers: Mapping[str, str]) -> None:
        reply = reply_of(body, headers)
        if reply is None:
            self.counters.odd += 1
            return
        pending = self._pending.get(headers[_CORRELATION_ID])
        if pending is None:
            self.counters.late += 1
        elif pending.add(reply):
            self.counters.replies += 1
        else:
            self.counters.duplicate += 1

    def _fail_all(self, error: WhenceError) -> None:
        for pending in self._pending.values():
            pending.fail(error)

    def _cancel_later(self, pending: _Pending) -> None:
        """Take a request back without keeping the one who leaves waiting."""
        if self._closed:
            return
        task = asyncio.create_task(self._cancel_quietly(pending), name="whence-cancel")
        self._cancels.add(task)
        task.add_done_callback(self._cancels.discard)

    async def _cancel_quietly(self, pending: _Pending) -> None:
        try:
            await self.cancel(pending.topic, pending.correlation_id)
        except WhenceError as error:
            logger.debug("cancel not sent", extra={"action": "cancel", "error": str(error)})


def deadline_of(headers: Mapping[str, str]) -> float | None:
    """Give the deadline in seconds since the epoch; None when there is none that can be read."""
    text = headers.get(_DEADLINE)
    if not text:
        return None
    # Longer numbers than any date are no deadlines, and huge ones would not fit a float.
    return int(text) / 1000 if text.isascii() and text.isdecimal() and len(text) <= 18 else None


def reply_of(body: Body, headers: Mapping[str, str]) -> Reply | None:
    """Read a message as a reply; None when it is none.

    Without a sequence number a reply is the only one. An error is always the last one.
    """
    if not headers.get(_CORRELATION_ID):
        return None
    number = headers.get(_SEQUENCE)
    if number is None:
        return Reply(body=body, headers=headers)
    place = _PLACES.get(number)
    if place is None:
        if not (number.isascii() and number.isdecimal() and len(number) <= 9):
            return None
        place = int(number)
    end = headers.get(_END) == "1" or headers.get(_TYPE) == _ERROR
    return Reply(body=body, headers=headers, sequence=place, end=end)

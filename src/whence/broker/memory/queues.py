"""The broker inside this process: topics, the queues of their groups, and who holds what.

All of it is plain data changed between two awaits of one event loop, so nothing here locks or waits; the
transport in `broker.memory` does the waiting. Publishing, handing out and settling cost O(groups of the
topic) a message; a message in a group is one small object, its body is shared between groups and never
copied.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Mapping
from itertools import count

import msgspec

from whence.broker.clock import Clock, SystemClock, Timer
from whence.broker.memory.faults import Faults
from whence.broker.transport import Delivery, Headers, Mode, Start, TopicStats
from whence.schema.errors import ConfigError, Unavailable
from whence.schema.topics import full_topic
from whence.schema.wire import Body, plain

__all__ = ("Entry", "Group", "Member", "MemoryBroker", "StoredMessage", "Topic")

_ATTEMPT = Headers.ATTEMPT
_KEY_ORDERED = Mode.KEY_ORDERED
#: Most messages begun within each other; what is published deeper waits for the next turn of the event loop.
_MAX_DEPTH = 8

Taker = Callable[[Body, dict[str, str]], None]
"""Takes the body and the headers of a message."""


def _nothing(_: object) -> None:
    pass


class StoredMessage(msgspec.Struct, frozen=True, eq=False):
    """One message of a topic; shared by its groups, so nobody changes it."""

    topic: str
    payload: Body
    headers: dict[str, str]
    key: str | None
    published_at: float
    due: float
    """Monotonic seconds before which nobody gets it; 0 for at once."""
    size: int
    """Bytes of the payload, of a message that is handed over the most it may take."""

    def with_headers(self, headers: Mapping[str, str]) -> StoredMessage:
        """Give a copy with more headers, for one group."""
        return msgspec.structs.replace(self, headers={**self.headers, **headers})


class Entry(msgspec.Struct, eq=False):
    """One message in the queue of one group."""

    message: StoredMessage
    order: int
    attempt: int = 1
    redelivered: bool = False
    first_at: float = 0.0
    """First delivery in seconds since the epoch; 0 before."""
    settling: bool = False
    """True while its dead letter is being published."""

    def __lt__(self, other: Entry) -> bool:
        return self.order < other.order


class Waiter(msgspec.Struct, eq=False):
    """One who waits for a message."""

    future: asyncio.Future[Delivery]
    begin: Callable[[Delivery], bool] | None = None
    """Takes a message within `publish`; tells whether it is done with it."""
    begun: bool = False
    """True once it began with one that it is not done with."""

    def is_left(self) -> bool:
        """Tell whether it has a message that it has not begun with."""
        future = self.future
        got = future.done() and not future.cancelled() and future.exception() is None
        return got and not self.begun


class Member:
    """One subscriber of a group: what it holds and its waiting receivers."""

    __slots__ = (
        "client",
        "closed",
        "drained",
        "group",
        "held",
        "lost",
        "paused",
        "prefetch",
        "settle_taken",
        "taker",
        "waiters",
    )

    def __init__(self, group: Group, prefetch: int, client: object) -> None:
        self.group = group
        self.prefetch = prefetch
        self.client = client
        self.held: dict[str, Entry] = {}
        #: Settled in the member's eyes, not in the broker's (a fault).
        self.lost: list[Entry] = []
        self.waiters: deque[Waiter] = deque()
        #: Takes messages in the place of those who wait; each is settled at once by the other.
        self.taker: Taker | None = None
        self.settle_taken: Callable[[Delivery], object] = _nothing
        self.paused = False
        self.closed = False
        #: Set by one who waits for `held` to become empty.
        self.drained: asyncio.Future[None] | None = None

    def can_take(self) -> bool:
        """Tell whether the member may get one more message."""
        return not self.paused and len(self.held) < self.prefetch

    def is_ready(self) -> bool:
        """Tell whether it may get a message and somebody takes it; forgets receivers that were cancelled."""
        if self.paused or len(self.held) >= self.prefetch:
            return False
        waiters = self.waiters
        while waiters:
            if not waiters[0].future.done():
                return True
            waiters.popleft()
        return self.taker is not None

    def settle(self, delivery_id: str) -> None:
        """Forget a delivery and let the group go on."""
        entry = self.held.pop(delivery_id)
        self.group.release(entry)
        if not self.held and self.drained is not None and not self.drained.done():
            self.drained.set_result(None)


class Group:
    """The queue of one group and its members."""

    def __init__(self, topic: Topic, name: str, mode: Mode, broker: MemoryBroker) -> None:
        self.topic = topic
        self.name = name
        self.mode = mode
        self.members: list[Member] = []
        #: Messages of the group that are not settled: waiting, delayed and in flight.
        self.size = 0
        #: Publishers that wait for the queue to shrink.
        self.space: deque[asyncio.Future[None]] = deque()
        self._broker = broker
        self._ready: deque[Entry] = deque()
        self._delayed: list[tuple[float, int, Entry]] = []
        self._busy: set[str] = set()
        self._parked: dict[str, list[Entry]] = {}
        self._timer: Timer | None = None
        self._timer_due = 0.0
        self._turn = 0

    # Entering the queue

    def push(self, payload: Body, headers: dict[str, str]) -> bool:
        """Give a message that nobody else gets to the one member, if that takes and settles it at once.

        Nothing is kept of it, and the headers become the member's.
        """
        members = self.members
        if len(members) != 1 or self._ready or self.mode is _KEY_ORDERED:
            return False
        member = members[0]
        taker = member.taker
        if taker is None or member.paused or len(member.held) >= member.prefetch:
            return False
        if self._broker.faults.armed:
            return False
        headers[_ATTEMPT] = "1"
        taker(payload, headers)
        return True

    def add(self, message: StoredMessage) -> None:
        """Take a new message in and hand it out when somebody waits for it.

        Only who gets it right now gets it as it was published; who comes later gets bytes.
        """
        entry = Entry(message, next(self._broker.orders))
        self.size += 1
        if message.due > 0.0 and message.due > self._broker.clock.monotonic():
            self.delay(entry, message.due)
            return
        if not self._ready and not self._broker.faults.armed:
            member = self._waiting_member()
            if member is not None and (self.mode is not _KEY_ORDERED or self._is_free(message.key)):
                delivery = self._hand(entry, member, message.payload)
                if member.taker is None:
                    self._begin(delivery, member, member.waiters.popleft())
                else:
                    self._push(delivery, member)
                return
        self._enqueue(entry)
        self.dispatch()

    def _is_free(self, key: str | None) -> bool:
        """Tell whether no message of the same key is in flight, and take the key."""
        if key is None:
            return True
        if key in self._busy:
            return False
        self._busy.add(key)
        return True

    def again(self, entry: Entry) -> None:
        """Take a settled message in once more (a fault)."""
        copy = Entry(entry.message, next(self._broker.orders))
        copy.attempt, copy.first_at, copy.redelivered = entry.attempt, entry.first_at, True
        self.size += 1
        self._enqueue(copy)
        self.dispatch()

    def delay(self, entry: Entry, due: float) -> None:
        """Keep an entry back until the monotonic second `due`, then put it at the end of the queue."""
        tick = self._broker.faults.delay_tick_s
        if tick > 0.0:
            due = -(-due // tick) * tick
        entry.order = next(self._broker.orders)
        heapq.heappush(self._delayed, (due, entry.order, entry))
        self._arm()

    def _enqueue(self, entry: Entry) -> None:
        faults = self._broker.faults
        if faults.armed and faults.strikes("reorder", self.topic.name):
            self._ready.insert(faults.random.randrange(len(self._ready) + 1), entry)
        else:
            self._ready.append(entry)

    # Leaving it

    def take(self, member: Member) -> Delivery | None:
        """Hand the next message to a member that may take one; None when there is none."""
        if not self._ready or not member.can_take() or member.taker is not None:
            return None
        entry = self._next()
        return None if entry is None else self._hand(entry, member, plain(entry.message.payload))

    def dispatch(self) -> None:
        """Hand messages to waiting members, in turn, as long as there are both."""
        while self._ready:
            member = self._waiting_member()
            if member is None:
                return
            entry = self._next()
            if entry is None:
                return
            self._give(entry, member)

    def _give(self, entry: Entry, member: Member) -> None:
        """Hand a message that has waited to a member that waits."""
        delivery = self._hand(entry, member, plain(entry.message.payload))
        if member.taker is None:
            # Of one that is ready the first still waits.
            member.waiters.popleft().future.set_result(delivery)
        else:
            self._push(delivery, member)

    def _push(self, delivery: Delivery, member: Member) -> None:
        """Hand a message to a member that takes all and settles them at once."""
        assert member.taker is not None
        member.taker(delivery.body, dict(delivery.headers))
        member.settle_taken(delivery)

    def _begin(self, delivery: Delivery, member: Member, waiter: Waiter) -> None:
        """Hand over a message that was just published; who is done with it at once waits for the next one."""
        broker, future = self._broker, waiter.future
        if waiter.begin is None or broker.depth >= _MAX_DEPTH:
            future.set_result(delivery)
            return
        broker.depth += 1
        try:
            done = waiter.begin(delivery)
        finally:
            broker.depth -= 1
        if future.done():
            return
        if not done:
            waiter.begun = True
            future.set_result(delivery)
        elif member.closed:
            future.set_exception(Unavailable(f"subscription {self.label} was closed"))
        else:
            member.waiters.appendleft(waiter)
            if self._ready:
                self.dispatch()

    def release(self, entry: Entry) -> None:
        """Account for a settled entry: its key, its place in the queue, and whoever waits for either."""
        self.size -= 1
        if self.mode is _KEY_ORDERED:
            self._free_key(entry)
        if self.space:
            self.wake_publisher()
        if self._ready:
            self.dispatch()

    def retry(self, member: Member, delivery_id: str, due: float) -> None:
        """Move a held entry to those that wait for `due`."""
        entry = member.held[delivery_id]
        entry.redelivered = True
        self.size += 1
        self.delay(entry, due)
        member.settle(delivery_id)

    def wake_publisher(self) -> None:
        """Let one publisher look again whether the queue has room."""
        while self.space:
            waiter = self.space.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _next(self) -> Entry | None:
        """Take the first entry whose key is free; those before it wait for their key, in order."""
        if self.mode is not _KEY_ORDERED:
            return self._ready.popleft()
        while self._ready:
            entry = self._ready.popleft()
            key = entry.message.key
            if key is None:
                return entry
            if key not in self._busy:
                self._busy.add(key)
                return entry
            heapq.heappush(self._parked.setdefault(key, []), entry)
        return None

    def _free_key(self, entry: Entry) -> None:
        key = entry.message.key
        if key is None or self.mode is not _KEY_ORDERED:
            return
        self._busy.discard(key)
        parked = self._parked.get(key)
        if parked:
            self._ready.appendleft(heapq.heappop(parked))
        if not parked:
            self._parked.pop(key, None)

    def _hand(self, entry: Entry, member: Member, payload: Body) -> Delivery:
        message = entry.message
        attempt = entry.attempt
        broker = self._broker
        headers = message.headers.copy()
        headers[_ATTEMPT] = "1" if attempt == 1 else str(attempt)
        if not entry.first_at:
            entry.first_at = broker.clock.time()
        delivery_id = str(next(broker.orders))
        member.held[delivery_id] = entry
        return Delivery(
            body=payload,
            headers=headers,
            key=message.key,
            id=delivery_id,
            topic=message.topic,
            attempt=attempt,
            redelivered=entry.redelivered,
            published_at=message.published_at,
        )

    def _waiting_member(self) -> Member | None:
        """Give the next member, in turn, that waits and may take a message."""
        members = self.members
        if len(members) == 1:
            return members[0] if members[0].is_ready() else None
        for step in range(len(members)):
            place = (self._turn + step) % len(members)
            member = members[place]
            if member.is_ready():
                self._turn = place + 1
                return member
        return None

    # Members and time

    def join(self, member: Member) -> None:
        """Let a member in."""
        self.members.append(member)
        self._arm()

    def leave(self, member: Member) -> None:
        """Let a member go; what it held goes back to the group."""
        member.closed = True
        self.members.remove(member)
        for waiter in member.waiters:
            if not waiter.future.done():
                waiter.future.set_exception(Unavailable(f"subscription {self.label} was closed"))
        member.waiters.clear()
        self.take_back(member)
        if not self.members:
            self.stop_timer()

    def take_back(self, member: Member) -> None:
        """Return to the queue all that a member holds, before all others and in its old order.

        The member's deliveries are stale from then on.
        """
        held = list(member.held.values())
        for entry in held:
            self._free_key(entry)
        returning = sorted([*held, *member.lost], reverse=True)
        self.size += len(member.lost)
        member.held.clear()
        member.lost.clear()
        for entry in returning:
            entry.redelivered = True
            entry.settling = False
            self._ready.appendleft(entry)
        self.dispatch()

    def take_one_back(self, member: Member, delivery_id: str) -> None:
        """Return to the queue a delivery that nobody has seen."""
        entry = member.held.pop(delivery_id, None)
        if entry is not None:
            self._free_key(entry)
            self._ready.appendleft(entry)
            self.dispatch()

    def change_mode(self, mode: Mode) -> None:
        """Change how members share; only while there is none."""
        parked = [entry for entries in self._parked.values() for entry in entries]
        self._parked.clear()
        self._busy.clear()
        self.mode = mode
        self._ready = deque(sorted([*self._ready, *parked]) if parked else self._ready)

    def stop_timer(self) -> None:
        """Wake up no more; delayed messages come when a member joins again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def label(self) -> str:
        """Name of the group and its topic, for messages to people."""
        return f"{self.name!r} of {self.topic.name}"

    def stats(self) -> TopicStats:
        """Count what waits and what is in flight. Cost: O(messages of the group)."""
        held = [entry for member in self.members for entry in member.held.values()]
        waiting = [
            *self._ready,
            *(item[2] for item in self._delayed),
            *(entry for entries in self._parked.values() for entry in entries),
        ]
        ages = [entry.message.published_at for entry in (*held, *waiting)]
        oldest = max(0.0, self._broker.clock.time() - min(ages)) if ages else 0.0
        return TopicStats(backlog=len(waiting), in_flight=len(held), oldest_age_s=oldest)

    def _arm(self) -> None:
        """Have one timer, at the moment the first delayed entry is due, while there are members."""
        if not self._delayed or not self.members:
            return
        due = self._delayed[0][0]
        if self._timer is not None:
            if self._timer_due <= due:
                return
            self._timer.cancel()
        self._timer_due = due
        clock = self._broker.clock
        self._timer = clock.call_later(max(0.0, due - clock.monotonic()), self._wake)

    def _wake(self) -> None:
        self._timer = None
        now = self._broker.clock.monotonic()
        while self._delayed and self._delayed[0][0] <= now:
            self._enqueue(heapq.heappop(self._delayed)[2])
        self._arm()
        self.dispatch()


class Topic:
    """The groups of one topic and the last messages published to it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.persistent = name.startswith("persistent://")
        #: Durable groups by name.
        self.groups: dict[str, Group] = {}
        #: One group for each member of a broadcast, gone with the member.
        self.broadcasts: dict[tuple[str, int], Group] = {}
        #: Every queue that a new message enters; follows the two above.
        self.queues: tuple[Group, ...] = ()
        self.retained: deque[StoredMessage] = deque()
        self.retained_bytes = 0

    def open(self, key: str | tuple[str, int], group: Group) -> Group:
        """Add a group: durable when the key is its name, a member's own when it is a pair."""
        if isinstance(key, str):
            self.groups[key] = group
        else:
            self.broadcasts[key] = group
        self.queues = (*self.groups.values(), *self.broadcasts.values())
        return group

    def close(self, group: Group) -> None:
        """Drop a group that does not outlive its members."""
        self.groups = {name: g for name, g in self.groups.items() if g is not group}
        self.broadcasts = {key: g for key, g in self.broadcasts.items() if g is not group}
        self.queues = (*self.groups.values(), *self.broadcasts.values())


class MemoryBroker:
    """Topics and groups that several memory transports of one event loop may share.

    A persistent topic remembers its last messages, at most `retain_messages` and `retain_bytes`, whether
    or not a group had them: a group that is new and starts at `Start.EARLIEST` begins with those. What a
    group has not settled stays in the group and counts towards `max_backlog` only. A non-persistent
    topic remembers nothing, keeps nothing for groups without members, and vanishes with its last member.

    Args:
        clock: Source of time.
        faults: Switches of what goes wrong.
        max_backlog: Unsettled messages of one group before publishers have to wait, 1 or more.
        retain_messages: Messages remembered of each persistent topic, 0 or more.
        retain_bytes: Bytes of their bodies, 0 or more, of a sealed message the most it may take; the oldest
            go first.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        faults: Faults | None = None,
        max_backlog: int = 10_000,
        retain_messages: int = 1_000,
        retain_bytes: int = 256 * 1024,
    ) -> None:
        if max_backlog < 1:
            raise ConfigError(f"max_backlog is {max_backlog}", hint="use 1 or more")
        self.clock: Clock = clock or SystemClock()
        self.faults = faults or Faults()
        self.max_backlog = max_backlog
        self.orders = count(1)
        #: How many messages are at work within each other's `publish`.
        self.depth = 0
        #: Messages to non-persistent topics that nobody was there to take.
        self.dropped = 0
        self._retain_messages = retain_messages
        self._retain_bytes = retain_bytes
        self._topics: dict[str, Topic] = {}
        #: Gives a topic that exists by its full name, else None.
        self.known: Callable[[str], Topic | None] = self._topics.get
        #: The one that all calls come from; `bind` changes it.
        self.loop: asyncio.AbstractEventLoop | None = None

    def bind(self) -> None:
        """Make sure that all calls come from one event loop; a closed one may be followed by another.

        Raises:
            ConfigError: Another loop is at work with this broker.
        """
        loop = asyncio.get_running_loop()
        if loop is self.loop:
            return
        if self.loop is not None and not self.loop.is_closed():
            raise ConfigError(
                "a memory broker serves one event loop",
                hint="make a transport of its own in the other loop, or use pulsar://",
            )
        self.loop = loop
        for topic in list(self._topics.values()):
            for group in topic.queues:
                self._abandon(topic, group)

    def _abandon(self, topic: Topic, group: Group) -> None:
        """Let members go whose event loop is gone, and with it their receivers."""
        group.stop_timer()
        group.space.clear()
        for member in list(group.members):
            member.waiters.clear()
            self.leave(topic, member)

    def topic(self, name: str) -> Topic:
        """Give a topic by its full or short name, made when it is new.

        Raises:
            ConfigError: That is not a name of a topic.
        """
        topic = self._topics.get(name)
        if topic is None:
            full = full_topic(name)
            topic = self._topics.get(full)
            if topic is None:
                topic = self._topics[full] = Topic(full)
        return topic

    def full_group(self, topic: Topic) -> Group | None:
        """Give a group of the topic that has no room for another message."""
        for group in topic.queues:
            if group.size >= self.max_backlog:
                return group
        return None

    def store(
        self,
        topic: Topic,
        payload: Body,
        headers: dict[str, str],
        key: str | None,
        delay_s: float | None,
        size: int,
    ) -> bool:
        """Give a message to every group of the topic; False when one has no room, and then none has it.

        The headers become the broker's own.
        """
        queues = topic.queues
        if not topic.persistent:
            if len(queues) == 1 and not delay_s and queues[0].push(payload, headers):
                return True
            if not queues:
                self.dropped += 1
                self._forget(topic)
                return True
        if self.full_group(topic) is not None:
            return False
        clock = self.clock
        due = clock.monotonic() + delay_s if delay_s else 0.0
        message = StoredMessage(topic.name, payload, headers, key, clock.time(), due, size)
        if topic.persistent:
            retained = topic.retained
            retained.append(message)
            kept = topic.retained_bytes + size
            while kept > self._retain_bytes or len(retained) > self._retain_messages:
                kept -= retained.popleft().size
            topic.retained_bytes = kept
        for group in queues:
            group.add(message)
        return True

    def join(
        self,
        topic: Topic,
        name: str,
        *,
        mode: Mode,
        prefetch: int,
        start: Start | None,
        client: object,
    ) -> Member:
        """Add a member to a group, which is made when it is new.

        Raises:
            Unavailable: The group is exclusive and taken, or its members share in another mode.
        """
        if mode is Mode.BROADCAST:
            key = (name, next(self.orders))
            group = self._new_group(topic, key, name, mode, start or Start.LATEST)
        else:
            group = self._durable_group(topic, name, mode, start or Start.EARLIEST)
        member = Member(group, prefetch, client)
        group.join(member)
        return member

    def _new_group(
        self, topic: Topic, key: str | tuple[str, int], name: str, mode: Mode, start: Start
    ) -> Group:
        group = topic.open(key, Group(topic, name, mode, self))
        if start is Start.EARLIEST:
            for message in topic.retained:
                group.add(message)
        return group

    def _durable_group(self, topic: Topic, name: str, mode: Mode, start: Start) -> Group:
        group = topic.groups.get(name)
        if group is None:
            return self._new_group(topic, name, name, mode, start)
        if group.members and Mode.EXCLUSIVE in (mode, group.mode):
            raise Unavailable(
                f"exclusive group {group.label} is taken",
                hint="close the other subscriber first, or choose another group",
            )
        if group.members and mode is not group.mode:
            raise Unavailable(
                f"group {group.label} is in mode {group.mode}, not {mode}",
                hint="all members of a group share in one mode",
            )
        if mode is not group.mode:
            group.change_mode(mode)
        return group

    def leave(self, topic: Topic, member: Member) -> None:
        """Let a member go, and with the last one whatever does not outlive it."""
        group = member.group
        if member.closed:
            return
        group.leave(member)
        if group.members or (topic.persistent and group.mode is not Mode.BROADCAST):
            return
        topic.close(group)
        while group.space:
            group.wake_publisher()
        if not topic.persistent:
            self._forget(topic)

    def _forget(self, topic: Topic) -> None:
        if not topic.queues:
            self._topics.pop(topic.name, None)

    def stats(self, topic_name: str, group_name: str) -> TopicStats:
        """Tell how far a group is behind; the members of a broadcast are added up.

        A group that does not exist is not behind.
        """
        topic = self._topics.get(full_topic(topic_name))
        queues = topic.queues if topic is not None else ()
        each = [group.stats() for group in queues if group.name == group_name]
        return TopicStats(
            backlog=sum(stats.backlog for stats in each),
            in_flight=sum(stats.in_flight for stats in each),
            oldest_age_s=max((stats.oldest_age_s for stats in each), default=0.0),
        )

    def members_of(self, client: object) -> list[Member]:
        """Give the members that a client brought in."""
        return [
            member
            for topic in self._topics.values()
            for group in topic.queues
            for member in group.members
            if member.client is client
        ]

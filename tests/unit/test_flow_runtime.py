"""Flows that run on the in-process broker: calls over hops, failure, restart, drain and health."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest

from whence.broker.memory.transport import MemoryTransport
from whence.broker.transport import Headers
from whence.flow.client import FlowClient
from whence.flow.definition import FlowDefinition
from whence.flow.loader import parse_flow
from whence.flow.registry import Registry
from whence.flow.resources import Resources
from whence.flow.runtime import FlowRuntime, run_flow
from whence.flow.settings import Settings
from whence.flow.supervisor import RestartPolicy, State
from whence.processors.base import Context, Processor, Service, StreamingProcessor
from whence.schema.codec import encode
from whence.schema.errors import (
    BadInput,
    CodecError,
    ConfigError,
    DeadlineExceeded,
    DiskFull,
    InternalError,
    NotFound,
    Unavailable,
)
from whence.schema.message import Message
from whence.schema.topics import dead_letter_topic, full_topic


class Question(Message, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "runtime-question.v1"
    text: str = ""
    wait_s: float = 0.0


class Reply(Message, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "runtime-reply.v1"
    text: str = ""
    numbers: tuple[float, ...] = ()


class Inner(Message, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "runtime-inner.v1"
    text: str = ""
    wait_s: float = 0.0


class Innermost(Message, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "runtime-innermost.v1"
    text: str = ""
    wait_s: float = 0.0


class Heard(Message, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "runtime-heard.v1"
    text: str = ""


QUESTION = Service(Question, (Reply,))
INNER = Service(Inner, (Reply,))
INNERMOST = Service(Innermost, (Reply,))
COUNT = Service(Inner, (Reply,), lambda reply: reply.text == "last")  # type: ignore[attr-defined]


class Front(Processor):
    type_name = "front"
    serves = QUESTION
    calls = {"middle": INNER, "side": INNERMOST}
    optional_calls = frozenset({"side"})
    emits = {"heard": Heard}

    async def handle(self, message: Question, context: Context) -> Reply:
        await context.emit("heard", Heard(text=message.text))
        reply = await context.call("middle", Inner(text=message.text, wait_s=message.wait_s), Reply)
        if context.is_bound("side"):
            await context.call("side", Innermost(), Reply)
        return Reply(text=reply.text, numbers=(context.remaining_s() or -1.0, *reply.numbers))


class Middle(Processor):
    type_name = "middle"
    serves = INNER
    calls = {"back": INNERMOST}

    async def handle(self, message: Inner, context: Context) -> Reply:
        inner = Innermost(text=message.text, wait_s=message.wait_s)
        reply = await context.call("back", inner, Reply)
        return Reply(text=reply.text, numbers=(context.remaining_s() or -1.0, *reply.numbers))


class Back(Processor):
    """Answers in capitals; fails for the texts in `failures`."""

    type_name = "back"
    serves = INNERMOST
    needs = ("store",)

    def __init__(self, parameters: Any = None, *, store: SharedState) -> None:
        super().__init__(parameters)
        self.world = store
        self.served = 0

    async def start(self) -> None:
        self.world.starts += 1
        if self.world.start_errors:
            raise self.world.start_errors.pop(0)

    async def aclose(self) -> None:
        self.world.closes += 1
        self.world.served.append(self.served)

    async def handle(self, message: Innermost, context: Context) -> Reply:
        self.served += 1
        if message.text in self.world.failures:
            raise self.world.failures[message.text]
        self.world.working.set()
        await asyncio.sleep(message.wait_s)
        return Reply(text=message.text.upper(), numbers=(context.remaining_s() or -1.0,))


class Listener(Processor):
    type_name = "ear"
    consumes = Heard
    needs = ("store",)

    def __init__(self, parameters: Any = None, *, store: SharedState) -> None:
        super().__init__(parameters)
        self.world = store

    async def handle(self, message: Heard, context: Context) -> None:
        if self.world.ear_errors:
            raise self.world.ear_errors.pop(0)
        self.world.heard.append(message.text)


class Counter(StreamingProcessor):
    type_name = "counter"
    serves = COUNT

    async def handle_stream(self, message: Inner, context: Context) -> AsyncIterator[Reply]:
        for number in range(3):
            yield Reply(text=str(number))
        if message.text == "odd":
            yield Heard()  # type: ignore[misc] # breaks its contract on purpose
        yield Reply(text="last")


class Ranker(Processor):
    type_name = "ranker"
    serves = INNERMOST
    needs = ("reranker",)

    def __init__(self, parameters: Any = None, *, reranker: Any) -> None:
        super().__init__(parameters)
        self.reranker = reranker

    async def handle(self, message: Innermost, context: Context) -> Reply:
        await self.reranker.score("q", ["d"])
        return Reply()


class SharedState:
    """State shared by the processors of one test; takes the place of the store."""

    def __init__(self) -> None:
        self.starts = 0
        self.closes = 0
        self.served: list[int] = []
        self.heard: list[str] = []
        self.start_errors: list[Exception] = []
        self.ear_errors: list[Exception] = []
        self.failures: dict[str, Exception] = {}
        self.working = asyncio.Event()


TYPES = Registry({cls.type_name: cls for cls in (Front, Middle, Back, Listener, Counter, Ranker)})
FLOW = """\
flow: test
processors:
  front:
    type: front
    concurrency: 4
    topics: {request: front.request, middle: middle.request, heard: heard}
  middle:
    type: middle
    concurrency: 4
    topics: {request: middle.request, back: back.request}
  back:
    type: back
    concurrency: 4
    topics: {request: back.request}
    retry: {max_attempts: 3, base_delay_s: 0.001}
  ear:
    type: ear
    topics: {input: heard}
    retry: {max_attempts: 3, base_delay_s: 0.001}
  counter:
    type: counter
    topics: {request: counter.request}
interfaces:
  front: {request: front.request, response: front.response}
  back: {request: back.request, response: back.response}
  counter: {request: counter.request, response: counter.response}
  explain: {topic: heard}
"""
AT_ONCE = RestartPolicy(first_delay_s=0.0)


class RunningFlow:
    """A running flow with its client, state and transport."""

    def __init__(
        self,
        runtime: FlowRuntime,
        client: FlowClient,
        world: SharedState,
        transport: MemoryTransport,
    ) -> None:
        self.runtime = runtime
        self.client = client
        self.world = world
        self.transport = transport

    async def ask(self, text: str, **options: Any) -> Reply:
        wait_s = options.pop("wait_s", 0.0)
        return await self.client.call("front", Question(text=text, wait_s=wait_s), Reply, **options)


def flow(text: str = FLOW) -> FlowDefinition:
    return parse_flow(text.encode(), registry=TYPES)


@asynccontextmanager
async def running(
    text: str = FLOW,
    world: SharedState | None = None,
    settings: Settings | None = None,
    **options: Any,
) -> AsyncIterator[RunningFlow]:
    world = world or SharedState()
    definition = flow(text)
    transport = MemoryTransport()
    resources = Resources(settings or Settings({}), {"store": world})
    options.setdefault("restart", AT_ONCE)
    try:
        async with resources, run_flow(definition, transport, resources, **options) as runtime:
            yield RunningFlow(runtime, FlowClient(definition, transport), world, transport)
    finally:
        await transport.aclose()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, within the timeout of the test."""
    while True:
        if condition():
            return
        await asyncio.sleep(0.001)


async def test_a_question_passes_three_hops_and_back() -> None:
    """Messages reach the innermost processor, its reply returns, and events reach their consumer."""
    async with running() as fixture:
        reply = await fixture.ask("hello")
        await until(lambda: fixture.world.heard == ["hello"])

        assert reply.text == "HELLO"


async def test_the_deadline_is_earlier_at_every_hop() -> None:
    """Each hop has less time than its caller, and all have less than the client."""
    async with running() as fixture:
        reply = await fixture.ask("hello", timeout_s=30.0)

        # Outer first; each remaining time was taken after the inner one's.
        front, middle, back = reply.numbers
        assert 0 < back < 30.0 - 0.2
        assert back <= middle - 0.05
        assert middle <= front - 0.05


async def test_a_deadline_is_optional() -> None:
    """A message without a deadline has no deadline in its handler."""
    async with running() as fixture:
        headers = {Headers.REPLY_TO: full_topic("answers"), Headers.CORRELATION_ID: "1"}
        replies = await fixture.transport.subscribe(full_topic("answers"), "me")
        topic = full_topic("back.request")
        await fixture.transport.publish(topic, encode(Innermost(text="x")), headers=headers)
        delivery = await replies.receive()

        assert delivery.payload == encode(Reply(text="X", numbers=(-1.0,)))


async def test_a_late_reply_is_an_error_in_time() -> None:
    """A late processor fails the question before the client's own deadline."""
    async with running() as fixture:
        with pytest.raises(DeadlineExceeded):
            await fixture.ask("slow", wait_s=60.0, timeout_s=0.3)


async def test_one_trace_over_all_hops() -> None:
    """All messages of a question carry one trace id, and every hop a span of its own."""
    async with running() as fixture:
        taps = [
            await fixture.transport.subscribe(full_topic(name), "tap")
            for name in ("front.request", "middle.request", "back.request", "heard")
        ]
        await fixture.ask("hello")
        parents = [(await tap.receive()).headers[Headers.TRACEPARENT].split("-") for tap in taps]

        assert len({parent[1] for parent in parents}) == 1
        assert len({parent[2] for parent in parents}) == 4


async def test_an_error_crosses_all_hops_unchanged() -> None:
    """An error of the innermost processor reaches the client with its class, message and hint."""
    world = SharedState()
    world.failures["gone"] = NotFound("there is no chunk 7", hint="look elsewhere")
    async with running(world=world) as fixture:
        with pytest.raises(NotFound, match="there is no chunk 7") as caught:
            await fixture.ask("gone")

        assert caught.value.hint == "look elsewhere"
        assert (await fixture.ask("fine")).text == "FINE"


async def test_an_unexpected_exception_is_an_error_reply() -> None:
    """An unexpected exception becomes an error reply and affects no other message."""
    world = SharedState()
    world.failures["bug"] = ZeroDivisionError("secret detail")
    async with running(world=world) as fixture:
        with pytest.raises(InternalError, match="ZeroDivisionError"):
            await fixture.ask("bug")

        assert (await fixture.ask("fine")).text == "FINE"
        assert (await fixture.runtime.health()).ready


async def test_a_foreign_client_may_send_plain_json() -> None:
    """A request without the type header is taken for the topic's own type."""
    async with running() as fixture:
        reply = await fixture.transport.request(full_topic("front.request"), b'{"text": "plain"}')

        assert reply.headers[Headers.TYPE] == Reply.TYPE
        assert b"PLAIN" in reply.payload


@pytest.mark.parametrize(
    ("payload", "type_name"),
    [(b"{}", Heard.TYPE), (b"{}", "no-such.v9"), (b"\xff", Question.TYPE), (b"[]", "")],
)
async def test_undecodable_requests_get_an_error_reply(payload: bytes, type_name: str) -> None:
    """Wrong types and undecodable bytes get an error reply, and the processor continues."""
    async with running() as fixture:
        headers = {Headers.TYPE: type_name} if type_name else {}
        reply = await fixture.transport.request(
            full_topic("front.request"), payload, headers=headers
        )

        assert reply.headers[Headers.TYPE] == "error.v1"
        assert b"undecodable" in reply.payload
        assert (await fixture.ask("fine")).text == "FINE"


async def test_an_undecodable_event_becomes_a_dead_letter() -> None:
    """An undecodable event is stored as a dead letter and not redelivered."""
    async with running() as fixture:
        dead = await fixture.transport.subscribe(dead_letter_topic(full_topic("heard")), "me")
        await fixture.transport.publish(full_topic("heard"), b"junk")
        letter = await dead.receive()

        assert letter.payload == b"junk"
        assert letter.headers[Headers.GROUP] == "ear"


async def test_an_undecodable_reply_is_an_error_of_one_call() -> None:
    """An undecodable reply fails its own call only."""
    async with running(only=("front",)) as fixture:
        server = await fixture.transport.subscribe(full_topic("middle.request"), "middle")

        async def answer(payload: bytes, type_name: str) -> None:
            delivery = await server.receive()
            names = (Headers.CORRELATION_ID,)
            headers = {name: delivery.headers[name] for name in names}
            headers[Headers.TYPE] = type_name
            await fixture.transport.publish(
                delivery.headers[Headers.REPLY_TO], payload, headers=headers
            )
            await server.ack(delivery)

        for payload, type_name in ((b"\x00", Reply.TYPE), (b"{}", Heard.TYPE), (b"{", "error.v1")):
            question = asyncio.create_task(fixture.ask("x"))
            await answer(payload, type_name)
            with pytest.raises(CodecError, match=r"middle\.request"):
                await question
        question = asyncio.create_task(fixture.ask("x"))
        await answer(encode(Reply(text="good")), Reply.TYPE)
        assert (await question).text == "good"


async def test_a_stream_is_ordered_and_ends() -> None:
    """Replies of a streaming processor arrive in order, up to the one marked as last."""
    async with running() as fixture:
        stream = fixture.client.stream("counter", Inner(), (Reply,))
        texts = [reply.text async for reply in stream if isinstance(reply, Reply)]

        assert texts == ["0", "1", "2", "last"]


async def test_an_undeclared_reply_is_an_error() -> None:
    """A reply of a type that the service does not declare fails the request."""
    async with running() as fixture:
        with pytest.raises(InternalError, match="not one of its replies"):
            async for _ in fixture.client.stream("counter", Inner(text="odd"), (Reply,)):
                pass


async def test_replicas_share_the_work() -> None:
    """All replicas handle messages, and each message is handled once."""
    text = FLOW.replace("type: back\n    concurrency: 4", "type: back\n    replicas: 3")
    world = SharedState()
    async with running(text, world) as fixture:
        replies = await asyncio.gather(*(fixture.ask(str(n), wait_s=0.005) for n in range(12)))
        assert sorted(int(reply.text) for reply in replies) == list(range(12))

    assert world.starts == world.closes == 3
    assert sum(world.served) == 12
    assert min(world.served) >= 1


async def test_only_runs_the_named_processors() -> None:
    """`only` starts the named processors; a second runtime with the others completes the flow."""
    world = SharedState()
    definition = flow()
    transport = MemoryTransport()
    resources = Resources(Settings({}), {"store": world})
    async with (
        run_flow(definition, transport, resources, only=("front", "ear", "counter")) as first,
        run_flow(definition, transport, resources, only=("middle", "back")) as second,
    ):
        client = FlowClient(definition, transport)
        assert (await client.call("front", Question(text="both"), Reply)).text == "BOTH"
        names = [[one.name for one in (await r.health()).processors] for r in (first, second)]
        assert names == [["front", "ear", "counter"], ["middle", "back"]]
    await transport.aclose()


async def test_a_failed_start_is_tried_again() -> None:
    """A processor whose start fails for a temporary reason is restarted until it runs."""
    world = SharedState()
    world.start_errors = [Unavailable("not yet"), RuntimeError("odd")]
    async with running(world=world) as fixture:
        assert (await fixture.ask("x")).text == "X"
        back = (await fixture.runtime.health()).processors[2]
        assert (back.state, back.restarts, back.last_error) == (State.RUNNING, 2, "odd")

    assert (world.starts, world.closes) == (3, 3)


async def test_a_start_that_keeps_failing_ends_the_flow_with_its_cause() -> None:
    """After five restarts within the window the flow ends, without subscriptions or tasks."""
    world = SharedState()
    world.start_errors = [Unavailable(f"down {n}", hint="start it") for n in range(9)]
    transport = MemoryTransport()
    resources = Resources(Settings({}), {"store": world})

    with pytest.raises(
        Unavailable, match="processor back failed after 5 restarts: down 5"
    ) as caught:
        async with run_flow(flow(), transport, resources, restart=AT_ONCE):
            pytest.fail("the flow must not start")

    assert caught.value.hint == "start it"
    assert (world.starts, world.closes) == (6, 6)
    await transport.publish(full_topic("front.request"), b"{}")
    assert (await transport.stats(full_topic("front.request"), "front")).in_flight == 0
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    await transport.aclose()


async def test_a_permanent_failure_of_the_start_is_not_repeated() -> None:
    """A wrong setting ends the flow at once."""
    world = SharedState()
    world.start_errors = [BadInput("no such model")]

    with pytest.raises(BadInput, match="processor back failed: no such model"):
        async with running(world=world):
            pytest.fail("the flow must not start")
    assert world.starts == 1


async def test_a_processor_that_fails_is_restarted() -> None:
    """A message that cannot be handled is returned and handled after the restart."""
    world = SharedState()
    world.ear_errors = [DiskFull("no space"), DiskFull("no space")]
    async with running(world=world) as fixture:
        await fixture.ask("kept")
        await until(lambda: world.heard == ["kept"])
        ear = (await fixture.runtime.health()).processors[3]

        assert (ear.restarts, ear.running, ear.last_error) == (2, 1, "no space")


async def test_a_lost_subscription_is_renewed() -> None:
    """A processor that loses its subscription subscribes again and keeps its backlog."""
    async with running() as fixture:
        running_back = fixture.runtime._groups[2]
        subscription = running_back.current[0].worker._state.subscription  # type: ignore[union-attr]
        await subscription.aclose()  # type: ignore[union-attr]
        await until(lambda: running_back.supervisors[0].restarts == 1)

        assert (await fixture.ask("again")).text == "AGAIN"


async def test_a_processor_that_keeps_failing_ends_the_flow() -> None:
    """After too many restarts `wait` raises the cause, and health names the processor."""
    async with running() as fixture:
        waiting = asyncio.create_task(fixture.runtime.wait())
        supervisor = fixture.runtime._groups[2].supervisors[0]
        while not waiting.done():
            worker = fixture.runtime._groups[2].current[0].worker
            if worker is not None and worker._state.subscription is not None:
                await worker._state.subscription.aclose()
            await asyncio.sleep(0.001)
        with pytest.raises(Unavailable, match="processor back failed after 5 restarts"):
            await waiting
        health = await fixture.runtime.health()

        assert supervisor.restarts == 5
        assert not health.ready
        assert [one.name for one in health.processors if one.state is State.UNHEALTHY] == ["back"]


async def test_drain_finishes_messages_in_progress() -> None:
    """A question in progress at the stop is answered; a later one stays in the backlog."""
    async with running() as fixture:
        question = asyncio.create_task(fixture.ask("begun", wait_s=0.05))
        await fixture.world.working.wait()
        draining = asyncio.create_task(fixture.runtime.drain(30.0))
        await asyncio.sleep(0)
        reply = await question
        await draining
        await fixture.transport.publish(full_topic("front.request"), encode(Question(text="late")))
        stats = await fixture.transport.stats(full_topic("front.request"), "front")

        assert reply.text == "BEGUN"
        assert (stats.backlog, stats.in_flight) == (1, 0)
        assert {one.state for one in (await fixture.runtime.health()).processors} == {State.STOPPED}


async def test_drain_returns_unfinished_messages() -> None:
    """A message that is not finished in time is redelivered to another runtime."""
    world = SharedState()
    definition = flow()
    transport = MemoryTransport()
    resources = Resources(Settings({}), {"store": world})
    client = FlowClient(definition, transport)
    async with run_flow(definition, transport, resources, drain_s=0.0):
        question = asyncio.create_task(
            client.call("back", Innermost(text="moved", wait_s=0.05), Reply)
        )
        await world.working.wait()
    async with run_flow(definition, transport, resources):
        assert (await question).text == "MOVED"
    await transport.aclose()


async def test_an_error_in_the_block_stops_the_flow_too() -> None:
    """An exception in the block leaves no task and no subscription."""

    async def fail() -> None:
        async with running() as fixture:
            await fixture.ask("x")
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await fail()
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


RANKED = FLOW.replace("heard: heard}", "heard: heard, side: rank.request}").replace(
    "  ear:\n", "  ranker: {type: ranker, topics: {request: rank.request}}\n  ear:\n"
)


async def test_a_processor_of_a_disabled_resource_is_left_out() -> None:
    """Only the processor that needs the resource and the optional ports to it are left out."""
    settings = Settings({"reranker": "none"})
    async with running(RANKED, settings=settings) as fixture:
        assert (await fixture.ask("x")).text == "X"
        assert "ranker" not in [one.name for one in (await fixture.runtime.health()).processors]


async def test_nothing_left_to_run_is_an_error() -> None:
    """Choosing only disabled processors is an error that names the setting."""
    settings = Settings({"reranker": "none"})
    with pytest.raises(ConfigError, match="WHENCE_RERANKER=none"):
        async with running(RANKED, settings=settings, only=("ranker",)):
            pytest.fail("nothing to run")


async def test_a_required_port_cannot_be_disabled() -> None:
    """A flow that needs a disabled processor is refused."""
    text = RANKED.replace("back: back.request", "back: rank.request")
    with pytest.raises(
        ConfigError, match="'middle' needs the processor on its port 'back', which is disabled"
    ):
        async with running(text, settings=Settings({"reranker": "none"})):
            pytest.fail("must not start")


async def test_a_missing_model_fails_its_calls_only(tmp_path: Any) -> None:
    """Without an installed reranker the flow starts, and its calls fail with the reason."""
    settings = Settings({"models": str(tmp_path)})
    async with running(RANKED, settings=settings) as fixture:
        topic = full_topic("rank.request")
        reply = await fixture.transport.request(topic, encode(Innermost()))

        assert b"model_missing" in reply.payload
        assert (await fixture.runtime.health()).ready


async def test_an_unknown_interface_or_processor_is_named() -> None:
    """Unknown names are refused with the nearest known one; an interface of events takes no requests."""
    async with running() as fixture:
        with pytest.raises(ConfigError, match="did you mean 'front'"):
            await fixture.client.call("frnt", Question(), Reply)
        with pytest.raises(ConfigError, match="one of events"):
            await fixture.client.call("explain", Question(), Reply)
    with pytest.raises(ConfigError, match="did you mean 'middle'"):
        async with running(only=("midle",)):
            pytest.fail("must not start")


async def test_closing_a_stream_early_cancels_the_request() -> None:
    """After the client closes the stream, no message is in flight."""
    async with running() as fixture:
        stream = fixture.client.stream("counter", Inner(), (Reply,))
        await anext(stream)
        await stream.aclose()
        topic = full_topic("counter.request")
        health = await fixture.runtime.health()
        while health.processors[4].in_flight:
            await asyncio.sleep(0.001)
            health = await fixture.runtime.health()
        assert (await fixture.transport.stats(topic, "counter")).backlog == 0
        assert fixture.transport.requester.pending == 0


async def test_health_counts_messages() -> None:
    """Health reports handled and failed messages of each processor and the state of the broker."""
    world = SharedState()
    world.failures["gone"] = NotFound("no")
    async with running(world=world) as fixture:
        await fixture.ask("x")
        with pytest.raises(NotFound):
            await fixture.ask("gone")
        await until(lambda: len(world.heard) == 2)
        health = await fixture.runtime.health()
        by_name = {one.name: one for one in health.processors}

        assert (by_name["back"].handled, by_name["back"].failed) == (1, 1)
        assert by_name["front"].backlog == 0
        await fixture.transport.aclose()
        assert not (await fixture.runtime.health()).ready


def test_waits_between_restarts_grow() -> None:
    """The wait before a restart doubles from half a second up to thirty."""
    policy = RestartPolicy()

    assert [policy.delay_s(n) for n in range(8)] == [0.5, 1, 2, 4, 8, 16, 30, 30]

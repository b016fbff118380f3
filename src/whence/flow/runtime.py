"""A flow that runs: its processors under supervision, their health, and an orderly end.

Servers start with their callers; on the way out callers stop first, so that what is begun can still be
finished with the help of those it asks. The transport and the resources belong to whoever made them and are
closed after the runtime.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from whence.broker.clock import Clock, clock_of
from whence.broker.idempotency import Ledger
from whence.broker.transport import TopicStats, Transport
from whence.flow.binding import Replica
from whence.flow.definition import FlowDefinition, ProcessorDefinition
from whence.flow.optional_processors import without_disabled
from whence.flow.resources import Resources
from whence.flow.supervisor import RestartPolicy, State, Supervisor
from whence.flow.telemetry.observer import NO_OBSERVER, Observer
from whence.flow.topic_types import register_types
from whence.flow.topology import callers_first
from whence.processors.base import Processor
from whence.schema.errors import ConfigError, WhenceError

__all__ = ("DRAIN_S", "FlowHealth", "FlowRuntime", "ProcessorHealth", "run_flow")

logger = logging.getLogger(__name__)

#: Seconds for work that is begun when the flow is asked to stop. Kubernetes kills after 30.
DRAIN_S = 20.0
#: The resource of processors that work once.
_LEDGER = "ledger"


class ProcessorHealth(msgspec.Struct, frozen=True, kw_only=True):
    """How one processor is, over all its replicas in this process."""

    name: str
    type: str
    state: State
    """The worst of its replicas' states."""
    replicas: int
    """Replicas that it should have."""
    running: int
    """Replicas that take messages."""
    restarts: int
    """Restarts of all replicas since the start."""
    in_flight: int
    """Messages being handled now."""
    handled: int
    """Messages done since the last restart."""
    failed: int
    """Messages given up since the last restart."""
    backlog: int
    """Messages that wait for its group, in all processes; -1 when the broker does not tell."""
    oldest_age_s: float = 0.0
    """Age of the oldest of them in seconds; -1 when the broker does not tell."""
    received: int = 0
    """Deliveries taken; this and the following since the last restart."""
    replies: int = 0
    """Replies published, errors included."""
    retries: int = 0
    """Attempts that failed and were followed, or will be, by another."""
    dead_letters: int = 0
    """Messages given up that became dead letters."""
    expired: int = 0
    """Messages that were not wanted any more when they came."""
    cancelled: int = 0
    """Messages that were taken back by their caller."""
    duplicates: int = 0
    """Deliveries of what was done before."""
    last_error: str = ""
    """What ended a replica last; empty when nothing did."""


class FlowHealth(msgspec.Struct, frozen=True, kw_only=True):
    """How a flow is."""

    flow: str
    ready: bool
    """True when every replica takes messages and the broker answers."""
    processors: tuple[ProcessorHealth, ...]
    """In the order of the flow file."""
    broker_error: str = ""
    """Why the broker does not answer; empty when it does."""


class _Running:
    """A processor of the flow with the supervisors of its replicas."""

    def __init__(self, definition: ProcessorDefinition) -> None:
        self.definition = definition
        self.supervisors: list[Supervisor] = []
        #: The current life of each replica.
        self.lives: dict[int, Replica] = {}


#: Counters of workers that health adds up.
_COUNTED = (
    "received", "handled", "failed", "replies", "retries", "dead_letters", "expired", "cancelled",
    "duplicates",
)  # fmt: skip
#: Worst first.
_SEVERITY = (State.UNHEALTHY, State.RESTARTING, State.STARTING, State.STOPPED, State.RUNNING)


class FlowRuntime:
    """Runs the processors of a flow in this process.

    Args:
        definition: The flow.
        transport: The broker; not closed here.
        resources: What processors need; not closed here.
        only: Names of the processors to run; all of them when empty.
        restart: When to restart a replica that failed.
        clock: Source of time for messages; the transport's, else this machine's, when None.
        monotonic: Seconds that never go back, for restarts and draining.
        observer: Watches the messages of all processors.
    """

    def __init__(
        self,
        definition: FlowDefinition,
        transport: Transport,
        resources: Resources,
        *,
        only: Iterable[str] = (),
        restart: RestartPolicy | None = None,
        clock: Clock | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        observer: Observer = NO_OBSERVER,
    ) -> None:
        self._whole = definition
        self._observer = observer
        self._transport = transport
        self._resources = resources
        self._only = tuple(only)
        self._restart = restart or RestartPolicy()
        self._clock: Clock = clock or clock_of(transport)
        self._monotonic = monotonic
        self._running: list[_Running] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = asyncio.Event()

    async def start(self) -> None:
        """Start all processors; returns when every replica takes messages.

        Raises:
            ConfigError: There is nothing to run, or a setting makes the flow impossible.
            WhenceError: A processor could not be started; all others are stopped again.
        """
        chosen = self._choose()
        register_types(self._whole, self._transport)
        needed = {name for processor in chosen for name in processor.cls.needs}
        if any(processor.cls.once for processor in chosen):
            needed.add(_LEDGER)
        # One after the other in a fixed order: closing is the reverse of it.
        objects = {name: await self._resources.get(name) for name in sorted(needed)}
        try:
            for processor in chosen:
                self._launch(processor, objects)
            await self._wait_until_settled()
        except BaseException:
            await self.drain(0.0)
            raise
        logger.info("flow runs", extra={"action": "start", "flow": self._whole.name})

    async def wait(self) -> None:
        """Wait until the flow ends.

        Raises:
            WhenceError: A processor was given up; the others still run until `drain`.
        """
        stopped = asyncio.create_task(self._stopped.wait())
        try:
            await asyncio.wait({stopped, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
        self._raise_failure()

    async def drain(self, timeout_s: float = DRAIN_S) -> None:
        """Stop: take no more, finish what is begun within `timeout_s` seconds, hand back the rest.

        Callers stop before those they call. Safe to call twice.
        """
        end = self._monotonic() + timeout_s
        by_name = {running.definition.name: running for running in self._running}
        for definition in callers_first([running.definition for running in self._running]):
            running = by_name[definition.name]
            left = max(0.0, end - self._monotonic())
            results = await asyncio.gather(
                *(supervisor.stop(left) for supervisor in running.supervisors),
                return_exceptions=True,
            )
            for error in results:
                if isinstance(error, BaseException):
                    logger.warning(
                        "processor did not close cleanly",
                        extra={
                            "action": "close",
                            "processor": running.definition.name,
                            "error": f"{type(error).__name__}: {error}",
                        },
                    )
        self._stopped.set()

    async def health(self) -> FlowHealth:
        """Tell how every processor is. Cost: one question to the broker per processor."""
        broker_error = ""
        try:
            await self._transport.health()
        except WhenceError as error:
            broker_error = error.message
        processors = tuple([await self._health_of(running) for running in self._running])
        ready = not broker_error and all(one.running == one.replicas for one in processors)
        return FlowHealth(
            flow=self._whole.name,
            ready=ready and bool(processors),
            processors=processors,
            broker_error=broker_error,
        )

    def _choose(self) -> tuple[ProcessorDefinition, ...]:
        self._whole.only(self._only)
        pruned = without_disabled(self._whole, self._resources.disabled)
        names = {processor.name for processor in pruned.processors}
        only = tuple(name for name in self._only if name in names)
        if not names or (self._only and not only):
            raise ConfigError(
                f"flow {self._whole.name!r} has nothing to run here:"
                f" {', '.join(self._resources.disabled.values())}",
                hint="change the setting, or choose other processors",
            )
        return pruned.only(only)

    def _launch(self, processor: ProcessorDefinition, objects: dict[str, Any]) -> None:
        running = _Running(processor)
        self._running.append(running)
        needs = {name: objects[name] for name in processor.cls.needs}
        accepted = inspect.signature(processor.cls).parameters
        needs |= {k: v for k, v in self._resources.processor_arguments.items() if k in accepted}
        for number in range(processor.replicas):
            supervisor = Supervisor(
                f"{processor.name}[{number}]" if processor.replicas > 1 else processor.name,
                self._maker(running, number, needs, objects.get(_LEDGER)),
                policy=self._restart,
                clock=self._monotonic,
            )
            running.supervisors.append(supervisor)
            self._tasks.add(supervisor.start())

    def _maker(
        self, running: _Running, number: int, needs: dict[str, Any], ledger: Ledger | None
    ) -> Callable[[], Replica]:
        definition = running.definition
        reply_topic = next(
            (
                interface.response
                for interface in self._whole.interfaces
                if interface.request == definition.inbound
            ),
            None,
        )

        def build() -> Processor:
            # Every processor's constructor takes its parameters and, by keyword, what it needs.
            return definition.cls(definition.parameters, **needs)

        def make() -> Replica:
            life = Replica(
                definition,
                build,
                self._transport,
                reply_topic=reply_topic,
                ledger=ledger if definition.cls.once else None,
                clock=self._clock,
                observer=self._observer,
            )
            running.lives[number] = life
            return life

        return make

    async def _wait_until_settled(self) -> None:
        """Wait until every replica takes messages, or the first is given up."""
        supervisors = [one for running in self._running for one in running.supervisors]
        everyone = asyncio.gather(*(supervisor.settled.wait() for supervisor in supervisors))
        try:
            awaited: set[asyncio.Future[Any]] = {everyone, *self._tasks}
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            everyone.cancel()
            with suppress(asyncio.CancelledError):
                await everyone
        # A replica that is given up settles, and its task ends right after.
        await asyncio.sleep(0)
        self._raise_failure()

    def _raise_failure(self) -> None:
        """Raise the error of a replica that was given up, in order of the flow file."""
        for running in self._running:
            for supervisor in running.supervisors:
                supervisor.raise_failure()

    async def _health_of(self, running: _Running) -> ProcessorHealth:
        definition, supervisors = running.definition, running.supervisors
        workers = [life.worker for life in running.lives.values() if life.worker is not None]
        errors = [str(one.last_error) for one in supervisors if one.last_error is not None]
        try:
            stats = await self._transport.stats(definition.inbound, definition.name)
        except WhenceError:
            stats = TopicStats(backlog=-1, in_flight=-1, oldest_age_s=-1.0)
        return ProcessorHealth(
            name=definition.name,
            type=definition.type,
            state=min((one.state for one in supervisors), key=_SEVERITY.index),
            replicas=len(supervisors),
            running=sum(one.state is State.RUNNING for one in supervisors),
            restarts=sum(one.restarts for one in supervisors),
            in_flight=sum(worker.in_flight for worker in workers),
            backlog=stats.backlog,
            oldest_age_s=stats.oldest_age_s,
            last_error=errors[-1] if errors else "",
            **{
                name: sum(getattr(worker.counters, name) for worker in workers) for name in _COUNTED
            },
        )


@asynccontextmanager
async def run_flow(
    definition: FlowDefinition,
    transport: Transport,
    resources: Resources,
    *,
    only: Iterable[str] = (),
    drain_s: float = DRAIN_S,
    restart: RestartPolicy | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[FlowRuntime]:
    """Run a flow for the time of an `async with`; when it begins all processors take messages.

    Args:
        definition: The flow.
        transport: The broker; closed by the caller, after this.
        resources: What processors need; closed by the caller, after this.
        only: Names of the processors to run; all of them when empty.
        drain_s: Seconds for work that is begun when the block ends. None is granted when it ends with an
            error.
        restart: When to restart a replica that failed.
        clock: Source of time for messages.

    Raises:
        WhenceError: As for `FlowRuntime.start`.
    """
    runtime = FlowRuntime(definition, transport, resources, only=only, restart=restart, clock=clock)
    await runtime.start()
    try:
        yield runtime
    except BaseException:
        await runtime.drain(0.0)
        raise
    await runtime.drain(drain_s)

"""Runs the processors of a flow under supervision, reports their health and drains them.

Callers stop before the processors that they call, so that messages in progress can be finished. The
transport and the resources are closed by the caller, after the runtime.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import msgspec

from whence.broker.clock import Clock, clock_of
from whence.broker.idempotency import Ledger
from whence.broker.transport import TopicStats, Transport
from whence.flow.binding import Replica
from whence.flow.context import Observer
from whence.flow.definition import (
    FlowDefinition,
    ProcessorDefinition,
    register_types,
    without_disabled,
)
from whence.flow.resources import Resources
from whence.flow.supervisor import RestartPolicy, State, Supervisor
from whence.flow.topology import callers_first
from whence.processors.base import Processor
from whence.schema.errors import ConfigError, WhenceError

logger = logging.getLogger(__name__)

#: Seconds for messages in progress at a stop. Kubernetes kills after 30.
DRAIN_S = 20.0
#: The resource of processors that handle a message once.
_LEDGER = "ledger"


class ProcessorHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Health of one processor, over all its replicas in this process.

    The counters from `received` to `duplicates` are those of `WorkerCounters` of the broker, since the last
    restart.
    """

    name: str
    type: str
    state: State
    replicas: int
    running: int
    restarts: int
    in_flight: int
    backlog: int
    """Messages that wait for its group, in all processes; -1 when the broker does not report it."""
    oldest_age_s: float = 0.0
    """Age of the oldest of them in seconds; -1 when the broker does not report it."""
    received: int = 0
    handled: int = 0
    failed: int = 0
    replies: int = 0
    retries: int = 0
    dead_letters: int = 0
    expired: int = 0
    cancelled: int = 0
    duplicates: int = 0
    last_error: str = ""


class FlowHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Health of a flow."""

    flow: str
    ready: bool
    """True when every replica receives messages and the broker answers."""
    processors: tuple[ProcessorHealth, ...]
    broker_error: str = ""


class _ProcessorGroup:
    """The supervised replicas of one processor."""

    def __init__(self, definition: ProcessorDefinition) -> None:
        self.definition = definition
        self.supervisors: list[Supervisor] = []
        #: The current replica by its number.
        self.current: dict[int, Replica] = {}


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
        transport: The broker.
        resources: Resources of the processors.
        only: Names of the processors to run; all of them when empty.
        restart: Waits and number of restarts.
        clock: Source of time for messages; the transport's clock when None.
        monotonic: Monotonic seconds, for restarts and draining.
        observer: Observes the messages of all processors.
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
        observer: Observer | None = None,
    ) -> None:
        self._whole = definition
        self._observer = observer
        self._transport = transport
        self._resources = resources
        self._only = tuple(only)
        self._restart = restart or RestartPolicy()
        self._clock: Clock = clock or clock_of(transport)
        self._monotonic = monotonic
        self._groups: list[_ProcessorGroup] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = asyncio.Event()

    async def start(self) -> None:
        """Start all processors; return when every replica receives messages."""
        chosen = self._choose()
        register_types(self._whole, self._transport)
        needed = {name for processor in chosen for name in processor.cls.needs}
        if any(processor.cls.once for processor in chosen):
            needed.add(_LEDGER)
        # In a fixed order, since they are closed in reverse order.
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
        """Wait until the flow ends."""
        stopped = asyncio.create_task(self._stopped.wait())
        try:
            await asyncio.wait({stopped, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
        self._raise_failure()

    async def drain(self, timeout_s: float = DRAIN_S) -> None:
        """Stop all processors after at most `timeout_s` seconds for messages in progress. Idempotent."""
        end = self._monotonic() + timeout_s
        by_name = {group.definition.name: group for group in self._groups}
        for definition in callers_first([group.definition for group in self._groups]):
            group = by_name[definition.name]
            left = max(0.0, end - self._monotonic())
            results = await asyncio.gather(
                *(supervisor.stop(left) for supervisor in group.supervisors), return_exceptions=True
            )
            for error in results:
                if isinstance(error, BaseException):
                    logger.warning(
                        "processor did not close cleanly",
                        extra={
                            "action": "close",
                            "processor": group.definition.name,
                            "error": f"{type(error).__name__}: {error}",
                        },
                    )
        self._stopped.set()

    async def health(self) -> FlowHealth:
        """Return the health of every processor. Cost: one request to the broker for each."""
        broker_error = ""
        try:
            await self._transport.health()
        except WhenceError as error:
            broker_error = error.message
        processors = tuple([await self._health_of(group) for group in self._groups])
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
        group = _ProcessorGroup(processor)
        self._groups.append(group)
        needs = {name: objects[name] for name in processor.cls.needs}
        accepted = inspect.signature(processor.cls).parameters
        needs |= {k: v for k, v in self._resources.processor_arguments.items() if k in accepted}
        # The constructor of a processor takes its parameters and, by keyword, its resources.
        build = partial(processor.cls, processor.parameters, **needs)
        ledger = objects.get(_LEDGER) if processor.cls.once else None
        for number in range(processor.replicas):
            supervisor = Supervisor(
                f"{processor.name}[{number}]" if processor.replicas > 1 else processor.name,
                partial(self._make_replica, group, number, build, ledger),
                policy=self._restart,
                clock=self._monotonic,
            )
            group.supervisors.append(supervisor)
            self._tasks.add(supervisor.start())

    def _make_replica(
        self,
        group: _ProcessorGroup,
        number: int,
        build: Callable[[], Processor],
        ledger: Ledger | None,
    ) -> Replica:
        definition = group.definition
        served = [one for one in self._whole.interfaces if one.request == definition.inbound]
        replica = group.current[number] = Replica(
            definition,
            build,
            self._transport,
            reply_topic=served[0].response if served else None,
            ledger=ledger,
            clock=self._clock,
            observer=self._observer,
        )
        return replica

    async def _wait_until_settled(self) -> None:
        supervisors = [one for group in self._groups for one in group.supervisors]
        everyone = asyncio.gather(*(supervisor.settled.wait() for supervisor in supervisors))
        try:
            awaited: set[asyncio.Future[Any]] = {everyone, *self._tasks}
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            everyone.cancel()
            with suppress(asyncio.CancelledError):
                await everyone
        # The task of an unhealthy replica ends right after the replica is settled.
        await asyncio.sleep(0)
        self._raise_failure()

    def _raise_failure(self) -> None:
        """Raise the error of the first unhealthy replica, in the order of the flow file."""
        for group in self._groups:
            for supervisor in group.supervisors:
                supervisor.raise_failure()

    async def _health_of(self, group: _ProcessorGroup) -> ProcessorHealth:
        definition, supervisors = group.definition, group.supervisors
        workers = [one.worker for one in group.current.values() if one.worker is not None]
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
    observer: Observer | None = None,
) -> AsyncIterator[FlowRuntime]:
    """Run a flow within an `async with` block; at its start all processors receive messages."""
    how: dict[str, Any] = {"only": only, "restart": restart, "clock": clock, "observer": observer}
    runtime = FlowRuntime(definition, transport, resources, **how)
    await runtime.start()
    try:
        yield runtime
    except BaseException:
        await runtime.drain(0.0)
        raise
    await runtime.drain(drain_s)

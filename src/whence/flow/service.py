"""`whence run`: a flow as a process that signals can stop.

The first SIGTERM or SIGINT drains, the second hands everything back at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from whence.flow.definition import FlowDefinition
from whence.flow.resources import Resources
from whence.flow.runtime import DRAIN_S, FlowRuntime
from whence.flow.settings import Settings
from whence.flow.signals import Signals
from whence.flow.telemetry.monitor import telemetry

__all__ = ("serve_flow",)


async def serve_flow(
    definition: FlowDefinition,
    settings: Settings,
    *,
    only: Iterable[str] = (),
    on_ready: Callable[[], None] | None = None,
    drain_s: float = DRAIN_S,
    resources: Resources | None = None,
    metrics_address: str = "",
) -> None:
    """Run a flow until a signal asks it to stop; returns when all is drained and closed.

    Args:
        definition: The flow.
        settings: Broker, database and models.
        only: Names of the processors to run; all of them when empty.
        on_ready: Called once all processors take messages.
        drain_s: Seconds for work that is begun when the first signal comes.
        resources: What processors need, closed at the end; made from the settings when None.
        metrics_address: `PORT` or `HOST:PORT` for metrics and probes; none are served when empty.

    Raises:
        WhenceError: The flow could not be started, or a processor was given up.
    """
    from whence.broker.connect import connect

    names = tuple(only)
    definition.only(names)
    with telemetry(definition.name, metrics_address) as watching:
        transport = await connect(settings.broker)
        try:
            async with resources or Resources(settings) as owned:
                runtime = FlowRuntime(
                    definition, transport, owned, only=names, observer=watching.observer
                )
                with Signals() as signals:
                    async with watching.of(runtime):
                        await _run(runtime, signals, on_ready, drain_s)
        finally:
            await transport.aclose()


async def _run(
    runtime: FlowRuntime, signals: Signals, on_ready: Callable[[], None] | None, drain_s: float
) -> None:
    try:
        if not await signals.unless_asked(runtime.start()):
            return
        if on_ready is not None:
            on_ready()
        # Raises when a processor is given up; the others are drained all the same.
        await signals.unless_asked(runtime.wait())
    finally:
        signals.again()
        await signals.unless_asked(runtime.drain(drain_s))
        await runtime.drain(0.0)

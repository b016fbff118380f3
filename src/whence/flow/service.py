"""Runs a flow as a process (`whence run`): the first signal drains it, the second stops it at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from whence.flow.definition import FlowDefinition
from whence.flow.resources import Resources
from whence.flow.runtime import DRAIN_S, FlowRuntime
from whence.flow.settings import Settings
from whence.flow.signals import StopSignals
from whence.flow.telemetry.monitor import start_telemetry


async def serve_flow(
    definition: FlowDefinition,
    settings: Settings,
    *,
    only: Iterable[str] = (),
    on_ready: Callable[[], None] | None = None,
    drain_s: float = DRAIN_S,
    resources: Resources | None = None,
    metrics_address: str = "",
) -> bool:
    """Run a flow until a signal; when it is drained and closed, return whether that was SIGINT."""
    from whence.broker.connect import connect

    names = tuple(only)
    definition.only(names)
    with start_telemetry(definition.name, metrics_address) as monitor:
        transport = await connect(settings.broker)
        try:
            async with resources or Resources(settings) as owned:
                runtime = FlowRuntime(
                    definition, transport, owned, only=names, observer=monitor.observer
                )
                with StopSignals() as signals:
                    async with monitor.watch(runtime):
                        await _run(runtime, signals, on_ready, drain_s)
                return signals.interrupted
        finally:
            await transport.aclose()


async def _run(
    runtime: FlowRuntime, signals: StopSignals, on_ready: Callable[[], None] | None, drain_s: float
) -> None:
    try:
        if not await signals.run(runtime.start()):
            return
        if on_ready is not None:
            on_ready()
        # Raises when a processor becomes unhealthy; the others are drained.
        await signals.run(runtime.wait())
    finally:
        signals.reset()
        await signals.run(runtime.drain(drain_s))
        await runtime.drain(0.0)

"""Everything that watches a flow, opened and closed together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

from whence.flow.telemetry.observer import NO_OBSERVER, Observer, Observers
from whence.flow.telemetry.spans import FlowSpans, provider_from_environment

if TYPE_CHECKING:
    from whence.flow.runtime import FlowRuntime
    from whence.flow.telemetry.endpoint import Endpoint
    from whence.flow.telemetry.metrics import FlowMetrics

__all__ = ("FlowMonitor", "telemetry")

#: Seconds between two looks at a flow's health. Prometheus scrapes every 15 to 60 s.
_EVERY_S = 5.0


class FlowMonitor:
    """The observers of one flow.

    Args:
        observer: To be handed to the runtime.
        metrics: Where health is told; None when no metrics are served.
        endpoint: Where the turning of the event loop is told; None likewise.
    """

    def __init__(
        self,
        observer: Observer,
        metrics: FlowMetrics | None = None,
        endpoint: Endpoint | None = None,
    ) -> None:
        self.observer = observer
        self._metrics = metrics
        self._endpoint = endpoint

    @asynccontextmanager
    async def of(self, runtime: FlowRuntime, *, every_s: float = _EVERY_S) -> AsyncIterator[None]:
        """Look at a flow's health again and again for the time of a block."""
        if self._metrics is None or self._endpoint is None:
            yield
            return
        looking = asyncio.create_task(
            _look(runtime, self._metrics, self._endpoint, every_s), name="whence-health"
        )
        try:
            yield
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking


async def _look(
    runtime: FlowRuntime, metrics: FlowMetrics, endpoint: Endpoint, every_s: float
) -> None:
    pause_s = 0.1
    while True:
        endpoint.turned()
        metrics.tell(await runtime.health())
        await asyncio.sleep(pause_s)
        # Often at first, so that a probe hears soon that the flow is ready.
        pause_s = min(pause_s * 1.5, every_s)


@contextmanager
def telemetry(flow: str, metrics_address: str = "") -> Iterator[FlowMonitor]:
    """Open what the settings ask for, for the time of a `with`.

    Args:
        flow: Name of the flow.
        metrics_address: `PORT` or `HOST:PORT` for metrics and probes; none are served when empty.

    Raises:
        ConfigError: The address is none, or traces are asked for and OpenTelemetry is not installed.
        Unavailable: The port is taken.
    """
    provider = provider_from_environment()
    observers: list[Observer] = []
    with ExitStack() as stack:
        if provider is not None:
            stack.callback(provider.shutdown)
            observers.append(FlowSpans(flow, provider))
        if not metrics_address:
            yield FlowMonitor(Observers(observers) if observers else NO_OBSERVER)
            return
        from whence.flow.telemetry.endpoint import Endpoint, read_address
        from whence.flow.telemetry.metrics import FlowMetrics

        metrics = FlowMetrics(flow)
        observers.append(metrics)
        endpoint = stack.enter_context(Endpoint(metrics, *read_address(metrics_address)))
        yield FlowMonitor(Observers(observers), metrics, endpoint)

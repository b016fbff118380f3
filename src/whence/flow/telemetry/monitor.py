"""Metrics, probes and spans of a running flow, opened and closed together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

from whence.flow.telemetry.observer import Observer, observe_with
from whence.flow.telemetry.spans import FlowSpans, provider_from_environment

if TYPE_CHECKING:
    from whence.flow.runtime import FlowRuntime
    from whence.flow.telemetry.endpoint import Endpoint
    from whence.flow.telemetry.metrics import FlowMetrics

#: Seconds between two health checks. Prometheus scrapes every 15 to 60 s.
_INTERVAL_S = 5.0


class FlowMonitor:
    """The telemetry of one flow."""

    def __init__(
        self,
        observer: Observer | None,
        metrics: FlowMetrics | None = None,
        endpoint: Endpoint | None = None,
    ) -> None:
        self.observer = observer
        self._metrics = metrics
        self._endpoint = endpoint

    @asynccontextmanager
    async def watch(self, runtime: FlowRuntime) -> AsyncIterator[None]:
        """Check the health of a flow periodically within the block."""
        if self._metrics is None or self._endpoint is None:
            yield
            return
        task = asyncio.create_task(
            _check_periodically(runtime, self._metrics, self._endpoint),
            name="whence-health",
        )
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _check_periodically(
    runtime: FlowRuntime, metrics: FlowMetrics, endpoint: Endpoint
) -> None:
    pause_s = 0.1
    while True:
        endpoint.heartbeat()
        metrics.update(await runtime.health())
        await asyncio.sleep(pause_s)
        # Frequent at first, so that a probe sees soon that the flow is ready.
        pause_s = min(pause_s * 1.5, _INTERVAL_S)


@contextmanager
def start_telemetry(flow: str, metrics_address: str = "") -> Iterator[FlowMonitor]:
    """Open the telemetry that the settings request, for the block."""
    provider = provider_from_environment()
    observers: list[Observer] = []
    with ExitStack() as stack:
        if provider is not None:
            stack.callback(provider.shutdown)
            observers.append(FlowSpans(flow, provider).handling)
        if not metrics_address:
            yield FlowMonitor(observe_with(observers))
            return
        from whence.flow.telemetry.endpoint import Endpoint, read_address
        from whence.flow.telemetry.metrics import FlowMetrics

        metrics = FlowMetrics(flow)
        observers.append(metrics.handling)
        endpoint = stack.enter_context(Endpoint(metrics, *read_address(metrics_address)))
        yield FlowMonitor(observe_with(observers), metrics, endpoint)

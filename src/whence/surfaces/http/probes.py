"""Probes and metrics of the gateway.

| Path | Response |
|---|---|
| `GET /live` | 200 while the server responds |
| `GET /ready` | 200 when every processor takes messages, else 503 |
| `GET /health` | the same with a document: `{status, version}` |
| `GET /metrics` | metrics in Prometheus' text form |

Metrics count requests and messages and never name documents, collections, readers or answers. They are for this
machine, and for every caller with a token.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.datastructures import Headers as RequestHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whence.broker.transport import Headers
from whence.flow.context import TraceContext, within_trace
from whence.flow.hosts import LOOPBACK, host_name
from whence.flow.telemetry.metrics import SECONDS_BUCKETS
from whence.schema.version import VERSION
from whence.surfaces.http.auth import Caller, Unauthorized
from whence.surfaces.http.failures import JsonResponse

if TYPE_CHECKING:
    from whence.flow.telemetry.metrics import FlowMetrics

_REQUESTS = "whence_http_requests_total"
_SECONDS = "whence_http_request_seconds"
#: Description of every metric of the gateway by name.
GATEWAY_METRICS = {
    _REQUESTS: "Requests to `whence serve`, by handler, method and status.",
    _SECONDS: "Time from receiving a request to the end of its response, in seconds, by handler.",
}
#: Headers by which a proxy tells that the caller is another machine.
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")


class OperationRoutes:
    """The handlers of these paths.

    Args:
        caller: Returns the caller of a request.
        metrics: Those of the flow in this process; None when it runs elsewhere.
    """

    def __init__(
        self,
        caller: Callable[[Request], Awaitable[Caller]],
        metrics: FlowMetrics | None = None,
    ) -> None:
        self._caller = caller
        self._flow = metrics
        self.registry = CollectorRegistry() if metrics is None else metrics.registry

    def routes(self) -> list[Route]:
        """Return the routing table."""
        return [
            Route("/live", self.live),
            Route("/ready", self.ready),
            Route("/health", self.health),
            Route("/metrics", self.metrics),
        ]

    @property
    def is_ready(self) -> bool:
        """Whether the flow in this process takes messages, if there is one."""
        return self._flow is None or self._flow.ready

    async def live(self, _: Request) -> Response:
        """Respond."""
        return JsonResponse({"status": "ok"})

    async def ready(self, _: Request) -> Response:
        """Return whether questions can be answered."""
        return JsonResponse(*self._status())

    async def health(self, _: Request) -> Response:
        """Return whether questions can be answered, and by which version."""
        document, status = self._status()
        return JsonResponse({**document, "version": VERSION}, status)

    def _status(self) -> tuple[dict[str, str], int]:
        return ({"status": "ok"}, 200) if self.is_ready else ({"status": "not ready"}, 503)

    async def metrics(self, request: Request) -> Response:
        """Return the metrics."""
        caller = await self._caller(request)
        if not caller.name and not _is_local(request, caller):
            raise Unauthorized("metrics need a token, except on this machine")
        return Response(generate_latest(self.registry), media_type=CONTENT_TYPE_LATEST)


def _is_local(request: Request, caller: Caller) -> bool:
    """Return whether a request was made on this machine and not through a proxy."""
    forwarded = any(name in request.headers for name in _FORWARDED)
    named = host_name(request.headers.get("host", ""))
    return caller.address in LOOPBACK and named in LOOPBACK and not forwarded


class RequestMetrics:
    """Middleware that counts requests and their times by handler, method and status.

    What a request causes is in the trace of its caller, if the caller sent one.
    """

    def __init__(self, app: ASGIApp, *, registry: CollectorRegistry) -> None:
        self._app = app
        self._counter = Counter(
            _REQUESTS,
            GATEWAY_METRICS[_REQUESTS],
            ("handler", "method", "status"),
            registry=registry,
        )
        self._seconds = Histogram(
            _SECONDS,
            GATEWAY_METRICS[_SECONDS],
            ("handler",),
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and count it when it ends."""
        status = "500"

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        began = time.perf_counter()
        sent = RequestHeaders(scope=scope)
        try:
            with within_trace(TraceContext.read(sent) if Headers.TRACEPARENT in sent else None):
                await self._app(scope, receive, sending)
        finally:
            # Paths name documents and answers; handlers do not.
            handler = getattr(scope.get("endpoint"), "__name__", "none")
            self._counter.labels(handler, scope["method"], status).inc()
            self._seconds.labels(handler).observe(time.perf_counter() - began)

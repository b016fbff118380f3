"""Serves metrics and probes over HTTP in a thread of its own: they answer while the event loop is busy.

| Path | Answer |
|---|---|
| `/metrics` | metrics in Prometheus' text format |
| `/live` | 200 while the event loop responds |
| `/ready` | 200 when every replica receives messages and the broker answers, else 503 |
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import make_wsgi_app

from whence.schema.errors import ConfigError, Unavailable

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

    from whence.flow.telemetry.metrics import FlowMetrics

#: Seconds without a heartbeat after which the event loop counts as stalled.
_STALL_S = 30.0


class Endpoint(AbstractContextManager["Endpoint"]):
    """Serves metrics and probes within a `with` block.

    Args:
        metrics: The metrics to serve.
        host: Address to listen on.
        port: Port; 0 takes a free one.
        monotonic: Monotonic seconds.
    """

    def __init__(
        self,
        metrics: FlowMetrics,
        host: str,
        port: int,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metrics = metrics
        self._monotonic = monotonic
        self._heartbeat_at = monotonic()
        self._scrape = make_wsgi_app(metrics.registry)
        try:
            self._server = make_server(
                host, port, self._answer, server_class=_Server, handler_class=_QuietHandler
            )
        except OSError as error:
            raise Unavailable(
                f"cannot listen on {host}:{port}: {error.strerror or error}",
                hint="choose another port with --metrics",
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="whence-metrics", daemon=True
        )

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    def __enter__(self) -> Endpoint:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def heartbeat(self) -> None:
        """Record that the event loop responds; called from it periodically."""
        self._heartbeat_at = self._monotonic()

    def _answer(self, request: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = request.get("PATH_INFO", "")
        if path == "/metrics":
            scraped: Iterable[bytes] = self._scrape(request, start)
            return scraped
        if path == "/live":
            return _respond(start, alive=self._monotonic() - self._heartbeat_at < _STALL_S)
        if path == "/ready":
            return _respond(start, alive=self._metrics.ready)
        start("404 Not Found", [("Content-Type", "text/plain")])
        return [b"/metrics, /live and /ready are served here\n"]


class _Server(WSGIServer):
    #: A new process may listen as soon as the old one has ended.
    allow_reuse_address = True


class _QuietHandler(WSGIRequestHandler):
    """Does not log requests."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of its parent
        """Do nothing."""


def _respond(start: StartResponse, *, alive: bool) -> Iterable[bytes]:
    start("200 OK" if alive else "503 Service Unavailable", [("Content-Type", "text/plain")])
    return [b"ok\n" if alive else b"not now\n"]


def read_address(text: str) -> tuple[str, int]:
    """Read `PORT`, `HOST:PORT` or `[HOST]:PORT`; the default host is 127.0.0.1."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) < 65536):
        raise ConfigError(f"{text!r} is not an address", hint="give PORT or HOST:PORT, e.g. 9464")
    return host.strip("[]") or "127.0.0.1", int(port)

"""Prometheus metrics of a flow: messages, durations and backlog of each processor.

Counters are reset when a replica restarts. Names follow https://prometheus.io/docs/practices/naming/.

`MetricsServer` serves them over HTTP in a thread of its own, so that it answers while the event loop is busy:

| Path | Answer |
|---|---|
| `/metrics` | metrics in Prometheus' text format |
| `/live` | 200 while the event loop responds |
| `/ready` | 200 when every replica receives messages and the broker answers, else 503 |
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, Counter, Histogram, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from whence.flow.context import TraceContext
from whence.flow.hosts import LOOPBACK, host_name
from whence.flow.runtime import FlowHealth
from whence.flow.supervisor import State
from whence.schema.errors import ConfigError, Unavailable
from whence.schema.message import Message
from whence.schema.prompt import PromptResponse, PromptResult
from whence.schema.version import VERSION

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

#: Seconds; from one hop within a process to the answer of a language model.
SECONDS_BUCKETS = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
    5,
    10,
    30,
    60,
    120,
)
_SECONDS = "whence_handle_seconds"
_LABELS = ("flow", "processor")
#: Name, description, and the field of `ProcessorHealth` with the value.
_COUNTERS = (
    ("whence_messages_received_total", "Deliveries taken from the broker.", "received"),
    ("whence_messages_handled_total", "Messages done and acknowledged.", "handled"),
    ("whence_replies_total", "Replies published, errors included.", "replies"),
    ("whence_retries_total", "Attempts that failed and were followed by another.", "retries"),
    ("whence_messages_failed_total", "Messages given up.", "failed"),
    ("whence_dead_letters_total", "Messages given up that became dead letters.", "dead_letters"),
    ("whence_messages_expired_total", "Messages whose caller had given up.", "expired"),
    ("whence_messages_cancelled_total", "Messages that were taken back.", "cancelled"),
    ("whence_messages_duplicate_total", "Deliveries of what was done before.", "duplicates"),
    ("whence_restarts_total", "Restarts of replicas.", "restarts"),
)
_GAUGES = (
    ("whence_messages_in_flight", "Messages being handled now.", "in_flight"),
    ("whence_backlog_messages", "Messages that wait, in all processes.", "backlog"),
    ("whence_oldest_message_age_seconds", "Age of the oldest that waits.", "oldest_age_s"),
    ("whence_replicas", "Replicas that should run in this process.", "replicas"),
    ("whence_replicas_running", "Replicas that take messages.", "running"),
)
_TOKENS = "whence_writer_tokens_total"
_COST = "whence_writer_cost_total"
_READY = "whence_ready"
_STATE = "whence_processor_state"
_BUILD = "whence_build_info"

#: Description of every metric by name.
METRICS: dict[str, str] = {
    **{name: text for name, text, _ in (*_COUNTERS, *_GAUGES)},
    _SECONDS: "Time from taking a message to its last reply, in seconds.",
    _TOKENS: "Tokens that language models read (`in`) and wrote (`out`), as their servers say.",
    _COST: "What these cost by the price list of the setting `prices`.",
    _READY: "1 when every replica takes messages and the broker answers.",
    _STATE: "1 for the state a processor is in.",
    _BUILD: "Version of Whence.",
}


class FlowMetrics(Collector):
    """The metrics of one flow in this process; also an observer of its messages."""

    def __init__(self, flow: str, *, monotonic: Callable[[], float] = time.perf_counter) -> None:
        self.registry = CollectorRegistry()
        self._flow = flow
        self._monotonic = monotonic
        self._health: FlowHealth | None = None
        self._seconds = Histogram(
            _SECONDS,
            METRICS[_SECONDS],
            (*_LABELS, "outcome"),
            buckets=SECONDS_BUCKETS,
            registry=self.registry,
        )
        by_model = (*_LABELS, "model")
        self._tokens = Counter(
            _TOKENS, METRICS[_TOKENS], (*by_model, "direction"), registry=self.registry
        )
        self._cost = Counter(_COST, METRICS[_COST], (*by_model, "currency"), registry=self.registry)
        self.registry.register(self)

    @property
    def ready(self) -> bool:
        """True when the flow was ready at the last health check."""
        return self._health is not None and self._health.ready

    def update(self, health: FlowHealth) -> None:
        """Store the health of the flow for the next scrape; thread-safe."""
        self._health = health

    @contextmanager
    def handling(
        self, processor: str, message: str, trace: TraceContext, exchange: Sequence[Message] = ()
    ) -> Iterator[TraceContext]:
        """Time one message; `outcome` is `done`, or the class of the error that ended it."""
        started = self._monotonic()
        outcome = "done"
        try:
            yield trace
        except GeneratorExit:
            raise
        except BaseException as error:
            outcome = type(error).__name__
            raise
        finally:
            spent = self._monotonic() - started
            self._seconds.labels(self._flow, processor, outcome).observe(spent)
            for reply in exchange[1:]:
                if isinstance(reply, PromptResponse) and reply.result is not None:
                    self._count(processor, reply.result)

    def _count(self, processor: str, result: PromptResult) -> None:
        """Count the tokens of a text, and what they cost."""
        labels = (self._flow, processor, result.model or "")
        for direction, count in (("in", result.in_token), ("out", result.out_token)):
            if count:
                self._tokens.labels(*labels, direction).inc(count)
        if result.cost:
            self._cost.labels(*labels, result.currency).inc(result.cost)

    def collect(self) -> Iterator[Metric]:
        """Return the metrics of the last update; called by the scraper."""
        yield InfoMetricFamily(_BUILD.removesuffix("_info"), METRICS[_BUILD], {"version": VERSION})
        ready = GaugeMetricFamily(_READY, METRICS[_READY], labels=("flow",))
        ready.add_metric((self._flow,), float(self.ready))
        yield ready
        processors = self._health.processors if self._health is not None else ()
        for kind, rows in ((CounterMetricFamily, _COUNTERS), (GaugeMetricFamily, _GAUGES)):
            for name, text, field in rows:
                family = kind(name, text, labels=_LABELS)
                for one in processors:
                    value = getattr(one, field)
                    # A negative value means that the broker does not report it.
                    if value >= 0:
                        family.add_metric((self._flow, one.name), value)
                yield family
        states = GaugeMetricFamily(_STATE, METRICS[_STATE], labels=(*_LABELS, "state"))
        for one in processors:
            for state in State:
                states.add_metric((self._flow, one.name, state.value), float(one.state is state))
        yield states


#: Seconds without a heartbeat after which the event loop counts as stalled.
_STALL_S = 30.0


class MetricsServer(AbstractContextManager["MetricsServer"]):
    """Serves metrics and probes within a `with` block.

    Args:
        metrics: The metrics to serve.
        host: Address to listen on; on a local one only requests to a local name are answered.
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
        self._is_local = host in LOOPBACK
        self._monotonic = monotonic
        self._heartbeat_at = monotonic()
        self._scrape = make_wsgi_app(metrics.registry)
        try:
            self._server = make_server(host, port, self._answer, handler_class=_QuietHandler)
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

    def __enter__(self) -> MetricsServer:
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
        if self._is_local and host_name(request.get("HTTP_HOST", "")) not in LOOPBACK:
            # A page can point a name of its own to this machine, and read what its reader's browser gets.
            start("421 Misdirected Request", [("Content-Type", "text/plain")])
            return [b"only requests to localhost are answered here\n"]
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

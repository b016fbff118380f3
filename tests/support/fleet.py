"""A fleet of real processes on stub models, to be killed: for tests of what a fleet survives.

Processes are forked from a server that has imported everything, so that starting one costs a tenth of a
second instead of two, and killing them in turn stays affordable.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from whence.flow.telemetry.logfmt import log_to_stderr
from whence.testing.stub_models import EchoWriter, HashEmbedder, OverlapReranker

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from whence.schema.embedding import Purpose

#: A text with this word kills the process that embeds it.
POISON = "abrakadabra"
#: How long a process may take to be ready on a loaded machine, in seconds.
_READY_S = 60.0
_PRELOAD = (
    "tests.support.fleet",
    "whence.broker.pulsar.transport",
    "whence.flow.service",
    "whence.flow.loader",
    "whence.store.postgres.store",
    "whence.processors.document_rag",
    "whence.processors.ingest",
    "whence.processors.recorder",
    "whence.processors.search",
    "whence.processors.prompt",
    "whence.processors.reranker",
    "whence.processors.text_fetcher",
    "whence.processors.embedding",
    "httpx",
    "numpy",
)


class FleetSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What all processes of a fleet have in common."""

    broker_url: str
    database_url: str
    flow: str = "all-in-one"
    environment: Mapping[str, str] = {}
    """Set in every process."""
    embedding_log: str = ""
    """File to which every text is written before it is embedded; none when empty."""
    embedding_s: float = 0.0
    """Seconds that one embedding takes."""
    drain_s: float = 10.0


class _LoggingEmbedder(HashEmbedder):
    """Tells a file what it embeds, and dies of poison."""

    def __init__(self, log: str, delay_s: float) -> None:
        super().__init__(delay_s=delay_s)
        self._log = Path(log) if log else None

    async def embed(self, texts: Sequence[str], purpose: Purpose = "query") -> NDArray[np.float32]:
        """Embed as a bag of words."""
        if any(POISON in text for text in texts):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._log is not None and purpose == "document":
            lines = "".join(text.replace("\n", " ") + "\n" for text in texts)
            # One write each: what several processes append does not mix.
            with self._log.open("a", encoding="utf-8") as file:
                file.write(lines)
        return await super().embed(texts, purpose)


class Fleet:
    """Starts, kills and stops processes that run parts of a flow. Use it as a `with`.

    Args:
        spec: What they have in common.
    """

    def __init__(self, spec: FleetSpec) -> None:
        self.spec = spec
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(list(_PRELOAD))
        self._processes: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for name in list(self._processes):
            self.kill(name)

    def start(self, *names: str, **options: Any) -> None:
        """Start one process for each name and wait until all take messages.

        Args:
            names: A processor, or several joined by commas; a word after `@` tells copies apart.
            options: `skew_s` sets its clock wrong, `hang` makes its writer hang, `environment` adds to the
                fleet's.

        Raises:
            TimeoutError: A process is not ready within a minute.
            RuntimeError: A process ended before it was ready.
        """
        opened = [(name, self._launch(name, options)) for name in names]
        for name, ready in opened:
            if not ready.poll(_READY_S):
                raise TimeoutError(f"{name} is not ready after {_READY_S} s")
            try:
                told = ready.recv()
            except EOFError:
                told = "it died"
            ready.close()
            if told != "ready":
                raise RuntimeError(f"{name} did not start: {told}")

    def _launch(self, name: str, options: Mapping[str, Any]) -> Connection:
        mine, theirs = self._context.Pipe(duplex=False)
        only = tuple(name.partition("@")[0].split(","))
        process = self._context.Process(
            target=_serve, args=(self.spec, only, dict(options), theirs), daemon=True
        )
        process.start()
        theirs.close()
        self._processes[name] = process
        return mine

    def kill(self, name: str) -> None:
        """End a process at once, as a crash would."""
        process = self._processes.pop(name)
        process.kill()
        process.join(_READY_S)
        process.close()

    def stop(self, name: str) -> int:
        """Ask a process to drain and end; gives its exit code."""
        process = self._processes.pop(name)
        process.terminate()
        process.join(_READY_S)
        code: int = process.exitcode
        process.close()
        return code

    def is_alive(self, name: str) -> bool:
        """Return whether a process still runs."""
        return bool(self._processes[name].is_alive())

    def forget(self, name: str) -> None:
        """Let go of a process that ended by itself."""
        process = self._processes.pop(name)
        process.join(_READY_S)
        process.close()


def _serve(
    spec: FleetSpec, only: tuple[str, ...], options: Mapping[str, Any], ready: Connection
) -> None:
    """Run a part of the flow in this process until a signal comes."""
    os.environ.update(spec.environment)
    os.environ.update(options.get("environment", {}))
    log_to_stderr("WARNING")
    if options.get("skew_s"):
        _set_clock_wrong(float(options["skew_s"]))
    try:
        asyncio.run(_run(spec, only, options, ready))
    except Exception as error:
        if not ready.closed:
            ready.send(f"{type(error).__name__}: {error}")
        sys.exit(1)


def _set_clock_wrong(seconds: float) -> None:
    """Make this process live at another time; durations stay right."""
    from whence.broker.clock import SystemClock

    true_time = time.time
    wrong = staticmethod(lambda: true_time() + seconds)
    SystemClock.time = wrong


async def _run(
    spec: FleetSpec, only: tuple[str, ...], options: Mapping[str, Any], ready: Connection
) -> None:
    from whence.flow.loader import load_flow
    from whence.flow.resources import Resources
    from whence.flow.service import serve_flow
    from whence.flow.settings import Settings

    settings = Settings({"broker": spec.broker_url, "database_url": spec.database_url})
    models = {
        "embedder": _LoggingEmbedder(spec.embedding_log, spec.embedding_s),
        "reranker": OverlapReranker(),
        "writer": EchoWriter(
            is_language_model=True, delay_s=3600.0 if options.get("hang") else 0.0
        ),
    }

    def on_ready() -> None:
        ready.send("ready")
        ready.close()

    orphaned = asyncio.create_task(_end_with_parent(os.getppid()))

    await serve_flow(
        load_flow(spec.flow),
        settings,
        only=only,
        on_ready=on_ready,
        drain_s=spec.drain_s,
        resources=Resources(settings, models),
    )
    orphaned.cancel()


async def _end_with_parent(parent: int) -> None:
    """End this process when the one that forked it is gone: nobody would."""
    # Nobody tells a process that it is an orphan.
    while os.getppid() == parent:
        await asyncio.sleep(1.0)
    os._exit(1)

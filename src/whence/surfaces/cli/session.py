"""From the options of a call to an open engine: settings, logging, `run_with_engine`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from whence.surfaces.cli.options import state_of

if TYPE_CHECKING:
    from whence.flow.settings import Settings
    from whence.operations.operation import Operation
    from whence.surfaces.python.engine import Engine

R = TypeVar("R")
T = TypeVar("T")


def as_json(context: typer.Context) -> bool:
    """Return whether `--json` was given."""
    return state_of(context).json


def settings_of(context: typer.Context, **options: str | None) -> Settings:
    """Return the settings of this call: option, environment, `whence.toml`, default, in this order.

    `options` are those that the command has of its own; later calls return them, too.
    """
    from whence.flow.settings import Settings

    state_of(context).given |= {name: value for name, value in options.items() if value}
    return Settings.load(options=state_of(context).given)


def start_logging(default_level: str = "") -> None:
    """Send log records to stderr, from the level in `WHENCE_LOG` or the default on.

    Without a default, output of commands states what went wrong: on a terminal nothing is logged, elsewhere
    Whence's own errors, such as failures of services, each on one line.
    """
    import logging

    from whence.flow.telemetry.logfmt import log_to_stderr

    level = (os.environ.get("WHENCE_LOG") or default_level or "CRITICAL").upper()
    if level not in logging.getLevelNamesMapping():
        from whence.schema.errors import ConfigError

        raise ConfigError(
            f"WHENCE_LOG={level.lower()} is not a log level",
            hint="use debug, info, warning, error or critical",
        )
    quiet = not (os.environ.get("WHENCE_LOG") or default_level)
    log_to_stderr(level, tracebacks=not quiet)
    if quiet:
        logging.getLogger("whence").setLevel(
            logging.CRITICAL if sys.stderr.isatty() else logging.ERROR
        )
    if not os.environ.get("WHENCE_LOG"):
        # A command that waits for another process reports it, so that it does not seem to hang.
        waiting = logging.getLogger("whence.waiting")
        waiting.propagate = False
        waiting.setLevel(logging.WARNING)
        waiting.addHandler(logging.StreamHandler(sys.stderr))


def run_operation(context: typer.Context, operation: Operation[R], **options: Any) -> R:
    """Check an operation, and run it with an engine for the settings of this call; see `run_with_engine`."""
    operation.check()
    return run_with_engine(context, lambda engine, _: engine.run(operation), **options)


def run_with_engine(
    context: typer.Context,
    work: Callable[[Engine, Settings], Coroutine[Any, Any, T]],
    *,
    reads: str = "",
    **options: Any,
) -> T:
    """Open an engine for the settings of this call, run the work, close the engine."""
    # Importing asyncio takes a fifth of the start; `--help` and usage errors do without.
    import asyncio

    start_logging()
    settings = settings_of(context)
    if reads:
        _check_database_exists(settings, reads)

    async def session() -> T:
        from whence.surfaces.python.engine import Engine

        async with Engine(settings=settings, **options) as engine:
            return await work(engine, settings)

    return asyncio.run(session())


def _check_database_exists(settings: Settings, item: str) -> None:
    """Refuse to read from a home without a database, which may be mistyped, before one is created there."""
    from whence.broker.connect import in_process
    from whence.schema.errors import NotFound
    from whence.store.postgres.server.home import Home

    if settings.database_url or not in_process(settings.broker):
        return
    if Home(settings.home).is_empty():
        raise NotFound(
            f"there is no {item}: {settings.home} contains no database",
            hint="index documents first, or choose another home with --home or WHENCE_HOME",
        )

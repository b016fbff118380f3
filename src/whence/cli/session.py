"""From the options of a call to a running engine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from whence.cli.options import state_of
from whence.schema.access import Access

if TYPE_CHECKING:
    from whence.engine.engine import Engine
    from whence.flow.settings import Settings

__all__ = ("access_of", "as_json", "run_with_engine", "settings_of", "start_logging")

T = TypeVar("T")


def as_json(context: typer.Context) -> bool:
    """Tell whether `--json` was given."""
    return state_of(context).json


def settings_of(context: typer.Context) -> Settings:
    """Give the settings of this call: option, environment, `whence.toml`, default, in this order."""
    from whence.flow.settings import Settings

    return Settings.load(options=state_of(context).given)


def access_of(acl: list[str] | None, label: list[str] | None, clearance: int) -> Access:
    """Give the reader's rights; none given means public documents only."""
    return Access(frozenset(acl or ()), frozenset(label or ()), clearance)


def start_logging(level: str = "CRITICAL") -> None:
    """Send log records to stderr, from `WHENCE_LOG` or this level on.

    Commands that end with an answer or an error stay silent by default: what went wrong is in their words.

    Raises:
        ConfigError: `WHENCE_LOG` names no level.
    """
    import logging

    from whence.flow.telemetry.logfmt import log_to_stderr

    log_to_stderr(_log_level(level))
    if not os.environ.get("WHENCE_LOG"):
        # Nobody should have to wonder whether a command that waits for another still lives.
        waiting = logging.getLogger("whence.waiting")
        waiting.propagate = False
        waiting.setLevel(logging.WARNING)
        waiting.addHandler(logging.StreamHandler(sys.stderr))


def _log_level(default: str) -> str:
    import logging

    level = (os.environ.get("WHENCE_LOG") or default).upper()
    if level not in logging.getLevelNamesMapping():
        from whence.schema.errors import ConfigError

        raise ConfigError(
            f"WHENCE_LOG={level.lower()} is no level of logging",
            hint="use debug, info, warning, error or critical",
        )
    return level


def run_with_engine(
    context: typer.Context,
    work: Callable[[Engine, Settings], Coroutine[Any, Any, T]],
    *,
    reads: str = "",
    **options: Any,
) -> T:
    """Open an engine for the settings of this call, do the work, close it.

    Args:
        context: Of this call.
        work: What to do with the engine.
        reads: What the work looks for, if it is something that only an earlier call can have stored.
        options: Of the engine.

    Raises:
        NotFound: Nothing was ever stored in this home.
    """
    # Loading asyncio takes a fifth of the start; `--help` and wrong usage do without.
    import asyncio

    start_logging()
    settings = settings_of(context)
    if reads:
        _check_stored(settings, reads)

    async def session() -> T:
        from whence.engine.engine import Engine

        async with Engine(settings=settings, **options) as engine:
            return await work(engine, settings)

    return asyncio.run(session())


def _check_stored(settings: Settings, what: str) -> None:
    """Refuse what reads from a home without a database, before one is made: the home may be mistyped.

    Raises:
        NotFound: There is none.
        ConfigError: It can be no home, or is one of a newer version.
    """
    from whence.broker.connect import in_process
    from whence.schema.errors import NotFound
    from whence.store.postgres.server.home import Home

    if settings.database_url or not in_process(settings.broker):
        return
    if Home(settings.home).is_empty():
        raise NotFound(
            f"there is no {what}: nothing was ever stored in {settings.home}",
            hint="index something into it first, or choose another home with --home or WHENCE_HOME",
        )

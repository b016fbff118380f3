"""`whence watch`: keep a collection equal to folders."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer
from msgspec.structs import replace

from whence.operations.watch import Watch
from whence.surfaces.cli.output import console, print_json_line
from whence.surfaces.cli.session import as_json, run_with_engine

if TYPE_CHECKING:
    from whence.flow.settings import Settings
    from whence.operations.watch import WatchEvent
    from whence.surfaces.python.engine import Engine


def watch(context: typer.Context, asked: Watch) -> int:
    """Keep a collection equal to folders until stopped: one line for each change.

    Files that change are read again, files that go are removed, and files that move keep their vectors. What
    changed while nothing watched is found at the start. A folder that is empty, missing or cannot be listed
    removes nothing. Exit 0 after SIGTERM or Ctrl-C.

    For example: whence watch wiki/ --acl staff
    """
    tell = print_json_line if as_json(context) else _print

    async def work(engine: Engine, _: Settings) -> None:
        from whence.flow.signals import StopSignals

        # The change in work is completed.
        with StopSignals() as signals:
            await engine.run(replace(asked, stop=signals.received, on_event=tell))

    run_with_engine(context, work)
    return 0


def _print(event: WatchEvent) -> None:
    where = f"{event.root}/{event.path}" if event.root else event.path
    why = f": {event.reason}" if event.reason else ""
    took = f" ({event.seconds:.1f} s)" if event.seconds else ""
    console().print(" ".join(filter(None, (event.change, f"{where}{why}{took}"))))
    sys.stdout.flush()

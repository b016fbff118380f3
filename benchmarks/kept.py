"""Databases that benchmarks keep between runs, because filling one takes longer than measuring it.

A kept database is read-only once it is filled. Figures of the filling are stored beside it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from whence.store.postgres.server.server import EmbeddedServer
from whence.store.postgres.store import PostgresStore

__all__ = ("Fill", "add_options", "opened")

#: Fills a new database, and gives what was measured meanwhile.
Fill = Callable[[PostgresStore, EmbeddedServer], Awaitable[dict[str, Any]]]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Let a command keep its database."""
    parser.add_argument(
        "--home", type=Path, help="keep the database in this folder, and use the one that is there"
    )
    parser.add_argument(
        "--fill", action="store_true", help="with --home: fill the database, and measure later"
    )


@contextlib.asynccontextmanager
async def opened(
    home: Path | None, name: str, fill: Fill
) -> AsyncIterator[tuple[PostgresStore, EmbeddedServer, dict[str, Any]]]:
    """Open a filled database; gives what was measured when it was filled, too.

    Args:
        home: Folder of kept databases; None for one that is thrown away.
        name: Of the database: it tells everything that its content depends on.
        fill: Fills it, unless it is there.
    """
    with contextlib.ExitStack() as stack:
        folder = home / name if home else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        noted = folder / "filled.json"
        async with (
            EmbeddedServer(folder / "home") as server,
            await PostgresStore.connect(server) as store,
        ):
            if not noted.exists():
                if await store.collections():
                    raise SystemExit(f"{folder}: filled halfway; remove it")
                noted.write_text(json.dumps(await fill(store, server)), encoding="utf-8")
            yield store, server, json.loads(noted.read_text(encoding="utf-8"))

"""`whence reembed` leaves the processors to searches of other processes, and the database to all of them."""

from __future__ import annotations

import os
from typing import Any

import pytest

from whence.operations.reembedding import Reembed
from whence.surfaces.cli import reembed


async def test_the_process_steps_back_once_the_database_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A database that the command starts keeps its priority: others search in it."""
    done: list[Any] = []

    class Engine:
        async def visible_collections(self, names: tuple[str, ...]) -> list[Any]:
            done.append("database")
            return []

        async def run(self, asked: Reembed) -> None:
            done.append("vectors")

    monkeypatch.setattr(os, "nice", lambda by: done.append(by > 0))
    engine: Any = Engine()
    await reembed._run_behind(engine, Reembed())
    assert done == ["database", True, "vectors"]

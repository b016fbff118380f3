"""A bundle read by another process: the same as in this one, and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_bundles import write_fake_bundles
from tests.support.small_bundles import edges_between, write_small

from whence.ingest.bundles import reading as module
from whence.ingest.bundles.bundle import Bundle, open_bundle
from whence.ingest.bundles.reading import reading
from whence.schema.code import CodeEdge, CodeNode, ImportReport
from whence.schema.errors import BadInput, InternalError


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every bundle is large enough for a process."""
    monkeypatch.setattr(module, "_LARGE_BYTES", 0)


async def everything(bundle: Bundle) -> tuple[list[CodeNode], list[CodeEdge], ImportReport]:
    nodes: list[CodeNode] = []
    async with reading(bundle, list, 7) as reader:
        while (some := await reader.nodes()) is not None:
            assert len(some) <= 7
            nodes += some
        return nodes, edges_between(nodes, await reader.edges()), await reader.report()


async def test_another_process_reads_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes, edges and the account are those that a thread of this process finds."""
    bundle = open_bundle(write_fake_bundles(tmp_path)[0])
    apart = await everything(bundle)
    monkeypatch.setattr(module, "_LARGE_BYTES", 1 << 40)

    assert apart == await everything(bundle)
    assert len(apart[0]) == 291


async def test_refused_in_the_same_words(tmp_path: Path) -> None:
    """What is wrong with a bundle is told with member, line and hint."""
    path = write_small(tmp_path / "b.zip", {"C1": {"Text": "a", "acl_allow": "all"}})

    with pytest.raises(
        BadInput, match=r"b\.zip: code/chunks\.json, line 1, item 1: acl_allow must"
    ):
        await everything(open_bundle(path))


def _large(tmp_path: Path) -> Bundle:
    """A bundle with more frames than wait in the pipe and before it."""
    return open_bundle(write_small(tmp_path / "b.zip", {f"C{n}": "x" * 50_000 for n in range(300)}))


async def _process(reader: Any) -> int:
    assert await reader.nodes()
    number: int = reader._process.pid
    return number


async def _rest(reader: Any) -> None:
    while await reader.nodes() is not None:
        pass


async def test_a_killed_process_is_told(tmp_path: Path) -> None:
    """A process that ends before its time fails the import, and the message says how it ended."""
    async with reading(_large(tmp_path), list, 7) as reader:
        os.kill(await _process(reader), signal.SIGKILL)
        with pytest.raises(InternalError, match=r"that read b was ended by signal 9"):
            await _rest(reader)


async def test_no_process_is_left(tmp_path: Path) -> None:
    """When a block is left early, the process has gone."""
    async with reading(_large(tmp_path), list, 7) as reader:
        number = await _process(reader)
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


async def test_a_cancelled_reader_ends_its_process(tmp_path: Path) -> None:
    """Whoever is cancelled while a frame is awaited leaves no process behind either."""
    numbers: list[int] = []

    async def read() -> None:
        async with reading(_large(tmp_path), list, 7) as reader:
            numbers.append(await _process(reader))
            os.kill(numbers[0], signal.SIGSTOP)
            await _rest(reader)

    task = asyncio.create_task(read())
    while not numbers:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(numbers[0], 0)


async def test_modules_of_the_working_folder_are_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever imports a bundle in a folder of somebody else runs none of its code."""
    (tmp_path / "json.py").write_text("raise SystemExit(9)")
    (tmp_path / "msgspec.py").write_text("raise SystemExit(9)")
    bundle = open_bundle(write_small(tmp_path / "b.zip", {"C1": "a"}))
    monkeypatch.chdir(tmp_path)

    nodes, _, _ = await everything(bundle)
    assert [node.local_id for node in nodes] == ["C1"]

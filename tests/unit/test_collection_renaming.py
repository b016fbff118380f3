"""Another name for a collection: what stands beside the store."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from whence.flow.settings import Settings
from whence.operations.watch import WatchState
from whence.schema.errors import BadInput
from whence.store.memory.store import MemoryStore
from whence.store.postgres.server.locks import FileLock
from whence.surfaces.python.engine import Engine
from whence.testing.stub_models import EchoWriter, HashEmbedder


def engine_of(home: Path, **settings: str) -> Engine:
    """Return an engine of a store in memory."""
    chosen = Settings.load(options={"home": str(home), **settings})
    return Engine(
        settings=chosen, store=MemoryStore(), embedder=HashEmbedder(), writer=EchoWriter()
    )


async def test_a_collection_that_is_watched_keeps_its_name(tmp_path: Path) -> None:
    """The watch would make it again under its former name; one that has ended is no hindrance."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("Otters swim.")
    (tmp_path / "watch").mkdir()
    state = WatchState(collection="drafts", paths=["/docs"], started_at="2026-01-01T00:00:00")
    (tmp_path / "watch" / "x.json").write_bytes(msgspec.json.encode(state))
    lock = FileLock(tmp_path / "watch" / "x.lock", "a watch")
    async with engine_of(tmp_path) as engine:
        await engine.index([tmp_path / "docs"], collection="drafts")
        assert lock.try_acquire()
        for names in (("drafts", "handbook"), ("other", "drafts")):
            with pytest.raises(BadInput, match="is watched"):
                await engine.owner.rename_collection(*names)
        lock.release()
        done = await engine.owner.rename_collection("drafts", "handbook")

    assert (done.collection, done.former, done.documents) == ("handbook", "drafts", 1)


async def test_pipeline_traces_name_chunks_by_the_new_name(tmp_path: Path) -> None:
    """Erasing a document deletes the files that name it, also those from before its collection was renamed."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("Otters swim in the river at night.")
    traces = tmp_path / "traces"
    traces.mkdir()
    async with engine_of(tmp_path, trace_dir=str(traces)) as engine:
        await engine.index([tmp_path / "docs"], collection="drafts")
        await engine.search("otters", collection="drafts")
        assert "urn:chunk:drafts:" in next(traces.glob("*.json")).read_text()
        await engine.owner.rename_collection("drafts", "handbook")
        assert "urn:chunk:drafts:" not in next(traces.glob("*.json")).read_text()
        (erased,) = await engine.owner.erase(["a.md"], collection="handbook")

    assert erased.trace_files == 1

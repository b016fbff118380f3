"""Sources over the engine: an address is indexed and watched as a folder is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.repository import Repository

from whence import Engine
from whence.operations import watch
from whence.operations.watch import Watch, WatchEvent
from whence.schema.errors import BadInput
from whence.testing.stub_models import HashEmbedder

pytestmark = pytest.mark.postgres


@pytest.fixture
async def engine(tmp_path: Path, database_url: str) -> AsyncIterator[Engine]:
    """An engine on an empty database."""
    models: dict[str, Any] = {"embedder": HashEmbedder(), "reranker": "none"}
    async with Engine(home=tmp_path / "home", database_url=database_url, **models) as engine:
        yield engine


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "handbook")


async def test_an_address_is_indexed_as_a_folder_is(engine: Engine, repository: Repository) -> None:
    """Only what changed is read, what went is pruned, and author and date are those of the history."""
    date = "2020-01-02T03:04:05+00:00"
    repository.commit({"a.md": "The kettle boils.", "b.md": "The gate opens."}, "Ada", date)
    address = f"git+file://{repository.path}@main"
    first = await engine.index([address])
    repository.commit({"a.md": "The kettle whistles.", "b.md": None, "c.md": "Anvils."}, "Grace")
    second = await engine.index([address], prune=True)
    third = await engine.index([address], prune=True)
    found = await engine.search("kettle", filters={"author": "Grace"})
    documents = {one.document_id: one for one in await engine.documents(state="read")}

    assert first.documents.added == 2
    assert (second.documents.updated, second.documents.added, second.documents.removed) == (1, 1, 1)
    assert third.documents.unchanged == 2
    assert found[0].chunk.content == "The kettle whistles."
    assert "a.md" in [one.document_id for one in found]
    assert {one.root for one in documents.values()} == {"handbook"}
    assert documents.keys() == {"a.md", "c.md"}
    assert documents["a.md"].document_date.startswith("2024-03-05")
    assert documents["a.md"].changed is False


async def test_a_source_that_cannot_be_read_takes_nothing_away(
    engine: Engine, repository: Repository
) -> None:
    """The run fails before anything is removed."""
    repository.commit({"a.md": "The kettle boils."})
    address = f"git+file://{repository.path}@main"
    await engine.index([address])
    repository.git("branch", "--move", "main", "other")

    with pytest.raises(BadInput, match="git says"):
        await engine.index([address], prune=True)
    assert len(await engine.documents(state="read")) == 1


async def test_a_source_is_watched(
    engine: Engine, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look finds what was committed since; a fault is reported, and the next look goes on."""
    monkeypatch.setattr(watch, "_SOURCE_POLL_S", 0.2)
    repository.commit({"a.md": "The kettle boils.", "b.md": "The gate opens."})
    events: asyncio.Queue[WatchEvent] = asyncio.Queue()
    stop = asyncio.Event()

    async def until(change: str, path: str = "") -> WatchEvent:
        while True:
            event = await asyncio.wait_for(events.get(), 30)
            if event.change == change and path in event.path:
                return event

    address = f"git+file://{repository.path}@main"
    asked = Watch([address], stop=stop, on_event=events.put_nowait)
    task = asyncio.create_task(engine.run(asked))
    await until("ready")
    repository.commit({"b.md": None, "c.md": "Anvils are heavy."})
    await until("read", "c.md")
    repository.git("branch", "--move", "main", "other")
    assert "git says" in (await until("failed", address)).reason
    repository.git("branch", "--move", "other", "main")
    repository.commit({"d.md": "A bell rings."})
    await until("read", "d.md")
    stop.set()
    await asyncio.wait_for(task, 30)

    stored = {one.document_id for one in await engine.documents() if one.state != "gone"}
    assert stored == {"a.md", "c.md", "d.md"}

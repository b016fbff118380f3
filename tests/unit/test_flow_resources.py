"""Resources are opened once on first use and closed in reverse order."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from whence.flow.resources import Resources
from whence.flow.settings import Settings
from whence.models.encoders import MINILM, MULTILINGUAL
from whence.models.protocols import Embedder, Reranker
from whence.schema.errors import ConfigError, ModelMissing, Unavailable


class Recorded(Resources):
    """Opens stubs and records the calls."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.events: list[str] = []

    async def _open(self, kind: str) -> str:
        await asyncio.sleep(0)
        self.events.append(f"open {kind}")

        async def close() -> None:
            self.events.append(f"close {kind}")

        self._stack.push_async_callback(close)
        return kind

    async def _open_store(self) -> Any:
        return await self._open("store")

    async def _open_embedder(self) -> Any:
        return await self._open("embedder")


async def test_each_is_opened_once_and_closed_in_reverse() -> None:
    """Concurrent callers get the same object; the last opened is closed first."""
    resources = Recorded(Settings({}))
    async with resources:
        found = await asyncio.gather(*(resources.get(kind) for kind in ("store", "store")))
        await resources.get("embedder")

    assert found == ["store", "store"]
    assert resources.events == ["open store", "open embedder", "close embedder", "close store"]
    await resources.aclose()
    assert len(resources.events) == 4
    with pytest.raises(Unavailable, match="closed"):
        await resources.get("store")


async def test_a_given_resource_is_used_and_not_closed() -> None:
    """An object of the caller is used as it is, and the caller closes it."""
    mine = object()
    async with Resources(Settings({}), {"store": mine}) as resources:
        assert await resources.get("store") is mine


async def test_an_unknown_kind_is_refused() -> None:
    """A processor that needs what does not exist is a configuration error."""
    with pytest.raises(ConfigError, match="no resource 'cache'"):
        await Resources(Settings({})).get("cache")
    with pytest.raises(ConfigError, match="no resource 'cache'"):
        Resources(Settings({}), {"cache": 1})


async def test_missing_models_fail_when_used(tmp_path: Path) -> None:
    """A model that is not installed is handed out and fails with what to do about it."""
    async with Resources(Settings({"models": str(tmp_path)})) as resources:
        embedder: Embedder = await resources.get("embedder")
        reranker: Reranker = await resources.get("reranker")
        writer = await resources.get("writer")

        assert writer.model == "extractive"
        with pytest.raises(ModelMissing, match="not installed") as caught:
            await embedder.embed(["a"])
        assert "whence models install" in caught.value.hint
        with pytest.raises(ModelMissing, match="there is no reranker"):
            assert reranker.model
        with pytest.raises(ModelMissing, match=r"there is no reranker.*whence models install"):
            await reranker.score("q", ["d"])
        await reranker.aclose()


async def test_a_wrong_setting_is_refused_at_once() -> None:
    """A model setting without a model fails when the resource is opened, not at the first message."""
    async with Resources(Settings({"embedder": "locl", "writer": "gpt"})) as resources:
        for kind in ("embedder", "writer"):
            with pytest.raises(ConfigError, match=f"unknown {kind}"):
                await resources.get(kind)


@pytest.mark.parametrize(
    ("reranker", "given", "off"),
    [("none", False, True), ("none", True, False), ("auto", False, False)],
)
def test_only_none_disables_the_reranker(reranker: str, given: bool, off: bool) -> None:
    """`none` disables the reranker unless one is given; `auto` never does."""
    objects = {"reranker": object()} if given else {}
    resources = Resources(Settings({"reranker": reranker}), objects)

    assert bool(resources.disabled) is off


def test_an_encoder_of_more_languages_disables_the_local_reranker(tmp_path: Path) -> None:
    """It reads English; a reranker that is chosen or given stays."""
    settings = {"models": str(tmp_path), "embedder": "multilingual-e5-small"}

    assert "multilingual-e5-small" in Resources(Settings(settings)).disabled["reranker"]
    assert not Resources(Settings({**settings, "reranker": "http:some"})).disabled
    assert not Resources(Settings(settings), {"reranker": object()}).disabled
    assert not Resources(Settings({**settings, "embedder": "e5-small-v2"})).disabled


async def test_no_model_is_opened_twice(tmp_path: Path) -> None:
    """Collections and the writer have the embedder of the settings where they ask for its vectors."""
    (tmp_path / MULTILINGUAL.name).mkdir()
    (tmp_path / MULTILINGUAL.name / "manifest.json").write_text("{}")
    settings = Settings({"models": str(tmp_path), "embedder": MULTILINGUAL.name})
    async with Resources(settings) as resources:
        library = await resources.get("embedders")

        assert library.installed(MULTILINGUAL.name) is await resources.get("embedder")
        assert library.installed(MINILM.name) is None

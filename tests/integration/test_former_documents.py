"""Former versions of documents are kept as long as a setting says, and no longer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from whence.flow.settings import Settings
from whence.schema.errors import BadInput, ConfigError
from whence.store.memory.store import MemoryStore
from whence.store.postgres.store import PostgresStore
from whence.testing.store_samples import (
    EVERYTHING,
    fill_collection,
    ids_of,
    make_document,
    search_all,
)

pytestmark = pytest.mark.postgres

DAY = timedelta(days=1)


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC) + DAY

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "postgres"])
async def store(request: Any, clock: Clock, database_url: str) -> AsyncIterator[Any]:
    """A store that keeps former versions for ten days."""
    options: dict[str, Any] = {"clock": clock, "keep_versions": 10 * DAY}
    if request.param == "memory":
        yield MemoryStore(**options)
        return
    async with await PostgresStore.connect(database_url, pool_size=2, **options) as store:
        yield store


async def test_former_versions_are_pruned_by_later_writes(store: Any, clock: Clock) -> None:
    """A write deletes what was replaced longer ago than is kept, also in other collections."""
    name = await fill_collection(store, make_document("d"))
    then = clock.now
    clock.now += 5 * DAY
    await store.replace_documents(name, [make_document("d")])
    clock.now += 10 * DAY
    await store.replace_documents(name, [make_document("e")])
    kept = await store.store_at(name, EVERYTHING, 1, then)
    clock.now += DAY
    await store.replace_documents(name, [make_document("f")])

    assert ids_of(await search_all(kept, name)) == ["d"]
    with pytest.raises(BadInput, match="kept no more"):
        await store.store_at(name, EVERYTHING, 1, then)
    assert ids_of(await search_all(await store.store_at(name, EVERYTHING, 2, clock.now), name)) == [
        "d"
    ]


async def test_a_former_version_keeps_what_stands_above_its_texts(store: Any, clock: Clock) -> None:
    """A version of the past has the headers of its tables."""
    document = make_document("d")
    chunk = replace(document.draft.chunks[0], lead="| a |\n|---|")
    former = replace(document, draft=replace(document.draft, chunks=(chunk,)))
    name = await fill_collection(store, former)
    then = clock.now
    clock.now += DAY
    await store.replace_documents(name, [make_document("d")])

    kept = await store.store_at(name, EVERYTHING, 1, then)
    (text,) = await kept.chunk_texts(name, [f"urn:chunk:{name}:d:0"], EVERYTHING)
    assert text.lead == chunk.lead


@pytest.mark.parametrize(
    ("value", "expected"),
    [("0", 0), ("12h", 0.5), ("30d", 30), ("4w", 28), ("", 30)],
)
def test_the_setting_names_a_time(value: str, expected: float) -> None:
    """Hours, days and weeks are read; 0 keeps none; the default is 30 days."""
    settings = Settings({"keep_versions": value} if value else {})

    assert settings.keep_versions == expected * DAY


@pytest.mark.parametrize("value", ["30", "-1d", "1y", "0d", "d", "9999999w", "1.5d"])
def test_other_values_are_refused(value: str) -> None:
    """What is no time, or too long, is an error that shows valid ones."""
    with pytest.raises(ConfigError, match="30d, 12h or 4w"):
        _ = Settings({"keep_versions": value}).keep_versions

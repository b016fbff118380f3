"""How many statements the texts of a tree take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.support.small_bundles import import_into, write_small

from whence.code.snapshots.store import PostgresCode
from whence.processors.text_fetcher import TextFetcherProcessor
from whence.schema.access import Access
from whence.schema.code_ids import canonical_id
from whence.schema.texts import PlannedText, TextBudget, TextPlan, TextRequest
from whence.store.chunk_ids import chunk_key
from whence.store.postgres.store import PostgresStore

pytestmark = pytest.mark.postgres


async def test_texts_are_read_by_one_statement(
    postgres_store: PostgresStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The texts of 200 nodes, seeds and graph, are read by one statement."""
    nodes = {f"C{n:03}": f"class Number{n}" for n in range(200)}
    await import_into(postgres_store, [write_small(tmp_path / "b.zip", nodes)])
    record = await PostgresCode(postgres_store).resolve_snapshot("main")
    ids = [canonical_id("Small", record.info.snapshot_id, "cs", local) for local in nodes]
    keys = [chunk_key(record.collection, one, 0) for one in ids]
    plan = TextPlan(
        seeds=tuple(keys[:20]),
        graph=tuple(PlannedText(id=key) for key in keys[20:]),
        budget=TextBudget(kind="chars", limit=100_000),
    )
    sent: list[str] = []
    for method in ("fetch", "fetchrow", "fetchval", "execute", "executemany"):
        original = getattr(asyncpg.Connection, method)

        async def noted(self: Any, query: str, *args: Any, _run: Any = original, **kw: Any) -> Any:
            sent.append(query)
            return await _run(self, query, *args, **kw)

        monkeypatch.setattr(asyncpg.Connection, method, noted)
    context: Any = None
    request = TextRequest(access=Access.public(), collection=record.collection, plan=plan)

    reply = await TextFetcherProcessor(store=postgres_store).handle(request, context)

    assert sorted(text.content for text in reply.texts) == sorted(nodes.values())
    # What the driver sends when a connection goes back to the pool is no statement of ours.
    assert [query[:6] for query in sent if "RESET ALL" not in query] == ["SELECT"]

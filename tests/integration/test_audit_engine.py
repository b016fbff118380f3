"""An engine with an audit log writes a line for each operation, without text of documents."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.small_bundles import write_small

from whence import Access, Engine
from whence.flow.settings import Settings
from whence.schema.errors import NotFound
from whence.schema.texts import TextBudget
from whence.testing.stub_models import HashEmbedder

pytestmark = pytest.mark.postgres

RIGHTS = Access(frozenset({"kitchen"}))
TEXT = "Lunch is served from noon, and quokkatext is on the menu."


@pytest.fixture(scope="module")
def told(
    tmp_path_factory: pytest.TempPathFactory, new_home: Callable[[Path], Path]
) -> tuple[list[Any], str]:
    """Run every operation once; return the lines and the id of the answer."""
    folder = tmp_path_factory.mktemp("audit")
    new_home(folder / "home")
    answer_id = asyncio.run(_do_everything(folder))
    lines = (folder / "audit.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines], answer_id


async def _do_everything(folder: Path) -> str:
    source = folder / "lunch.md"
    source.write_text(f"# Lunch\n\n{TEXT}\n")
    bundle = write_small(
        folder / "small.zip",
        {"C0001": "quokkatext one", "C0002": "quokkatext two"},
        [("C0001", "C0002", "dep")],
    )
    settings = Settings({"home": str(folder / "home"), "audit": str(folder / "audit.jsonl")})
    async with Engine(settings=settings, embedder=HashEmbedder(), reranker="none") as engine:
        await engine.index([source], collection="menus")
        hits = await engine.search("When is lunch?", threshold=0, collection="menus", access=RIGHTS)
        retriever = engine.retriever("menus", RIGHTS)
        await retriever.asearch("When is lunch?", similarity_threshold=0.0)
        answer = await engine.ask("When is lunch served?", collection="menus", access=RIGHTS)
        await engine.explain(answer.answer_id, RIGHTS)
        await engine.why_not(hits[0].chunk.id, answer.answer_id, RIGHTS)
        await engine.replay(answer.answer_id, RIGHTS)
        with pytest.raises(NotFound):
            await engine.explain("nothing", RIGHTS)
        await engine.code.import_bundles([bundle])
        await engine.code.expand(["C0001"], snapshot="a1", access=RIGHTS)
        budget = TextBudget(kind="chars", limit=999)
        await engine.code.fetch(["C0001"], ["C0002"], budget=budget, snapshot="a1", access=RIGHTS)
        await engine.code.ask("What does one do?", snapshot="a1", access=RIGHTS)
        await engine.erase(hits[0].document_id, collection="menus")
    return answer.answer_id


def test_every_operation_has_its_line(told: tuple[list[Any], str]) -> None:
    """Each call is logged once with the reader's rights, also a search by a retriever."""
    lines, _ = told
    owners = {"index", "import", "erase"}

    assert Counter(line["operation"] for line in lines) == {
        "index": 1, "search": 2, "ask": 2, "explain": 2, "why-not": 1, "replay": 1,
        "import": 1, "expand": 1, "fetch": 1, "erase": 1,
    }  # fmt: skip
    for line in lines:
        rights = {"acl": ["kitchen"], "labels": [], "clearance": 0}
        assert line["rights"] == (None if line["operation"] in owners else rights)
        assert line["duration_ms"] >= 0


def test_lines_have_arguments_and_outcomes(told: tuple[list[Any], str]) -> None:
    """Lines contain questions, names and numbers, but no text of documents."""
    lines, answer_id = told
    of: dict[str, Any] = {line["operation"]: line for line in reversed(lines)}

    assert of["search"]["query"] == "When is lunch?"
    assert of["search"]["results"] == of["ask"]["results"] == of["index"]["results"] == 1
    assert of["ask"]["collection"] == "menus"
    for operation in ("ask", "explain", "why-not", "replay"):
        assert of[operation]["answer_id"] == answer_id
    assert of["expand"]["items"] == ["C0001"]
    assert of["fetch"]["items"] == ["C0001", "C0002"]
    assert of["expand"]["results"] == of["fetch"]["results"] == 2
    assert of["erase"]["results"] == 1
    assert [line.get("error") for line in lines if line.get("answer_id") == "nothing"] == [
        "not_found"
    ]
    assert "quokkatext" not in json.dumps(lines)

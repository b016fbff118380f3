"""Copies of a section take one place in searches and answers, for each reader among those that it may see."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from whence import Access, Engine
from whence.schema.access import DocumentTags
from whence.testing.stub_models import HashEmbedder

pytestmark = pytest.mark.postgres

QUESTION = "which range holds dynamic users?"
BODY = (
    "The numbers of users and groups are divided into ranges. The range from 100 to 999 holds dynamic users,"
    " which a package creates when it is installed. Numbers below 100 are the same on every system."
)
FILES = {
    "guide.html": f"<html><body><h1>Ranges</h1><p>{BODY.replace('users', '<b>users</b>')}</p></body></html>",
    "guide.md": f"# Ranges\n\n{BODY.replace('package', '`package`')}\n",
    "guide.txt": f"Ranges\n\n{BODY}\n",
    "old.md": f"# Ranges\n\n{BODY.replace('999', '499')}\n",
    **{
        f"{name}.md": f"# {name}\n\nA page about dynamic {name} of a range.\n"
        for name in ("disks", "keys")
    },
}
BOARD = Access(frozenset({"board"}))


async def _seen(engine: Engine, collection: str, access: Access) -> list[Any]:
    """Return what a reader gets: hits with their copies, the reasons of a trace, the answer."""
    hits = await engine.search(QUESTION, collection=collection, access=access, top_k=3)
    answer = await engine.ask(QUESTION, collection=collection, access=access)
    trace = await engine.explain(answer.answer_id, access)
    rows = [
        (one.document_id, one.rank, one.reason_code, one.duplicate_of) for one in trace.candidates
    ]
    told = msgspec.json.encode([hits, rows, answer.text, answer.citations]).decode()
    told = re.sub(r'"indexed_at":"[^"]*"', "", told)
    return [told.replace(collection, "COLLECTION"), hits, trace]


async def test_copies_take_one_place_among_what_the_reader_may_see(
    tmp_path: Path, new_home: Callable[[Path], Path]
) -> None:
    """A copy is named under its hit; one that is hidden is as if it were not there, to the last byte."""
    folder, hidden = tmp_path / "open", tmp_path / "hidden"
    for place in (folder, hidden):
        place.mkdir()
        for name, text in FILES.items():
            if place is folder or name == "guide.html":
                (place / f"{'' if place is folder else 'board-'}{name}").write_text(text)
    home = new_home(tmp_path / "home")
    async with Engine(home=home, embedder=HashEmbedder(), reranker="none") as engine:
        for collection in ("with", "without"):
            await engine.index([folder], collection=collection)
        await engine.index([hidden], collection="with", tags=DocumentTags(("board",)))

        public, hits, trace = await _seen(engine, "with", Access.public())
        assert public == (await _seen(engine, "without", Access.public()))[0]
        assert "board-" not in public

        _, more, _ = await _seen(engine, "with", BOARD)
        copies = {one for hit in more for one in (copy.document_id for copy in hit.duplicates)}
        assert {"guide.html", "guide.md", "guide.txt", "board-guide.html"} - copies == {
            hit.document_id for hit in more if hit.duplicates
        }
    guides = {"guide.html", "guide.md", "guide.txt"}
    assert len(hits) == 3
    (first,) = [one for one in hits if one.document_id in guides]
    assert {one.document_id for one in first.duplicates} == guides - {first.document_id}
    assert "old.md" in {one.document_id for one in hits}
    dropped = {
        one.document_id: one.duplicate_of
        for one in trace.candidates
        if one.reason_code in ("duplicate", "near_duplicate")
    }
    assert dropped == dict.fromkeys(guides - {first.document_id}, first.chunk.id)

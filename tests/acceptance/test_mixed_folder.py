"""A shared folder with files of every format: each fact is found at its place, each file is accounted for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.support.mixed_folder import FORMATS, Fact, write_mixed_folder

from whence.operations.results import IndexReport
from whence.surfaces.python.engine import Engine

_COUNT = 300
pytestmark = pytest.mark.asyncio(loop_scope="module")


class Share:
    """An indexed folder."""

    def __init__(self, engine: Engine, facts: list[Fact], report: IndexReport) -> None:
        self.engine, self.facts, self.report = engine, facts, report


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def share(tmp_path_factory: Any, new_home: Any) -> AsyncIterator[Share]:
    """Index a folder of all formats, with files beside them that nothing reads."""
    home = new_home(tmp_path_factory.mktemp("home"))
    folder: Path = tmp_path_factory.mktemp("share")
    facts = write_mixed_folder(folder, _COUNT)
    (folder / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(64)))
    (folder / "broken.docx").write_bytes(b"PK\x03\x04 no archive")
    (folder / "~$plan.docx").write_bytes(b"a lock")
    async with Engine(home=home) as engine:
        yield Share(engine, facts, await engine.index([folder], collection="share"))


async def test_no_file_is_unaccounted_for(share: Share) -> None:
    """Each file has a state, those that are not read with a reason; files of programs are left out."""
    files = {one.path: one for one in share.report.files}
    unread = {path: one.state for path, one in files.items() if one.state != "read"}
    assert unread == {"photo.png": "skipped", "broken.docx": "failed"}
    assert all(files[path].reason for path in unread)
    assert {fact.path for fact in share.facts} | set(unread) == set(files)


async def test_every_fact_is_found(share: Share) -> None:
    """A search by words for what a file alone has finds this file first, with the word that it states."""
    missed: dict[str, str] = {}
    for fact in share.facts:
        query = f"password {fact.name}"
        hits = await share.engine.search(query, collection="share", mode="bm25", top_k=1)
        found = {one.document_id: one.chunk.content for one in hits}
        if fact.word not in found.get(fact.path, ""):
            missed[fact.path] = str(found)
    assert not missed


@pytest.mark.parametrize("kind", FORMATS)
async def test_a_citation_leads_to_the_place(share: Share, kind: str) -> None:
    """An answer states the fact; its citation names the file and the page, line, row or slide of the words."""
    fact = next(one for one in share.facts if one.path.endswith(kind))
    answer = await share.engine.ask(f"What is the password of {fact.name}?", collection="share")
    assert fact.word in answer.text
    first = answer.citations[0]
    assert first.document_id == fact.path
    assert fact.word in first.quote
    place = first.location
    for name, value in fact.place.items():
        if name == "line_start":
            assert place.line_start <= value <= place.line_end
        elif name == "message":
            assert place.message.startswith(value)
        else:
            assert getattr(place, name) == value

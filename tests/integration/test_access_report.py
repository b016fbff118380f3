"""Who sees a document and what other tags would change, compared with what readers really get."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from whence import Access, Engine
from whence.schema.access import DocumentTags, TagChange
from whence.schema.errors import NotFound
from whence.testing.stub_models import HashEmbedder

pytestmark = pytest.mark.postgres

DOCUMENTS = 14


def random_tags(rng: random.Random) -> DocumentTags:
    """Return few tags of few, so that readers often have them."""
    return DocumentTags(
        tuple(rng.sample("abc", rng.choice((0, 0, 1, 2)))),
        tuple(rng.sample("xy", rng.choice((0, 0, 1, 2)))),
        rng.choice((0, 0, 1, 2)),
    )


def random_reader(rng: random.Random) -> Access:
    tags = random_tags(rng)
    return Access(frozenset(tags.acl), frozenset(tags.labels), tags.clearance)


@pytest.fixture
async def engine(database_url: str, tmp_path: Path) -> AsyncIterator[Engine]:
    rng = random.Random(11)
    lines = []
    for number in range(DOCUMENTS):
        tags = random_tags(rng)
        text = f"The shelf number {number} holds {number + 20} boxes of paper."
        record = {"_id": f"shelf/{number:02}", "text": text, "acl": tags.acl, "labels": tags.labels}
        lines.append(json.dumps({**record, "clearance": tags.clearance}))
    (tmp_path / "shelves.jsonl").write_text("\n".join(lines))
    async with Engine(
        home=tmp_path / "home", database_url=database_url, embedder=HashEmbedder(), reranker="none"
    ) as engine:
        await engine.index([tmp_path / "shelves.jsonl"])
        yield engine


async def found_by(engine: Engine, reader: Access) -> set[str]:
    hits = await engine.search("shelf boxes of paper", top_k=99, access=reader)
    return {hit.document_id for hit in hits}


async def test_a_document_is_visible_when_a_search_finds_it(engine: Engine) -> None:
    """For random readers the explanation agrees with a real search, and so do its rules."""
    rng = random.Random(5)
    seen = []
    for _ in range(10):
        reader = random_reader(rng)
        found = await found_by(engine, reader)
        for number in range(DOCUMENTS):
            name = f"shelf/{number:02}"
            told = await engine.owner.explain_access(name, reader)
            seen.append(told.visible)
            assert told.visible == (name in found), told
            assert told.visible == all(rule.holds for rule in told.rules)
            assert told.chunks_visible == (told.chunks if told.visible else 0)
    assert {True, False} == set(seen)
    with pytest.raises(NotFound):
        await engine.owner.explain_access("shelf/99", Access.public())


async def test_a_preview_is_what_happens(engine: Engine) -> None:
    """For random new tags: readers gain and lose, and answers are hidden and shown, as after a real change."""
    rng = random.Random(3)
    store = await engine._session.store()
    asked = {}
    for number in range(0, DOCUMENTS, 2):
        reader = random_reader(rng)
        answer = await engine.ask(f"How many boxes holds the shelf number {number}?", access=reader)
        asked[answer.answer_id] = reader
    changes = 0
    for _ in range(4):
        names = sorted(rng.sample([f"shelf/{n:02}" for n in range(DOCUMENTS)], rng.choice((1, 3))))
        new = random_tags(rng)
        change = TagChange(acl=new.acl, labels=new.labels, clearance=new.clearance)
        readers = [*dict.fromkeys(asked.values()), Access.public()]
        preview = await engine.owner.preview_access(names, change)
        before = {one: await found_by(engine, one) for one in readers}
        shown = {one: await is_shown(engine, one, asked[one]) for one in asked}
        await store.retag_documents("default", dict.fromkeys(names, new))
        after = {one: await found_by(engine, one) for one in readers}
        now = {one: await is_shown(engine, one, asked[one]) for one in asked}

        told = {one.reader: (one.gains, one.loses) for one in preview.readers}
        for one in readers:
            real = (len(after[one] - before[one]), len(before[one] - after[one]))
            assert told.get(one, (0, 0)) == real
        assert {one.answer_id: one.change for one in preview.answers} == {
            one: "shown" if now[one] else "hidden" for one in asked if now[one] != shown[one]
        }
        changes += len(preview.answers)
    assert changes > 1


async def is_shown(engine: Engine, answer_id: str, reader: Access) -> bool:
    try:
        await engine.explain(answer_id, reader)
    except NotFound:
        return False
    return True


async def test_tags_without_a_new_value_stay(engine: Engine) -> None:
    """Of a folder of ids, only what is named changes; equal tags are no change."""
    names = await engine.owner.documents_below("shelf/")
    preview = await engine.owner.preview_access(names, TagChange(clearance=2))

    assert len(names) == DOCUMENTS
    assert 0 < len(preview.documents) < DOCUMENTS
    for one in preview.documents:
        assert one.after == DocumentTags(one.before.acl, one.before.labels, 2)
    with pytest.raises(NotFound):
        await engine.owner.documents_below("she")

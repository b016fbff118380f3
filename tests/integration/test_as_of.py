"""Questions as of an earlier moment are answered from the documents of then, with the rights of today."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from whence import Access, Engine
from whence.flow.settings import Settings
from whence.operations.as_of import refuse_code
from whence.schema.access import DocumentTags
from whence.schema.code_rag import CODE_RAG
from whence.schema.document_rag import Answer
from whence.schema.errors import BadInput, NotFound
from whence.testing.store_samples import make_trace
from whence.testing.stub_models import HashEmbedder

pytestmark = pytest.mark.postgres

QUESTION = "When is lunch served?"
KITCHEN = Access(frozenset({"kitchen"}))
MODELS: dict[str, Any] = {"embedder": HashEmbedder(), "reranker": "none"}


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / f"{name}.md"
    file.write_text(f"# {name.title()}\n\n{text}\n")
    return file


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A folder of documents, some of them short of a single difference."""
    folder = tmp_path / "docs"
    folder.mkdir()
    write(folder, "lunch", "Lunch is served from noon in the hall.")
    write(folder, "bikes", "Bikes are free for all who come to work.")
    write(folder, "tea", "Tea is served at four in the garden, after lunch.")
    for number in range(12):
        write(folder, f"rule-{number}", f"Rule {number} is served with lunch number {number * 7}.")
    return folder


@pytest.fixture
async def engine(tmp_path: Path, docs: Path, database_url: str) -> AsyncIterator[Engine]:
    """An engine that has indexed the folder."""
    where = {"home": tmp_path / "home", "database_url": database_url}
    async with Engine(**where, **MODELS) as engine:
        await engine.index([docs])
        yield engine


async def change(engine: Engine, docs: Path) -> None:
    """Rewrite the cited document, remove one, add one, and give one other tags, then back."""
    write(docs, "lunch", "Lunch is served from one in the hall.")
    write(docs, "soup", "Soup for lunch is served from two.")
    (docs / "tea.md").unlink()
    await engine.index([docs], prune=True)
    write(docs, "lunch", "Lunch is served from three in the hall.")
    await engine.index([docs])


def told(answer: Answer) -> tuple[str, list[Any]]:
    return answer.text, [(one.marker, one.chunk_id, one.quote) for one in answer.citations]


async def test_an_answer_is_the_same_as_of_itself(engine: Engine, docs: Path) -> None:
    """After documents changed, text, citations, candidates, scores and order of then are found again."""
    before = await engine.ask(QUESTION)
    await change(engine, docs)
    now = await engine.ask(QUESTION)
    again = await engine.ask(QUESTION, as_of=before.id)
    replay = await engine.replay(before.id, as_of_answer=True)
    compared = await engine.diff(before.id, again.id)

    assert told(again) == told(before) != told(now)
    assert replay.identical, replay.differs
    assert compared.identical, compared.differs
    assert not (await engine.replay(before.id)).identical
    # The answer is recorded with the moment, and a replay of it reads the same version.
    trace = await engine.explain(again.id)
    question = trace.stage("question")
    assert question is not None
    assert str(question.run.settings["as_of"]).startswith(f"{datetime.now(UTC):%Y-%m-}")
    assert (await engine.replay(again.id)).identical
    assert told(await engine.ask(QUESTION, as_of=again.id)) == told(before)


async def test_a_moment_finds_its_version(engine: Engine, docs: Path) -> None:
    """A time between two writes reads what was stored then; today's date what is stored now."""
    before = await engine.ask(QUESTION)
    between = datetime.now(UTC)
    await change(engine, docs)
    now = await engine.ask(QUESTION)

    assert told(await engine.ask(QUESTION, as_of=between.isoformat())) == told(before)
    assert told(await engine.ask(QUESTION, as_of=f"{datetime.now(UTC):%Y-%m-%d}")) == told(now)


async def test_rights_are_those_of_today(engine: Engine, docs: Path) -> None:
    """A document whose tags were changed later is read as of then only by those who may see it now."""
    before = await engine.ask(QUESTION)
    assert "noon" in before.text
    await engine.index([docs / "lunch.md"], tags=DocumentTags(("kitchen",)))
    write(docs, "lunch", "Lunch is served from one in the hall.")
    await engine.index([docs / "lunch.md"], tags=DocumentTags(("kitchen",)))
    with pytest.raises(NotFound):
        await engine.ask(QUESTION, as_of=before.id)
    moment = (await engine.changes())[0].changed_at
    public = await engine.ask(QUESTION, as_of=moment)
    inside = await engine.ask(QUESTION, as_of=moment, access=KITCHEN)

    assert "noon" not in public.text
    assert "lunch.md" not in {one.document_id for one in public.citations}
    assert told(inside) == told(before)


async def test_a_removed_document_keeps_its_last_tags(engine: Engine, docs: Path) -> None:
    """One that was hidden before it was removed stays hidden as of a moment at which it was public."""
    moment = (await engine.changes())[0].changed_at
    await engine.index([docs / "lunch.md"], tags=DocumentTags(("kitchen",)))
    (docs / "lunch.md").unlink()
    await engine.index([docs], prune=True)

    assert "noon" not in (await engine.ask(QUESTION, as_of=moment)).text
    assert "noon" in (await engine.ask(QUESTION, as_of=moment, access=KITCHEN)).text


async def test_erasing_removes_all_versions(engine: Engine, docs: Path) -> None:
    """An erased document is in no version, and what is left is answered."""
    before = await engine.ask(QUESTION)
    moment = (await engine.changes())[0].changed_at
    await change(engine, docs)
    done = await engine.erase("lunch.md")
    again = await engine.ask(QUESTION, as_of=moment)

    assert done.before.versions >= 4
    assert done.after.versions == 0
    assert "noon" not in again.text
    assert "lunch.md" not in {one.document_id for one in again.citations}
    assert (await engine.diff(before.id, again.id)).differs[0].cause.kind == "erased"


async def test_what_is_not_kept_is_refused(
    engine: Engine, docs: Path, tmp_path: Path, database_url: str
) -> None:
    """Without former versions a moment before a change is refused, unless the reader does not see it."""
    before = await engine.ask(QUESTION)
    secret = write(tmp_path, "secret", "The board meets at eleven.")
    await engine.index([secret], tags=DocumentTags(("kitchen",)))
    settings = Settings({"home": str(tmp_path), "database_url": database_url, "keep_versions": "0"})
    moment = datetime.now(UTC).isoformat()
    async with Engine(settings=settings, **MODELS) as keeping_none:
        write(tmp_path, "secret", "The board meets at twelve.")
        await keeping_none.index([secret], tags=DocumentTags(("kitchen",)))
        assert told(await keeping_none.ask(QUESTION, as_of=before.id)) == told(before)
        with pytest.raises(BadInput, match="kept no more"):
            await keeping_none.ask(QUESTION, as_of=moment, access=KITCHEN)
        await change(keeping_none, docs)
        with pytest.raises(BadInput, match="kept no more") as refused:
            await keeping_none.ask(QUESTION, as_of=before.id)

    assert "WHENCE_KEEP_VERSIONS" in refused.value.hint


@pytest.mark.parametrize(
    ("as_of", "message"),
    [("2001-01-01", "is known from"), ("2999-01-01", "future"), ("nobody", "no answer")],
)
async def test_moments_that_cannot_be_read_are_refused(
    engine: Engine, as_of: str, message: str
) -> None:
    """A moment before the collection or to come, and an unknown answer, are errors."""
    with pytest.raises((BadInput, NotFound), match=message):
        await engine.ask(QUESTION, as_of=as_of)


async def test_an_answer_of_another_collection_is_refused(engine: Engine, docs: Path) -> None:
    """The moment of an answer is one of its own collection."""
    await engine.index([docs], collection="other")
    answer = await engine.ask(QUESTION, collection="other")

    with pytest.raises(BadInput, match="from collection 'other'"):
        await engine.ask(QUESTION, as_of=answer.id)
    moment = (datetime.now(UTC) + timedelta(minutes=1)).isoformat()
    assert (await engine.ask(QUESTION, as_of=moment)).found


def test_an_answer_about_code_names_no_moment() -> None:
    """Its snapshot never changes, so `--as-of` and `--as-of-answer` refuse it and say what to do."""
    record = make_trace("about-code")
    about_code = msgspec.structs.replace(
        record, settings={"flow": CODE_RAG, "snapshot_id": "snapshot-1"}
    )
    refuse_code(record)

    with pytest.raises(BadInput, match="snapshot never changes") as refused:
        refuse_code(about_code)
    assert "--snapshot snapshot-1" in refused.value.hint

"""Replays and comparisons say why answers differ, with the documents that the caller may see."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from whence import Access, Engine
from whence.operations.comparison import Cause, Comparison, DocumentChanges
from whence.schema.access import DocumentTags
from whence.schema.errors import NotFound
from whence.testing.stub_models import HashEmbedder, OverlapReranker

pytestmark = pytest.mark.postgres

QUESTION = "When is lunch served?"
KITCHEN = Access(frozenset({"kitchen"}))
_TEXTS = {
    "lunch.md": "Lunch is served from noon.",
    "bikes.md": "Bikes are free for all who come to work.",
    "tea.md": "Tea is served at four in the garden.",
}


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A folder with three short documents."""
    folder = tmp_path / "docs"
    folder.mkdir()
    for name, text in _TEXTS.items():
        write(folder, name, text)
    return folder


@pytest.fixture
async def engine(tmp_path: Path, docs: Path, database_url: str) -> AsyncIterator[Engine]:
    """An engine that has indexed the folder."""
    models: dict[str, Any] = {"embedder": HashEmbedder(), "reranker": "none"}
    async with Engine(home=tmp_path / "home", database_url=database_url, **models) as engine:
        await engine.index([docs])
        yield engine


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(f"# {name.removesuffix('.md').title()}\n\n{text}\n")
    return file


def causes(found: Comparison) -> dict[str, Cause]:
    return {one.what: one.cause for one in found.differs}


async def test_a_new_document_shifts_statistics(engine: Engine, docs: Path) -> None:
    """Scores that drift because a document came are `statistics` with its id; the answer is the same."""
    answer = await engine.ask(QUESTION, doc_limit=1, fetch_limit=1)
    assert (await engine.replay(answer.id)).identical
    write(docs, "dinner.md", "Dinner is served late on Fridays, without lunch.")
    await engine.index([docs])
    found = await engine.replay(answer.id)

    assert not found.identical
    assert not found.answer_changed
    assert found.drifted
    assert causes(found)["scores"] == Cause(
        kind="statistics", documents=DocumentChanges(added=("dinner.md",))
    )


async def test_documents_that_differ_are_named(engine: Engine, docs: Path) -> None:
    """A cited document that was rewritten, and one that was removed, are causes of what differs by them."""
    answer = await engine.ask(QUESTION)
    write(docs, "lunch.md", "Lunch is served from one.")
    (docs / "bikes.md").unlink()
    await engine.index([docs], prune=True)
    found = await engine.replay(answer.id)
    of = causes(found)

    assert found.answer_changed
    assert not found.drifted
    assert of["texts"] == of["answer"] == of["citations"]
    assert of["answer"] == Cause(kind="documents", documents=DocumentChanges(changed=("lunch.md",)))
    assert of["candidates"] == Cause(
        kind="documents", documents=DocumentChanges(removed=("bikes.md",))
    )
    assert of["scores"].kind == "statistics"


async def test_an_erased_document_is_the_cause_without_its_name(engine: Engine, docs: Path) -> None:
    """A cited document that was erased is `erased`; so is drift by one that was no candidate."""
    answer = await engine.ask(QUESTION)
    narrow = await engine.ask(QUESTION, doc_limit=1, fetch_limit=1)
    await engine.erase("bikes.md")
    drift = await engine.replay(narrow.id)
    await engine.erase("lunch.md")
    found = await engine.replay(answer.id)

    assert causes(drift)["scores"] == Cause(kind="erased")
    assert causes(found)["answer"] == causes(found)["candidates"] == Cause(kind="erased")
    assert found.answer_changed


async def test_hidden_documents_are_no_cause(engine: Engine, tmp_path: Path) -> None:
    """A document that the reader may not see changes nothing; one that is shown to them later is `rights`."""
    answer = await engine.ask(QUESTION, doc_limit=1, fetch_limit=1)
    secret = write(tmp_path, "secret.md", "The board is served at eleven.")
    await engine.index([secret], tags=DocumentTags(("kitchen",)))
    public = await engine.replay(answer.id)
    later = await engine.ask(QUESTION, doc_limit=1, fetch_limit=1)
    await engine.index([secret], tags=DocumentTags())
    added = DocumentChanges(added=("secret.md",))
    shown = [causes(await engine.replay(one.id))["scores"] for one in (answer, later)]

    assert public.identical
    assert shown == [
        Cause(kind="statistics", documents=added),
        Cause(kind="rights", documents=added),
    ]


async def test_a_document_that_was_hidden_is_the_rights(engine: Engine, tmp_path: Path) -> None:
    """Drift by a document that tags hide from the reader since then is `rights`, without its name."""
    file = write(tmp_path, "secret.md", "The board is served at eleven.")
    await engine.index([file])
    answer = await engine.ask(QUESTION, doc_limit=1, fetch_limit=1)
    await engine.index([file], tags=DocumentTags(("kitchen",)))
    hidden = await engine.replay(answer.id)
    await engine.index([file], tags=DocumentTags(("board",)))
    after = await engine.ask(QUESTION, doc_limit=1, fetch_limit=1)

    assert causes(hidden)["scores"] == Cause(kind="rights")
    assert causes(await engine.replay(answer.id)) == causes(hidden)
    assert causes(await engine.replay(answer.id, KITCHEN)) == causes(hidden)
    assert (await engine.replay(after.id)).identical


async def test_new_weights_are_settings(engine: Engine, docs: Path) -> None:
    """Scores that differ because the weights of fields were changed are due to settings."""
    answer = await engine.ask(QUESTION)
    await engine.index([docs], boosts={"title": 3})

    assert causes(await engine.replay(answer.id))["scores"] == Cause(kind="settings")


async def test_other_rights_are_the_cause(engine: Engine, tmp_path: Path) -> None:
    """Answers to readers with other rights differ by these, for a reader who holds those of both."""
    secret = write(tmp_path, "secret.md", "The board is served at eleven.")
    await engine.index([secret], tags=DocumentTags(("kitchen",)))
    inside = await engine.ask(QUESTION, doc_limit=1, fetch_limit=1, access=KITCHEN)
    public = await engine.ask(QUESTION, doc_limit=1, fetch_limit=1)

    assert causes(await engine.diff(public.id, inside.id, KITCHEN))["scores"] == Cause(
        kind="rights"
    )
    assert (await engine.replay(inside.id, KITCHEN)).identical
    with pytest.raises(NotFound):
        await engine.diff(public.id, inside.id)


async def test_two_answers_are_compared(engine: Engine, docs: Path) -> None:
    """The later answer differs by what changed between; turned round, what came has gone."""
    before = await engine.ask(QUESTION)
    write(docs, "lunch.md", "Lunch is served from one.")
    write(docs, "soup.md", "Soup for lunch is served from two.")
    await engine.index([docs])
    after = await engine.ask(QUESTION)
    write(docs, "tea.md", "No tea any more.")
    await engine.index([docs])
    found = await engine.diff(before.id, after.id)
    back = await engine.diff(after.id, before.id)

    assert (found.answer_a, found.answer_b) == (before.id, after.id)
    assert found.answer_changed
    assert causes(found)["texts"].documents == DocumentChanges(changed=("lunch.md",))
    assert causes(found)["candidates"].documents == DocumentChanges(added=("soup.md",))
    assert causes(back)["candidates"].documents == DocumentChanges(removed=("soup.md",))
    assert (await engine.diff(before.id, before.id)).identical


async def test_other_questions_and_settings_are_told_apart(engine: Engine) -> None:
    """Answers to two questions, or with two limits, differ by their settings."""
    answer = await engine.ask(QUESTION)
    other = await engine.ask("Where are bikes free?")
    narrow = await engine.ask(QUESTION, doc_limit=1)

    assert set(causes(await engine.diff(answer.id, other.id)).values()) == {Cause(kind="settings")}
    assert set(causes(await engine.diff(answer.id, narrow.id)).values()) == {Cause(kind="settings")}


async def test_settings_of_the_search_and_weights_of_models_are_causes(
    engine: Engine, tmp_path: Path, database_url: str
) -> None:
    """Another `fusion` is `settings`, another digest of a model is `models`, also where documents changed."""
    text = resources.files("whence.flow").joinpath("shipped/all-in-one.yaml")
    flow = tmp_path / "flow.yaml"
    source = text if text.is_file() else Path("flows/all-in-one.yaml")
    parts = source.read_text("utf-8").split("type: search\n")
    indent = parts[0].rpartition("\n")[2]
    flow.write_text(f"type: search\n{indent}parameters: {{fusion: rrf}}\n".join(parts))
    reranker = OverlapReranker()
    answers = []
    for number, chosen in enumerate(("all-in-one", "all-in-one", flow)):
        reranker.revision = str(number)
        how: dict[str, Any] = {"embedder": HashEmbedder(), "reranker": reranker, "flow": chosen}
        async with Engine(home=tmp_path / "home", database_url=database_url, **how) as other:
            answers.append(await other.ask(QUESTION, mode="hybrid"))
    first, weights, fusion = (one.id for one in answers)
    models, settings = await engine.diff(first, weights), await engine.diff(first, fusion)

    assert [(one.what, one.before, one.after, one.cause.kind) for one in models.differs] == [
        ("models", {"reranker_revision": "0"}, {"reranker_revision": "1"}, "models")
    ]
    assert settings.differs[0].before == {"exploration_fusion": "absolute"}
    assert causes(settings)["settings"].kind == "settings"


async def test_both_answers_must_be_visible(engine: Engine, tmp_path: Path) -> None:
    """An answer whose candidates the caller may not see is not compared, whichever it is."""
    answer = await engine.ask(QUESTION)
    secret = write(tmp_path, "secret.md", "Lunch for the board is served at eleven.")
    await engine.index([secret], tags=DocumentTags(("kitchen",)))
    hidden = await engine.ask(QUESTION, access=KITCHEN)

    for pair in ((answer.id, hidden.id), (hidden.id, answer.id)):
        with pytest.raises(NotFound):
            await engine.diff(*pair)
        assert not (await engine.diff(*pair, KITCHEN)).identical


async def test_the_log_is_listed_for_its_readers(engine: Engine, docs: Path) -> None:
    """Entries come oldest first, without those of documents that the reader may not see."""
    await engine.index([write(docs, "tea.md", "No tea.")], tags=DocumentTags(("kitchen",)))
    await engine.erase("bikes.md")
    public = await engine.changes()
    inside = await engine.changes(access=KITCHEN)

    assert [(one.kind, one.document_id) for one in public] == [
        ("added", "lunch.md"),
        ("erased", None),
    ]
    assert [(one.kind, one.document_id) for one in inside] == [
        ("added", "lunch.md"),
        ("added", "tea.md"),
        ("changed", "tea.md"),
        ("erased", None),
    ]
    assert await engine.changes(since="2999-01-01") == []
    with pytest.raises(NotFound):
        await engine.changes("unknown")

"""A revocation holds for what is in flight: ranked before it, nothing is given out after it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from whence import Access, Engine
from whence.schema.access import DocumentTags
from whence.schema.errors import NotFound
from whence.store.postgres.store import PostgresStore
from whence.testing.stub_models import HashEmbedder

pytestmark = pytest.mark.postgres

QUESTION = "When is the merger signed?"
TEXT = "The merger is signed in June, says quokkatext."
BOARD = Access(frozenset({"board"}))


@pytest.fixture
async def engine(tmp_path: Path, new_home: Callable[[Path], Path]) -> AsyncIterator[Engine]:
    """An engine with one public document."""
    (tmp_path / "merger.md").write_text(f"# Merger\n\n{TEXT}\n")
    home = new_home(tmp_path / "home")
    async with Engine(home=home, embedder=HashEmbedder(), reranker="none") as engine:
        await engine.index([tmp_path / "merger.md"])
        yield engine


@pytest.fixture
async def ranked(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Hide every document between ranking and reading; the chunks that were ranked by then."""
    chunks: list[str] = []
    store: PostgresStore = await engine._session.store()  # type: ignore[assignment]
    read = store.chunk_texts

    async def revoked(collection: str, chunk_ids: Any, access: Access) -> Any:
        chunks.extend(chunk_ids)
        documents = await store.document_ids(collection)
        board = DocumentTags(tuple(BOARD.acl_tags))
        await store.retag_documents(collection, dict.fromkeys(documents, board))
        return await read(collection, chunk_ids, access)

    monkeypatch.setattr(store, "chunk_texts", revoked)
    return chunks


async def test_a_search_drops_revoked_hits(engine: Engine, ranked: list[str]) -> None:
    """A hit whose document is hidden between ranking and reading is dropped."""
    results = await engine.search(QUESTION, threshold=0)

    assert ranked
    assert results == []


async def test_an_answer_uses_no_revoked_passage(engine: Engine, ranked: list[str]) -> None:
    """A question whose candidates are hidden before they are read has no answer from them."""
    answer = await engine.ask(QUESTION)

    assert ranked
    assert not answer.found
    assert answer.citations == ()
    assert "quokkatext" not in answer.text


async def test_a_former_answer_is_hidden(engine: Engine) -> None:
    """A recorded answer is not found by a reader who may no longer see its sources."""
    answer = await engine.ask(QUESTION)
    assert answer.citations
    store: PostgresStore = await engine._session.store()  # type: ignore[assignment]
    documents = await store.document_ids("default")
    await store.retag_documents("default", dict.fromkeys(documents, DocumentTags(("board",))))
    for read in (
        engine.explain(answer.answer_id),
        engine.why_not(documents[0], answer.answer_id),
        engine.replay(answer.answer_id),
    ):
        with pytest.raises(NotFound):
            await read

    assert (await engine.explain(answer.answer_id, BOARD)).candidates


async def test_a_trace_takes_the_rights_of_its_question(engine: Engine) -> None:
    """That nothing was found is told to those with all rights of the question, to others nothing."""
    answer = await engine.ask("Who wrote zyxwvut?", access=BOARD)
    assert not answer.found
    messages = []
    for name in (answer.answer_id, "f" * 32):
        for read in (
            engine.explain(name),
            engine.why_not("merger.md", name),
            engine.replay(name),
        ):
            with pytest.raises(NotFound) as refused:
                await read
            messages.append((str(refused.value).replace(name, "ID"), refused.value.hint))

    assert len(set(messages)) == 1
    assert (await engine.explain(answer.answer_id, BOARD)).access == BOARD


async def test_answers_are_not_remembered_forever(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine remembers the latest answers whose traces nobody read, and no more."""
    monkeypatch.setattr("whence.operations.session._MOST_RECENT", 2)
    answers = [await engine.ask(f"{QUESTION} {number}") for number in range(4)]
    await engine.explain(answers[-1].answer_id)

    assert list(engine._session.recent_answers) == [answers[2].answer_id]

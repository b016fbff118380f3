"""Questions about an identifier, a release or a name that no visible document has."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from whence import Access, Engine
from whence.store.memory.store import MemoryStore
from whence.testing.stub_models import HashEmbedder

RECORDS = (
    {"_id": "a", "text": "CONN_MAX_AGE is how long a connection lives, 0 seconds by default."},
    {"_id": "b", "text": "Release 5.2 of Harbour added composite keys. Deploy it with Daphne."},
    {"_id": "c", "text": "CONN_POOL_WARMUP opens connections early.", "acl": ["dba"]},
    {
        "_id": "d",
        "text": "The module harbour.api is small: api.run() returns the exit code. It enables HTTP2.",
    },
)
SETTINGS = "# Settings\n\n## web\n\nberths\n\n:   Boats in the harbour. Default: 60.\n"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    """One engine on a store in memory, with the records and a page of settings."""
    folder = tmp_path_factory.mktemp("documents")
    corpus, settings = folder / "corpus.jsonl", folder / "settings.md"
    corpus.write_text("".join(json.dumps(one) + "\n" for one in RECORDS))
    settings.write_text(SETTINGS)
    async with Engine(
        home=folder / "home", store=MemoryStore(), embedder=HashEmbedder(), reranker="none"
    ) as engine:
        await engine.index([corpus, settings])
        yield engine


@pytest.mark.parametrize(
    ("question", "missing"),
    [
        ("What is the default of CONN_POOL_WARMUP?", "CONN_POOL_WARMUP"),
        ("What new features were added in Harbour 9.3?", "Harbour 9.3"),
        ("How do I deploy it with Gunicorn?", ""),
        ("What does harbour.api.start return?", "harbour.api.start"),
        ("How do I enable HTTP/3 in Harbour?", "HTTP/3"),
        ("default of web.moorings", "web.moorings"),
        ("What was added in Harbour 5.2?", ""),
        ("How do I deploy it with Daphne?", ""),
        ("What does harbour.api.run return?", ""),
        ("How do I enable HTTP/2 in Harbour?", ""),
        ("default of web.berths", ""),
        ("What is the default of conn_max_age?", ""),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_question_about_a_missing_term_is_refused(
    engine: Engine, question: str, missing: str
) -> None:
    """The term is named; one that a visible document has, in any spelling, is answered or refused otherwise."""
    refusal = (await engine.ask(question)).refusal

    named = refusal is not None and refusal.code == "term_not_in_documents"
    assert named == bool(missing)
    assert not missing or (refusal and refusal.reason.startswith(f"`{missing}` does not occur"))


@pytest.mark.asyncio(loop_scope="module")
async def test_a_reader_of_the_hidden_document_is_not_refused(engine: Engine) -> None:
    """The term occurs for whoever may see its document."""
    answer = await engine.ask("What does CONN_POOL_WARMUP do?", access=Access({"dba"}))

    assert answer.refusal is None or answer.refusal.code != "term_not_in_documents"

"""Test code that asks questions with stub clients, which record their calls.

Run it with `python -m pytest examples/test_own_rag.py`. It needs pytest and pytest-asyncio, but no
models and no database.
"""

from __future__ import annotations

import sys

import pytest

from whence.processors.document_rag import DocumentRag
from whence.provenance.namespaces import RDF_TYPE, TG_SYNTHESIS
from whence.schema import Triple
from whence.schema.errors import Unavailable
from whence.testing.stub_clients import (
    StubEmbeddings,
    StubPrompt,
    StubReranker,
    StubSearch,
    StubTexts,
)

TEXTS = {
    "urn:chunk:returns": "Items may be returned within 30 days.",
    "urn:chunk:shipping": "Shipping takes three days.",
}


def make_rag(reranker: StubReranker | None = None) -> DocumentRag:
    """Return the RAG under test with stub clients."""
    texts = StubTexts(TEXTS)
    return DocumentRag(
        StubPrompt("Within 30 days [1].", concepts=["returns"]),
        StubEmbeddings(),
        StubSearch(list(TEXTS)),
        texts.fetch_chunk,
        reranker,
    )


@pytest.mark.asyncio
async def test_the_last_stage_is_the_synthesis() -> None:
    """The callback receives the triples of every stage, those of the synthesis last."""
    kinds: list[str] = []

    async def listen(triples: tuple[Triple, ...], explain_id: str) -> None:
        kinds.extend(t.o.iri for t in triples if t.s.iri == explain_id and t.p.iri == RDF_TYPE)

    await make_rag().query(query="How long may I return items?", explain_callback=listen)

    assert TG_SYNTHESIS in kinds


@pytest.mark.asyncio
async def test_a_failing_reranker_does_not_prevent_an_answer() -> None:
    """Without the reranker the order of retrieval is used."""
    rag = make_rag(StubReranker(error=Unavailable("no model")))
    result = await rag.query(query="How long may I return items?")

    assert "30 days" in str(result)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-q", "-p", "no:cacheprovider"]))

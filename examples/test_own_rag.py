"""How to test code that asks questions: stub clients that answer at once and remember what they were asked.

Run it with `python -m pytest examples/test_own_rag.py`. It needs pytest and pytest-asyncio, no models and no
database.
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
    """Give the RAG under test, over stubs."""
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
    """Every stage tells its triples, the synthesis last."""
    kinds: list[str] = []

    async def listen(triples: tuple[Triple, ...], explain_id: str) -> None:
        kinds.extend(t.o.iri for t in triples if t.s.iri == explain_id and t.p.iri == RDF_TYPE)

    await make_rag().query(query="How long may I return items?", explain_callback=listen)

    assert TG_SYNTHESIS in kinds


@pytest.mark.asyncio
async def test_a_broken_reranker_costs_the_order_and_not_the_answer() -> None:
    """The answer stands on the order of retrieval, and says so."""
    rag = make_rag(StubReranker(error=Unavailable("no model")))
    result = await rag.query(query="How long may I return items?")

    assert "30 days" in str(result)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-q", "-p", "no:cacheprovider"]))

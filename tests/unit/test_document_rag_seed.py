"""The contract of the optional reranking pass of `DocumentRag.query`.

Without a reranker the writer gets what retrieval found, in its order, and no focus stage is told of. With
one the passages are reordered and cut as it says, and a focus stage tells of each chunk kept, with its score.
"""

from __future__ import annotations

from dataclasses import dataclass
from unittest.mock import AsyncMock

import pytest

from whence.processors.document_rag import DocumentRag
from whence.provenance.namespaces import (
    PROV_WAS_DERIVED_FROM,
    RDF_TYPE,
    TG_CHUNK_SELECTION,
    TG_DOC_RAG_QUESTION,
    TG_DOCUMENT,
    TG_EXPLORATION,
    TG_FOCUS,
    TG_GROUNDING,
    TG_SCORE,
    TG_SELECTED_CHUNK,
    TG_SYNTHESIS,
)
from whence.schema import PromptResult, RerankerResult


def find_triple(triples, predicate, subject=None):
    for t in triples:
        if t.p.iri == predicate and (subject is None or t.s.iri == subject):
            return t
    return None


def find_triples(triples, predicate, subject=None):
    return [t for t in triples if t.p.iri == predicate and (subject is None or t.s.iri == subject)]


def has_type(triples, subject, rdf_type):
    return any(t.s.iri == subject and t.p.iri == RDF_TYPE and t.o.iri == rdf_type for t in triples)


def derived_from(triples, subject):
    t = find_triple(triples, PROV_WAS_DERIVED_FROM, subject)
    return t.o.iri if t else None


@dataclass
class ChunkMatch:
    """The least that a search returns."""

    chunk_id: str


CHUNK_A = "urn:chunk:policy-doc-1:chunk-0"
CHUNK_B = "urn:chunk:policy-doc-1:chunk-1"
CHUNK_C = "urn:chunk:policy-doc-1:chunk-2"

CHUNK_A_CONTENT = "Customers may return items within 30 days of purchase."
CHUNK_B_CONTENT = "Our stores are open from 9am to 5pm on weekdays."
CHUNK_C_CONTENT = "Refunds are processed to the original payment method."

# In the order of retrieval.
ORDERED_CONTENT = [CHUNK_A_CONTENT, CHUNK_B_CONTENT, CHUNK_C_CONTENT]
ORDERED_CHUNK_IDS = [CHUNK_A, CHUNK_B, CHUNK_C]


def build_mock_clients():
    """Return clients of a question whose every search finds the chunks A, B and C."""
    prompt_client = AsyncMock()
    embeddings_client = AsyncMock()
    doc_embeddings_client = AsyncMock()
    fetch_chunk = AsyncMock()

    async def mock_prompt(template_id, variables=None, **kwargs):
        if template_id == "extract-concepts":
            return PromptResult(response_type="text", text="return policy\nrefund")
        return PromptResult(response_type="text", text="")

    prompt_client.prompt.side_effect = mock_prompt

    embeddings_client.embed.return_value = [[0.1, 0.2], [0.3, 0.4]]

    doc_embeddings_client.query.return_value = [
        ChunkMatch(chunk_id=CHUNK_A),
        ChunkMatch(chunk_id=CHUNK_B),
        ChunkMatch(chunk_id=CHUNK_C),
    ]

    async def mock_fetch(chunk_id):
        return {
            CHUNK_A: CHUNK_A_CONTENT,
            CHUNK_B: CHUNK_B_CONTENT,
            CHUNK_C: CHUNK_C_CONTENT,
        }[chunk_id]

    fetch_chunk.side_effect = mock_fetch

    prompt_client.document_prompt.return_value = PromptResult(
        response_type="text",
        text="Items can be returned within 30 days for a full refund.",
    )

    return prompt_client, embeddings_client, doc_embeddings_client, fetch_chunk


class StubReranker:
    """Returns the same results to every call, and records the calls."""

    def __init__(self, results):
        self._results = results
        self.calls = []

    async def rerank(self, queries, documents, limit=10, timeout=300):
        self.calls.append({"queries": queries, "documents": documents, "limit": limit})
        return self._results


class TestRerankNoOp:
    """Without a reranker nothing of the reranking pass shows."""

    @pytest.mark.asyncio
    async def test_documents_passed_to_llm_are_unchanged(self):
        """The writer gets the chunks as retrieved: same texts, same order, same number."""
        clients = build_mock_clients()
        rag = DocumentRag(*clients)

        await rag.query(query="What is the return policy?")

        call = rag.prompt_client.document_prompt.call_args
        passed_docs = call.kwargs["documents"]
        assert passed_docs == ORDERED_CONTENT

    @pytest.mark.asyncio
    async def test_no_chunk_selection_event_emitted(self):
        """The chain has the four stages question, grounding, exploration and synthesis."""
        clients = build_mock_clients()
        rag = DocumentRag(*clients)

        events = []

        async def explain_callback(triples, explain_id):
            events.append({"triples": triples, "explain_id": explain_id})

        await rag.query(
            query="What is the return policy?",
            explain_callback=explain_callback,
        )

        assert len(events) == 4

        types = [
            TG_DOC_RAG_QUESTION,
            TG_GROUNDING,
            TG_EXPLORATION,
            TG_SYNTHESIS,
        ]
        for i, expected in enumerate(types):
            assert has_type(events[i]["triples"], events[i]["explain_id"], expected)

        for e in events:
            assert not any(
                t.o.iri == TG_CHUNK_SELECTION for t in e["triples"] if t.p.iri == RDF_TYPE
            )

    @pytest.mark.asyncio
    async def test_synthesis_derives_from_exploration_when_no_rerank(self):
        """With no focus stage the answer derives from the exploration."""
        clients = build_mock_clients()
        rag = DocumentRag(*clients)

        events = []

        async def explain_callback(triples, explain_id):
            events.append({"triples": triples, "explain_id": explain_id})

        await rag.query(
            query="What is the return policy?",
            explain_callback=explain_callback,
        )

        # Question, grounding, exploration, synthesis.
        exp_uri = events[2]["explain_id"]
        syn_event = events[3]
        assert derived_from(syn_event["triples"], syn_event["explain_id"]) == exp_uri


class TestRerankActive:
    """A reranker decides order and cut, and both are recorded."""

    def _reranker_keeping_C_then_A(self):  # noqa: N802
        # C is best, then A; B is dropped. Sorted and cut, as the service promises.
        return StubReranker(
            [
                RerankerResult(document_id="2", query_id="0", score=0.95),
                RerankerResult(document_id="0", query_id="0", score=0.42),
            ]
        )

    @pytest.mark.asyncio
    async def test_documents_reordered_and_truncated(self):
        """The writer gets what the reranker kept, in its order."""
        clients = build_mock_clients()
        reranker = self._reranker_keeping_C_then_A()
        rag = DocumentRag(*clients, reranker_client=reranker)

        await rag.query(query="What is the return policy?")

        call = rag.prompt_client.document_prompt.call_args
        passed_docs = call.kwargs["documents"]
        assert passed_docs == [CHUNK_C_CONTENT, CHUNK_A_CONTENT]

    @pytest.mark.asyncio
    async def test_reranker_called_with_single_query_and_all_docs(self):
        """One call with the question and every passage; its limit is doc_limit, not fetch_limit."""
        clients = build_mock_clients()
        reranker = self._reranker_keeping_C_then_A()
        rag = DocumentRag(*clients, reranker_client=reranker)

        await rag.query(query="What is the return policy?", doc_limit=2)

        assert len(reranker.calls) == 1
        c = reranker.calls[0]
        assert c["queries"] == [{"id": "0", "text": "What is the return policy?"}]
        assert c["documents"] == [
            {"id": "0", "text": CHUNK_A_CONTENT},
            {"id": "1", "text": CHUNK_B_CONTENT},
            {"id": "2", "text": CHUNK_C_CONTENT},
        ]
        assert c["limit"] == 2

    @pytest.mark.asyncio
    async def test_explicit_fetch_limit_over_fetches_then_narrows(self):
        """A given fetch_limit sets how many candidates are retrieved; doc_limit how many are kept."""
        clients = build_mock_clients()
        _prompt_client, _embeddings_client, doc_embeddings_client, _fetch_chunk = clients
        reranker = self._reranker_keeping_C_then_A()
        rag = DocumentRag(*clients, reranker_client=reranker)

        await rag.query(
            query="What is the return policy?",
            doc_limit=6,
            fetch_limit=60,
        )

        # 60 candidates over 2 concepts are 30 for each.
        q_limit = doc_embeddings_client.query.call_args.kwargs["limit"]
        assert q_limit == 30
        assert reranker.calls[0]["limit"] == 6

    @pytest.mark.asyncio
    async def test_default_fetch_limit_derives_overfetch_from_doc_limit(self):
        """Without fetch_limit three times doc_limit candidates are retrieved."""
        clients = build_mock_clients()
        _prompt_client, _embeddings_client, doc_embeddings_client, _fetch_chunk = clients
        reranker = self._reranker_keeping_C_then_A()
        rag = DocumentRag(*clients, reranker_client=reranker)

        await rag.query(query="What is the return policy?", doc_limit=20)

        # 3 x 20 candidates over 2 concepts are 30 for each.
        q_limit = doc_embeddings_client.query.call_args.kwargs["limit"]
        assert q_limit == 30
        assert reranker.calls[0]["limit"] == 20

    @pytest.mark.asyncio
    async def test_fetch_limit_floored_at_doc_limit(self):
        """Never fewer candidates are retrieved than are to be kept."""
        clients = build_mock_clients()
        _prompt_client, _embeddings_client, doc_embeddings_client, _fetch_chunk = clients
        reranker = self._reranker_keeping_C_then_A()
        rag = DocumentRag(*clients, reranker_client=reranker)

        await rag.query(
            query="What is the return policy?",
            doc_limit=10,
            fetch_limit=4,
        )

        # 10 candidates over 2 concepts are 5 for each.
        q_limit = doc_embeddings_client.query.call_args.kwargs["limit"]
        assert q_limit == 5
        assert reranker.calls[0]["limit"] == 10

    @pytest.mark.asyncio
    async def test_chunk_selection_event_emitted(self):
        """The chain has five stages, the focus between exploration and synthesis."""
        clients = build_mock_clients()
        reranker = self._reranker_keeping_C_then_A()
        rag = DocumentRag(*clients, reranker_client=reranker)

        events = []

        async def explain_callback(triples, explain_id):
            events.append({"triples": triples, "explain_id": explain_id})

        await rag.query(
            query="What is the return policy?",
            explain_callback=explain_callback,
        )

        assert len(events) == 5
        ordered_types = [
            TG_DOC_RAG_QUESTION,
            TG_GROUNDING,
            TG_EXPLORATION,
            TG_FOCUS,
            TG_SYNTHESIS,
        ]
        for i, expected in enumerate(ordered_types):
            assert has_type(events[i]["triples"], events[i]["explain_id"], expected)

    @pytest.mark.asyncio
    async def test_chunk_selection_carries_scores_and_chunk_refs(self):
        """The focus derives from the exploration and names each kept chunk with its score."""
        clients = build_mock_clients()
        reranker = self._reranker_keeping_C_then_A()
        rag = DocumentRag(*clients, reranker_client=reranker)

        events = []

        async def explain_callback(triples, explain_id):
            events.append({"triples": triples, "explain_id": explain_id})

        await rag.query(
            query="What is the return policy?",
            explain_callback=explain_callback,
        )

        focus_event = events[3]
        foc_uri = focus_event["explain_id"]
        triples = focus_event["triples"]

        exp_uri = events[2]["explain_id"]
        assert derived_from(triples, foc_uri) == exp_uri

        sel_links = find_triples(triples, TG_SELECTED_CHUNK, foc_uri)
        assert len(sel_links) == 2

        chunk_refs = set()
        scores = set()
        for link in sel_links:
            sel_uri = link.o.iri
            assert has_type(triples, sel_uri, TG_CHUNK_SELECTION)
            doc_ref = find_triple(triples, TG_DOCUMENT, sel_uri)
            assert doc_ref is not None
            chunk_refs.add(doc_ref.o.iri)
            score_t = find_triple(triples, TG_SCORE, sel_uri)
            assert score_t is not None
            scores.add(score_t.o.value)

        assert chunk_refs == {CHUNK_C, CHUNK_A}
        assert scores == {"0.95", "0.42"}

    @pytest.mark.asyncio
    async def test_all_focus_triples_in_retrieval_graph(self):
        """Every statement of the focus lies in the named graph of retrieval."""
        clients = build_mock_clients()
        reranker = self._reranker_keeping_C_then_A()
        rag = DocumentRag(*clients, reranker_client=reranker)

        events = []

        async def explain_callback(triples, explain_id):
            events.append({"triples": triples, "explain_id": explain_id})

        await rag.query(
            query="What is the return policy?",
            explain_callback=explain_callback,
        )

        for t in events[3]["triples"]:
            assert t.g == "urn:graph:retrieval"

    @pytest.mark.asyncio
    async def test_synthesis_derives_from_focus_when_reranking(self):
        """With a focus stage the answer derives from it: that is what the writer got."""
        clients = build_mock_clients()
        reranker = self._reranker_keeping_C_then_A()
        rag = DocumentRag(*clients, reranker_client=reranker)

        events = []

        async def explain_callback(triples, explain_id):
            events.append({"triples": triples, "explain_id": explain_id})

        await rag.query(
            query="What is the return policy?",
            doc_limit=2,
            explain_callback=explain_callback,
        )

        # Question, grounding, exploration, focus, synthesis.
        foc_uri = events[3]["explain_id"]
        syn_event = events[4]
        assert derived_from(syn_event["triples"], syn_event["explain_id"]) == foc_uri

    @pytest.mark.asyncio
    async def test_empty_docs_skips_reranker(self):
        """With nothing retrieved the reranker is not called."""
        clients = build_mock_clients()
        _prompt_client, _embeddings_client, doc_embeddings_client, _fetch_chunk = clients
        doc_embeddings_client.query.return_value = []
        reranker = self._reranker_keeping_C_then_A()
        rag = DocumentRag(*clients, reranker_client=reranker)

        await rag.query(query="What is the return policy?")

        assert reranker.calls == []

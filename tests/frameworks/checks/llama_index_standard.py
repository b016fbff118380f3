"""The retriever within LlamaIndex, which ships no standard tests for retrievers."""

from __future__ import annotations

from llama_index.core.llms.mock import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine

from whence.integrations.llama_index import WhenceRetriever


def test_within_a_query_engine() -> None:
    """A query engine writes from the passages, and names them as its sources."""
    retriever = WhenceRetriever("handbook", similarity_top_k=2)
    engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM())
    response = engine.query("How many days of annual leave do employees get?")
    retriever.close()

    assert len(response.source_nodes) == 2
    assert "27 days" in str(response)
    # Ids and offsets are not for the model.
    assert "char_start" not in str(response)

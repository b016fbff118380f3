"""LangChain's standard tests for retrievers."""

from __future__ import annotations

from typing import Any

from langchain_tests.integration_tests import RetrieversIntegrationTests

from whence.integrations.langchain import WhenceRetriever


class TestWhenceRetriever(RetrieversIntegrationTests):
    """All of them."""

    @property
    def retriever_constructor(self) -> type[WhenceRetriever]:
        """The retriever."""
        return WhenceRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        """A collection with more than three passages."""
        return {"collection": "handbook"}

    @property
    def retriever_query_example(self) -> str:
        """A question about it."""
        return "How many days of annual leave?"


def test_a_key_is_not_shown() -> None:
    """The token of a server is in no representation."""
    assert "s3cret" not in repr(WhenceRetriever(url="http://localhost", token="s3cret"))


def test_filters_of_a_call() -> None:
    """Filters of the call hold beside those of the retriever."""
    retriever = WhenceRetriever(collection="handbook", filters={"status": "current"}, k=50)
    found = retriever.invoke("leave", filters={"not": {"source_file": {"prefix": "people/"}}})
    retriever.close()

    assert found
    assert all(one.metadata["status"] == "current" for one in found)
    assert not any(one.metadata["source_file"].startswith("people/") for one in found)

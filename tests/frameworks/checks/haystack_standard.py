"""The retriever within Haystack: a component of a pipeline that can be written and read."""

from __future__ import annotations

import pytest
from haystack import Pipeline
from haystack.utils import Secret

from whence.integrations.haystack import WhenceRetriever, to_filters


def test_a_pipeline_is_written_and_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline with the component survives YAML; the token is named, not written."""
    monkeypatch.setenv("WHENCE_TOKEN", "s3cret")
    pipeline = Pipeline()
    made = WhenceRetriever("handbook", top_k=2, token=Secret.from_env_var("WHENCE_TOKEN"))
    pipeline.add_component("retriever", made)
    written = pipeline.dumps()
    read = Pipeline.loads(written, allowed_modules=["whence.integrations.haystack"])
    found = read.run({"retriever": {"query": "annual leave"}})["retriever"]["documents"]
    read.get_component("retriever").close()

    assert "s3cret" not in written
    assert len(found) == 2
    assert read.get_component("retriever").to_dict() == made.to_dict()


def test_filters_have_haystacks_form() -> None:
    """Every operator narrows as Haystack describes it."""
    retriever = WhenceRetriever("handbook", top_k=50)
    current = {"field": "meta.status", "operator": "==", "value": "current"}
    not_people = {
        "operator": "NOT",
        "conditions": [{"field": "meta.owner", "operator": "in", "value": ["People team"]}],
    }
    both = {"operator": "AND", "conditions": [current, not_people]}
    found = retriever.run(query="leave", filters=both)["documents"]
    retriever.close()

    assert found
    assert all(one.meta["status"] == "current" for one in found)
    assert not any(one.meta.get("owner") == "People team" for one in found)
    for operator in (">", ">=", "<", "<="):
        assert to_filters({"field": "meta.year", "operator": operator, "value": 1})["year"]
    for wrong in (
        {"field": "x", "operator": "~", "value": 1},
        {"operator": "XOR", "conditions": []},
    ):
        with pytest.raises(ValueError, match="no operator"):
            to_filters(wrong)

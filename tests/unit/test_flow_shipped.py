"""The shipped flow files, where they are found, and what they promise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from whence.flow.definition import check_report, inbound_port, without_disabled
from whence.flow.loader import find_flow, load_flow, shipped_flows
from whence.schema.errors import ConfigError


def report(name: str) -> dict[str, Any]:
    return check_report(load_flow(name))


def test_documented_flows_are_shipped() -> None:
    """Every flow that the documentation names exists."""
    assert {"all-in-one", "code-rag", "document-rag", "ingest"} <= set(shipped_flows())


@pytest.mark.parametrize("name", shipped_flows())
def test_a_shipped_flow_is_valid_and_named_as_its_file(name: str) -> None:
    """Each shipped file is valid and has the name of its file."""
    assert report(name)["flow"] == name


@pytest.mark.parametrize("name", shipped_flows())
def test_flows_agree_on_groups_and_topics(name: str) -> None:
    """A processor of one name serves one topic in every flow, so that flows can run side by side."""
    everything = {one.name: (one.type, one.inbound) for one in load_flow("all-in-one").processors}
    for one in load_flow(name).processors:
        assert everything.get(one.name, (one.type, one.inbound)) == (one.type, one.inbound)
        assert inbound_port(one.cls) in one.topics


def test_documented_interfaces_exist() -> None:
    """Interfaces have the names and the full topics that clients rely on."""
    interfaces = report("all-in-one")["interfaces"]
    prefix = "persistent://public/default/whence."

    assert interfaces["document-rag"] == {
        "request": f"{prefix}document-rag.request",
        "response": f"{prefix}document-rag.response",
    }
    assert interfaces["ingest"]["request"] == f"{prefix}ingest.request"
    assert interfaces["explain"] == {"topic": f"{prefix}explain"}
    assert {"embedding", "search", "text-fetcher"} <= set(interfaces)


def test_a_disabled_reranker_removes_only_itself() -> None:
    """Without a reranker, only the reranker and the ports to it are missing."""
    whole = load_flow("all-in-one")
    pruned = without_disabled(whole, {"reranker": "WHENCE_RERANKER=none"})

    gone = {one.name for one in whole.processors} - {one.name for one in pruned.processors}
    rag = next(one for one in pruned.processors if one.name == "document-rag")
    assert gone == {"reranker"}
    assert "reranker" not in rag.topics
    assert without_disabled(whole, {}) is whole


def test_a_flow_is_found_by_name_or_by_path(tmp_path: Path) -> None:
    """A plain word is a shipped flow; a name with a suffix or a folder is a path."""
    assert find_flow("ingest").name == "ingest.yaml"
    assert find_flow("mine.yaml") == Path("mine.yaml")
    assert find_flow(tmp_path / "x") == tmp_path / "x"
    with pytest.raises(ConfigError, match="did you mean 'ingest'"):
        find_flow("injest")

"""Logs and traces of the other cases, as a comparison of runs reads them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

QUESTIONS = [f"{group}.{number}" for group in (1, 2, 3) for number in range(1, 6)] + ["4.1"]
SECURITY = ["security_acl_only", "security_classification", "security_acl_and_classification"]
TREES = [f"graph_{case}" for case in ("A", "B", "C", "D1", "D2", "D3", "D4")]
FETCHES = [f"fetch_F{number}" for number in range(1, 8)] + ["fetch_F8_tokens", "fetch_F8_chars"]
ALL = [*QUESTIONS, *SECURITY, *TREES, *FETCHES]
LABELS = ("Question", "Search mode", "Applied filters", "Observed results", "Observed security")


@pytest.fixture
def folder(retrieval: Any) -> Path:
    """Return the folder of the logs, once all cases have left theirs."""
    missing = sorted(set(ALL) - set(retrieval.log.cases))
    if missing and (len(missing) == len(ALL) or not retrieval.log.whole):
        pytest.skip("not all cases ran in this process: run the folder, without spreading it")
    assert missing == []
    return retrieval.log.folder


def load(folder: Path, case: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "pipeline_traces" / f"{case}.json").read_text())
    return found


def test_every_case_left_its_trace(folder: Path) -> None:
    """There is one trace a case, and the latest is one of them."""
    names = {path.stem for path in (folder / "pipeline_traces").glob("*.json")}

    assert {*ALL, "latest"} <= names
    assert load(folder, "latest")["case"] in names


def test_traces_tell_what_was_asked_and_with_which_filters(folder: Path) -> None:
    """Question, mode, source and filters are in every trace; the ACL is a list even when it is empty."""
    for case in ALL:
        trace = load(folder, case)
        filters = trace["state_after"]["retrieval_filters"]
        assert trace["question"]
        assert trace["search_mode"]
        assert trace["snapshot_source"] in ("primary", "secondary")
        assert trace["snapshot_set"] == "Fake_snapshot"
        assert filters["repo"] == "Fake"
        assert filters["snapshot_id"]
        assert trace["error"] is None
        assert trace["duration_ms"] > 0
        assert isinstance(filters["acl_tags_any"], list)


def test_traces_of_security_cases_name_the_rights(folder: Path) -> None:
    """ACL tags and labels are those of the reader; labels only where there were some."""
    filters = {
        case: load(folder, case)["state_after"]["retrieval_filters"]
        for case in (*SECURITY, "graph_D4")
    }

    assert filters["security_acl_only"]["acl_tags_any"] == ["finance", "security"]
    assert "classification_labels_all" not in filters["security_acl_only"]
    both = filters["security_acl_and_classification"]
    assert both["classification_labels_all"] == ["internal", "public", "secret"]
    assert filters["security_classification"]["acl_tags_any"] == []
    assert filters["graph_D4"]["acl_tags_any"] == ["finance", "security"]
    assert filters["graph_D4"]["classification_labels_all"] == ["restricted"]


def test_the_secondary_case_ran_on_the_other_snapshot(folder: Path) -> None:
    """4.1 names another snapshot than the other cases."""
    ids = {
        case: load(folder, case)["state_after"]["retrieval_filters"]["snapshot_id"]
        for case in QUESTIONS
    }
    assert load(folder, "4.1")["snapshot_source"] == "secondary"
    assert ids["4.1"] not in {ids[case] for case in QUESTIONS if case != "4.1"}


def test_the_readable_log_has_a_block_a_case(folder: Path) -> None:
    """Each block says what was asked, with which filters, what came back and which rights that has."""
    text = (folder / "test_results_latest.log").read_text()
    blocks = {
        re.search(r"^Case: (.+)$", block, re.MULTILINE)[1]: block  # type: ignore[index]
        for block in text.strip().split("\n\n")
    }

    assert set(blocks) == {*QUESTIONS, *SECURITY}
    for case, block in blocks.items():
        for label in LABELS:
            assert re.search(rf"^{label}: .+$", block, re.MULTILINE), (case, label)
        assert load(folder, case)["question"] in block
        security = re.search(r"^Observed security: (.+)$", block, re.MULTILINE)
        assert security is not None
        assert re.match(r"\S+ \[acl=\S+ / cls=\S+ / lvl=\d+\]", security[1])


def test_the_graph_log_names_limits_nodes_and_relations(folder: Path) -> None:
    """Each tree is there with the settings it was grown with."""
    text = (folder / "graph_results_latest.log").read_text()
    for case in ("A", "B", "C", "D1", "D2", "D3", "D4"):
        block = text[text.index(f"Case: {case}\n") :].split("\n\n")[0]
        for label in ("graph_max_depth", "graph_max_nodes", "graph_edge_allowlist"):
            assert re.search(rf"^{label}: .+$", block, re.MULTILINE), (case, label)
        assert re.search(r"^Nodes: \d+: \S+", block, re.MULTILINE)
        assert re.search(r"^Relations: \S+", block, re.MULTILINE)
        assert re.search(r"^Removed by security: \d+ nodes, \d+ edges$", block, re.MULTILINE)

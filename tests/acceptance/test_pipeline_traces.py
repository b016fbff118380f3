"""`--trace FILE` and WHENCE_TRACE_DIR: what really ran, as one JSON document an operation."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

FIRST = "d4578e80-0513-581a-8e08-fcc69a9c50b0"
SECOND = "a4e24b9f-4d29-5249-8c8a-aaaf2b376f0b"
READER = ("--acl", "security", "--acl", "finance", "--label", "internal")
RIGHTS = {"acl_tags_any": ["finance", "security"], "classification_labels_all": ["internal"]}
SET = ("--set", "Fake_snapshot")


@pytest.fixture
def traced(cli: Any, releases: Any, tmp_path: Path) -> Any:
    """Return a function that runs a command with `--trace` and returns its output and the trace."""

    def run(*words: str, code: int = 0) -> tuple[Any, Any]:
        file = tmp_path / "trace.json"
        result = cli(*words, "--json", "--trace", file)
        assert result.code == code, result.err
        assert [one.name for one in tmp_path.iterdir()] == ["trace.json"]
        return result.json, json.loads(file.read_text(encoding="utf-8"))

    return run


def test_a_search_of_a_set(traced: Any) -> None:
    """The filters are those of the request that was sent, the ids those of the reply, the set is named."""
    found, trace = traced(
        "search", "token validation and auth", "--mode", "semantic", *SET,
        "--snapshot-source", "secondary", "--threshold", "0", *READER,
    )  # fmt: skip
    state = trace["state_after"]

    assert (trace["operation"], trace["question"]) == ("search", "token validation and auth")
    assert (trace["search_mode"], state["search_type"]) == ("semantic", "dense")
    assert (trace["snapshot_set"], trace["snapshot_source"]) == ("Fake_snapshot", "secondary")
    assert state["retrieval_filters"] == {"repo": "Fake", "snapshot_id": SECOND, **RIGHTS}
    assert trace["access"] == {
        "acl": ["finance", "security"],
        "labels": ["internal"],
        "clearance": 0,
    }
    assert state["retrieval_seed_nodes"] == [hit["document_id"] for hit in found["hits"]]
    assert [hit["score"] for hit in state["retrieval_hits"]] == [
        hit["similarity_score"] for hit in found["hits"]
    ]
    assert state["observed_sources"] == [
        hit["chunk"]["metadata"]["source_file"] for hit in found["hits"]
    ]
    assert [one["interface"] for one in trace["calls"]] == ["embedding", "search", "text-fetcher"]
    assert all(one["duration_ms"] > 0 and one["replies"] == 1 for one in trace["calls"])
    sent = trace["calls"][1]["request"]
    assert sent["access"]["acl_tags"] == RIGHTS["acl_tags_any"]
    assert re.fullmatch(r"[\d-]+T[\d:.]+Z", trace["generated_utc"])


def test_a_search_of_a_collection(traced: Any, handbook: Path) -> None:
    """Collection and metadata filters are there; the ACL is a list although it is empty."""
    found, trace = traced("search", "annual leave", "--filter", "source_file^=p", "--mode", "bm25")

    assert trace["state_after"]["retrieval_filters"] == {
        "collection": "default",
        "acl_tags_any": [],
        "metadata": {"source_file": {"prefix": "p"}},
    }
    assert (trace["snapshot_set"], trace["snapshot_source"]) == (None, None)
    assert len(trace["state_after"]["retrieval_hits"]) == len(found["hits"])


def test_an_expansion(traced: Any) -> None:
    """Limits, relations, nodes and edges are those of the request and its reply."""
    found, trace = traced(
        "expand", "SQL:dbo.proc_ProcessPayment", *SET, "--max-depth", "1", "--max-nodes", "3",
        "--relation", "Executes", "--relation", "WritesTo", *READER,
    )  # fmt: skip
    state = trace["state_after"]

    assert state["retrieval_filters"] == {"repo": "Fake", "snapshot_id": FIRST, **RIGHTS}
    assert (state["graph_max_depth"], state["graph_max_nodes"]) == (1, 3)
    assert state["graph_edge_allowlist"] == ["Executes", "WritesTo"]
    assert state["retrieval_seed_nodes"] == found["seeds"]
    assert state["graph_expanded_nodes"] == [node["id"] for node in found["nodes"]]
    assert [(one["from_id"], one["edge_type"], one["to_id"]) for one in state["graph_edges"]] == [
        (edge["from_id"], edge["relation"], edge["to_id"]) for edge in found["edges"]
    ]
    assert state["graph_debug"] == {
        "seed_count": 1,
        "expanded_count": 3,
        "edges_count": len(found["edges"]),
        "relations": ["Executes"],
        "truncated": True,
        "reason": "max_nodes",
    }


def test_a_fetch(traced: Any) -> None:
    """Order, budget, texts and decisions are there."""
    found, trace = traced(
        "fetch", "--snapshot", "release-1.0", "--seed", "C0005", "--graph", "C0007", "--graph",
        "C9999", "--prioritize", "graph_first", "--max-chars", "500", *READER,
    )  # fmt: skip
    state = trace["state_after"]

    assert (trace["snapshot"], trace["snapshot_set"]) == ("release-1.0", None)
    assert (trace["seeds"], trace["graph"]) == (["C0005"], ["C0007", "C9999"])
    assert state["retrieval_filters"] == {"repo": "Fake", "snapshot_id": FIRST, **RIGHTS}
    assert (state["prioritization_mode"], state["max_chars"]) == ("graph_first", 500)
    assert (state["budget_tokens"], state["budget"]) == (None, found["budget"])
    assert state["budget_tokens_from_settings"] is None
    assert state["used"] == found["used"]
    assert state["decisions"] == found["decisions"]
    assert [one["id"] for one in state["node_texts"]] == [one["id"] for one in found["node_texts"]]


def test_a_budget_from_settings(traced: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The key of the settings file stands beside the number that was read from it."""
    settings = tmp_path_factory.mktemp("settings") / "limits.yaml"
    settings.write_text("fetch:\n  top_n: 40\n")
    found, trace = traced(
        "fetch", "--snapshot", "release-1.0", "--seed", "C0005", "--settings", settings,
        "--budget-from-settings", "fetch.top_n", *READER,
    )  # fmt: skip
    state = trace["state_after"]

    assert state["budget_tokens_from_settings"] == "fetch.top_n"
    assert (state["budget_tokens"], state["budget"]) == (40, found["budget"])


@pytest.mark.parametrize("blank", ["", " \t"])
def test_a_blank_search(traced: Any, blank: str) -> None:
    """Nothing runs; the trace has what was asked and says why."""
    found, trace = traced("search", blank, *SET, *READER)

    assert (trace["question"], trace["snapshot_set"]) == (blank, "Fake_snapshot")
    assert trace["note"] == found["message"] == "the query is empty: enter a word or a question"
    assert (trace["state_after"], trace["calls"], trace["error"]) == ({}, [], None)


def test_a_question_about_documents(traced: Any, handbook: Path) -> None:
    """Candidates, their fate, the texts given to the writer and the answer are there."""
    answer, trace = traced("ask", "How long is annual leave?", "--doc-limit", "3", *READER)
    state = trace["state_after"]

    assert state["retrieval_filters"] == {"collection": "default", **RIGHTS}
    assert state["answer"]["answer_id"] == answer["answer_id"]
    assert [one["chunk_id"] for one in state["answer"]["citations"]] == [
        one["chunk_id"] for one in answer["citations"]
    ]
    assert [one["stage"] for one in state["stages"]] == [one["stage"] for one in answer["stages"]]
    used = [one["chunk_id"] for one in state["node_texts"]]
    kept = {one["chunk_id"] for one in state["retrieval_hits"] if one["dropped"] is None}
    assert 0 < len(used) <= 3
    assert set(used) <= kept
    assert state["retrieval_hits"][0]["rank"] == 1


def test_a_question_about_code(traced: Any) -> None:
    """Seeds, walk and limits of the flow are there by canonical id."""
    answer, trace = traced(
        "ask", "How does token validation check a signature?", *SET, "--flow", "code-rag", *READER
    )
    state = trace["state_after"]

    assert (trace["snapshot_set"], trace["snapshot_source"]) == ("Fake_snapshot", "primary")
    assert state["retrieval_filters"] == {"repo": "Fake", "snapshot_id": FIRST, **RIGHTS}
    assert (state["graph_max_depth"], state["graph_max_nodes"]) == (2, 120)
    assert state["graph_edge_allowlist"] is None
    prefix = f"Fake::{FIRST}::"
    assert all(one.startswith(prefix) for one in state["graph_expanded_nodes"])
    assert set(state["retrieval_seed_nodes"]) <= set(state["graph_expanded_nodes"])
    assert state["graph_debug"]["edges_count"] == len(state["graph_edges"]) > 0
    assert state["answer"]["citations"][0]["document_id"] == answer["citations"][0]["document_id"]


def test_a_hidden_node_leaves_the_trace_of_a_missing_one(traced: Any) -> None:
    """An operation that fails leaves its trace; a hidden seed looks like one that does not exist."""
    traces = []
    for node in ("C0027", "C9999"):
        _, trace = traced("expand", node, *SET, code=3)
        assert trace["error"]["code"] == "not_found"
        text = json.dumps(trace).replace(node, "NODE")
        traces.append(re.sub(r'"(duration_ms|generated_utc)": [^,}]+', "", text))

    assert traces[0] == traces[1]


@pytest.mark.parametrize("command", ["search", "ask", "expand", "fetch"])
def test_a_file_that_cannot_be_written_is_refused_first(
    cli: Any, releases: Any, tmp_path: Path, command: str
) -> None:
    """A missing folder, a folder in place of a file and a device are wrong usage; nothing runs."""
    words = {
        "search": ("search", "token validation", *SET),
        "ask": ("ask", "Who validates tokens?"),
        "expand": ("expand", "C0005", *SET),
        "fetch": ("fetch", "--seed", "C0005", "--max-chars", "9", *SET),
    }
    for file in (tmp_path / "none" / "trace.json", tmp_path, Path("/dev/null")):
        result = cli(*words[command], "--trace", file).assert_error(2)
        assert f"cannot write {file}" in result.err
        assert result.out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_folder_takes_the_traces_of_all_commands(cli: Any, releases: Any, tmp_path: Path) -> None:
    """Each operation leaves a file of its own in the folder of the setting, in order of time."""
    folder = tmp_path / "new" / "traces"
    settings = {"WHENCE_TRACE_DIR": str(folder)}
    cli("expand", "C0005", *SET, "--json", env=settings)
    cli("search", "token validation", *SET, "--json", env=settings)
    files = sorted(folder.iterdir())
    traces = [json.loads(one.read_text(encoding="utf-8")) for one in files]

    assert [one["operation"] for one in traces] == ["expand", "search"]
    assert all(re.fullmatch(r"\d{8}T[\d.]+Z-[a-z]+-\w{8}\.json", one.name) for one in files)
    (tmp_path / "file").write_text("", encoding="utf-8")
    wrong = {"WHENCE_TRACE_DIR": str(tmp_path / "file")}
    assert "WHENCE_TRACE_DIR" in cli("search", "x y z", env=wrong).assert_error(2).err

"""`whence expand`, `fetch` and `ask` about code: documents, exit codes and rights."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_bundles import fake_head_sha
from tests.support.prov_o import load, violations

from whence.flow.loader import find_flow

FIRST = "d4578e80-0513-581a-8e08-fcc69a9c50b0"
SECOND = "a4e24b9f-4d29-5249-8c8a-aaaf2b376f0b"
PAYMENT = "SQL:dbo.proc_ProcessPayment"
FINANCE = ("--acl", "finance", "--acl", "security")


def canonical(local: str, snapshot: str = FIRST) -> str:
    kind = "sql" if local.startswith("SQL:") else "cs"
    return f"Fake::{snapshot}::{kind}::{local}"


@pytest.fixture(scope="module")
def code(cli: Any, releases: Any) -> Any:
    """Return the command on a home with both releases."""
    return cli


def test_the_document_of_an_expansion(code: Any) -> None:
    """Nodes, edges and their order; the seed is first and has no parent."""
    words = ("expand", PAYMENT, "--snapshot", FIRST, "--max-depth", "1", "--json")
    result = code(*words)
    found = result.json

    assert result.code == 0, result.err
    assert result.err == ""
    assert found["seeds"] == [canonical(PAYMENT)]
    assert found["nodes"][0] == {
        "id": canonical(PAYMENT),
        "local_id": PAYMENT,
        "depth": 0,
        "parent_id": None,
    }
    assert [(n["local_id"], n["depth"], n["parent_id"]) for n in found["nodes"][1:]] == [
        ("SQL:dbo.proc_ComputeFraudRisk", 1, canonical(PAYMENT)),
        ("SQL:dbo.proc_ValidateToken", 1, canonical(PAYMENT)),
        ("SQL:dbo.table_Payments", 1, canonical(PAYMENT)),
    ]
    assert {(e["from_id"], e["relation"]) for e in found["edges"]} == {
        (canonical(PAYMENT), "Executes"),
        (canonical(PAYMENT), "WritesTo"),
    }
    assert (found["truncated"], found["reason"]) == (False, None)
    assert code(*words).out == result.out


@pytest.mark.parametrize(
    "words",
    [
        ("--snapshot", FIRST),
        ("--snapshot", fake_head_sha("1.0")),
        ("--snapshot", "release-1.0"),
        ("--set", "Fake_snapshot"),
    ],
    ids=["id", "head-sha", "ref", "set"],
)
def test_a_snapshot_has_many_names(code: Any, words: tuple[str, ...]) -> None:
    """Id, head sha, ref and set select it; canonical and local ids are accepted."""
    result = code("expand", canonical("C0005"), *words, "--json")

    assert result.code == 0, result.err
    assert result.json["seeds"] == [canonical("C0005")]


def test_the_secondary_member_of_a_set(code: Any) -> None:
    """--snapshot-source secondary selects the other snapshot."""
    result = code(
        "expand", "C0006", "--set", "Fake_snapshot", "--snapshot-source", "secondary", "--json"
    )

    assert result.json["seeds"] == [canonical("C0006", SECOND)]


@pytest.mark.parametrize("name", ["dep", "CS_DEP", "cs_dep"])
def test_relations_match_in_any_spelling(code: Any, name: str) -> None:
    """With and without prefix, in any case; another relation has no edges here."""
    words = ("expand", "C0008", "C0005", "--snapshot", FIRST, "--json", "--relation")
    edges = code(*words, name).json["edges"]

    # The public sees three: one hangs on the seed, two behind it.
    assert len(edges) == 3
    assert code(*words, "ReadsFrom").json["edges"] == []


def test_an_unknown_relation_is_refused(code: Any) -> None:
    """An unknown relation is refused with the known ones; a known relation may have no edges."""
    words = ("expand", "C0008", "--snapshot", FIRST, "--relation")
    refused = code(*words, "ReadsFrom", "--relation", "ReadsForm")

    assert refused.code == 2
    assert "'ReadsForm'" in refused.err
    assert "dep, " in refused.err
    for known in ("Calls", "FK", "inherits", "sql_On"):
        assert code(*words, known).code == 0


def test_max_nodes_truncates_visible_nodes(code: Any) -> None:
    """Hidden nodes do not count, the seed does."""
    words = ("expand", "C0005", "--snapshot", FIRST, "--json", "--max-nodes")
    whole = code(*words, "120").json
    cut = code(*words, "3").json
    fits = code(*words, str(len(whole["nodes"]))).json

    assert not whole["truncated"]
    assert (len(cut["nodes"]), cut["truncated"], bool(cut["reason"])) == (3, True, True)
    assert not fits["truncated"]


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [
        (("C0005", "--snapshot", FIRST, "--max-depth", "0"), 2),
        (("C0005", "--snapshot", FIRST, "--max-nodes", "0"), 2),
        (("C0005", "C0007", "--snapshot", FIRST, "--max-nodes", "1"), 2),
        (("C0005", "--snapshot", FIRST, "--direction", "up"), 2),
        (("C0005", "--set", "Fake_snapshot", "--snapshot-source", "third"), 2),
        (("C0005",), 2),
        (("--snapshot", FIRST), 2),
        ((canonical("C0005", SECOND), "--snapshot", FIRST), 2),
        (("C0005", "--snapshot", "nothing"), 3),
        (("C0005", "--set", "nothing"), 3),
        (("C0005", "C9999", "--snapshot", FIRST), 3),
    ],
)
def test_expand_refuses(code: Any, words: tuple[str, ...], exit_code: int) -> None:
    """Wrong limits and values are bad input; missing items are not found."""
    code("expand", *words).assert_error(exit_code)


def test_a_hidden_seed_looks_like_a_missing_one(code: Any) -> None:
    """The messages differ in the id only, for expand and fetch."""
    for command in (("expand",), ("fetch", "--max-chars", "500", "--seed", "C0005", "--seed")):
        messages = []
        for node in ("C0027", "C9999"):
            result = code(*command, node, "--snapshot", FIRST, "--json")
            result.assert_error(3)
            messages.append(result.json["error"]["message"].replace(node, "?"))
        assert messages[0] == messages[1]


def test_the_document_of_a_fetch(code: Any) -> None:
    """Texts, sizes, one decision a node, and the used budget."""
    result = code(
        "fetch", "--snapshot", FIRST, "--seed", "C0005", "--graph", "C0008", "--graph", "C0007",
        "--graph", "C0006", "--graph", "C9999", "--prioritize", "graph_first",
        "--budget-tokens", "300", "--json",
    )  # fmt: skip
    found = result.json

    assert result.code == 0, result.err
    assert [(n["local_id"], n["is_seed"], n["depth"]) for n in found["node_texts"]] == [
        ("C0007", False, 1),
        ("C0008", False, 1),
        ("C0005", True, 0),
    ]
    assert all(n["chars"] == len(n["text"]) and n["tokens"] > 0 for n in found["node_texts"])
    assert found["used"] == {
        "chars": sum(n["chars"] for n in found["node_texts"]),
        "tokens": sum(n["tokens"] for n in found["node_texts"]),
    }
    assert found["budget"] == {"kind": "tokens", "limit": 300}
    actions = {one["id"]: (one["action"], one["reason"]) for one in found["decisions"]}
    assert len(actions) == len(found["decisions"]) == 5
    # C0006 is hidden from the public, C9999 is nowhere: nobody can tell which is which.
    assert actions[canonical("C0006")] == actions[canonical("C9999")] == ("skip", "not_found")
    assert actions[canonical("C0005")][0] == "include"


def test_a_too_small_budget_returns_no_texts(code: Any) -> None:
    """An empty list and exit 0."""
    result = code("fetch", "--snapshot", FIRST, "--seed", "C0005", "--max-chars", "5", "--json")

    assert result.code == 0
    assert result.json["node_texts"] == []
    assert result.json["used"] == {"chars": 0, "tokens": 0}
    assert result.json["budget"] == {"kind": "chars", "limit": 5}
    assert [one["action"] for one in result.json["decisions"]] == ["skip"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("s.yaml", "top: 1\nnode_text_fetch_top_n: 60\n"),
        ("s.json", '{"node_text_fetch_top_n": 60}'),
    ],
    ids=["yaml", "json"],
)
def test_a_budget_is_read_from_settings(code: Any, tmp_path: Path, name: str, content: str) -> None:
    """The number under the key is a budget in tokens."""
    (tmp_path / name).write_text(content, encoding="utf-8")
    result = code(
        "fetch", "--snapshot", FIRST, "--seed", "C0005", "--seed", "C0007", "--json",
        "--budget-from-settings", "node_text_fetch_top_n", "--settings", tmp_path / name,
    )  # fmt: skip

    assert result.code == 0, result.err
    assert result.json["budget"] == {"kind": "tokens", "limit": 60}
    assert [one["local_id"] for one in result.json["node_texts"]] == ["C0005"]


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [
        (("--seed", "C0005"), 2),
        (("--seed", "C0005", "--max-chars", "9", "--budget-tokens", "9"), 2),
        (("--seed", "C0005", "--max-chars", "0"), 2),
        (("--seed", "C0005", "--budget-tokens", "-3"), 2),
        (("--seed", "C0005", "--max-chars", "9", "--prioritize", "best"), 2),
        (("--max-chars", "9"), 2),
        (("--seed", "C0005", "--budget-from-settings", "nope", "--settings", "s.yaml"), 2),
        (("--seed", "C0005", "--budget-from-settings", "word", "--settings", "s.yaml"), 2),
        (("--seed", "C0005", "--budget-from-settings", "top", "--settings", "none.yaml"), 2),
        (("--seed", "C0005", "--budget-from-settings", "top"), 2),
        (("--seed", "C0005", "--graph", canonical("C0007", SECOND), "--max-chars", "9"), 2),
    ],
)
def test_fetch_refuses(code: Any, tmp_path: Path, words: tuple[str, ...], exit_code: int) -> None:
    """No budget, two or an invalid one; unknown values, keys and files; another snapshot."""
    (tmp_path / "s.yaml").write_text("top: 5\nword: five\n", encoding="utf-8")
    code("fetch", "--snapshot", FIRST, *words, cwd=tmp_path).assert_error(exit_code)


def test_a_question_about_code_is_answered_with_its_trace(code: Any) -> None:
    """The answer cites a node, its trace has seeds, edges and texts, and it can be replayed."""
    asked = code(
        "ask", "How does token validation check a signature?", "--flow", "code-rag",
        "--snapshot", "release-1.1", *FINANCE, "--json",
    )  # fmt: skip
    assert asked.code == 0, asked.err
    answer = asked.json
    assert answer["found"]
    assert answer["citations"][0]["document_id"].startswith(f"Fake::{SECOND}::")
    assert [(stage["stage"], stage["label"]) for stage in answer["stages"]] == [
        ("question", "query processing"),
        ("grounding", "query processing"),
        ("exploration", "retrieval"),
        ("focus", "reranking"),
        ("synthesis", "generation"),
    ]
    explained = code("explain", answer["answer_id"], *FINANCE, "--format", "json")
    trace = explained.json
    exploration = next(one for one in trace["stages"] if one["stage"] == "exploration")

    assert explained.code == 0, explained.err
    assert trace["complete"]
    assert trace["graph"] == "urn:graph:retrieval"
    assert {triple["g"] for triple in trace["triples"]} == {"urn:graph:retrieval"}
    assert exploration["seeds"]
    assert exploration["edges"]
    assert {one["chunk_id"] for one in exploration["walked"]} >= set(exploration["seeds"])
    replayed = code("replay", answer["answer_id"], *FINANCE, "--json")
    assert replayed.json.get("identical"), replayed.err + replayed.out


def flow_with(folder: Path, **defaults: str) -> Path:
    """Write the shipped flow for code with other defaults of its parameters."""
    text = find_flow("code-rag").read_text(encoding="utf-8")
    for name, default in defaults.items():
        pattern = rf"(  {name.replace('_', '-')}:\n    type: \w+\n    default: ).+"
        text, count = re.subn(pattern, rf"\g<1>{default}", text)
        assert count == 1, name
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_flow_limits_the_graph_and_explain_shows_rights(code: Any, tmp_path: Path) -> None:
    """Node cap and relations of a flow hold for a question; `explain` shows them and the rights."""
    flow = flow_with(tmp_path, graph_nodes="4", graph_relations="[Executes, WritesTo]")
    asked = code(
        "ask", "table_Payments proc_ProcessPayment", "--mode", "bm25", "--flow", flow,
        "--snapshot", "release-1.0", *FINANCE, "--label", "internal", "--json",
    )  # fmt: skip
    assert asked.code == 0, asked.err
    rights = (*FINANCE, "--label", "internal")
    trace = code("explain", asked.json["answer_id"], *rights, "--json").json
    stages = {one["stage"]: one for one in trace["stages"]}
    settings = stages["question"]["settings"]
    walk = stages["exploration"]

    assert settings["graph_max_nodes"] == 4
    assert settings["graph_edge_allowlist"] == '["Executes", "WritesTo"]'
    assert walk["edges"]
    assert {one["relation"] for one in walk["edges"]} <= {"Executes", "WritesTo"}
    assert len(walk["walked"]) == 4
    assert trace["access"] == {
        "acl": ["finance", "security"],
        "labels": ["internal"],
        "clearance": 0,
    }
    turtle = code("explain", asked.json["answer_id"], *rights, "--format", "turtle").out
    assert violations(turtle) == ""
    assert load(turtle, "turtle").get_records()
    printed = code("explain", asked.json["answer_id"], *rights).out
    assert "rights acl finance, security; labels internal" in printed
    # Its names may be unknown to a reader with fewer rights.
    others = code("explain", asked.json["answer_id"], "--json")
    assert others.code in (0, 3)
    assert "security" not in others.out or others.json["access"] is None


@pytest.mark.parametrize("name", ["graph_nodes", "graph_relations"])
def test_a_flow_with_a_wrong_limit_is_refused(code: Any, tmp_path: Path, name: str) -> None:
    """`run --check` refuses a limit of the graph that is out of range or of the wrong type."""
    flow = flow_with(tmp_path, **{name: "0"})
    result = code("run", flow, "--check").assert_error(2)

    assert name.replace("_", "-") in result.err


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [
        (("--flow", "code-rag"), 2),
        (("--flow", "code-rag", "--snapshot", "nothing"), 3),
        (("--flow", "code-rga", "--snapshot", FIRST), 2),
        (("--flow", "document-rag", "--snapshot", FIRST), 2),
        (("--flow", "code-rag", "--snapshot", FIRST, "--doc-limit", "0"), 2),
    ],
)
def test_ask_refuses(code: Any, words: tuple[str, ...], exit_code: int) -> None:
    """A question about code needs an existing snapshot and a suitable flow."""
    code("ask", "who validates tokens?", *words).assert_error(exit_code)

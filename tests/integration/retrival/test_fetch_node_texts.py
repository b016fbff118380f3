"""Texts of nodes, F1 to F8: integrity, order, budgets, and whole texts only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from whence.flow.budget_settings import budget_from_file

SEEDS = ["C0005", "C0006", "C0011", "C0016"]
GRAPH = ["C0007", "C0008", "C0009", "C0010", "C0012", "C0013"]


def taken(report: Any) -> list[str]:
    return [one.local_id for one in report.node_texts]


def tokens_of(retrieval: Any, *nodes: str) -> dict[str, int]:
    """Return the tokens of each text."""
    report = retrieval.fetch(list(nodes), tokens=100_000)
    return {one.local_id: one.tokens for one in report.node_texts}


def check(retrieval: Any, case: str, report: Any, mode: str, wanted: int) -> None:
    """Log a fetch and check what holds of every one."""
    retrieval.log_fetch(case, report)
    assert retrieval.trace_of(report)["state_after"]["prioritization_mode"] == mode
    nodes = retrieval.bundle().nodes
    for one in report.node_texts:
        assert one.text == nodes[one.local_id].text
        assert one.chars == len(one.text)
    assert report.used["chars"] == sum(one.chars for one in report.node_texts)
    assert report.used["tokens"] == sum(one.tokens for one in report.node_texts)
    assert report.used[report.budget.kind] <= report.budget.limit
    assert len(report.decisions) == wanted
    included = [one.id for one in report.decisions if one.action == "include"]
    assert included == [one.id for one in report.node_texts]


def test_every_node_of_the_cases_has_a_text(retrieval: Any) -> None:
    """All ids that the cases name exist and have a text."""
    report = retrieval.fetch(SEEDS, GRAPH, tokens=100_000)

    assert taken(report) == [*SEEDS, *GRAPH]
    assert all(one.text.strip() for one in report.node_texts)


def test_f1_text_retrieval_integrity(retrieval: Any) -> None:
    """F1: the texts of the seeds, whole, and nothing else."""
    report = retrieval.fetch(["C0005", "C0006"], tokens=300)
    check(retrieval, "F1", report, "seed_first", 2)

    assert taken(report) == ["C0005", "C0006"]
    assert all(one.is_seed and one.depth == 0 and one.text for one in report.node_texts)


def test_f2_seed_first(retrieval: Any) -> None:
    """F2: graph nodes only get what the seeds leave."""
    seeds, graph = SEEDS[:3], GRAPH[:3]
    sizes = tokens_of(retrieval, *seeds, *graph)
    budget = sum(sizes[one] for one in seeds)
    tight = retrieval.fetch(seeds, graph, tokens=budget)
    check(retrieval, "F2", tight, "seed_first", 6)
    roomy = retrieval.fetch(seeds, graph, tokens=budget + sizes["C0007"])

    assert taken(tight) == seeds
    assert taken(roomy) == [*seeds, "C0007"]


def test_f3_graph_first(retrieval: Any) -> None:
    """F3: graph nodes come first, in order of id, even without edges to the seeds."""
    seeds, graph = SEEDS[:2], GRAPH[:3]
    sizes = tokens_of(retrieval, *seeds, *graph)
    budget = sum(sizes[one] for one in graph)
    tight = retrieval.fetch(seeds, graph[::-1], tokens=budget, prioritize="graph_first")
    check(retrieval, "F3", tight, "graph_first", 5)
    roomy = retrieval.fetch(seeds, graph, tokens=budget + sizes["C0005"], prioritize="graph_first")

    assert taken(tight) == graph
    assert taken(roomy) == [*graph, "C0005"]
    assert {one.depth for one in tight.node_texts} == {1}


def test_f4_balanced(retrieval: Any) -> None:
    """F4: seed, graph, seed, graph; both groups are there, the same every time."""
    seeds, graph = SEEDS[:3], GRAPH[:3]
    expected = ["C0005", "C0007", "C0006", "C0008"]
    sizes = tokens_of(retrieval, *seeds, *graph)
    budget = sum(sizes[one] for one in expected)
    report = retrieval.fetch(seeds, graph, tokens=budget, prioritize="balanced")
    check(retrieval, "F4", report, "balanced", 6)

    assert taken(report) == expected
    assert retrieval.fetch(seeds, graph, tokens=budget, prioritize="balanced") == report


def test_f5_token_budget(retrieval: Any) -> None:
    """F5: at 40 tokens one text fits and the others are skipped for the budget; at 20 none fits."""
    seeds, graph = SEEDS[:3], GRAPH[:2]
    report = retrieval.fetch(seeds, graph, tokens=40)
    check(retrieval, "F5", report, "seed_first", 5)
    nothing = retrieval.fetch(seeds, graph, tokens=20)

    assert len(report.node_texts) == 1
    assert report.used["tokens"] <= 40
    skipped = {one.reason for one in report.decisions if one.action == "skip"}
    assert skipped == {"over_token_budget"}
    assert nothing.node_texts == []
    assert nothing.used == {"chars": 0, "tokens": 0}


def test_f6_budget_from_settings(retrieval: Any, tmp_path: Path) -> None:
    """F6: the number under the settings' key is the budget, and the order is that of the mode."""
    seeds, graph = SEEDS[:3], GRAPH[:3]
    sizes = tokens_of(retrieval, *seeds, *graph)
    settings = tmp_path / "settings.yaml"
    budget = sum(sizes[one] for one in seeds)
    settings.write_text(f"node_text_fetch_top_n: {budget}\n", encoding="utf-8")
    read = budget_from_file(settings, "node_text_fetch_top_n")
    report = retrieval.fetch(seeds, graph, tokens=read)
    check(retrieval, "F6", report, "seed_first", 6)
    graph_first = retrieval.fetch(seeds, graph, tokens=read, prioritize="graph_first")

    assert (read, report.budget.limit) == (budget, budget)
    assert taken(report) == seeds
    assert taken(graph_first)[0] == "C0007"


def test_f7_character_budget(retrieval: Any) -> None:
    """F7: the characters given out stay within the budget."""
    seeds, graph = SEEDS[:3], GRAPH[:2]
    nodes = retrieval.bundle().nodes
    budget = sum(len(nodes[one].text) for one in seeds[:2])
    report = retrieval.fetch(seeds, graph, chars=budget)
    check(retrieval, "F7", report, "seed_first", 5)

    assert taken(report) == seeds[:2]
    assert report.budget.kind == "chars"
    assert {one.reason for one in report.decisions[2:]} == {"over_char_budget"}


@pytest.mark.parametrize("kind", ["tokens", "chars"])
def test_f8_atomic_skip(retrieval: Any, kind: str) -> None:
    """F8: a text that would not fit whole is left out whole, and the next one is looked at."""
    nodes = retrieval.bundle().nodes
    sizes = {one: len(nodes[one].text) for one in SEEDS}
    if kind == "tokens":
        sizes = tokens_of(retrieval, *SEEDS)
    budget = {kind: sizes["C0005"] + sizes["C0006"] - 1}
    report = retrieval.fetch(["C0005", "C0006"], **budget)
    check(retrieval, f"F8_{kind}", report, "seed_first", 2)
    only_smaller = retrieval.fetch(["C0005", "C0006"], **{kind: sizes["C0006"]})

    assert sizes["C0006"] < sizes["C0005"]
    assert taken(report) == ["C0005"]
    assert taken(only_smaller) == ["C0006"]
    assert [one.action for one in only_smaller.decisions] == ["skip", "include"]

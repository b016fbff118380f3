"""Dependency trees A to D4, in both releases: depth, relations, cap and rights."""

from __future__ import annotations

from typing import Any

import pytest

from whence.schema.access import Access
from whence.schema.errors import NotFound

ALLOWLIST = (
    "ReadsFrom",
    "WritesTo",
    "Calls",
    "Executes",
    "FK",
    "On",
    "SynonymFor",
    "ReferencedBy(C#)",
)
PAYMENT = "SQL:dbo.proc_ProcessPayment"
HYBRID = "SQL:dbo.proc_SearchShipments_Hybrid"
D4 = Access({"finance", "security"}, {"restricted"})
SOURCES = ("primary", "secondary")
BOTH = pytest.mark.parametrize("source", SOURCES)


def sql(names: str) -> set[str]:
    return {f"SQL:dbo.{name}" for name in names.split()}


def grow(
    retrieval: Any,
    case: str,
    seeds: list[str],
    source: str,
    *,
    relations: tuple[str, ...] | None,
    max_depth: int,
    access: Access | None = None,
    **more: Any,
) -> Any:
    """Expand, log, and check what holds of every tree."""
    everyone = retrieval.everyone(source)
    reader = everyone if access is None else access
    limits: dict[str, Any] = {
        "max_depth": max_depth,
        "max_nodes": 120,
        "relations": relations or (),
    }
    reply = retrieval.expand(seeds, reader, source=source, **limits, **more)
    untrimmed = retrieval.expand(seeds, everyone, source=source, **limits, **more)
    name = case if source == "primary" else f"{case}_secondary"
    retrieval.log_graph(name, reply, untrimmed=untrimmed)
    ids = {node.id for node in reply.nodes}
    assert len(ids) == len(reply.nodes) <= 120
    assert max(node.depth for node in reply.nodes) <= max_depth
    assert all(edge.from_id in ids and edge.to_id in ids for edge in reply.edges)
    assert relations is None or {edge.relation for edge in reply.edges} <= set(relations)
    assert {node.local_id for node in reply.nodes} <= retrieval.visible(reader, source)
    joined = {(edge.from_id, edge.to_id) for edge in reply.edges}
    for node in reply.nodes:
        assert node.depth == 0 or (node.parent_id, node.id) in joined
    assert not reply.truncated
    return reply


def at(reply: Any, depth: int) -> set[str]:
    return {node.local_id for node in reply.nodes if node.depth == depth}


def edges(reply: Any) -> set[tuple[str, str, str]]:
    return {
        (edge.from_id.split("::", 3)[3], edge.relation, edge.to_id.split("::", 3)[3])
        for edge in reply.edges
    }


@BOTH
@pytest.mark.parametrize("seed_only", [False, True], ids=["breadth-first", "seed-only"])
@pytest.mark.parametrize(
    ("case", "relations", "expected"),
    [
        (
            "A",
            ALLOWLIST,
            {
                ("WritesTo", "table_Payments"),
                ("Executes", "proc_ValidateToken"),
                ("Executes", "proc_ComputeFraudRisk"),
            },
        ),
        ("B", ("ReadsFrom", "WritesTo", "Calls"), {("WritesTo", "table_Payments")}),
        ("C", ("WritesTo",), {("WritesTo", "table_Payments")}),
    ],
    ids=["A", "B", "C"],
)
def test_relations_of_the_payment_procedure(
    retrieval: Any,
    case: str,
    relations: tuple[str, ...],
    expected: set[tuple[str, str]],
    seed_only: bool,
    source: str,
) -> None:
    """A, B, C: the neighbours over the allowed relations, and no edge that does not start at the seed."""
    reply = grow(
        retrieval,
        f"{case}_seed_only" if seed_only else case,
        [PAYMENT],
        source,
        relations=relations,
        max_depth=1,
        seed_only=seed_only,
    )

    assert edges(reply) == {(PAYMENT, name, f"SQL:dbo.{target}") for name, target in expected}
    assert at(reply, 0) == {PAYMENT}
    assert at(reply, 1) == {f"SQL:dbo.{target}" for _, target in expected}


@BOTH
def test_seed_only_stays_at_the_seed_at_any_depth(retrieval: Any, source: str) -> None:
    """A deeper limit adds nodes only when all nodes are expanded, not the seed alone."""
    one = grow(
        retrieval, "A_seed_only_deep", [PAYMENT], source,
        relations=ALLOWLIST, max_depth=3, seed_only=True,
    )  # fmt: skip
    deep = retrieval.expand([PAYMENT], retrieval.everyone(source), source=source, max_depth=3)

    assert {edge.from_id for edge in one.edges} == set(one.seeds)
    assert {edge.from_id for edge in deep.edges} > set(deep.seeds)


@pytest.mark.parametrize(
    ("source", "new"), [("primary", set()), ("secondary", {"C0202"})], ids=SOURCES
)
def test_tree_of_the_search_facade(retrieval: Any, source: str, new: set[str]) -> None:
    """D1: four nodes at depth 1, eleven behind them; the newer release has one more."""
    reply = grow(retrieval, "D1", ["C0005"], source, relations=("dep",), max_depth=2)
    second = "C0007 C0008 C0009 C0010 C0012 C0013 C0014 C0015 C0017 C0018 C0020"

    assert at(reply, 1) == {"C0006", "C0011", "C0016", "C0019"}
    assert at(reply, 2) == {*second.split(), *new}
    assert len(reply.edges) == 15 + len(new)


@pytest.mark.parametrize(
    ("source", "first", "second"),
    [
        ("primary", "", ""),
        ("secondary", "proc_SearchShipments_VectorFallback", "table_SearchAudit"),
    ],
    ids=SOURCES,
)
def test_tree_of_the_hybrid_procedure(retrieval: Any, source: str, first: str, second: str) -> None:
    """D2: both procedures by `Executes`, the view behind them by `ReadsFrom`; more in the newer release."""
    reply = grow(retrieval, "D2", [HYBRID], source, relations=ALLOWLIST, max_depth=2)
    kinds = {(relation, target) for _, relation, target in edges(reply)}

    assert at(reply, 1) == sql(f"proc_SearchShipments_BM25 proc_SearchShipments_Semantic {first}")
    assert at(reply, 2) == sql(f"view_Shipments {second}")
    assert ("ReadsFrom", "SQL:dbo.view_Shipments") in kinds
    assert {relation for relation, target in kinds if "proc_" in target} == {"Executes"}


@pytest.mark.parametrize(
    ("source", "new"), [("primary", set()), ("secondary", {"C0202"})], ids=SOURCES
)
def test_tree_within_the_limits_of_the_pipeline(retrieval: Any, source: str, new: set[str]) -> None:
    """D3: two levels and not one more, over allowed relations only."""
    reply = grow(retrieval, "D3", ["C0003"], source, relations=("dep",), max_depth=2)

    assert at(reply, 1) == {"C0004", "C0005", *new}
    assert at(reply, 2) == {"C0006", "C0011", "C0016", "C0019"}
    assert {node.depth for node in reply.nodes} == {0, 1, 2}


def test_tree_trimmed_by_rights(retrieval: Any) -> None:
    """D4: every node is visible to the reader; nodes behind a hidden one and edges to it are missing."""
    reply = grow(retrieval, "D4", ["C0005"], "primary", relations=("dep",), max_depth=2, access=D4)
    left = {node.local_id for node in reply.nodes}

    assert left == {"C0005", "C0006", "C0007", "C0008", "C0010", "C0011", "C0012", "C0015"}
    assert len(reply.edges) == 7
    # Open to the reader, but only a hidden node leads to it.
    assert "C0018" in retrieval.visible(D4)


@pytest.mark.parametrize("seed", ["C0002", "C0003", "C0027"])
def test_a_hidden_seed_is_a_missing_one(retrieval: Any, seed: str) -> None:
    """D4: a seed that the rights hide is refused in the words of one that does not exist."""
    messages = []
    for node in (seed, "C9999"):
        with pytest.raises(NotFound) as error:
            retrieval.expand(["C0005", node], D4, max_depth=2)
        messages.append(error.value.message.replace(node, "?"))

    assert messages[0] == messages[1]


def test_the_newer_release_hides_the_seed_of_d4(retrieval: Any) -> None:
    """D4 on 1.1: the seed itself asks for a label that the reader does not hold."""
    assert "C0005" not in retrieval.visible(D4, "secondary")
    with pytest.raises(NotFound):
        retrieval.expand(["C0005"], D4, source="secondary", max_depth=2)


def test_truncation_by_a_cap_is_reported(retrieval: Any) -> None:
    """The cap counts the seed; truncation is reported, and a cap of the exact size does not truncate."""
    everyone = retrieval.everyone()
    cut = retrieval.expand(["C0005"], everyone, max_depth=2, max_nodes=7)
    whole = retrieval.expand(["C0005"], everyone, max_depth=2, max_nodes=16)

    assert (len(cut.nodes), cut.truncated, cut.reason) == (7, True, "max_nodes")
    assert (len(whole.nodes), whole.truncated, whole.reason) == (16, False, None)
    assert cut.nodes == whole.nodes[:7]


def test_callers_are_found_by_the_way_back(retrieval: Any) -> None:
    """Who calls the executor of stored procedures is answered by walking edges backwards."""
    reply = retrieval.expand(["C0030"], retrieval.everyone(), max_depth=1, direction="in")
    sources = {edge.from_id.split("::", 3)[3] for edge in reply.edges}

    assert {"C0025", "C0026", "C0027", "C0028", "SQL:dbo.proc_Depot_009"} <= sources
    assert {edge.to_id.split("::", 3)[3] for edge in reply.edges} == {"C0030"}

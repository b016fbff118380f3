"""Texts within a budget: order, whole texts, one decision each, and never more than the limit."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.processors.text_fetcher import decide_texts, fetch_order
from whence.schema.texts import PlannedText, Prioritize, TextBudget

_ids = st.lists(st.sampled_from("abcdefgh"), max_size=6)
_graph = st.lists(
    st.builds(
        PlannedText,
        id=st.sampled_from("abcdefghijkl"),
        depth=st.integers(1, 3),
        parent_id=st.none() | st.sampled_from("abcdefghijkl"),
    ),
    max_size=8,
)
_modes = st.sampled_from(get_args(Prioritize))
_sizes = st.dictionaries(st.sampled_from("abcdefghijkl"), st.integers(0, 9))


def graph(*ids: str) -> list[PlannedText]:
    return [PlannedText(id=one) for one in ids]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("seed_first", "s1 s2 s3 g1 g2"),
        ("graph_first", "g1 g2 s1 s2 s3"),
        ("balanced", "s1 g1 s2 g2 s3"),
        ("clustered", "s1 s2 s3 g1 g2"),
    ],
)
def test_each_order_matches_its_name(mode: Prioritize, expected: str) -> None:
    """Seeds keep their order; nodes of one depth are sorted by id."""
    assert fetch_order(mode, ["s1", "s2", "s3"], graph("g2", "g1")) == expected.split()


def test_nodes_are_sorted_by_depth_then_id() -> None:
    """A nearer node is considered before a farther one."""
    nodes = [PlannedText(id="a", depth=2), PlannedText(id="b", depth=1)]

    assert fetch_order("graph_first", ["s"], nodes) == ["b", "a", "s"]


def test_a_cluster_is_a_seed_and_its_descendants() -> None:
    """Nodes follow the seed that their parents lead to; those without a seed are last."""
    nodes = [
        PlannedText(id="x", depth=1, parent_id="s2"),
        PlannedText(id="y", depth=2, parent_id="x"),
        PlannedText(id="z", depth=1, parent_id="s1"),
        PlannedText(id="o", depth=1),
    ]

    assert fetch_order("clustered", ["s1", "s2"], nodes) == ["s1", "z", "s2", "x", "y", "o"]


@given(_modes, _ids, _graph)
def test_every_text_is_considered_once(
    mode: Prioritize, seeds: list[str], nodes: list[PlannedText]
) -> None:
    """The order has every id once; a seed that is also a graph node counts as a seed."""
    order = fetch_order(mode, seeds, nodes)
    wanted = {*seeds, *(node.id for node in nodes)}

    assert sorted(order) == sorted(wanted)
    assert [one for one in order if one in seeds] == list(dict.fromkeys(seeds))


@given(_modes, _ids, _graph)
def test_the_order_does_not_depend_on_how_the_graph_is_listed(
    mode: Prioritize, seeds: list[str], nodes: list[PlannedText]
) -> None:
    """The order of the graph nodes in the request does not matter."""
    assert fetch_order(mode, seeds, nodes) == fetch_order(mode, seeds, nodes[::-1])


@given(_ids, _graph)
def test_balanced_alternates_seeds_and_nodes(seeds: list[str], nodes: list[PlannedText]) -> None:
    """Seed, graph, seed, graph; then the rest of the longer list."""
    order = fetch_order("balanced", seeds, nodes)
    kinds = ["s" if one in seeds else "g" for one in order]
    turns = 2 * min(kinds.count("s"), kinds.count("g"))

    assert kinds[:turns] == list(itertools.islice(itertools.cycle("sg"), turns))
    assert len(set(kinds[turns:])) <= 1


@given(_modes, _ids, _graph, _sizes, st.integers(1, 30), st.sampled_from(["chars", "tokens"]))
def test_decisions_equal_the_definition(
    mode: Prioritize,
    seeds: list[str],
    nodes: list[PlannedText],
    sizes: dict[str, int],
    limit: int,
    kind: str,
) -> None:
    """A text is taken exactly when it exists and fits beside all that were taken before it."""
    order = fetch_order(mode, seeds, nodes)
    decisions = decide_texts(order, sizes, TextBudget(kind=kind, limit=limit))  # type: ignore[arg-type]
    taken: list[str] = []
    for one, decision in zip(order, decisions, strict=True):
        fits = one in sizes and sum(sizes[key] for key in taken) + sizes[one] <= limit
        taken += [one] if fits else []
        assert decision.id == one
        assert (decision.action == "include") == fits
        assert (decision.reason == "not_found") == (one not in sizes)

    assert sum(sizes[one] for one in taken) <= limit


def test_a_too_large_text_is_skipped() -> None:
    """Later texts are tried after a skip, and an empty text always fits."""
    budget = TextBudget(kind="chars", limit=5)
    decisions = decide_texts(
        ["big", "small", "gone", "empty"], {"big": 6, "small": 5, "empty": 0}, budget
    )

    assert [(one.action, one.reason) for one in decisions] == [
        ("skip", "over_char_budget"),
        ("include", "fits"),
        ("skip", "not_found"),
        ("include", "fits"),
    ]

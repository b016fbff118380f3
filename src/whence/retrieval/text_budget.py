"""Which texts fit into a budget, and in which order: pure decisions, no I/O.

A text is taken whole or skipped, and scanning goes on with the next, smaller ones may still fit. Every text
asked for gets exactly one decision. What is counted is what is given out, so a budget is never exceeded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from whence.schema.texts import PlannedText, Prioritize, TextBudget, TextDecision

__all__ = ("FETCHED", "Sizes", "decide", "in_order")

#: Reasons of decisions. A text that is hidden is answered like one that does not exist.
FETCHED = "fits"
MISSING = "not_found"
OVER = {"chars": "over_char_budget", "tokens": "over_token_budget"}

Sizes = Mapping[str, int]
"""Size of each text by id, in the unit of the budget; ids without one have no text for this reader."""


def in_order(
    prioritize: Prioritize, seeds: Sequence[str], graph: Iterable[PlannedText]
) -> list[str]:
    """Give the ids in the order in which they are offered a place, each once.

    Seeds keep the order they are given in, the others go by depth, then id. A seed that is among the graph
    nodes as well is a seed.

    Args:
        prioritize: `seed_first`: seeds, then the others. `graph_first`: the others, then seeds. `balanced`:
            one of each in turn, then the rest of the longer list. `clustered`: each seed followed by the
            nodes that were reached from it, then those that were reached from none.
        seeds: Ids.
        graph: Nodes around them.

    Cost: n log n for n nodes.
    """
    first = list(dict.fromkeys(seeds))
    known = set(first)
    nodes = {node.id: node for node in sorted(graph, key=_place, reverse=True)}
    others = [node for node in sorted(nodes.values(), key=_place) if node.id not in known]
    ids = [node.id for node in others]
    if prioritize == "seed_first":
        return first + ids
    if prioritize == "graph_first":
        return ids + first
    if prioritize == "balanced":
        turns = zip_longest(first, ids)
        return [one for turn in turns for one in turn if one is not None]
    return _clustered(first, others)


def _place(node: PlannedText) -> tuple[int, str, str]:
    return node.depth, node.id, node.parent_id or ""


def _clustered(seeds: Sequence[str], others: Sequence[PlannedText]) -> list[str]:
    """Put each node behind the seed that its parents lead to."""
    root = {seed: seed for seed in seeds}
    clusters: dict[str, list[str]] = defaultdict(list)
    alone = []
    for node in others:
        # A parent is one step nearer and was placed before.
        seed = root.get(node.parent_id or "")
        if seed is None:
            alone.append(node.id)
        else:
            root[node.id] = seed
            clusters[seed].append(node.id)
    return [one for seed in seeds for one in (seed, *clusters[seed])] + alone


def decide(order: Iterable[str], sizes: Sizes, budget: TextBudget) -> list[TextDecision]:
    """Decide for each id, in the order given, whether its text is taken.

    Args:
        order: Ids, each once.
        sizes: Size of each text there is.
        budget: What may be spent.

    Cost: linear.
    """
    left = budget.limit
    decisions = []
    for one in order:
        size = sizes.get(one)
        if size is None:
            decisions.append(TextDecision(id=one, action="skip", reason=MISSING))
        elif size > left:
            decisions.append(TextDecision(id=one, action="skip", reason=OVER[budget.kind]))
        else:
            left -= size
            decisions.append(TextDecision(id=one, action="include", reason=FETCHED))
    return decisions

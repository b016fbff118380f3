"""The graph expander passes a walk to the store within its own limits, and its model keeps the rules."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.code_edges import CodeEdge
from tests.support.graph_model import GraphModel

from whence.code.processors.graph_expander import GraphExpanderParameters, GraphExpanderProcessor
from whence.schema import Access, DocumentTags, ExpandRequest, ExpandResponse
from whence.schema.errors import BadInput, NotFound
from whence.testing.stub_context import StubContext

HR = DocumentTags(("hr",))


def node(name: str) -> str:
    return f"R::s::cs::{name}"


def model(edges: str, hidden: str = "") -> GraphModel:
    """Return a graph of edges `ab` from a to b; nodes in `hidden` need a tag."""
    pairs = edges.split()
    names = sorted({name for pair in pairs for name in pair})
    tags = {node(name): HR if name in hidden else DocumentTags() for name in names}
    return GraphModel(
        "s",
        tags,
        [CodeEdge(from_id=node(a), to_id=node(b), relation="cs_dep") for a, b in pairs],
    )


async def ask(
    store: GraphModel, *seeds: str, travel: bool = False, **fields: Any
) -> ExpandResponse:
    processor = GraphExpanderProcessor(GraphExpanderParameters(travel=travel), snapshots=store)
    request = ExpandRequest(access=Access(), snapshot="s", seeds=seeds, **fields)
    return await processor.handle(request, StubContext())


def depths(reply: ExpandResponse) -> dict[str, int]:
    return {one.local_id: one.depth for one in reply.nodes}


async def test_depth_bounds_the_walk() -> None:
    """Depth bounds the walk; the seed is first, without a parent."""
    reply = await ask(model("ab bc cd"), "a", max_depth=2)

    assert depths(reply) == {"a": 0, "b": 1, "c": 2}
    assert [one.parent_id for one in reply.nodes] == [None, node("a"), node("b")]
    assert [(one.from_id, one.to_id) for one in reply.edges] == [
        (node("a"), node("b")),
        (node("b"), node("c")),
    ]
    assert (reply.truncated, reply.reason) == (False, None)


async def test_a_hidden_node_ends_the_walk_unless_travel_is_set() -> None:
    """Nodes behind a hidden node are not reached; with `travel` they are, without a parent."""
    store = model("ab bc", hidden="b")

    assert depths(await ask(store, "a", max_depth=3)) == {"a": 0}
    travelled = await ask(store, "a", max_depth=3, travel=True)
    assert depths(travelled) == {"a": 0, "c": 2}
    assert [one.parent_id for one in travelled.nodes] == [None, None]
    assert travelled.edges == ()


async def test_only_visible_nodes_are_truncated() -> None:
    """A limit that is just reached, or that only hidden nodes exceed, truncates nothing."""
    store = model("ab ac ad", hidden="d")

    assert not (await ask(store, "a", max_nodes=3)).truncated
    cut = await ask(store, "a", max_nodes=2)
    assert (depths(cut), cut.truncated, cut.reason) == ({"a": 0, "b": 1}, True, "max_nodes")
    deeper = await ask(model("ab bc"), "a", max_nodes=2, max_depth=5)
    assert (depths(deeper), deeper.truncated) == ({"a": 0, "b": 1}, True)


async def test_hidden_and_missing_seeds_are_refused_alike() -> None:
    """One of several refuses the whole request, with messages that differ in the id only."""
    store = model("ab", hidden="b")
    errors = []
    for seed in ("b", "x"):
        with pytest.raises(NotFound) as error:
            await ask(store, "a", node(seed))
        errors.append(error.value.message.replace(node(seed), "?"))

    assert errors[0] == errors[1]


async def test_limits_of_the_processor_come_first() -> None:
    """A request beyond the limits of the processor never reaches the store."""
    processor = GraphExpanderProcessor(
        GraphExpanderParameters(max_depth=3, max_nodes=10), snapshots=model("ab")
    )
    for fields in ({"max_depth": 4}, {"max_nodes": 11}):
        request = ExpandRequest(access=Access(), snapshot="s", seeds=("a",), **fields)  # type: ignore[arg-type]
        with pytest.raises(BadInput, match="at most"):
            await processor.handle(request, StubContext())

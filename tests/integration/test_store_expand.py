"""Expansion in PostgreSQL equals its definition, on random graphs, rights, limits and relations."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.code_edges import CodeEdge
from tests.support.graph_model import GraphModel
from tests.support.graph_tables import write_graph

from whence.code.snapshots.store import PostgresCode
from whence.schema import Access, DocumentTags, ExpandRequest, ExpandResponse
from whence.schema.errors import BadInput, NotFound

if TYPE_CHECKING:
    from whence.store.postgres.store import PostgresStore

pytestmark = pytest.mark.postgres

_numbers = itertools.count()
LOCALS = [*(f"C{n:04}" for n in range(7)), *(f"SQL:dbo.t{n}" for n in range(5))]
_tags = st.builds(
    DocumentTags,
    st.lists(st.sampled_from("ab"), max_size=1),
    st.lists(st.sampled_from("xy"), max_size=1),
    st.integers(0, 1),
)
_accesses = st.builds(
    Access, st.lists(st.sampled_from("ab")), st.lists(st.sampled_from("xy")), st.integers(0, 1)
)
_pairs = st.tuples(
    st.sampled_from(LOCALS),
    st.sampled_from(LOCALS),
    st.sampled_from(
        ["cs_dep", "sql_Calls", "sql_ReadsFrom", "sql_ReferencedBy(C#)", "sql_Touches"]
    ),
)
_relations = st.lists(
    st.sampled_from(
        ["dep", "CS_DEP", "calls", "sql_readsfrom", "ReferencedBy(C#)", "Touches", "none", "*"]
    ),
    max_size=2,
)


def node(snapshot: str, local: str) -> str:
    kind = "sql" if local.startswith("SQL:") else "cs"
    return f"R::{snapshot}::{kind}::{local}"


def without_texts(reply: ExpandResponse) -> tuple[Any, ...]:
    """Return a reply without what only tells where texts are."""
    nodes = [(one.id, one.local_id, one.depth, one.parent_id) for one in reply.nodes]
    return reply.seeds, nodes, reply.edges, reply.truncated, reply.reason


async def write(
    store: PostgresStore, tags: list[DocumentTags], pairs: set[tuple[str, str, str]]
) -> GraphModel:
    """Put one graph into the store and into a model."""
    snapshot = f"s{next(_numbers)}"
    rights = {
        node(snapshot, local): one
        for local, one in zip(LOCALS, itertools.cycle(tags), strict=False)
    }
    edges = [
        CodeEdge(from_id=node(snapshot, a), to_id=node(snapshot, b), relation=relation)
        for a, b, relation in sorted(pairs)
    ]
    async with store.pool.connection() as connection:
        await write_graph(connection, rights, edges, collection=snapshot)
    return GraphModel(snapshot, rights, edges)


@given(
    tags=st.lists(_tags, min_size=1, max_size=12),
    pairs=st.sets(_pairs, max_size=30),
    asked=st.lists(
        st.tuples(
            _accesses,
            st.lists(st.sampled_from(LOCALS), min_size=1, max_size=3),
            st.integers(1, 4),
            st.integers(1, 13),
            _relations,
            st.sampled_from(["out", "in", "both"]),
            st.booleans(),
            st.booleans(),
        ),
        min_size=10,
        max_size=10,
    ),
)
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
async def test_a_walk_equals_its_definition(
    postgres_store: PostgresStore,
    tags: list[DocumentTags],
    pairs: set[tuple[str, str, str]],
    asked: list[tuple[Any, ...]],
) -> None:
    """Nodes, order, depths, parents, edges, cut and refusals are those of the brute-force model."""
    model = await write(postgres_store, tags, pairs)
    for access, seeds, depth, most, relations, direction, seed_only, travel in asked:
        request = ExpandRequest(
            access=access,
            snapshot=model.snapshot_id,
            seeds=tuple(seeds),
            max_depth=depth,
            max_nodes=most,
            relations=tuple(relations),
            direction=direction,
            seed_only=seed_only,
        )
        try:
            expected = await model.expand(request, travel=travel)
        except (BadInput, NotFound) as error:
            with pytest.raises(type(error)):
                await PostgresCode(postgres_store).expand(request, travel=travel)
            continue
        reply = await PostgresCode(postgres_store).expand(request, travel=travel)

        assert without_texts(reply) == without_texts(expected)
        assert reply == await PostgresCode(postgres_store).expand(request, travel=travel)
        check_laws(reply, request, model.visible(access), travel=travel)


def check_laws(
    reply: ExpandResponse, request: ExpandRequest, visible: set[str], *, travel: bool
) -> None:
    """Check what must hold of every expansion, whatever the model says."""
    depths = {one.id: one.depth for one in reply.nodes}
    joined = {frozenset((edge.from_id, edge.to_id)) for edge in reply.edges}

    assert set(depths) <= visible
    assert len(depths) <= request.max_nodes
    assert max(depths.values()) <= request.max_depth
    assert len({(e.from_id, e.to_id, e.stored_relation) for e in reply.edges}) == len(reply.edges)
    assert all(edge.from_id in depths and edge.to_id in depths for edge in reply.edges)
    for one in reply.nodes:
        if one.parent_id is not None:
            assert depths[one.parent_id] == one.depth - 1
            assert frozenset((one.parent_id, one.id)) in joined
        else:
            assert one.depth == 0 or travel


async def test_a_snapshot_is_found_by_each_of_its_names(postgres_store: PostgresStore) -> None:
    """Id and commit name a snapshot; what names none is not found."""
    model = await write(postgres_store, [DocumentTags()], {("C0000", "C0001", "cs_dep")})
    for name in (model.snapshot_id, "sha-of-it"):
        request = ExpandRequest(access=Access(), snapshot=name, seeds=("C0000",))
        assert (await PostgresCode(postgres_store).expand(request)).snapshot_id == model.snapshot_id
    for name in ("nothing", "a\0b", ""):
        with pytest.raises(NotFound, match="there is no snapshot"):
            await PostgresCode(postgres_store).expand(
                ExpandRequest(access=Access(), snapshot=name, seeds=("C0000",))
            )


async def test_a_seed_is_named_by_either_id(postgres_store: PostgresStore) -> None:
    """A canonical id of this snapshot and a local id are one node; one of another snapshot is refused."""
    model = await write(postgres_store, [DocumentTags()], {("C0000", "SQL:dbo.t1", "sql_Calls")})

    async def ask(*seeds: str) -> ExpandResponse:
        return await PostgresCode(postgres_store).expand(
            ExpandRequest(access=Access(), snapshot=model.snapshot_id, seeds=seeds)
        )

    canonical = node(model.snapshot_id, "C0000")
    assert (await ask("C0000", canonical)).seeds == (canonical,)
    assert (await ask("SQL:dbo.t1")).nodes[0].id == node(model.snapshot_id, "SQL:dbo.t1")
    with pytest.raises(BadInput, match="another snapshot"):
        await ask(node("other", "C0000"))
    for name in (
        f"Q::{model.snapshot_id}::cs::C0000",
        f"R::{model.snapshot_id}::sql::C0000",
        "C0000 ",
        "c0000",
        "\0",
        "",
    ):
        with pytest.raises(NotFound, match="there is no node"):
            await ask("C0000", name)


async def test_the_text_of_a_node_is_read_by_its_chunk_id(postgres_store: PostgresStore) -> None:
    """An expansion names the chunk of each node and the collection that holds it."""
    model = await write(postgres_store, [DocumentTags()], {("C0000", "C0001", "cs_dep")})
    reply = await PostgresCode(postgres_store).expand(
        ExpandRequest(access=Access(), snapshot=model.snapshot_id, seeds=("C0000",))
    )
    texts = await postgres_store.chunk_texts(
        reply.collection, [one.chunk_id for one in reply.nodes], Access()
    )

    assert [text.document_id for text in texts] == [one.id for one in reply.nodes]

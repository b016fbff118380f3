"""Expansion of nodes along the graph of a snapshot: one statement a level, with access control in each.

An expansion reads one snapshot of the database, also when the code is replaced meanwhile.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from whence.code.snapshots.documents import missing_snapshot
from whence.schema.code_ids import CodeKind, kind_from_local_id, local_id_from_name, node_not_found
from whence.schema.errors import BadInput
from whence.schema.graph import ExpandRequest, ExpandResponse, GraphEdge, GraphNode
from whence.schema.relations import RelationFilter, normalize_relation, strip_relation_prefix
from whence.store.acl_check import DOCUMENT_TAGS, TAGS_JOIN, allowed_rows
from whence.store.chunk_ids import chunk_key
from whence.store.postgres.acl_classes import EPOCH, allowed_classes
from whence.store.postgres.driver import Connection, read_transaction
from whence.store.validation import is_text

#: Reason of a truncated expansion.
_TRUNCATED_BY = "max_nodes"

_SNAPSHOT = f"""
    SELECT s.snapshot_id, s.repo, c.id, c.name, {EPOCH},
        (SELECT coalesce(array_agg(r.id ORDER BY r.name), '{{}}') FROM code_relation r) AS relations,
        (SELECT coalesce(array_agg(r.name ORDER BY r.name), '{{}}') FROM code_relation r) AS relation_names
    FROM code_snapshot s JOIN collection c ON c.id = s.collection_id
    WHERE s.active AND (s.snapshot_id = $1 OR s.head_sha = $1
        OR s.snapshot_id IN (SELECT r.snapshot_id FROM code_ref r WHERE r.ref = $1))
    ORDER BY s.published DESC LIMIT 1"""  # noqa: S608 - only constants
# A lateral limit instead of plain joins: for some hundred nodes the planner would read all chunks.
_NODES = f"""
    SELECT n.local_id, n.node, {DOCUMENT_TAGS} FROM code_node n
    CROSS JOIN LATERAL (SELECT d.id, d.class_id FROM chunk c
        JOIN document d ON d.id = c.document WHERE c.ord = n.ord LIMIT 1) d{TAGS_JOIN}
    WHERE n.collection_id = $1"""  # noqa: S608 - only constants
_SEEDS = f"{_NODES} AND n.local_id = ANY($2::text[]) AND n.class_id = ANY($3::int[])"
_NAMES = f"{_NODES} AND n.node = ANY($2::int[])"

# Relations of edges between visible nodes; those of hidden nodes stay secret.
_VISIBLE_RELATIONS = """
    SELECT r.name FROM code_relation r WHERE EXISTS (
        SELECT FROM code_neighbours e
        JOIN code_node a ON a.collection_id = $1 AND a.node = e.node AND a.class_id = ANY($2::int[])
        CROSS JOIN LATERAL unnest(e.others) o(node)
        JOIN code_node b ON b.collection_id = $1 AND b.node = o.node AND b.class_id = ANY($2::int[])
        WHERE e.collection_id = $1 AND NOT e.back AND e.relation = r.id)
    ORDER BY r.name"""

# The edges of the nodes of a level, by the primary key of the neighbours. $1 collection, $2 nodes of the level,
# $3 relations in their order, $4 ACL classes of the reader.
_STEPS = """
    SELECT e.node AS origin, o.target, e.relation, e.back, {visible} AS visible
    FROM code_neighbours e CROSS JOIN LATERAL unnest(e.others) o(target)
    JOIN code_node n ON n.collection_id = $1 AND n.node = o.target
    WHERE e.collection_id = $1 AND e.back = {back} AND e.node = ANY($2::int[])
    AND e.relation = ANY($3::int[]) AND {condition}"""
_IS_VISIBLE = "n.class_id = ANY($4::int[])"
# Returns the first new nodes up to the limit, and one more to detect truncation, so that a node with very many
# edges does not send them all. $5 known nodes, $6 limit.
_LIMITED = """
    WITH walked AS MATERIALIZED ({steps}),
    fresh AS MATERIALIZED (
        SELECT w.target FROM walked w WHERE w.target <> ALL($5::int[])
        GROUP BY w.target ORDER BY min(array_position($3::int[], w.relation)), w.target
        LIMIT $6::int + 1)
    SELECT w.* FROM walked w
    WHERE w.target = ANY($5::int[]) OR w.target IN (SELECT f.target FROM fresh f)"""
#: Values of `back` for each direction.
_DIRECTIONS = {"out": ("false",), "in": ("true",), "both": ("false", "true")}


class _Edge(NamedTuple):
    """A stored edge by numbers."""

    from_node: int
    to_node: int
    relation: int


class _Step(NamedTuple):
    """An edge from a node of a level."""

    origin: int
    target: int
    relation: int
    back: bool
    """True when the stored edge has the other direction."""
    visible: bool
    """Whether the reader may see the target."""

    @property
    def edge(self) -> _Edge:
        """Return the stored edge."""
        ends = (self.target, self.origin) if self.back else (self.origin, self.target)
        return _Edge(*ends, self.relation)


async def expand(
    connection: Connection, request: ExpandRequest, *, travel: bool = False
) -> ExpandResponse:
    """Expand nodes; see `CodeStore.expand`."""
    _check_limits(request)
    async with read_transaction(connection):
        if not is_text(request.snapshot):
            raise missing_snapshot(request.snapshot)
        found = await connection.fetchrow(_SNAPSHOT, request.snapshot)
        if found is None:
            raise missing_snapshot(request.snapshot)
        classes = await allowed_classes(connection, request.access, found["epoch"])
        row = {**found, "classes": classes}
        seeds = await _seeds(connection, row, request)
        await _check_relations(connection, row, request.relations)
        relations = _relations(row, request.relations)
        walk = _Walk(connection, row, request, relations, travel=travel)
        await walk.run(list(seeds))
        rows = await connection.fetch(_NAMES, row["id"], list(walk.places))
        names = {r["node"]: r["local_id"] for r in allowed_rows(rows, request.access, "expansion")}
        walk.retain(names)
        return _response(row, seeds, walk, names)


def _check_limits(request: ExpandRequest) -> None:
    """Check the limits of a request."""
    for name, value in (("max_depth", request.max_depth), ("max_nodes", request.max_nodes)):
        if value < 1:
            raise BadInput(f"{name} must be at least 1, not {value}")
    count = len(dict.fromkeys(request.seeds))
    if not count:
        raise BadInput("there is no node to start from", hint="give one id or more")
    if count > request.max_nodes:
        raise BadInput(
            f"{count} nodes to start from are more than max_nodes, which is {request.max_nodes}",
            hint="raise max_nodes, or start from fewer nodes",
        )


async def _seeds(connection: Connection, row: Any, request: ExpandRequest) -> dict[int, str]:
    """Return the seeds by number, in the order of the request."""
    asked = [
        (node, local_id_from_name(node, row["repo"], row["snapshot_id"]))
        for node in dict.fromkeys(request.seeds)
    ]
    wanted = [local for _, local in asked if local is not None and is_text(local)]
    rows = await connection.fetch(_SEEDS, row["id"], wanted, row["classes"])
    visible = allowed_rows(rows, request.access, "seeds")
    numbers = {found["local_id"]: found["node"] for found in visible}
    seeds: dict[int, str] = {}
    for node, local in asked:
        if local is None or local not in numbers:
            raise node_not_found(node)
        seeds[numbers[local]] = local
    return seeds


async def _check_relations(connection: Connection, row: Any, wanted: Sequence[str]) -> None:
    """Check the names of relations.

    Cost: none for well-known relations; otherwise at worst linear in the edges.
    """
    allowed = RelationFilter(wanted)
    if not allowed.unknown():
        return
    rows = await connection.fetch(_VISIBLE_RELATIONS, row["id"], row["classes"])
    stored = [found["name"] for found in rows]
    unknown = set(allowed.unknown(stored))
    if unknown:
        shown = next(name for name in wanted if normalize_relation(name) in unknown)
        names = ", ".join(dict.fromkeys(map(strip_relation_prefix, stored))) or "none"
        raise BadInput(
            f"there is no relation {shown!r}", hint=f"relations of this snapshot: {names}"
        )


def _relations(row: Any, wanted: Iterable[str]) -> dict[int, str]:
    """Return the relations to follow by number, in order of their names."""
    allowed = RelationFilter(wanted)
    known = zip(row["relations"], row["relation_names"], strict=True)
    return {number: name for number, name in known if allowed.allows(name)}


class _Walk:
    """An expansion in progress."""

    def __init__(
        self,
        connection: Connection,
        row: Any,
        request: ExpandRequest,
        relations: dict[int, str],
        *,
        travel: bool,
    ) -> None:
        self._connection = connection
        self._row = row
        self._request = request
        self._travel = travel
        self.relations = relations
        self._rank = {relation: rank for rank, relation in enumerate(relations)}
        self._statement = _statement(request.direction, travel=travel)
        self._hidden: set[int] = set()
        #: Depth and parent of each visible node, in the order of the answer.
        self.places: dict[int, tuple[int, int | None]] = {}
        self.edges: set[_Edge] = set()
        self.truncated = False

    async def run(self, seeds: Sequence[int]) -> None:
        """Walk level by level until no node is new or a limit is reached."""
        self.places = dict.fromkeys(sorted(seeds), (0, None))
        frontier = list(self.places)
        last = 1 if self._request.seed_only else self._request.max_depth
        for depth in range(1, last + 1):
            if not frontier or not self.relations:
                return
            steps = await self._steps(frontier)
            frontier = self._take(steps, depth)
            self.edges.update(
                step.edge
                for step in steps
                if step.target in self.places and step.origin in self.places
            )

    def retain(self, named: Container[int]) -> None:
        """Remove nodes without a name, the nodes reached through them, and their edges."""
        retained: dict[int, tuple[int, int | None]] = {}
        for node, (depth, parent) in self.places.items():
            if node in named and (parent is None or parent in retained):
                retained[node] = (depth, parent)
        if len(retained) < len(self.places):
            self.places = retained
            self.edges = {
                e for e in self.edges if e.from_node in retained and e.to_node in retained
            }

    async def _steps(self, frontier: Sequence[int]) -> list[_Step]:
        arguments: list[Any] = [
            self._row["id"],
            frontier,
            list(self.relations),
            self._row["classes"],
        ]
        if not self._travel:
            arguments += [list(self.places), self._room]
        rows = await self._connection.fetch(self._statement, *arguments)
        return [_Step(*row) for row in rows]

    @property
    def _room(self) -> int:
        return self._request.max_nodes - len(self.places)

    def _take(self, steps: Sequence[_Step], depth: int) -> list[int]:
        """Add the new nodes of a level up to the limit; return the nodes of the next level."""
        reached: dict[int, tuple[int, int]] = {}
        hidden = set()
        for step in steps:
            if step.target in self.places or step.target in self._hidden:
                continue
            if not step.visible:
                hidden.add(step.target)
                continue
            # A hidden origin is no parent; any visible one is preferred.
            visible = step.origin in self.places
            way = (self._rank[step.relation], step.origin) if visible else _NO_WAY
            reached[step.target] = min(way, reached.get(step.target, way))
        new = sorted(reached, key=lambda node: (reached[node][0], node))
        taken = new[: self._room]
        self.truncated = self.truncated or len(new) > len(taken)
        for node in taken:
            way = reached[node]
            self.places[node] = (depth, None if way == _NO_WAY else way[1])
        self._hidden |= hidden
        return taken + sorted(hidden)


#: Rank and origin of a node that was reached through hidden nodes only: after all relations.
_NO_WAY = (2**31, -1)


def _statement(direction: str, *, travel: bool) -> str:
    form = (_IS_VISIBLE, "true") if travel else ("true", _IS_VISIBLE)
    steps = " UNION ALL ".join(
        _STEPS.format(back=back, visible=form[0], condition=form[1])
        for back in _DIRECTIONS[direction]
    )
    return steps if travel else _LIMITED.format(steps=steps)


def _response(
    row: Any, seeds: dict[int, str], walk: _Walk, names: dict[int, str]
) -> ExpandResponse:
    name = _Names(row)
    ids = {node: name.canonical(names[node]) for node in walk.places}
    nodes = tuple(
        GraphNode(
            id=ids[node],
            local_id=names[node],
            depth=depth,
            parent_id=None if parent is None else ids[parent],
            chunk_id=name.chunk(names[node]),
        )
        for node, (depth, parent) in walk.places.items()
    )
    stored = walk.relations
    ordered = sorted(walk.edges, key=lambda e: (e.from_node, e.to_node, stored[e.relation]))
    edges = tuple(
        GraphEdge(
            from_id=ids[edge.from_node],
            to_id=ids[edge.to_node],
            relation=strip_relation_prefix(stored[edge.relation]),
            stored_relation=stored[edge.relation],
        )
        for edge in ordered
    )
    return ExpandResponse(
        snapshot_id=row["snapshot_id"],
        seeds=tuple(ids[node] for node in seeds),
        nodes=nodes,
        edges=edges,
        truncated=walk.truncated,
        reason=_TRUNCATED_BY if walk.truncated else None,
        collection=row["name"],
    )


class _Names:
    """Ids of the nodes of a snapshot and of their chunks.

    Their common prefix is checked and escaped once; for each of some hundred nodes that would take a quarter of
    an expansion.
    """

    def __init__(self, row: Any) -> None:
        self._ids: dict[CodeKind, str] = {}
        self._chunks: dict[CodeKind, str] = {}
        kinds: tuple[CodeKind, ...] = ("cs", "sql")
        for kind in kinds:
            prefix = f"{row['repo']}::{row['snapshot_id']}::{kind}::"
            self._ids[kind] = prefix
            self._chunks[kind] = chunk_key(row["name"], prefix, 0).removesuffix(":0")

    def canonical(self, local: str) -> str:
        """Return the canonical id."""
        return self._ids[kind_from_local_id(local)] + local

    def chunk(self, local: str) -> str:
        """Return the id of the node's one chunk, as `chunk_key` makes it of the canonical id."""
        return f"{self._chunks[kind_from_local_id(local)]}{quote(local, safe='/')}:0"

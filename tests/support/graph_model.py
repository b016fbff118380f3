"""Expansion by its definition, over plain lists: a twin of the store's walk, and what it is checked against.

It shares no code with the store. Every call looks at every edge for every level.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from tests.support.code_edges import CodeEdge

from whence.schema.access import Access, DocumentTags
from whence.schema.errors import BadInput, NotFound
from whence.schema.graph import ExpandRequest, ExpandResponse, GraphEdge, GraphNode
from whence.schema.relations import RelationFilter, strip_relation_prefix


class _Way(msgspec.Struct, frozen=True, order=True):
    """How a node was reached; the least one counts."""

    hidden: bool
    relation: str
    origin: str


class GraphModel:
    """One snapshot in memory; stands in for a store where only expansion is asked for.

    Args:
        snapshot_id: Its id, the one name it has.
        tags: Rights of each node, by canonical id.
        edges: Edges between them.
        collection: Collection that is said to hold the texts.
    """

    def __init__(
        self,
        snapshot_id: str,
        tags: Mapping[str, DocumentTags],
        edges: Iterable[CodeEdge],
        collection: str = "texts",
    ) -> None:
        self.snapshot_id = snapshot_id
        self.tags = dict(tags)
        self.edges = list(edges)
        self.collection = collection

    async def expand(self, request: ExpandRequest, *, travel: bool = False) -> ExpandResponse:
        """Walk the graph as `CodeStore.expand` says.

        Raises:
            BadInput: A limit is out of range, there are too many seeds, one is of another snapshot, or a
                relation is unknown.
            NotFound: There is no such snapshot, or a seed is hidden or missing.
        """
        seeds = self._seeds(request)
        visible = self.visible(request.access)
        seen = {e.relation for e in self.edges if {e.from_id, e.to_id} <= visible}
        if RelationFilter(request.relations).unknown(seen):
            raise BadInput("no such relation")
        depths, parents, truncated = self._reach(request, seeds, travel)
        edges = [edge for edge in self._allowed(request) if self._walked(edge, depths, request)]
        return ExpandResponse(
            snapshot_id=self.snapshot_id,
            seeds=tuple(seeds),
            nodes=tuple(
                GraphNode(
                    id=node,
                    local_id=node.split("::", 3)[3],
                    depth=depth,
                    parent_id=parents.get(node),
                    chunk_id=f"urn:chunk:{self.collection}:{node}:0",
                )
                for node, depth in depths.items()
            ),
            edges=tuple(
                GraphEdge(
                    from_id=edge.from_id,
                    to_id=edge.to_id,
                    relation=strip_relation_prefix(edge.relation),
                    stored_relation=edge.relation,
                )
                for edge in sorted(edges, key=lambda e: (e.from_id, e.to_id, e.relation))
            ),
            truncated=truncated,
            reason="max_nodes" if truncated else None,
            collection=self.collection,
        )

    def visible(self, access: Access) -> set[str]:
        """Return the nodes that a reader may see."""
        return {node for node, tags in self.tags.items() if access.allows(tags)}

    def _seeds(self, request: ExpandRequest) -> list[str]:
        by_local = {node.split("::", 3)[3]: node for node in self.tags}
        visible = self.visible(request.access)
        seeds = list(dict.fromkeys(by_local.get(seed, seed) for seed in request.seeds))
        if min(request.max_depth, request.max_nodes) < 1 or not seeds:
            raise BadInput("limits and seeds")
        if len(seeds) > request.max_nodes:
            raise BadInput("more seeds than nodes")
        if request.snapshot != self.snapshot_id:
            raise NotFound("no such snapshot")
        for seed in seeds:
            if seed not in visible:
                raise NotFound(f"there is no node {seed!r}")
        return seeds

    def _allowed(self, request: ExpandRequest) -> list[CodeEdge]:
        relations = RelationFilter(request.relations)
        return [edge for edge in self.edges if relations.allows(edge.relation)]

    def _last(self, request: ExpandRequest) -> int:
        return 1 if request.seed_only else request.max_depth

    def _reach(
        self, request: ExpandRequest, seeds: Sequence[str], travel: bool
    ) -> tuple[dict[str, int], dict[str, str], bool]:
        """Return the depths in the order of the answer, the parents, and whether anything was cut."""
        visible = self.visible(request.access)
        depths = dict.fromkeys(sorted(seeds), 0)
        parents: dict[str, str] = {}
        known = set(depths)
        level = set(depths)
        truncated = False
        for depth in range(1, self._last(request) + 1):
            ways: dict[str, _Way] = {}
            for origin, target, relation in self._steps(request):
                if origin in level and target not in known and (travel or target in visible):
                    seen = origin in visible
                    way = _Way(not seen, relation if seen else "", origin if seen else "")
                    ways[target] = min(way, ways.get(target, way))
            new = sorted((way.hidden, way.relation, node) for node, way in ways.items())
            shown = [node for _, _, node in new if node in visible]
            taken = shown[: request.max_nodes - len(depths)]
            truncated = truncated or len(taken) < len(shown)
            for node in taken:
                depths[node] = depth
                if not ways[node].hidden:
                    parents[node] = ways[node].origin
            level = set(taken) | (ways.keys() - visible)
            known |= level
        return depths, parents, truncated

    def _steps(self, request: ExpandRequest) -> Iterable[tuple[str, str, str]]:
        for edge in self._allowed(request):
            if request.direction != "in":
                yield edge.from_id, edge.to_id, edge.relation
            if request.direction != "out":
                yield edge.to_id, edge.from_id, edge.relation

    def _walked(self, edge: CodeEdge, depths: Mapping[str, int], request: ExpandRequest) -> bool:
        """Return whether both ends are in the answer and the one walked from was expanded."""
        if edge.from_id not in depths or edge.to_id not in depths:
            return False
        origins = {"out": [edge.from_id], "in": [edge.to_id]}.get(
            request.direction, [edge.from_id, edge.to_id]
        )
        return min(depths[origin] for origin in origins) < self._last(request)

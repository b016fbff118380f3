"""Messages of the graph expander: nodes of a snapshot in, their neighbourhood out."""

from __future__ import annotations

from typing import ClassVar, Literal

from whence.schema.access import Access
from whence.schema.message import Message

Direction = Literal["out", "in", "both"]
"""Direction of a walk: to the dependencies of a node, to its dependents, or both."""


class GraphNode(Message, frozen=True, kw_only=True):
    """One node of an expansion."""

    id: str
    """Canonical id."""
    local_id: str
    """Id within the bundle."""
    depth: int
    """Steps from the nearest seed, 0 for a seed."""
    parent_id: str | None = None
    """Node one step nearer to the seeds; None for a seed, and for a node reached through hidden nodes only."""
    chunk_id: str = ""
    """Chunk that holds the node's text."""


class GraphEdge(Message, frozen=True, kw_only=True):
    """One edge of an expansion, in its stored direction."""

    from_id: str
    """Canonical id of the dependent node."""
    to_id: str
    """Canonical id of its dependency."""
    relation: str
    """Name without prefix, as in the graph it was listed in, e.g. `ReadsFrom`; `dep` for C#."""
    stored_relation: str = ""
    """Name as stored, e.g. `sql_ReadsFrom`."""


class ExpandRequest(Message, frozen=True, kw_only=True):
    """Ask for the visible neighbourhood of nodes of one snapshot."""

    TYPE: ClassVar[str] = "expand-request.v1"

    access: Access
    """Rights of the reader, checked at every step of the walk."""
    snapshot: str
    """Snapshot id, head sha or ref; of several the newest published one."""
    seeds: tuple[str, ...]
    """Canonical or local ids; the request fails when one is hidden or missing."""
    max_depth: int = 2
    """Most steps from a seed, 1 or more."""
    max_nodes: int = 120
    """Most nodes of the answer, seeds included, 1 or more; hidden nodes do not count."""
    relations: tuple[str, ...] = ()
    """Relations to follow, with or without prefix, in any case; empty, or `*`, for all."""
    direction: Direction = "out"
    """Direction of the walk."""
    seed_only: bool = False
    """True expands the seeds only."""

    @property
    def follows_some(self) -> bool:
        """Whether only some relations are followed."""
        return bool(self.relations) and "*" not in self.relations


class ExpandResponse(Message, frozen=True, kw_only=True):
    """The nodes and edges around the seeds."""

    TYPE: ClassVar[str] = "expand-response.v1"

    snapshot_id: str
    """Id of the snapshot."""
    seeds: tuple[str, ...]
    """Canonical ids of the seeds in the order of the request, each once."""
    nodes: tuple[GraphNode, ...]
    """By depth, then by the relation over which a node was reached, then by id."""
    edges: tuple[GraphEdge, ...]
    """Edges of the walk between the nodes, each once; ordered by from, to and relation."""
    truncated: bool = False
    """True when `max_nodes` cut off a visible node."""
    reason: str | None = None
    """`max_nodes` when truncated."""
    collection: str = ""
    """Collection that holds the texts of the snapshot."""

"""Messages of the graph expander: nodes of a snapshot in, the nodes and edges around them out."""

from __future__ import annotations

from typing import ClassVar, Literal

from whence.schema.access import Access
from whence.schema.message import Message

__all__ = ("Direction", "ExpandRequest", "ExpandResponse", "GraphEdge", "GraphNode")

Direction = Literal["out", "in", "both"]
"""Which way edges are walked: to what a node depends on, to what depends on it, or both."""


class GraphNode(Message, frozen=True, kw_only=True):
    """One node of an expansion."""

    id: str
    """Canonical id."""
    local_id: str
    """Id within the bundle."""
    depth: int
    """Steps from the nearest seed, 0 for a seed."""
    parent_id: str | None = None
    """Node one step nearer from which the walk came; None for a seed, and for a node that was reached
    through hidden nodes alone."""
    chunk_id: str = ""
    """Id under which the node's text is read."""


class GraphEdge(Message, frozen=True, kw_only=True):
    """One edge of an expansion, in its stored direction."""

    from_id: str
    """Canonical id of the node that depends."""
    to_id: str
    """Canonical id of the node it depends on."""
    relation: str
    """Name without prefix, as in the graph it was listed in, e.g. `ReadsFrom`; `dep` for C#."""
    stored_relation: str = ""
    """Name as stored, e.g. `sql_ReadsFrom`."""


class ExpandRequest(Message, frozen=True, kw_only=True):
    """Ask for what is around some nodes of one snapshot, as far as the reader may see it."""

    TYPE: ClassVar[str] = "expand-request.v1"

    access: Access
    """Rights of the reader; decided at every step of the walk."""
    snapshot: str
    """Snapshot id, head sha or ref; of several the newest published one."""
    seeds: tuple[str, ...]
    """Canonical or local ids to start from; one that is hidden or missing refuses the whole request."""
    max_depth: int = 2
    """Most steps from a seed, 1 or more."""
    max_nodes: int = 120
    """Most nodes of the answer, seeds included, 1 or more; hidden nodes do not count."""
    relations: tuple[str, ...] = ()
    """Relations to follow, with or without prefix, in any case; empty, or `*`, for all."""
    direction: Direction = "out"
    """Which way."""
    seed_only: bool = False
    """True walks from the seeds alone: no node that is not a seed is expanded."""


class ExpandResponse(Message, frozen=True, kw_only=True):
    """The nodes and edges around the seeds."""

    TYPE: ClassVar[str] = "expand-response.v1"

    snapshot_id: str
    """Snapshot that was walked."""
    seeds: tuple[str, ...]
    """Canonical ids of the seeds, in the order asked, each once."""
    nodes: tuple[GraphNode, ...]
    """By depth, then by the relation over which a node was reached, then by id."""
    edges: tuple[GraphEdge, ...]
    """Every edge walked with both ends among the nodes, each once; in order of from, to and relation."""
    truncated: bool = False
    """True when `max_nodes` cut off a node that the reader may see."""
    reason: str | None = None
    """`max_nodes` when truncated."""
    collection: str = ""
    """Collection that holds the texts of the snapshot."""

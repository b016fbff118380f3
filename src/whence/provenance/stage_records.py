"""What a stage can record beyond the shared vocabulary: input of `stages`, output of `trace`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from whence.provenance import namespaces as ns
from whence.schema.search import Degradation

Scalar = str | int | float | bool
"""Type of a setting."""
ModelRole = Literal["embedding", "reranker", "writer"]


#: Predicate of each score that retrieval gives a candidate.
SCORE_PREDICATES: Mapping[str, str] = {
    "score": ns.WH_SCORE,
    "dense_score": ns.WH_DENSE_SCORE,
    "sparse_score": ns.WH_SPARSE_SCORE,
    "graph_score": ns.WH_GRAPH_SCORE,
    "name_score": ns.WH_NAME_SCORE,
}

#: Predicate of each number that a selection of passages gives a candidate.
OUTCOME_PREDICATES: Mapping[str, str] = {
    "raw_score": ns.WH_RERANK_SCORE,
    "final_score": ns.WH_FINAL_SCORE,
    "diversity_score": ns.WH_DIVERSITY_SCORE,
    "overlap": ns.WH_OVERLAP,
}


class ModelUse(msgspec.Struct, frozen=True, kw_only=True):
    """A model that a stage used."""

    role: ModelRole
    name: str
    revision: str = ""
    """Digest or version of the weights, when known."""
    precision: str = ""
    """Number format of the weights, when known."""
    dimension: int = 0
    """Length of the vectors; 0 when it makes none."""


class StepQuery(msgspec.Struct, frozen=True):
    """What a language model searched for after it had read what was found."""

    query: str
    reason: str = ""
    """Why, in its words."""


class WalkNode(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate that a graph walk started from or reached."""

    chunk_id: str
    rank: int
    depth: int
    """Steps from the nearest seed, 0 for a seed."""
    parent_id: str = ""
    """Chunk from which it was reached; empty for a seed."""


class WalkEdge(msgspec.Struct, frozen=True, kw_only=True):
    """An edge that the walk followed, in its stored direction."""

    from_id: str
    to_id: str
    relation: str


class GraphWalk(msgspec.Struct, frozen=True, kw_only=True):
    """A walk; empty when the exploration had none."""

    nodes: tuple[WalkNode, ...] = ()
    """By depth, then rank."""
    edges: tuple[WalkEdge, ...] = ()
    """In the order in which they were recorded."""

    @property
    def seeds(self) -> tuple[str, ...]:
        """Chunks that the walk started from, by rank."""
        return tuple(node.chunk_id for node in self.nodes if node.depth == 0)


class StageRun(msgspec.Struct, frozen=True, kw_only=True):
    """How a stage ran."""

    started_at: str = ""
    """ISO 8601 with time zone."""
    ended_at: str = ""
    """ISO 8601 with time zone."""
    duration_ms: float | None = None
    """Duration by a monotonic clock, in milliseconds."""
    models: tuple[ModelUse, ...] = ()
    """Models used, at most one of a role."""
    settings: dict[str, Scalar] = {}
    """Limits, mode, collection and the like; keys of lower-case letters, digits and `_`."""
    degraded: tuple[Degradation, ...] = ()
    """What the stage had to leave out, and why."""

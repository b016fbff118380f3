"""What a stage can tell of itself beyond the shared vocabulary: the input of the builders, all optional."""

from __future__ import annotations

from typing import Literal

import msgspec

from whence.provenance.terms import Scalar
from whence.schema.search import Degradation

__all__ = (
    "CandidateRecord",
    "ModelRole",
    "ModelUse",
    "Selection",
    "StageRun",
)

ModelRole = Literal["embedding", "reranker", "writer"]


class CandidateRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One candidate with all that the stages found out about it.

    The same candidate is told of at several stages: use `msgspec.structs.replace` to add what a later
    stage learned, and keep the rank.
    """

    chunk_id: str
    """Chunk it stands for; not empty."""
    rank: int
    """Place among the answer's candidates, 1 is first; no two share one. 0 when it was not recorded."""
    document_id: str = ""
    """Document the chunk is part of."""
    score: float | None = None
    """Score by which the candidates are ranked, higher is better."""
    dense_score: float | None = None
    """Cosine with the query, -1 to 1; None when the dense leg did not score it."""
    sparse_score: float | None = None
    """Lexical score, 0 to 1; None when the lexical leg did not score it."""
    graph_score: float | None = None
    """What links to other passages added to `score`, 0 to 1; None when the passage graph took no part."""
    name_score: float | None = None
    """What was added to `score` because it goes by the very name that was asked for; None when it does not."""
    concepts: tuple[str, ...] = ()
    """Concepts whose search returned it; the question itself may be one."""
    digest: str = ""
    """SHA-256 of its text, hexadecimal; empty when the text was not read."""
    rerank_rank: int = 0
    """Place after reranking, 1 is first; 0 when it was not reranked."""
    rerank_score: float | None = None
    """Score of the reranker, higher is better."""
    reason_code: str = ""
    """Code of `reasons.DROP_REASONS` when it was dropped; empty while it is in."""


class Selection(msgspec.Struct, frozen=True, gc=False):
    """A chunk that the reranker kept."""

    chunk_id: str
    score: float
    """As the reranker gave it."""


class ModelUse(msgspec.Struct, frozen=True, kw_only=True):
    """A model that took part in a stage."""

    role: ModelRole
    """What it did."""
    name: str
    """Its name; not empty."""
    revision: str = ""
    """Digest or version of its weights, when known."""
    precision: str = ""
    """Arithmetic, when known."""
    dimension: int = 0
    """Length of its vectors; 0 when it makes none."""


class StageRun(msgspec.Struct, frozen=True, kw_only=True):
    """How a stage ran."""

    started_at: str = ""
    """ISO 8601 with time zone."""
    ended_at: str = ""
    """ISO 8601 with time zone."""
    duration_ms: float | None = None
    """Milliseconds by a clock that never goes back."""
    models: tuple[ModelUse, ...] = ()
    """Models that took part, at most one of a role."""
    settings: dict[str, Scalar] = {}
    """Limits, mode, collection and the like; keys of lower-case letters, digits and `_`."""
    degraded: tuple[Degradation, ...] = ()
    """What the stage did without, and why."""

"""Texts of code nodes within a budget: names of nodes to stored chunks, and back to a `FetchReport`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from whence.schema.code_ids import kind_from_local_id, local_id_from_name, node_not_found
from whence.schema.errors import BadInput
from whence.schema.texts import (
    PlannedText,
    Prioritize,
    TextBudget,
    TextDecision,
    TextPlan,
    TextResponse,
)
from whence.store.chunk_ids import chunk_key

if TYPE_CHECKING:
    from whence.code.snapshots.protocols import SnapshotRecord


class NearbyNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node near the seeds."""

    id: str
    depth: int = 1
    parent_id: str | None = None


class FetchedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node with its whole text."""

    id: str
    local_id: str
    text: str
    is_seed: bool
    depth: int
    chars: int
    tokens: int | None
    """Tokens by the configured embedding model; None when the model is not installed."""


class FetchReport(msgspec.Struct, frozen=True, kw_only=True):
    """The texts that fit into a budget, and a decision for every node of the request."""

    repo: str
    snapshot_id: str
    node_texts: list[FetchedNode]
    """In the order in which they were taken."""
    decisions: list[TextDecision]
    """One a node, by canonical id, in the order in which they were considered."""
    used: dict[str, int | None]
    """Sums of `chars` and `tokens` of the returned texts."""
    budget: TextBudget


class NodeChunks:
    """Translates between names of nodes and ids of stored chunks for one request."""

    def __init__(
        self, record: SnapshotRecord, seeds: Sequence[str], around: Sequence[NearbyNode]
    ) -> None:
        self._record = record
        self._node_of: dict[str, str] = {}
        #: The caller's name of each seed, by chunk.
        self._seeds = {self._chunk(one): one for one in dict.fromkeys(seeds)}
        self._graph = [
            PlannedText(
                id=self._chunk(one.id),
                depth=one.depth,
                parent_id=None if one.parent_id is None else self._chunk(one.parent_id),
            )
            for one in around
        ]

    def _chunk(self, node: str) -> str:
        """Return the chunk id of a node; an unknown name yields an id that no chunk has."""
        info = self._record.info
        local = local_id_from_name(node, info.repo, info.snapshot_id)
        name = node
        if local is not None:
            name = f"{info.repo}::{info.snapshot_id}::{kind_from_local_id(local)}::{local}"
        try:
            key = chunk_key(self._record.collection, name, 0)
        except UnicodeEncodeError as error:
            raise BadInput(f"{node!r} is not valid text") from error
        self._node_of[key] = name
        return key

    def plan(self, prioritize: Prioritize, budget: TextBudget) -> TextPlan:
        """Return the plan for the text fetcher."""
        return TextPlan(
            seeds=tuple(self._seeds),
            graph=tuple(self._graph),
            prioritize=prioritize,
            budget=budget,
        )

    def report(self, reply: TextResponse, budget: TextBudget) -> FetchReport:
        """Translate the fetcher's reply."""
        missing = frozenset(reply.missing)
        for chunk, name in self._seeds.items():
            if chunk in missing:
                raise node_not_found(name)
        info = self._record.info
        farthest_first = sorted(self._graph, key=lambda one: -one.depth)
        depths = {one.id: one.depth for one in farthest_first} | dict.fromkeys(self._seeds, 0)
        nodes = [
            FetchedNode(
                id=text.document_id,
                local_id=local_id_from_name(text.document_id, info.repo, info.snapshot_id) or "",
                text=text.content,
                is_seed=text.chunk_id in self._seeds,
                depth=depths[text.chunk_id],
                chars=len(text.content),
                tokens=text.tokens,
            )
            for text in reply.texts
        ]
        counts = [one.tokens for one in nodes]
        return FetchReport(
            repo=info.repo,
            snapshot_id=info.snapshot_id,
            node_texts=nodes,
            decisions=[
                msgspec.structs.replace(one, id=self._node_of[one.id]) for one in reply.decisions
            ],
            used={
                "chars": sum(one.chars for one in nodes),
                "tokens": None if None in counts else sum(one or 0 for one in counts),
            },
            budget=budget,
        )

"""The part of the engine that walks snapshots of code and reads the texts of their nodes within a budget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast, get_args

import msgspec

from whence.answering.validation import check_patience
from whence.engine.answer_stream import ChunkCallback, ExplainCallback, collect_answer
from whence.engine.audit import audited
from whence.engine.code import CodeEngine
from whence.engine.snapshot_reading import SnapshotChoice, read_snapshot
from whence.retrieval.pipeline import check_text, search_mode
from whence.schema.access import Access
from whence.schema.code_ids import CodeId, kind_of_local
from whence.schema.code_rag import CodeRagRequest
from whence.schema.document_rag import Answer
from whence.schema.errors import BadInput
from whence.schema.graph import Direction, ExpandRequest, ExpandResponse
from whence.schema.node_names import local_id_of, missing_node
from whence.schema.texts import (
    PlannedText,
    Prioritize,
    TextBudget,
    TextDecision,
    TextPlan,
    TextRequest,
    TextResponse,
)

if TYPE_CHECKING:
    from whence.store.snapshot_protocols import SnapshotRecord, SnapshotSource

__all__ = ("FetchReport", "FetchedNode", "GraphEngine", "GraphPlace")

_PUBLIC = Access.public()


class GraphPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A node around the seeds, and where it stands."""

    id: str
    """Canonical or local id."""
    depth: int = 1
    """Steps from the nearest seed."""
    parent_id: str | None = None
    """Node from which it was reached, when known."""


class FetchedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node whose text was given out, whole."""

    id: str
    """Canonical id."""
    local_id: str
    text: str
    is_seed: bool
    depth: int
    """0 for a seed."""
    chars: int
    """Length of the text."""
    tokens: int | None
    """Tokens by the configured embedding model; None when it is not there to count them."""


class FetchReport(msgspec.Struct, frozen=True, kw_only=True):
    """The texts that fit into a budget, and what became of every node asked for."""

    snapshot_id: str
    node_texts: list[FetchedNode]
    """In the order in which they were taken."""
    decisions: list[TextDecision]
    """One a node, by canonical id, in the order in which they were offered a place."""
    used: dict[str, int | None]
    """`chars` and `tokens` of the texts given out, added up."""
    budget: TextBudget


class GraphEngine(CodeEngine):
    """Expands dependencies, fetches texts and answers questions about code. Part of `Engine`."""

    #: Answers given here whose traces may still be on their way to the store.
    _fresh: set[str]

    @audited("expand", lambda reply: len(reply.nodes))
    async def expand(
        self,
        nodes: Iterable[str],
        *,
        snapshot: str = "",
        set_name: str = "",
        snapshot_source: str = "",
        max_depth: int = 2,
        max_nodes: int = 120,
        relations: Iterable[str] = (),
        direction: str = "out",
        seed_only: bool = False,
        access: Access = _PUBLIC,
    ) -> ExpandResponse:
        """Give what is around some nodes of a snapshot, breadth first, as far as a reader may see it.

        Args:
            nodes: Canonical or local ids to start from.
            snapshot: Id, head sha, branch or tag.
            set_name: Set of snapshots; with `snapshot`, the set it must be in.
            snapshot_source: `primary` or `secondary` member of the set; primary when empty.
            max_depth: Most steps from a seed, 1 or more.
            max_nodes: Most nodes, seeds included, 1 or more.
            relations: Relations to follow, with or without prefix, in any case; none, or `*`, for all.
            direction: `out`, `in` or `both`.
            seed_only: True expands nothing but the seeds.
            access: Rights of the reader.

        Raises:
            BadInput: A limit, the direction, a relation or the choice of a snapshot is wrong, there are more
                seeds than `max_nodes`, or one is of another snapshot.
            NotFound: There is no such snapshot, or a seed does not exist or is hidden.
        """
        choice = _choice(snapshot, set_name, snapshot_source)
        _one_of("direction", direction, get_args(Direction))
        client, _ = self._opened()
        seeds, wanted = tuple(nodes), tuple(relations)

        async def read(record: SnapshotRecord) -> ExpandResponse:
            request = ExpandRequest(
                access=access,
                snapshot=record.info.snapshot_id,
                seeds=seeds,
                max_depth=max_depth,
                max_nodes=max_nodes,
                relations=wanted,
                direction=cast("Direction", direction),
                seed_only=seed_only,
            )
            return await client.call("graph-expander", request, ExpandResponse)

        return await read_snapshot(await self._code_store(), choice, read)

    @audited("fetch", lambda report: len(report.node_texts))
    async def fetch(
        self,
        seeds: Sequence[str],
        graph: Iterable[str | GraphPlace] = (),
        *,
        budget: TextBudget,
        snapshot: str = "",
        set_name: str = "",
        snapshot_source: str = "",
        prioritize: str = "balanced",
        access: Access = _PUBLIC,
    ) -> FetchReport:
        """Give the texts of nodes, whole ones only, as many as a budget has room for.

        Args:
            seeds: Canonical or local ids, in order of rank.
            graph: Nodes around them; ids alone stand at depth 1. One that does not exist or is hidden is
                skipped.
            budget: What may be given out.
            snapshot: Id, head sha, branch or tag.
            set_name: Set of snapshots; with `snapshot`, the set it must be in.
            snapshot_source: `primary` or `secondary` member of the set; primary when empty.
            prioritize: `seed_first`, `graph_first`, `balanced` or `clustered`.
            access: Rights of the reader.

        Raises:
            BadInput: The budget is below 1, the order is unknown, no node is named, or one is of another
                snapshot.
            NotFound: There is no such snapshot, or a seed does not exist or is hidden.
        """
        choice = _choice(snapshot, set_name, snapshot_source)
        _one_of("prioritisation", prioritize, get_args(Prioritize))
        places = [GraphPlace(id=one) if isinstance(one, str) else one for one in graph]
        if not seeds and not places:
            raise BadInput("no node is named", hint="give the id of a seed or of a graph node")
        if budget.limit < 1:
            raise BadInput(f"a budget must be at least 1, not {budget.limit}")
        client, _ = self._opened()

        async def read(record: SnapshotRecord) -> FetchReport:
            fetch = _Fetch(record, seeds, places)
            request = TextRequest(
                access=access,
                collection=record.collection,
                plan=fetch.plan(cast("Prioritize", prioritize), budget),
            )
            return fetch.report(await client.call("text-fetcher", request, TextResponse), budget)

        return await read_snapshot(await self._code_store(), choice, read)

    @audited("ask", lambda answer: len(answer.citations), lambda answer: answer.answer_id)
    async def ask_code(
        self,
        question: str,
        *,
        snapshot: str = "",
        set_name: str = "",
        snapshot_source: str = "",
        access: Access = _PUBLIC,
        doc_limit: int = 20,
        seed_limit: int = 0,
        max_depth: int = 0,
        relations: Iterable[str] = (),
        direction: str | None = None,
        prioritize: str | None = None,
        budget: TextBudget | None = None,
        mode: str | None = None,
        timeout_s: float = 120.0,
        chunk_callback: ChunkCallback | None = None,
        explain_callback: ExplainCallback | None = None,
    ) -> Answer:
        """Answer a question from a snapshot of code, as far as a reader may see it.

        What the search finds is expanded over dependencies; the writer reads the texts that fit a budget.

        Args:
            question: The question.
            snapshot: Id, head sha, branch or tag.
            set_name: Set of snapshots; with `snapshot`, the set it must be in.
            snapshot_source: `primary` or `secondary` member of the set; primary when empty.
            access: Rights of the reader.
            doc_limit: Most nodes, seeds included, 1 or more.
            seed_limit: Nodes found by the search to start from; 0 for the flow's own.
            max_depth: Most steps from a seed; 0 for the flow's own.
            relations: Relations to follow; none for all.
            direction: `out`, `in` or `both`; None for the flow's own.
            prioritize: `seed_first`, `graph_first`, `balanced` or `clustered`; None for the flow's own.
            budget: What the texts may add up to; None for the flow's own.
            mode: `hybrid`, `dense` or `bm25`; None for the flow's own.
            timeout_s: Seconds for the whole question.
            chunk_callback: Gets the text as it is written.
            explain_callback: Gets the triples of each stage as soon as it is done.

        Raises:
            BadInput: The question is blank or no text, or a limit or a choice is wrong.
            NotFound: There is no such snapshot.
            DeadlineExceeded: The time ran out.
            Unavailable: A service that is needed does not answer.
        """
        check_text("the question", question)
        check_patience(timeout_s)
        choice = _choice(snapshot, set_name, snapshot_source)
        if direction is not None:
            _one_of("direction", direction, get_args(Direction))
        if prioritize is not None:
            _one_of("prioritisation", prioritize, get_args(Prioritize))
        client, _ = self._opened()
        request = CodeRagRequest(
            access=access,
            question=question,
            snapshot=choice.snapshot,
            set_name=choice.set_name,
            snapshot_source=cast("SnapshotSource", choice.source or "primary"),
            doc_limit=doc_limit,
            seed_limit=seed_limit,
            max_depth=max_depth,
            relations=tuple(relations),
            direction=cast("Direction | None", direction),
            prioritize=cast("Prioritize | None", prioritize),
            budget=budget,
            mode=None if mode is None else search_mode(mode),
            streaming=chunk_callback is not None,
        )
        replies = client.ask(request, timeout_s=timeout_s)
        answer = await collect_answer(replies, chunk_callback, explain_callback)
        self._fresh.add(answer.answer_id)
        return answer


class _Fetch:
    """One reading of texts: from the names of nodes to chunks, and back.

    Args:
        record: Snapshot that is read.
        seeds: Nodes as the caller named them.
        places: Likewise, around them.
    """

    def __init__(
        self, record: SnapshotRecord, seeds: Sequence[str], places: Sequence[GraphPlace]
    ) -> None:
        self._record = record
        self._node_of: dict[str, str] = {}
        #: What the caller called each seed, by chunk.
        self._seeds = {self._chunk(one): one for one in dict.fromkeys(seeds)}
        self._graph = [
            PlannedText(
                id=self._chunk(one.id),
                depth=one.depth,
                parent_id=None if one.parent_id is None else self._chunk(one.parent_id),
            )
            for one in places
        ]

    def _chunk(self, node: str) -> str:
        """Give the chunk of a node; for what no node is called, one that is nowhere."""
        from whence.store.chunk_ids import chunk_key

        info = self._record.info
        local = local_id_of(node, info.repo, info.snapshot_id)
        name = node
        if local is not None:
            name = f"{info.repo}::{info.snapshot_id}::{kind_of_local(local)}::{local}"
        try:
            key = chunk_key(self._record.collection, name, 0)
        except UnicodeEncodeError as error:
            raise BadInput(f"{node!r} is no valid text") from error
        self._node_of[key] = name
        return key

    def plan(self, prioritize: Prioritize, budget: TextBudget) -> TextPlan:
        """Give what to ask for."""
        return TextPlan(
            seeds=tuple(self._seeds),
            graph=tuple(self._graph),
            prioritize=prioritize,
            budget=budget,
        )

    def report(self, reply: TextResponse, budget: TextBudget) -> FetchReport:
        """Give the reply in the names of nodes.

        Raises:
            NotFound: A seed is missing.
        """
        missing = frozenset(reply.missing)
        for chunk, name in self._seeds.items():
            if chunk in missing:
                raise missing_node(name)
        farthest_first = sorted(self._graph, key=lambda one: -one.depth)
        depths = {one.id: one.depth for one in farthest_first} | dict.fromkeys(self._seeds, 0)
        nodes = [
            FetchedNode(
                id=text.document_id,
                local_id=CodeId.parse(text.document_id).local,
                text=text.content,
                is_seed=text.chunk_id in self._seeds,
                depth=depths[text.chunk_id],
                chars=len(text.content),
                tokens=text.tokens,
            )
            for text in reply.texts
        ]
        return FetchReport(
            snapshot_id=self._record.info.snapshot_id,
            node_texts=nodes,
            decisions=[
                msgspec.structs.replace(one, id=self._node_of[one.id]) for one in reply.decisions
            ],
            used={"chars": sum(one.chars for one in nodes), "tokens": _sum(nodes)},
            budget=budget,
        )


def _sum(nodes: Iterable[FetchedNode]) -> int | None:
    counts = [one.tokens for one in nodes]
    return None if None in counts else sum(cast("list[int]", counts))


def _choice(snapshot: str, set_name: str, source: str) -> SnapshotChoice:
    return SnapshotChoice(snapshot=snapshot, set_name=set_name, source=source)


def _one_of(what: str, value: str, known: tuple[Any, ...]) -> None:
    """Refuse a word that is none of those known.

    Raises:
        BadInput: It is none.
    """
    if value not in known:
        raise BadInput(f"unknown {what} {value!r}", hint=f"use one of {', '.join(known)}")

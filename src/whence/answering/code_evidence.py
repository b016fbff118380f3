"""Exploration of code: nodes that the search finds, what hangs on them, and texts within a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from whence.answering.candidate_pool import pool_candidates
from whence.answering.citations import Passage
from whence.answering.evidence import find
from whence.answering.query_processing import Grounding
from whence.answering.state import Question
from whence.processors.base import Context
from whence.provenance.graph_walks import GraphWalk, WalkEdge, WalkNode, graph_walk_triples
from whence.provenance.stage_records import CandidateRecord, Selection
from whence.provenance.stages import exploration_triples, focus_triples
from whence.schema.access import Access
from whence.schema.errors import BadInput, ModelMissing, Unavailable, WhenceError
from whence.schema.graph import Direction, ExpandRequest, ExpandResponse, GraphNode
from whence.schema.texts import (
    PlannedText,
    Prioritize,
    TextBudget,
    TextPlan,
    TextRequest,
    TextResponse,
)

__all__ = ("CodeScope", "explore_code")

#: Characters that count as a token where nothing can count tokens: English prose has about four a token.
_CHARS_PER_TOKEN = 4


class CodeScope(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how far a question about code looks."""

    snapshot_id: str
    """Snapshot that is asked."""
    collection: str
    """Collection that holds it."""
    access: Access
    """Rights of the reader."""
    seed_limit: int
    """Nodes found by the search to start from."""
    max_depth: int
    """Most steps from a seed."""
    max_nodes: int
    """Most nodes, seeds included."""
    relations: tuple[str, ...]
    """Relations to follow; empty for all."""
    direction: Direction
    """Which way."""
    prioritize: Prioritize
    """Which texts go first."""
    budget: TextBudget
    """What the texts may add up to."""


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    """What one question found."""

    walk: GraphWalk
    texts: TextResponse
    budget: TextBudget
    """The one that was kept to."""


async def explore_code(
    question: Question, grounding: Grounding, scope: CodeScope, context: Context
) -> list[Passage]:
    """Search, expand, read within the budget; tell of exploration and focus.

    The seeds are the best of the search; candidates after them are told of as dropped unless the walk reaches
    them. An expansion that fails degrades: the seeds alone are read.

    Raises:
        WhenceError: No search succeeded, the texts could not be read, or the snapshot was replaced.
    """
    trail = question.trail
    trail.begin("exploration")
    legs = await find(question, grounding)
    accounts = pool_candidates(
        legs,
        limit=min(scope.seed_limit, scope.max_nodes),
        threshold=question.options.threshold,
        cut_code="over_limit",
    )
    seeds = [one for one in accounts if not one.reason_code]
    graph = await _expand(question, scope, context, seeds) if seeds else None
    question.accounts, walk = _joined(accounts, seeds, graph)
    texts, budget = await _read(question, scope, context, walk)
    found = _Found(walk=walk, texts=texts, budget=budget)
    _settle(question, texts)
    await _tell_exploration(question, found)
    if not texts.decisions:
        return []
    return await _focus(question, scope, found)


async def _expand(
    question: Question,
    scope: CodeScope,
    context: Context,
    seeds: Sequence[CandidateRecord],
) -> ExpandResponse | None:
    """Walk from the seeds; None when that fails and the seeds alone must do.

    Raises:
        BadInput: A relation asked for does not exist.
        Unavailable: The snapshot was replaced since it was looked up.
    """
    request = ExpandRequest(
        access=scope.access,
        snapshot=scope.snapshot_id,
        # The document of a node is the node: its id is the canonical one.
        seeds=tuple(seed.document_id for seed in seeds),
        max_depth=scope.max_depth,
        max_nodes=scope.max_nodes,
        relations=scope.relations,
        direction=scope.direction,
    )
    try:
        reply = await question.deadline.limit(
            "expanding the graph",
            lambda: context.call("graph", request, ExpandResponse),
            question.options.search_timeout_s,
            share=0.5,
        )
    except BadInput:
        # What the caller asked for is wrong, a relation that does not exist: no other answer will do.
        raise
    except WhenceError as error:
        reason = f"the nodes found are read without those around them: {error.message}"
        question.trail.degrade("exploration", "expansion_failed", reason)
        return None
    if reply.collection != scope.collection:
        raise Unavailable(
            f"snapshot {scope.snapshot_id} was replaced while it was read",
            hint="ask again when the import is done",
        )
    if reply.truncated:
        question.trail.degrade(
            "exploration",
            "graph_truncated",
            f"the walk was cut at {len(reply.nodes)} nodes; there are more around them",
        )
    return reply


def _joined(
    accounts: Sequence[CandidateRecord],
    seeds: Sequence[CandidateRecord],
    graph: ExpandResponse | None,
) -> tuple[list[CandidateRecord], GraphWalk]:
    """Give all candidates, those of the walk after those of the search, and the walk between them."""
    reached = [node for node in graph.nodes if node.depth > 0] if graph else []
    by_chunk = {one.chunk_id: one for one in accounts}
    candidates = dict(by_chunk)
    for node in reached:
        known = by_chunk.get(node.chunk_id)
        if known is not None:
            candidates[node.chunk_id] = msgspec.structs.replace(known, reason_code="")
            continue
        candidates[node.chunk_id] = CandidateRecord(
            chunk_id=node.chunk_id, rank=len(candidates) + 1, document_id=node.id
        )
    chunk_of = {one.document_id: one.chunk_id for one in candidates.values()}
    nodes = [WalkNode(chunk_id=s.chunk_id, rank=s.rank, depth=0) for s in seeds]
    nodes += [_walked(node, candidates[node.chunk_id].rank, chunk_of) for node in reached]
    edges = [
        WalkEdge(from_id=chunk_of[edge.from_id], to_id=chunk_of[edge.to_id], relation=edge.relation)
        for edge in (graph.edges if graph else ())
    ]
    return list(candidates.values()), GraphWalk(nodes=tuple(nodes), edges=tuple(edges))


def _walked(node: GraphNode, rank: int, chunk_of: Mapping[str, str]) -> WalkNode:
    return WalkNode(
        chunk_id=node.chunk_id,
        rank=rank,
        depth=node.depth,
        parent_id=chunk_of.get(node.parent_id or "", ""),
    )


async def _read(
    question: Question, scope: CodeScope, context: Context, walk: GraphWalk
) -> tuple[TextResponse, TextBudget]:
    """Read the texts that fit; gives the budget that was kept to.

    Where the model that counts tokens is missing, characters are counted instead.
    """
    if not walk.nodes:
        return TextResponse(texts=()), scope.budget
    try:
        return await _read_within(question, scope, context, walk, scope.budget), scope.budget
    except ModelMissing as error:
        if scope.budget.kind != "tokens":
            raise
        reason = f"characters are counted in the place of tokens: {error.message}"
        question.trail.degrade("text-fetch", "tokens_not_counted", reason)
    budget = TextBudget(kind="chars", limit=scope.budget.limit * _CHARS_PER_TOKEN)
    return await _read_within(question, scope, context, walk, budget), budget


async def _read_within(
    question: Question, scope: CodeScope, context: Context, walk: GraphWalk, budget: TextBudget
) -> TextResponse:
    plan = TextPlan(
        seeds=walk.seeds,
        graph=tuple(
            PlannedText(id=node.chunk_id, depth=node.depth, parent_id=node.parent_id or None)
            for node in walk.nodes
            if node.depth > 0
        ),
        prioritize=scope.prioritize,
        budget=budget,
    )
    request = TextRequest(access=scope.access, collection=scope.collection, plan=plan)
    return await question.deadline.limit(
        "reading the texts",
        lambda: context.call("texts", request, TextResponse),
        question.options.texts_timeout_s,
    )


def _settle(question: Question, texts: TextResponse) -> None:
    """Write into the accounts what became of the texts."""
    digests = {text.chunk_id: text.digest for text in texts.texts}
    missing = frozenset(texts.missing)
    question.accounts = [
        msgspec.structs.replace(
            account,
            reason_code="text_missing" if account.chunk_id in missing else account.reason_code,
            digest=digests.get(account.chunk_id, ""),
        )
        for account in question.accounts
    ]
    if missing:
        question.trail.degrade(
            "text-fetch",
            "texts_missing",
            f"{len(missing)} of {len(texts.decisions)} nodes found could not be read",
        )


async def _tell_exploration(question: Question, found: _Found) -> None:
    trail = question.trail
    missing = frozenset(found.texts.missing)
    read = [node.chunk_id for node in found.walk.nodes if node.chunk_id not in missing]
    model = question.models.get("embedding")
    await trail.end(
        lambda facts: (
            *exploration_triples(
                trail.answer_id,
                read,
                candidates=question.accounts if facts else (),
                run=facts,
            ),
            *(graph_walk_triples(trail.answer_id, found.walk) if facts else ()),
        ),
        candidates_in=len(question.accounts),
        candidates_out=len(read),
        models=(model,) if model else (),
        settings={
            "graph_seeds": len(found.walk.seeds),
            "graph_nodes": len(found.walk.nodes),
            "graph_edges": len(found.walk.edges),
        },
    )


async def _focus(question: Question, scope: CodeScope, found: _Found) -> list[Passage]:
    """Tell what the budget kept and dropped; gives the texts kept, in their order."""
    trail = question.trail
    trail.begin("focus")
    question.focused = True
    scores = _scores(question, found.walk)
    skipped = {
        one.id: "over_text_budget"
        for one in found.texts.decisions
        if one.action == "skip" and one.id not in found.texts.missing
    }
    dropped = [
        msgspec.structs.replace(account, reason_code=skipped[account.chunk_id])
        for account in question.accounts
        if account.chunk_id in skipped
    ]
    if not found.texts.texts:
        trail.degrade("text-fetch", "nothing_fits", "no text fits into the budget")
    texts = found.texts.texts
    await trail.end(
        lambda facts: focus_triples(
            trail.answer_id,
            [Selection(text.chunk_id, scores[text.chunk_id]) for text in texts],
            candidates=dropped if facts else (),
            run=facts,
        ),
        candidates_in=len(texts) + len(dropped),
        candidates_out=len(texts),
        settings={
            "prioritize": scope.prioritize,
            "budget_kind": found.budget.kind,
            "budget_limit": found.budget.limit,
            "budget_used": _used(found),
        },
    )
    return [
        Passage(
            chunk_id=text.chunk_id,
            text=text.content,
            document_id=text.document_id,
            source=text,
        )
        for text in texts
        # An empty text is a node, but nothing to answer from.
        if text.content.strip()
    ]


def _used(found: _Found) -> int:
    if found.budget.kind == "chars":
        return sum(len(text.content) for text in found.texts.texts)
    return sum(text.tokens or 0 for text in found.texts.texts)


def _scores(question: Question, walk: GraphWalk) -> dict[str, float]:
    """Give each node the score of the search; one that only the walk found has that of its parent."""
    scores: dict[str, float] = {}
    found = {account.chunk_id: account.score for account in question.accounts}
    # A parent is one step nearer and was given its score before.
    for node in walk.nodes:
        own = found.get(node.chunk_id)
        scores[node.chunk_id] = scores.get(node.parent_id, 0.0) if own is None else own
    return scores

"""Retrieval for a question about code: search, walk the graph, read texts within a budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from whence.answering.evidence import ProcessedQuery, find
from whence.answering.state import Question
from whence.provenance.stage_records import GraphWalk, WalkEdge, WalkNode
from whence.provenance.stages import exploration_triples, focus_triples
from whence.retrieval.pipeline import with_text
from whence.retrieval.services import Caller
from whence.schema.errors import BadInput, ModelMissing, Unavailable, WhenceError
from whence.schema.graph import ExpandRequest, ExpandResponse
from whence.schema.passages import Passage
from whence.schema.texts import PlannedText, TextBudget, TextPlan, TextRequest, TextResponse

#: Characters that count as a token where no model can count tokens: English prose has about four a token.
_CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRetrieval:
    """Retrieval for one question about code."""

    caller: Caller
    collection: str
    """Collection of the snapshot."""
    seed_limit: int
    """Nodes found by the search to start from."""
    expand: ExpandRequest
    """How far to walk; the seeds are filled in."""
    plan: TextPlan
    """Order and budget of the texts; the nodes are filled in."""

    async def retrieve(self, question: Question, processed: ProcessedQuery) -> list[Passage]:
        """Search, expand and read within the budget (stages `exploration` and `focus`).

        The seeds are the best of the search; candidates after them are recorded as dropped unless the walk
        reaches them. An expansion that fails degrades: the seeds alone are read.
        """
        question.trace.begin("exploration")
        limit = min(self.seed_limit, self.expand.max_nodes)
        found = await find(question, processed, limit=limit, cut_code="over_limit")
        seeds = found.kept
        graph = await self._expand(question, seeds) if seeds else None
        walk = _add_reached(question.candidates, seeds, graph)
        texts, budget = await self._read(question, walk)
        _record_texts(question, texts)
        await _end_exploration(question, walk, texts)
        if not texts.decisions:
            return []
        return await self._select(question, walk, texts, budget)

    async def _select(
        self, question: Question, walk: GraphWalk, texts: TextResponse, budget: TextBudget
    ) -> list[Passage]:
        """Return the texts that the budget kept, in their order, and record the others."""
        trace = question.trace
        trace.begin("focus")
        question.selected = True
        scores = _scores(question, walk)
        skipped = {
            one.id
            for one in texts.decisions
            if one.action == "skip" and one.id not in texts.missing
        }
        dropped = [
            replace(one, reason_code="over_text_budget")
            for one in question.candidates.values()
            if one.chunk_id in skipped
        ]
        passages = [
            replace(
                with_text(question.candidates[one.chunk_id], one), raw_score=scores[one.chunk_id]
            )
            for one in texts.texts
        ]
        if not passages:
            trace.degrade("text-fetch", "nothing_fits", "no text fits into the budget")
        await trace.end(
            partial(
                focus_triples,
                selections=passages,
                candidates=dropped if trace.full else (),
            ),
            candidates_in=len(passages) + len(dropped),
            candidates_out=len(passages),
            settings={
                "prioritize": self.plan.prioritize,
                "budget_kind": budget.kind,
                "budget_limit": budget.limit,
                "budget_used": _used(texts, budget),
            },
        )
        # A node may have no text to answer from.
        return [one for one in passages if one.text.strip()]

    async def _expand(self, question: Question, seeds: Sequence[Passage]) -> ExpandResponse | None:
        """Walk from the seeds; None when that fails and the seeds alone are read."""
        trace = question.trace
        # The document of a node is the node: its id is the canonical one.
        request = replace(self.expand, seeds=tuple(seed.document_id for seed in seeds))
        try:
            reply = await question.deadline.limit(
                "expanding the graph",
                partial(self.caller.call, "graph", request, ExpandResponse),
                question.options.search_timeout_s,
                share=0.5,
            )
        except BadInput:
            raise
        except WhenceError as error:
            reason = f"the nodes found are read without those around them: {error.message}"
            trace.degrade("exploration", "expansion_failed", reason)
            return None
        if reply.collection != self.collection:
            raise Unavailable(
                f"snapshot {request.snapshot} was replaced while it was read",
                hint="ask again when the import is done",
            )
        if reply.truncated:
            trace.degrade(
                "exploration",
                "graph_truncated",
                f"the walk was cut at {len(reply.nodes)} nodes; there are more around them",
            )
        return reply

    async def _read(self, question: Question, walk: GraphWalk) -> tuple[TextResponse, TextBudget]:
        """Read the texts that fit, and return the budget that they were cut to.

        Where the model that counts tokens is missing, characters are counted instead.
        """
        budget = self.plan.budget
        if not walk.nodes:
            return TextResponse(texts=()), budget
        try:
            return await self._read_within(question, walk, budget), budget
        except ModelMissing as error:
            if budget.kind != "tokens":
                raise
            reason = f"characters are counted in the place of tokens: {error.message}"
            question.trace.degrade("text-fetch", "tokens_not_counted", reason)
        budget = TextBudget(kind="chars", limit=budget.limit * _CHARS_PER_TOKEN)
        return await self._read_within(question, walk, budget), budget

    async def _read_within(
        self, question: Question, walk: GraphWalk, budget: TextBudget
    ) -> TextResponse:
        plan = replace(
            self.plan,
            seeds=walk.seeds,
            graph=tuple(
                PlannedText(id=node.chunk_id, depth=node.depth, parent_id=node.parent_id or None)
                for node in walk.nodes
                if node.depth > 0
            ),
            budget=budget,
        )
        request = TextRequest(access=self.expand.access, collection=self.collection, plan=plan)
        return await question.deadline.limit(
            "reading the texts",
            partial(self.caller.call, "texts", request, TextResponse),
            question.options.texts_timeout_s,
        )


def _add_reached(
    candidates: dict[str, Passage],
    seeds: Sequence[Passage],
    graph: ExpandResponse | None,
) -> GraphWalk:
    """Add the nodes of the walk after the candidates of the search, and return the walk."""
    reached = [node for node in graph.nodes if node.depth > 0] if graph else []
    by_search = set(candidates)
    for node in reached:
        if node.chunk_id in by_search:
            kept = replace(candidates[node.chunk_id], reason_code="")
            candidates[node.chunk_id] = kept
        else:
            candidates[node.chunk_id] = Passage(
                chunk_id=node.chunk_id, rank=len(candidates) + 1, document_id=node.id
            )
    chunk_of = {one.document_id: one.chunk_id for one in candidates.values()}
    nodes = [WalkNode(chunk_id=one.chunk_id, rank=one.rank, depth=0) for one in seeds]
    nodes += [
        WalkNode(
            chunk_id=node.chunk_id,
            rank=candidates[node.chunk_id].rank,
            depth=node.depth,
            parent_id=chunk_of.get(node.parent_id or "", ""),
        )
        for node in reached
    ]
    edges = [
        WalkEdge(from_id=chunk_of[edge.from_id], to_id=chunk_of[edge.to_id], relation=edge.relation)
        for edge in (graph.edges if graph else ())
    ]
    return GraphWalk(nodes=tuple(nodes), edges=tuple(edges))


def _record_texts(question: Question, texts: TextResponse) -> None:
    """Add digests of texts, and which are missing, to the candidates."""
    records = question.candidates
    for text in texts.texts:
        records[text.chunk_id] = replace(records[text.chunk_id], digest=text.digest)
    for chunk_id in texts.missing:
        records[chunk_id] = replace(records[chunk_id], reason_code="text_missing")
    if texts.missing:
        question.trace.degrade(
            "text-fetch",
            "texts_missing",
            f"{len(texts.missing)} of {len(texts.decisions)} nodes found could not be read",
        )


async def _end_exploration(question: Question, walk: GraphWalk, texts: TextResponse) -> None:
    trace = question.trace
    missing = frozenset(texts.missing)
    read = [node.chunk_id for node in walk.nodes if node.chunk_id not in missing]
    model = question.models.get("embedding")

    await trace.end(
        partial(
            exploration_triples,
            chunk_ids=read,
            candidates=question.candidates.values() if trace.full else (),
            walk=walk if trace.full else None,
        ),
        candidates_in=len(question.candidates),
        candidates_out=len(read),
        models=(model,) if model else (),
        settings={
            "graph_seeds": len(walk.seeds),
            "graph_nodes": len(walk.nodes),
            "graph_edges": len(walk.edges),
        },
    )


def _used(texts: TextResponse, budget: TextBudget) -> int:
    """Return how much of the budget the texts use."""
    if budget.kind == "chars":
        return sum(len(text.content) for text in texts.texts)
    return sum(text.tokens or 0 for text in texts.texts)


def _scores(question: Question, walk: GraphWalk) -> dict[str, float]:
    """Return the search score of each node; a node that only the walk found has that of its parent."""
    scores: dict[str, float] = {}
    # A parent is one step nearer and comes before its children.
    for node in walk.nodes:
        own = question.candidates[node.chunk_id].score
        scores[node.chunk_id] = scores.get(node.parent_id, 0.0) if own is None else own
    return scores

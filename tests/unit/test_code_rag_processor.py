"""The code RAG processor: seeds, walk and budget in the trace, and what happens when a part fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.support.code_edges import CodeEdge
from tests.support.graph_model import GraphModel
from tests.support.prov_o import prov_faults

from whence.answering.trace_recorder import Sources
from whence.code.processors.code_rag import CodeRagParameters, CodeRagProcessor
from whence.code.processors.graph_expander import GraphExpanderProcessor
from whence.code.snapshots.protocols import SnapshotRecord
from whence.processors.text_fetcher import TextFetcherProcessor
from whence.provenance.checking import check_trace
from whence.provenance.graph_walks import read_graph_walk
from whence.provenance.trace import Trace, read_trace
from whence.schema import (
    Access,
    Answer,
    Candidate,
    ChunkText,
    CodeRagRequest,
    DocumentTags,
    EmbeddingModel,
    EmbeddingResponse,
    ExplainEvent,
    PromptResponse,
    PromptResult,
    SearchResponse,
    TextBudget,
    TraceRecord,
)
from whence.schema.code import KindCounts, SnapshotInfo
from whence.schema.errors import BadInput, NotFound, Unavailable
from whence.testing.stub_context import StubContext, serving

NAMES = "abcde"


def node(name: str) -> str:
    return f"R::s::cs::{name}"


def chunk(name: str) -> str:
    return f"urn:chunk:texts:{node(name)}:0"


RECORD = SnapshotRecord(
    info=SnapshotInfo(snapshot_id="s", repo="R", branch="main", head_sha="h"),
    collection="texts",
    digest="d",
    nodes=KindCounts(cs=5),
    edges=KindCounts(cs=3),
    refs=("main",),
    active=True,
    published_at="2026-01-01T00:00:00Z",
)


class Store:
    """A store with one snapshot and texts of ten characters."""

    def __init__(self) -> None:
        self.reads = 0

    async def resolve_snapshot(self, reference: str, *, within: str = "") -> SnapshotRecord:
        if reference != "main":
            raise NotFound("there is no such snapshot")
        return RECORD

    async def chunk_texts(
        self, collection: str, chunk_ids: Sequence[str], access: Access
    ) -> list[ChunkText]:
        self.reads += 1
        assert collection == "texts"
        return [
            ChunkText(chunk_id=chunk(n), document_id=node(n), content=f"text of {n}!")
            for n in NAMES
            if chunk(n) in chunk_ids
        ]


def world(
    parameters: CodeRagParameters | None = None, **changes: Any
) -> tuple[CodeRagProcessor, StubContext, Store]:
    """Return the processor and its services: a search that finds `a` and `e`, edges a-b-c, a-d."""
    store = Store()
    tags = {node(n): DocumentTags(("hr",)) if n == "d" else DocumentTags() for n in NAMES}
    edges = [
        CodeEdge(from_id=node(a), to_id=node(b), relation=relation)
        for (a, b), relation in (("ab", "cs_calls"), ("bc", "cs_uses"), ("ad", "cs_dep"))
    ]
    found = [
        Candidate(chunk_id=chunk(n), document_id=node(n), score=score, rank=rank)
        for rank, (n, score) in enumerate((("a", 0.9), ("e", 0.4)), 1)
    ]
    model = EmbeddingModel(name="m", dimension=1)
    answers: dict[str, Any] = {
        "embedding": lambda _: EmbeddingResponse(vectors=b"\0\0\x80?", model=model),
        "search": lambda _: SearchResponse(candidates=tuple(found)),
        "prompt": lambda _: PromptResponse(
            result=PromptResult(text="So it is [1].", model="w", language_model=False)
        ),
        **serving(
            [
                ("graph", GraphExpanderProcessor(snapshots=GraphModel("s", tags, edges))),
                ("texts", TextFetcherProcessor(store=store)),  # type: ignore[arg-type]
            ]
        ),
    }
    sources = Sources(new_id=lambda: "answer-1")
    processor = CodeRagProcessor(parameters, snapshots=store, sources=sources)  # type: ignore[arg-type]
    return processor, StubContext(answers | changes), store


def request(**fields: Any) -> CodeRagRequest:
    given: dict[str, Any] = {"seed_limit": 1, "budget": TextBudget(kind="chars", limit=1000)}
    return CodeRagRequest(
        access=Access(), question="what does a do?", snapshot="main", **(given | fields)
    )


async def ask(processor: CodeRagProcessor, context: StubContext, **fields: Any) -> Answer:
    replies = [one async for one in processor.handle_stream(request(**fields), context)]
    answer = replies[-1]
    assert isinstance(answer, Answer)
    return answer


def trace_of(context: StubContext) -> Trace:
    record = context.emitted["trace"][0]
    assert isinstance(record, TraceRecord)
    return read_trace([t for event in record.events for t in event.triples])


async def test_the_trace_has_seeds_edges_and_budget() -> None:
    """The trace has the walk with depths and parents, no hidden node, and is complete."""
    processor, context, store = world()
    answer = await ask(processor, context)
    trace = trace_of(context)
    walk = read_graph_walk(trace)

    assert [stage.stage for stage in answer.stages] == [
        "question", "grounding", "exploration", "focus", "synthesis",
    ]  # fmt: skip
    assert walk.seeds == (chunk("a"),)
    assert [(n.chunk_id, n.depth, n.parent_id) for n in walk.nodes[1:]] == [
        (chunk("b"), 1, chunk("a")),
        (chunk("c"), 2, chunk("b")),
    ]
    assert [(e.from_id, e.to_id) for e in walk.edges] == [
        (chunk("a"), chunk("b")),
        (chunk("b"), chunk("c")),
    ]
    assert check_trace(trace) == []
    assert prov_faults(trace.triples) == []
    assert chunk("d") not in str(trace.triples)
    assert {c.chunk_id: c.reason_code for c in trace.candidates} == {
        chunk("a"): "", chunk("e"): "over_limit", chunk("b"): "", chunk("c"): "",
    }  # fmt: skip
    assert answer.citations[0].document_id == node("a")
    # All nodes at once, then the places of those cited.
    assert store.reads == 2


async def test_the_budget_drops_whole_texts() -> None:
    """A text over the budget is dropped at focus with its reason; the rest goes to the writer in order."""
    processor, context, _ = world()
    await ask(
        processor, context, budget=TextBudget(kind="chars", limit=20), prioritize="graph_first"
    )
    trace = trace_of(context)

    assert [one.chunk_id for one in trace.selections] == [chunk("b"), chunk("c")]
    dropped = {c.chunk_id: c.reason_code for c in trace.candidates if c.reason_code}
    assert dropped == {chunk("a"): "over_text_budget", chunk("e"): "over_limit"}
    # A node that only the walk found has the score of the seed it was reached from.
    assert {one.order_score for one in trace.selections} == {0.9}
    assert check_trace(trace) == []
    assert prov_faults(trace.triples) == []


async def test_nothing_found_calls_no_writer() -> None:
    """Without candidates nothing is expanded or read, and the answer states that nothing was found."""
    processor, context, store = world(search=lambda _: SearchResponse(candidates=()))
    answer = await ask(processor, context)

    assert not answer.found
    assert store.reads == 0
    assert check_trace(trace_of(context)) == []
    assert prov_faults(trace_of(context).triples) == []


async def test_a_failing_expansion_degrades_to_the_seeds() -> None:
    """The seeds alone are read, and the answer is degraded."""

    def fail(_: Any) -> Any:
        raise Unavailable("the graph is away")

    processor, context, _ = world(graph=fail)
    answer = await ask(processor, context)

    assert "expansion_failed" in {one.code for one in answer.degraded}
    assert answer.citations[0].document_id == node("a")
    assert check_trace(trace_of(context)) == []
    assert prov_faults(trace_of(context).triples) == []


async def test_an_unknown_relation_is_refused() -> None:
    """An error in the request is raised instead of a partial answer."""
    processor, context, _ = world()

    with pytest.raises(BadInput, match="relation"):
        await ask(processor, context, relations=("Typo",))
    assert (await ask(processor, context, relations=("inherits",))).found


@pytest.mark.parametrize(
    ("parameters", "asked", "walked", "settings"),
    [
        ({}, {}, "abc", (2, 120, "*")),
        ({"max_nodes": 2}, {}, "ab", (2, 2, "*")),
        ({"max_nodes": 2}, {"doc_limit": 3}, "abc", (2, 3, "*")),
        ({"relations": ("Calls",)}, {}, "ab", (2, 120, '["Calls"]')),
        ({"relations": ("uses",)}, {"relations": ("calls",)}, "ab", (2, 120, '["calls"]')),
        ({"relations": ("uses",)}, {"relations": ("*",)}, "abc", (2, 120, "*")),
        ({"max_depth": 1}, {}, "ab", (1, 120, "*")),
    ],
)
async def test_the_flow_limits_the_walk(
    parameters: dict[str, Any], asked: dict[str, Any], walked: str, settings: tuple[int, int, str]
) -> None:
    """Depth, node cap and relations are the flow's unless the request says otherwise; the trace has them."""
    processor, context, _ = world(CodeRagParameters(**parameters))
    await ask(processor, context, **asked)
    trace = trace_of(context)
    question = trace.stage("question")
    assert question is not None
    recorded = question.run.settings

    assert [one.chunk_id for one in read_graph_walk(trace).nodes] == [chunk(n) for n in walked]
    assert settings == tuple(
        recorded[f"graph_{name}"] for name in ("max_depth", "max_nodes", "edge_allowlist")
    )
    assert (recorded["repo"], recorded["snapshot_id"]) == ("R", "s")


async def test_a_replaced_snapshot_fails_the_question() -> None:
    """A walk over another import than the search's is refused; there is no answer from two imports."""
    processor, context, _ = world()
    tags = {node(n): DocumentTags() for n in NAMES}
    other = GraphExpanderProcessor(snapshots=GraphModel("s", tags, (), collection="newer"))
    _, mixed, _ = world(**serving([("graph", other)]))

    with pytest.raises(Unavailable, match="was replaced"):
        await ask(processor, mixed)
    assert (await ask(processor, context)).found


async def test_invalid_questions_call_no_service() -> None:
    """Blank questions, wrong limits and unknown snapshots are refused before any call."""
    processor, context, _ = world()
    wrong = [
        CodeRagRequest(access=Access(), question="why?"),
        request(doc_limit=-1),
        request(doc_limit=501),
        request(seed_limit=-1),
        request(budget=TextBudget(kind="chars", limit=0)),
    ]
    for message in wrong:
        with pytest.raises(BadInput):
            await anext(aiter(processor.handle_stream(message, context)))
    message = CodeRagRequest(access=Access(), question="why?", snapshot="other")
    with pytest.raises(NotFound):
        await anext(aiter(processor.handle_stream(message, context)))

    assert context.sent == []


async def test_equal_questions_leave_equal_traces() -> None:
    """Equal questions have equal traces, in the same order."""
    told = []
    for _ in range(2):
        processor, context, _ = world()
        await ask(processor, context)
        told.append([e for e in context.emitted["explain"] if isinstance(e, ExplainEvent)])

    def facts(events: list[ExplainEvent]) -> list[Any]:
        return [
            (t.s, t.p, t.o)
            for event in events
            for t in event.triples
            if "xsd" not in t.o.datatype and "At" not in t.p.iri and "duration" not in t.p.iri
        ]

    assert facts(told[0]) == facts(told[1])

"""Replay of a recorded question: ask it again and list the differences by stage."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

import msgspec

from whence.answering.state import collect_answer
from whence.engine.trace_access import answer_not_found, load_trace
from whence.provenance.redaction import chunk_ids
from whence.provenance.trace import Trace, read_trace
from whence.schema.code_rag import CODE_RAG, CodeRagRequest
from whence.schema.document_rag import Answer, DocumentRagRequest, TraceRecord
from whence.schema.errors import BadInput
from whence.schema.terms import Triple
from whence.schema.texts import TextBudget

if TYPE_CHECKING:
    from whence.engine.session import EngineSession
    from whence.flow.client import FlowClient
    from whence.schema.access import Access

#: Decimal places to which scores are compared: another processor or library may round the last bits of a
#: float32 differently.
_SCORE_PLACES = 5


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One difference between two runs."""

    stage: str
    what: str
    """`settings`, `models`, `concepts`, `candidates` (those of one side only), `texts`, `scores`, `order`,
    `kept`, `citations` or `answer`."""
    before: Any
    after: Any


class ReplayReport(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded question and the same question asked now."""

    answer_id: str
    identical: bool
    differs: tuple[Difference, ...] = ()
    """In the order of the stages; the first stage listed is where the runs diverged."""


async def replay(
    session: EngineSession, answer_id: str, access: Access, *, timeout_s: float = 120.0
) -> ReplayReport:
    """Ask a recorded question again and compare."""
    recorded = await load_trace(session, answer_id, access)
    if not chunk_ids(recorded.trace) <= recorded.visible:
        raise answer_not_found(answer_id)
    request = replay_request(recorded.record, access)
    assert recorded.record.answer is not None, "replay_request refuses records without an answer"
    trace, answer = await _ask_again(session.client, request, timeout_s)
    differs = compare(recorded.trace, recorded.record.answer, trace, answer)
    return ReplayReport(answer_id=answer_id, identical=not differs, differs=differs)


def replay_request(record: TraceRecord, access: Access) -> DocumentRagRequest | CodeRagRequest:
    """Return the request that repeats a recorded question without recording a trace."""
    settings = record.settings
    if record.answer is None or not isinstance(settings.get("doc_limit"), int):
        raise BadInput(
            f"answer {record.answer_id!r} cannot be replayed: the question failed",
            hint=f"`whence explain {record.answer_id}` shows where",
        )
    reader = record.access if access.covers(record.access) else access
    if settings.get("flow") == CODE_RAG:
        return _code_request(record, reader)
    return DocumentRagRequest(
        access=reader,
        question=record.question,
        collection=record.collection,
        doc_limit=settings["doc_limit"],
        fetch_limit=settings.get("fetch_limit", 0),
        rerank=settings.get("rerank", True),
        rerank_limit=settings.get("rerank_limit", 0),
        diversity=settings.get("rerank_diversity", "none"),
        diversity_lambda=settings.get("rerank_diversity_lambda"),
        exact=settings.get("exact", False),
        mode=settings.get("mode"),
        filters=msgspec.json.decode(settings.get("filters", "{}"), type=dict[str, Any]),
        record=False,
    )


def _code_request(record: TraceRecord, access: Access) -> CodeRagRequest:
    settings = record.settings
    relations = settings["graph_edge_allowlist"]
    return CodeRagRequest(
        access=access,
        question=record.question,
        snapshot=settings["snapshot_id"],
        seed_limit=settings["seed_limit"],
        doc_limit=settings["graph_max_nodes"],
        max_depth=settings["graph_max_depth"],
        relations=("*",) if relations == "*" else tuple(msgspec.json.decode(relations)),
        direction=settings["graph_direction"],
        prioritize=settings["prioritize"],
        budget=TextBudget(kind=settings["budget_kind"], limit=settings["budget_limit"]),
        mode=settings["mode"],
        record=False,
    )


async def _ask_again(
    client: FlowClient, request: DocumentRagRequest | CodeRagRequest, timeout_s: float
) -> tuple[Trace, Answer]:
    triples: list[Triple] = []

    async def keep(of_stage: tuple[Triple, ...], _uri: str) -> None:
        triples.extend(of_stage)

    replies = client.ask(request, timeout_s=timeout_s)
    answer = await collect_answer(replies, explain_callback=keep)
    return read_trace(triples, answer.answer_id), answer


def compare(
    before: Trace, answer_before: Answer, after: Trace, answer_after: Answer
) -> tuple[Difference, ...]:
    """Return the differences in the order of the stages. Ids, times and durations are not compared."""
    ids = [{candidate.chunk_id for candidate in trace.candidates} for trace in (before, after)]
    both = ids[0] & ids[1]
    one, other = _outcome(before, answer_before, both), _outcome(after, answer_after, both)
    return tuple(
        _difference(stage, what, one[stage, what], other[stage, what])
        for stage, what in one
        if one[stage, what] != other[stage, what]
    )


def _outcome(trace: Trace, answer: Answer, both: Container[str]) -> dict[tuple[str, str], Any]:
    """Return what a run did by stage and kind; `both` are the candidates that both runs have."""
    question = trace.stage("question")
    models = [model for stage in trace.stages for model in stage.run.models]
    shared = [c for c in trace.candidates if c.chunk_id in both]
    return {
        ("question", "settings"): dict(question.run.settings) if question else {},
        ("question", "models"): {
            one.role: " ".join(filter(None, (one.name, one.revision, one.precision)))
            for one in models
        },
        ("grounding", "concepts"): list(trace.concepts),
        ("exploration", "candidates"): sorted(
            {c.chunk_id for c in trace.candidates if c.chunk_id not in both}
        ),
        ("exploration", "texts"): {c.chunk_id: c.digest for c in shared if c.digest},
        ("exploration", "scores"): {
            c.chunk_id: None if c.score is None else round(c.score, _SCORE_PLACES) for c in shared
        },
        ("exploration", "order"): [c.chunk_id for c in shared],
        ("focus", "kept"): [selection.chunk_id for selection in trace.selections],
        ("synthesis", "models"): answer.model,
        ("synthesis", "citations"): [(c.marker, c.chunk_id, c.quote) for c in answer.citations],
        ("synthesis", "answer"): answer.text,
    }


def _difference(stage: str, what: str, before: Any, after: Any) -> Difference:
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
        before, after = ({key: side.get(key) for key in keys} for side in (before, after))
    return Difference(stage=stage, what=what, before=before, after=after)

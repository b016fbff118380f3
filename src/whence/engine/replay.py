"""Asking a recorded question again, and saying what came out otherwise and at which stage first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from whence.engine.trace_access import not_found, see_trace
from whence.schema.code_rag import CODE_RAG, CodeRagRequest
from whence.schema.document_rag import Answer, DocumentRagRequest, ExplainEvent, TraceRecord
from whence.schema.errors import BadInput
from whence.schema.texts import TextBudget

if TYPE_CHECKING:
    from whence.flow.client import FlowClient
    from whence.provenance.trace import Trace
    from whence.schema.access import Access
    from whence.store.protocols import Store

__all__ = ("Difference", "ReplayReport", "compare", "replay", "replay_request")

#: Places after the point to which scores are compared: the same arithmetic on the same machine gives more,
#: another processor or library may round the last bits of a float32 otherwise.
_SCORE_PLACES = 5


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that came out otherwise."""

    stage: str
    """Stage it belongs to."""
    what: str
    """`settings`, `models`, `concepts`, `candidates` (those of one side only), `texts`, `scores`, `order`,
    `kept`, `citations` or `answer`."""
    before: Any
    """As recorded."""
    after: Any
    """As it came out now."""


class ReplayReport(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded question and the same question asked now."""

    answer_id: str
    identical: bool
    differs: tuple[Difference, ...] = ()
    """In the order of the stages: the first is where the two began to part."""


async def replay(
    client: FlowClient,
    store: Store,
    answer_id: str,
    access: Access,
    *,
    fresh: bool = False,
    timeout_s: float = 120.0,
) -> ReplayReport:
    """Ask a recorded question again and compare.

    Raises:
        NotFound: There is no such trace, or the reader may not see all its candidates.
        BadInput: The question had failed.
        WhenceError: It fails now.
    """
    from whence.provenance.redaction import chunk_ids

    seen = await see_trace(store, answer_id, access, fresh=fresh)
    if not chunk_ids(seen.trace) <= seen.visible:
        raise not_found(answer_id)
    request = replay_request(seen.record, access)
    assert seen.record.answer is not None, "the request was made from it"
    trace, answer = await _ask_again(client, request, timeout_s)
    differs = compare(seen.trace, seen.record.answer, trace, answer)
    return ReplayReport(answer_id=answer_id, identical=not differs, differs=differs)


def replay_request(record: TraceRecord, access: Access) -> DocumentRagRequest | CodeRagRequest:
    """Give the request that asks a recorded question again, and leaves no trace of its own.

    Args:
        record: What was recorded.
        access: Rights of whoever replays it. The rights it was asked with count when these cover them.

    Raises:
        BadInput: The record does not say how it was asked.
    """
    settings = record.settings
    if record.answer is None or not isinstance(settings.get("doc_limit"), int):
        raise BadInput(
            f"answer {record.answer_id!r} cannot be asked again: the question failed",
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
        mode=settings.get("mode"),
        filters=msgspec.json.decode(settings.get("filters", "{}"), type=dict[str, Any]),
        record=False,
    )


def _code_request(record: TraceRecord, access: Access) -> CodeRagRequest:
    """Give the request for a question about code; the settings are those that its trace tells."""
    settings = record.settings
    relations = settings["graph_edge_allowlist"]
    return CodeRagRequest(
        access=access,
        question=record.question,
        snapshot=settings["snapshot_id"],
        seed_limit=settings["seed_limit"],
        doc_limit=settings["graph_max_nodes"],
        max_depth=settings["graph_max_depth"],
        relations=() if relations == "*" else tuple(msgspec.json.decode(relations)),
        direction=settings["graph_direction"],
        prioritize=settings["prioritize"],
        budget=TextBudget(kind=settings["budget_kind"], limit=settings["budget_limit"]),
        mode=settings["mode"],
        record=False,
    )


async def _ask_again(
    client: FlowClient, request: DocumentRagRequest | CodeRagRequest, timeout_s: float
) -> tuple[Trace, Answer]:
    """Ask, and give the trace that the explain events tell, with the answer.

    Raises:
        WhenceError: The question failed.
    """
    from whence.provenance.trace import read_trace

    events: list[ExplainEvent] = []
    answer: Answer | None = None
    async for part in client.ask(request, timeout_s=timeout_s):
        if isinstance(part, ExplainEvent):
            events.append(part)
        elif isinstance(part, Answer):
            answer = part
    assert answer is not None, "a client ends with an answer or raises"
    return read_trace((t for event in events for t in event.triples), answer.answer_id), answer


def compare(
    before: Trace, answer_before: Answer, after: Trace, answer_after: Answer
) -> tuple[Difference, ...]:
    """Tell what differs, in the order of the stages. Ids, times and durations are not compared."""
    return (
        *_in_traces(before, after),
        *_in_answers(answer_before, answer_after),
    )


def _in_traces(before: Trace, after: Trace) -> Iterator[Difference]:
    """Compare two traces; of candidates that only one of them has, nothing but that is told."""
    ranked = [[c.chunk_id for c in trace.candidates] for trace in (before, after)]
    both = frozenset(ranked[0]) & frozenset(ranked[1])
    looks: tuple[tuple[str, str, Callable[[Trace], Any]], ...] = (
        ("question", "settings", _settings),
        ("question", "models", _models),
        ("grounding", "concepts", lambda trace: list(trace.concepts)),
        (
            "exploration",
            "candidates",
            lambda trace: sorted({c.chunk_id for c in trace.candidates} - both),
        ),
        ("exploration", "texts", lambda trace: _digests(trace, both)),
        ("exploration", "scores", lambda trace: _scores(trace, both)),
        (
            "exploration",
            "order",
            lambda trace: [c.chunk_id for c in trace.candidates if c.chunk_id in both],
        ),
        ("focus", "kept", lambda trace: [s.chunk_id for s in trace.selections]),
    )
    for stage, what, look in looks:
        one, other = look(before), look(after)
        if one != other:
            yield _difference(stage, what, one, other)


def _in_answers(before: Answer, after: Answer) -> Iterator[Difference]:
    if before.model != after.model:
        yield _difference("synthesis", "models", before.model, after.model)
    cited = [[(c.marker, c.chunk_id, c.quote) for c in one.citations] for one in (before, after)]
    if cited[0] != cited[1]:
        yield _difference("synthesis", "citations", *cited)
    if before.text != after.text:
        yield _difference("synthesis", "answer", before.text, after.text)


def _difference(stage: str, what: str, before: Any, after: Any) -> Difference:
    """Name a difference; of two mappings only what is not equal is told."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
        before, after = ({key: side.get(key) for key in keys} for side in (before, after))
    return Difference(stage=stage, what=what, before=before, after=after)


def _settings(trace: Trace) -> dict[str, Any]:
    question = trace.stage("question")
    return dict(question.run.settings) if question else {}


def _models(trace: Trace) -> dict[str, str]:
    """Give each model that took part, with its revision and precision."""
    return {
        model.role: " ".join(filter(None, (model.name, model.revision, model.precision)))
        for stage in trace.stages
        for model in stage.run.models
    }


def _digests(trace: Trace, of: frozenset[str]) -> dict[str, str]:
    return {c.chunk_id: c.digest for c in trace.candidates if c.chunk_id in of and c.digest}


def _scores(trace: Trace, of: frozenset[str]) -> dict[str, float | None]:
    return {
        c.chunk_id: None if c.score is None else round(c.score, _SCORE_PLACES)
        for c in trace.candidates
        if c.chunk_id in of
    }

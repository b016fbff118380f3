"""A question's way through the stages, whatever explores."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

import msgspec

from whence.answering.citations import Passage
from whence.answering.deadline import Deadline, as_whence_error
from whence.answering.query_processing import Grounding, ground
from whence.answering.state import Ask, Clients, Question, RagOptions
from whence.answering.trace_recorder import EventListener, Trail, utc_now
from whence.answering.writing import Written, synthesize
from whence.provenance.stages import question_triples
from whence.provenance.terms import Scalar
from whence.provenance.uris import validate_answer_id
from whence.schema.document_rag import Answer, Citation, ExplainEvent
from whence.schema.search import Degradation

__all__ = ("Explore", "RagResult", "new_question", "through_stages")

Explore = Callable[[Grounding], Awaitable[Sequence[Passage]]]
"""Takes what to search for; gives what the writer may read, best first."""


class RagResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a question led to."""

    answer: Answer
    """The answer with citations, degradations and stages."""
    asked_at: str
    """Start, ISO 8601 in UTC."""
    events: tuple[ExplainEvent, ...] = ()
    """The explain events of all stages; empty when nobody wanted any."""
    settings: dict[str, Scalar] = {}
    """Limits, mode and models of the run."""

    @property
    def text(self) -> str:
        """The answer's text."""
        return self.answer.text

    @property
    def citations(self) -> tuple[Citation, ...]:
        """What the markers of the text stand on."""
        return self.answer.citations

    @property
    def degraded(self) -> tuple[Degradation, ...]:
        """What was left out, and why."""
        return self.answer.degraded


def new_question(
    ask: Ask,
    clients: Clients,
    options: RagOptions,
    *,
    answer_id: str,
    listeners: Sequence[EventListener] = (),
    keep_events: bool = False,
    deadline_s: float | None = None,
    clock: Callable[[], datetime] = utc_now,
    monotonic: Callable[[], float] = time.monotonic,
) -> Question:
    """Give a question at its start.

    Args:
        ask: The question with the choices made for it.
        clients: Whom it asks.
        options: Limits and choices that hold for every question.
        answer_id: Id of the answer.
        listeners: Told of each stage as soon as it is done.
        keep_events: Whether the result carries the events even without a listener.
        deadline_s: Seconds for the whole question; the shorter of this and the options' own holds.
        clock: Time of day in UTC.
        monotonic: Clock in seconds that never goes back.

    Raises:
        BadInput: The answer id is not fit for an IRI.
    """
    trail = Trail(
        validate_answer_id(answer_id),
        listeners=listeners,
        keep=keep_events,
        full=options.full_account,
        clock=clock,
        monotonic=monotonic,
        listen_s=options.explain_timeout_s,
    )
    given = [s for s in (deadline_s, options.deadline_s) if s is not None]
    deadline = Deadline(min(given) if given else None, monotonic=monotonic)
    return Question(ask=ask, clients=clients, options=options, trail=trail, deadline=deadline)


async def through_stages(
    question: Question, explore: Explore, *, monotonic: Callable[[], float] = time.monotonic
) -> RagResult:
    """Carry a question through all stages; when one fails, the trail tells of it.

    Args:
        question: The question.
        explore: Finds and chooses what the writer may read, and tells the trail of it.
        monotonic: Clock in seconds that never goes back.

    Raises:
        WhenceError: A stage failed that cannot be done without.
    """
    started = monotonic()
    try:
        await _tell_question(question)
        grounding = await ground(question)
        written = await synthesize(question, await explore(grounding))
    except Exception as error:
        known = as_whence_error(error, "the question")
        await question.trail.fail(known)
        if known is error:
            raise
        raise known from error
    return _result(question, written, (monotonic() - started) * 1000)


async def _tell_question(question: Question) -> None:
    ask, trail = question.ask, question.trail
    trail.begin("question")
    await trail.end(
        lambda facts: question_triples(trail.answer_id, ask.query, ask.asked_at, run=facts),
        settings=_settings(question),
    )


def _settings(question: Question) -> dict[str, Scalar]:
    """Give the limits and choices of a question, and the models known so far."""
    ask = question.ask
    settings: dict[str, Scalar] = {
        **ask.settings,
        "doc_limit": ask.doc_limit,
        "fetch_limit": ask.pool_limit,
        "rerank": ask.rerank,
        "threshold": question.options.threshold,
        "drop_duplicates": question.options.drop_duplicates,
        "max_concepts": question.options.max_concepts,
        "max_context_chars": question.options.max_context_chars,
    }
    for role, model in question.models.items():
        settings[f"{role}_model"] = model.name
    return settings


def _result(question: Question, written: Written, latency_ms: float) -> RagResult:
    trail, result = question.trail, written.result
    answer = Answer(
        answer_id=trail.answer_id,
        question=question.ask.query,
        text=written.text,
        found=written.found,
        citations=written.citations,
        model=result.model or "",
        in_token=result.in_token,
        out_token=result.out_token,
        degraded=tuple(trail.degraded),
        stages=tuple(trail.reports),
        latency_ms=latency_ms,
    )
    return RagResult(
        answer=answer,
        asked_at=question.ask.asked_at,
        events=tuple(trail.events),
        settings=_settings(question),
    )

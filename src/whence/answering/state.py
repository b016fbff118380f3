"""The state of one question: its message, the services it calls, its limits, and what is known so far."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

import msgspec

from whence.answering.trace_recorder import EventListener, Sources, TraceRecorder, iso_utc
from whence.operations.ask import ChunkCallback, DocumentRagRequest, ExplainCallback
from whence.provenance.stage_records import ModelUse, Scalar
from whence.provenance.terms import validate_answer_id
from whence.retrieval.diversity import DEFAULT_LAMBDA
from whence.retrieval.services import Deadline, RetrievalServices
from whence.schema.code_rag import CodeRagRequest
from whence.schema.document_rag import (
    Answer,
    AnswerPiece,
    ExplainEvent,
    Refusal,
)
from whence.schema.passages import Passage
from whence.schema.prompt import PromptResult
from whence.schema.search import Correction

logger = logging.getLogger(__name__)

SaveAnswerCallback = Callable[[str, str], Awaitable[None]]
"""Takes the IRI under which the answer is kept, and its text."""


async def collect_answer(
    replies: AsyncGenerator[AnswerPiece | ExplainEvent | Answer, None],
    chunk_callback: ChunkCallback | None = None,
    explain_callback: ExplainCallback | None = None,
) -> Answer:
    """Return the answer at the end of the replies; the callbacks receive those before it."""
    answer: Answer | None = None
    async with aclosing(replies) as arriving:
        async for part in arriving:
            if isinstance(part, Answer):
                answer = part
            elif isinstance(part, AnswerPiece) and chunk_callback is not None:
                await chunk_callback(part.text, part.end_of_stream)
            elif isinstance(part, ExplainEvent) and explain_callback is not None:
                await _explain(explain_callback, part)
    assert answer is not None, "the client ends with an answer or raises"
    return answer


async def _explain(callback: ExplainCallback, event: ExplainEvent) -> None:
    try:
        await callback(event.triples, event.explain_id)
    except Exception:
        logger.warning(
            "explain callback failed",
            extra={"action": "explain", "answer_id": event.answer_id, "stage": event.stage},
            exc_info=True,
        )


#: Most steps of a `deep` question that names no number.
DEFAULT_STEPS = 3
#: Candidates retrieved for each chunk that a reranker is to keep.
OVERFETCH_FACTOR = 3

_Seconds = Annotated[float, msgspec.Meta(gt=0, le=3600)]


class WriterService(Protocol):
    """A language model, or a writer that quotes sentences. All errors are `WhenceError`s."""

    async def extract_concepts(self, query: str) -> PromptResult:
        """Return search phrases for a question, one a line."""
        ...

    async def complete_question(
        self, query: str, earlier: Sequence[str], previous: str = ""
    ) -> PromptResult:
        """Return a question that can be understood without the earlier ones, which are oldest first.

        Args:
            query: The question.
            earlier: Those before it.
            previous: The last answer.
        """
        ...

    async def search_again(
        self, query: str, passages: Sequence[Passage], searched: Sequence[str]
    ) -> PromptResult:
        """Return what else to search for, see `answering.steps.read_queries`, or that nothing is missing.

        Args:
            query: The question.
            passages: What was found so far, best first.
            searched: Queries that were searched for.
        """
        ...

    async def write_answer(
        self,
        query: str,
        passages: Sequence[Passage],
        on_piece: ChunkCallback | None,
        absent: Sequence[str] = (),
        wishes: Mapping[str, Any] = {},
    ) -> PromptResult:
        """Answer a question from passages; `[n]` in the text is the n-th, from 1.

        Args:
            query: The question.
            passages: Passages, best first.
            on_piece: Takes the text while it is written.
            absent: Words of the question that no document has.
            wishes: More variables of the prompt, such as the `day` of the question.
        """
        ...

    async def window(self) -> int | None:
        """Return how many tokens the model reads and writes together; None when that is not known."""
        ...

    async def local_only(self) -> tuple[frozenset[str], str]:
        """Return the tags whose documents must not be sent to the writer, and the writer's name."""
        ...


class RagOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits and choices that hold for every question."""

    threshold: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    """Candidates with a score below it are dropped."""
    drop_duplicates: bool = False
    """Whether of passages that say the same only the best ranked is kept."""
    max_concepts: Annotated[int, msgspec.Meta(ge=0, le=64)] = 10
    """Most concepts that are searched for, the question itself not counted; with 0 none are asked for."""
    search_question: bool = True
    """Whether the question itself is searched beside its concepts; it always is where there are none."""
    max_context_chars: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Most characters of text given to the writer, 0 for no limit. A text is taken whole or skipped; the
    best one is always taken."""
    max_question_bytes: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 200_000
    """Longest question, in bytes of UTF-8; an embedding model reads the beginning of a long one."""
    fetch_concurrency: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 16
    """Texts read at once where they are read one by one."""
    full_account: bool = True
    """Whether the trace has scores, reasons, models, times and limits, or the shared vocabulary alone."""
    deadline_s: _Seconds | None = None
    """Seconds for the whole question; None for no limit but those below."""
    concepts_timeout_s: _Seconds = 30.0
    """Seconds for naming concepts; after that the question alone is searched."""
    embedding_timeout_s: _Seconds = 30.0
    """Seconds for one embedding call."""
    search_timeout_s: _Seconds = 30.0
    """Seconds for the searches, which run at once."""
    texts_timeout_s: _Seconds = 30.0
    """Seconds for reading all texts."""
    rerank_timeout_s: _Seconds = 30.0
    """Seconds for reranking; after that the order of retrieval stays."""
    answer_timeout_s: _Seconds | None = None
    """Seconds for writing the answer; None for all the time that the question has left."""
    step_tokens: Annotated[int, msgspec.Meta(ge=1)] = 60_000
    """Tokens of the prompts and replies of steps after which a `deep` question takes no further one."""
    step_time_share: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.5
    """Part of the remaining time that the steps of a `deep` question may take; the rest is for the answer."""
    record_thinking: bool = False
    """Whether the trace has what a language model thought aloud; an answer never has it."""
    save_timeout_s: _Seconds = 10.0
    """Seconds for saving the answer, where a callback for that is given."""
    explain_timeout_s: _Seconds = 2.0
    """Seconds for one call of an explain callback; a slower one is not called again for the question."""

    def deadline(self, seconds: float | None, monotonic: Callable[[], float]) -> Deadline:
        """Return the end of a question's time: after `seconds` or `deadline_s`, whichever is sooner."""
        deadline = Deadline(seconds, monotonic=monotonic)
        return deadline if self.deadline_s is None else deadline.within(self.deadline_s)


@dataclass(slots=True, kw_only=True)
class Question:
    """One question on its way to an answer."""

    request: DocumentRagRequest | CodeRagRequest
    """What was asked, with the flow's own values where it named none."""
    text: str
    """The question, completed and corrected."""
    retrieval: RetrievalServices
    writer: WriterService
    options: RagOptions
    trace: TraceRecorder
    deadline: Deadline
    asked_at: str
    rerank: bool
    """Whether a reranker chooses among the candidates."""
    pool_limit: int
    """Candidates that are retrieved and read; never fewer than the writer is given."""
    rerank_limit: int = 0
    """Most candidates that the reranker reads; 0 for all."""
    diversity: float | None = None
    """Weight of relevance where passages are chosen for their diversity, 0 to 1; None where they are not."""
    selects: bool = False
    """Whether a reranker or diversity chooses the passages for the writer among more candidates."""
    settings: Mapping[str, Scalar]
    """More that the trace records of the question, e.g. `collection`."""
    rank_weights: tuple[float, float] | None = None
    """Weights of the rankings by vectors and by words where these are separate searches, else None."""
    on_piece: ChunkCallback | None = None
    save_answer: SaveAnswerCallback | None = None

    checks_words: bool = False
    """Whether words that no document has are looked for; not in code."""
    asked: str = ""
    """The question as asked, once `text` is another one."""
    corrections: tuple[Correction, ...] = ()
    absent: tuple[str, ...] = ()
    """Words and identifiers of the question that no visible chunk has."""
    refusal: Refusal | None = None
    """Why the question is not given to the writer."""
    candidates: dict[str, Passage] = field(default_factory=dict)
    """All candidates by chunk id, in order of rank, with what is known of them."""
    models: dict[str, ModelUse] = field(default_factory=dict)
    replies: list[PromptResult] = field(default_factory=list)
    """What the writer replied to each call."""
    local_only: tuple[frozenset[str], str] | None = None
    """Tags whose documents must not be sent to the writer, and its name; None until that is asked."""
    step: str = ""
    """Last step of a `deep` question, `step/1` and so on; empty before the first."""
    selected: bool = False
    """Whether a selection (the `focus` stage) chose the passages for the writer."""

    @property
    def only_quotes(self) -> bool:
        """Whether the writer is known to be no language model: it quotes."""
        return any(one.language_model is False for one in self.replies)

    @property
    def doc_limit(self) -> int:
        """Most passages given to the writer."""
        return self.request.doc_limit

    @property
    def most_steps(self) -> int:
        """Most further searches; 0 for a question that is not `deep`."""
        return (self.request.steps or DEFAULT_STEPS) if self.request.deep else 0

    async def keeps_local(self) -> tuple[frozenset[str], str]:
        """Return the tags whose documents must not be sent to the writer, and its name.

        Raises:
            WhenceError: The prompt service does not say it; then nothing may be sent.
        """
        if self.local_only is None:
            self.local_only = await self.deadline.limit(
                "asking what the writer may read", self.writer.local_only, 30.0
            )
        return self.local_only

    async def previous_answer(self) -> str:
        """Return the last answer; empty where it may stand on documents that must not be sent."""
        if not self.request.previous_answer:
            return ""
        tags, _ = await self.keeps_local()
        access = self.request.access
        return "" if tags & (access.acl_tags | access.labels) else self.request.previous_answer

    def wishes(self) -> dict[str, Any]:
        """Return the variables of the prompt that the question and its day bring."""
        request = self.request
        given: dict[str, Any] = {
            "day": request.day or self.asked_at[:10],
            "language": request.answer_language,
            "instructions": request.answer_instructions,
            "max_tokens": request.writer_max_tokens,
            "temperature": request.writer_temperature,
            "sampling": msgspec.to_builtins(request.writer_sampling),
        }
        return {name: one for name, one in given.items() if one not in ("", None)}

    def all_settings(self) -> dict[str, Scalar]:
        """Return the limits and choices of the question, and the models used so far."""
        options = self.options
        settings: dict[str, Scalar] = {
            **self.settings,
            "doc_limit": self.doc_limit,
            "fetch_limit": self.pool_limit,
            "rerank": self.rerank,
            **({"exact": True} if self.request.exact else {}),
            **({"reusable": True} if self.request.reusable else {}),
            **({"deep": True, "steps": self.most_steps} if self.request.deep else {}),
            **({"rerank_limit": self.rerank_limit} if self.rerank_limit else {}),
            "threshold": options.threshold,
            "drop_duplicates": options.drop_duplicates,
            "max_concepts": options.max_concepts,
            "search_question": options.search_question,
            "max_context_chars": options.max_context_chars,
        }
        if self.diversity is not None:
            settings |= {"rerank_diversity": "mmr", "rerank_diversity_lambda": self.diversity}
        for role, model in self.models.items():
            settings[f"{role}_model"] = model.name
        return settings


def new_question(
    message: DocumentRagRequest | CodeRagRequest,
    options: RagOptions,
    sources: Sources,
    *,
    retrieval: RetrievalServices,
    writer: WriterService,
    deadline: Deadline,
    settings: Mapping[str, Scalar],
    has_reranker: bool = False,
    listener: EventListener | None = None,
) -> Question:
    """Return a question at its start."""
    trace = TraceRecorder(
        validate_answer_id(message.answer_id or sources.new_id()),
        sources,
        listener,
        full=options.full_account,
        listener_timeout_s=options.explain_timeout_s,
    )
    question = Question(
        request=message,
        text=message.question,
        retrieval=retrieval,
        writer=writer,
        options=options,
        trace=trace,
        deadline=deadline,
        asked_at=iso_utc(sources.clock()),
        rerank=False,
        pool_limit=message.doc_limit,
        settings=settings,
    )
    if isinstance(message, DocumentRagRequest):
        question.checks_words = True
        question.rerank = has_reranker and message.rerank
        question.rerank_limit = message.rerank_limit if question.rerank else 0
        if message.diversity == "mmr":
            given = message.diversity_lambda
            question.diversity = DEFAULT_LAMBDA if given is None else given
        question.selects = question.rerank or question.diversity is not None
        if question.selects:
            pool = message.fetch_limit or OVERFETCH_FACTOR * message.doc_limit
            question.pool_limit = max(pool, message.doc_limit)
    return question

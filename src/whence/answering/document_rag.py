"""The question's way through the stages, over any clients."""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime

from whence.answering.citations import Passage
from whence.answering.evidence import explore
from whence.answering.pipeline import RagResult, new_question, through_stages
from whence.answering.query_processing import Grounding
from whence.answering.reranking import focus
from whence.answering.state import (
    Ask,
    Clients,
    EmbeddingAsker,
    FetchChunk,
    FetchChunks,
    PromptAsker,
    Question,
    RagOptions,
    RerankAsker,
    SaveAnswerCallback,
    SearchAsker,
)
from whence.answering.trace_recorder import EventListener, iso_utc, utc_now
from whence.answering.validation import check_limits, check_question
from whence.processors.clients import ChunkCallback
from whence.provenance.terms import Scalar
from whence.schema.terms import Triple

__all__ = ("DocumentRag", "ExplainCallback", "RagResult", "new_answer_id")

ExplainCallback = Callable[[tuple[Triple, ...], str], Awaitable[None]]
"""Takes the triples of a stage and the IRI of the stage."""


def new_answer_id() -> str:
    """Give a new id, 32 hexadecimal digits."""
    return uuid.uuid4().hex


class DocumentRag:
    """Answers questions from documents and tells where each answer came from.

    Args:
        prompt_client: Names concepts and writes answers.
        embeddings_client: Makes vectors.
        doc_embeddings_client: Searches with vectors.
        fetch_chunk: Takes a chunk id and gives its text.
        reranker_client: Chooses among the candidates; None for the order of retrieval.
        fetch_chunks: Reads all texts in one request; used in place of `fetch_chunk` when given.
        options: Limits and choices.
        settings: More that the trace tells of every question, e.g. `collection`.
        new_id: Makes ids of answers.
        clock: Time of day in UTC.
        monotonic: Clock in seconds that never goes back.
    """

    def __init__(
        self,
        prompt_client: PromptAsker,
        embeddings_client: EmbeddingAsker,
        doc_embeddings_client: SearchAsker,
        fetch_chunk: FetchChunk,
        reranker_client: RerankAsker | None = None,
        *,
        fetch_chunks: FetchChunks | None = None,
        options: RagOptions | None = None,
        settings: Mapping[str, Scalar] | None = None,
        new_id: Callable[[], str] = new_answer_id,
        clock: Callable[[], datetime] = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.prompt_client = prompt_client
        self.embeddings_client = embeddings_client
        self.doc_embeddings_client = doc_embeddings_client
        self.fetch_chunk = fetch_chunk
        self.reranker_client = reranker_client
        self.fetch_chunks = fetch_chunks
        self.options = options or RagOptions()
        self._settings = dict(settings or {})
        self._new_id = new_id
        self._clock = clock
        self._monotonic = monotonic

    async def query(
        self,
        query: str,
        doc_limit: int = 20,
        fetch_limit: int = 0,
        streaming: bool = False,
        chunk_callback: ChunkCallback | None = None,
        explain_callback: ExplainCallback | None = None,
        save_answer_callback: SaveAnswerCallback | None = None,
        *,
        rerank: bool = True,
        answer_id: str = "",
        deadline_s: float | None = None,
        event_callback: EventListener | None = None,
        keep_events: bool = False,
        asked_at: str = "",
    ) -> RagResult:
        """Answer one question.

        Args:
            query: The question.
            doc_limit: Most chunks given to the writer, 1 or more.
            fetch_limit: Candidates retrieved for the reranker, never fewer than `doc_limit`; 0 for three
                times `doc_limit`. Without a reranker `doc_limit` are retrieved.
            streaming: Whether `chunk_callback` gets the text as it is written.
            chunk_callback: Takes a piece of text and whether it is the last.
            explain_callback: Takes the triples and the IRI of each stage as soon as it is done.
            save_answer_callback: Takes the IRI under which the answer is kept, and its text; called when
                somebody wants the trace.
            rerank: False leaves the reranker out.
            answer_id: Id of the answer; made when empty.
            deadline_s: Seconds for the whole question; the shorter of this and the options' own holds.
            event_callback: Like `explain_callback`, takes the whole event.
            keep_events: Whether the result carries the events even without a callback.
            asked_at: When it was asked, ISO 8601 in UTC; now when empty.

        Returns:
            The answer. Without any text to answer from no writer is asked, and the answer says so.

        Raises:
            BadInput: The question is blank, too long or no valid text, a limit is out of range, or the
                answer id is not fit for an IRI.
            DeadlineExceeded: The time ran out.
            WhenceError: A stage failed that cannot be done without.
        """
        check_question(query, max_bytes=self.options.max_question_bytes)
        check_limits(doc_limit, fetch_limit)
        ask = Ask(
            query=query,
            doc_limit=doc_limit,
            fetch_limit=fetch_limit,
            rerank=rerank and self.reranker_client is not None,
            asked_at=asked_at or iso_utc(self._clock()),
            settings=self._settings,
            streaming=streaming,
            chunk_callback=chunk_callback,
            save_answer_callback=save_answer_callback,
        )
        question = new_question(
            ask,
            self._clients(),
            self.options,
            answer_id=answer_id or self._new_id(),
            listeners=_listeners(explain_callback, event_callback),
            keep_events=keep_events,
            deadline_s=deadline_s,
            clock=self._clock,
            monotonic=self._monotonic,
        )
        return await through_stages(
            question, lambda grounding: _explore(question, grounding), monotonic=self._monotonic
        )

    def _clients(self) -> Clients:
        return Clients(
            prompt=self.prompt_client,
            embeddings=self.embeddings_client,
            doc_embeddings=self.doc_embeddings_client,
            fetch_chunk=self.fetch_chunk,
            fetch_chunks=self.fetch_chunks,
            reranker=self.reranker_client,
        )


def _listeners(
    explain_callback: ExplainCallback | None, event_callback: EventListener | None
) -> list[EventListener]:
    listeners: list[EventListener] = []
    if event_callback is not None:
        listeners.append(event_callback)
    if explain_callback is not None:
        tell = explain_callback
        listeners.append(lambda event: tell(event.triples, event.explain_id))
    return listeners


async def _explore(question: Question, grounding: Grounding) -> list[Passage]:
    """Search and read, then let the reranker choose where there is one."""
    passages = await explore(question, grounding)
    reranker = question.clients.reranker
    if question.ask.rerank and reranker is not None and passages:
        passages = await focus(question, reranker, passages)
    return passages

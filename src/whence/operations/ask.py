"""`Ask`: a question about documents, and the message that carries it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from whence.operations.many_collections import collection_names
from whence.operations.operation import CLI, HTTP, PYTHON, Filters, Offered, Operation, travelling
from whence.retrieval.diversity import check_diversity
from whence.retrieval.pipeline import check_text, search_mode
from whence.schema.access import Access
from whence.schema.document_rag import Answer, Diversity
from whence.schema.errors import BadInput
from whence.schema.filters import parse_filters
from whence.schema.message import Message
from whence.schema.prompt import Sampling
from whence.schema.terms import Triple
from whence.text.normalization import is_blank

if TYPE_CHECKING:
    from whence.operations.session import Session
    from whence.operations.traced_client import TracedCall

ChunkCallback = Callable[[str, bool], Awaitable[None]]
"""Takes a piece of text and whether it is the last."""
ExplainCallback = Callable[[tuple[Triple, ...], str], Awaitable[None]]
"""Takes the triples of a stage and the IRI of the stage."""

_MAX_TIMEOUT_S = 86_400.0
#: Characters of an earlier answer that are read.
MOST_PREVIOUS = 8000
_CALLBACK = Offered(on=frozenset({PYTHON}), local=True)
#: On the command line these are settings.
_TO_WRITERS = Offered(on=frozenset({HTTP, PYTHON}))


class Ask(Operation[Answer], frozen=True):
    """Answer a question from documents, with citations."""

    NAME: ClassVar[str] = "ask"
    traced: ClassVar[bool] = True
    many_collections: ClassVar[bool] = True

    question: str
    """The question."""
    access: Access = Access.public()
    """Rights to read with."""
    collection: str = "default"
    """Collection to read; several are separated by commas."""
    doc_limit: Annotated[
        int, Meta(ge=1), Offered(cli_text="Of code, nodes, by default as many as the flow says.")
    ] = 20
    """Passages given to the writer."""
    fetch_limit: Annotated[int, Meta(ge=0)] = 0
    """Candidates before reranking; 0 for three times `doc_limit`."""
    rerank_limit: Annotated[int, Meta(ge=0)] = 0
    """Candidates that the reranker reads; 0 for all."""
    rerank: Annotated[bool, Offered(option="--rerank/--no-rerank")] = True
    """Rerank the candidates."""
    diversity: Annotated[Diversity | None, Offered(metavar="mmr|none")] = None
    """`mmr` chooses passages that say different things, `none` goes by relevance; by default the flow's own."""
    diversity_lambda: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Weight of relevance against diversity, 0 to 1; by default the flow's own, 0.7 where it has none."""
    mode: str | None = None
    """`hybrid`, `dense` or `bm25`."""
    filters: Filters = {}
    """Conditions on metadata, all of which must hold."""
    exact: bool = False
    """Search for all words as they are; quoted words always are."""
    deep: bool = False
    """Let the language model search again, in steps, before it answers; without it there is one pass."""
    steps: Annotated[int, Meta(ge=0, le=8), Offered(metavar="N")] = 0
    """Most further steps of `deep`, each a call of the model and up to three searches; 0 for three."""
    as_of: Annotated[
        str | None,
        Offered(metavar="DATE|ANSWER_ID", on=frozenset({CLI, PYTHON}), local=True),
    ] = None
    """Answer from the documents as they were: at the end of a date, at a time (ISO 8601, UTC), or when an
    answer was given. Rights are those of today."""
    history: Annotated[tuple[str, ...], Offered(on=frozenset({HTTP, PYTHON}))] = ()
    """Earlier questions of the conversation, oldest first; they complete a follow-up question."""
    previous_answer: Annotated[
        str, Meta(max_length=MOST_PREVIOUS), Offered(on=frozenset({HTTP, PYTHON}))
    ] = ""
    """Last answer of the conversation, which a follow-up question may be about; no trace has it."""
    follow: Annotated[str, Meta(max_length=200), Offered(metavar="ANSWER_ID")] = ""
    """Answer that the question goes on with: its questions and its text are read in place of `history` and
    `previous_answer`."""
    answer_language: Annotated[str, Meta(max_length=40), _TO_WRITERS] = ""
    """Language in which a language model answers, such as `German`; by default that of the question."""
    answer_instructions: Annotated[str, Meta(max_length=8000), _TO_WRITERS] = ""
    """What a language model is told beside the rules of answering, such as the tone."""
    writer_max_tokens: Annotated[Annotated[int, Meta(ge=1, le=1_000_000)] | None, _TO_WRITERS] = (
        None
    )
    """Most tokens of an answer of a language model; by default its own."""
    writer_temperature: Annotated[Annotated[float, Meta(ge=0, le=2)] | None, _TO_WRITERS] = None
    """Temperature of a language model, 0 to 2; by default its own."""
    writer_sampling: Annotated[Sampling | None, _TO_WRITERS] = None
    """Further parameters of a language model, such as `seed` and `top_p`."""
    timeout_s: Annotated[float, Meta(gt=0), Offered(metavar="SECONDS", local=True)] = 120.0
    """Time limit in seconds."""

    def check(self) -> None:
        """Raise `BadInput` for values that can be refused before anything starts."""
        check_question(self.question, self.doc_limit, self.fetch_limit, self.rerank_limit)
        check_timeout(self.timeout_s)
        if len(collection_names(self.collection)) > 1 and self.as_of is not None:
            raise BadInput(
                "former documents can be asked of one collection at a time",
                hint="name one collection, or leave out as_of",
            )
        if self.follow and (self.history or self.previous_answer):
            raise BadInput(
                "a question that follows an answer takes its conversation from there",
                hint="leave out history and previous_answer, or follow",
            )
        if self.steps and not self.deep:
            raise BadInput("steps are those of a deep question", hint="add --deep")
        if self.diversity is not None or self.diversity_lambda is not None:
            check_diversity(self.diversity, self.diversity_lambda)
        if self.mode is not None:
            search_mode(self.mode)
        parse_filters(self.filters)

    async def run(self, session: Session) -> Answer:
        """Return the answer.

        Raises:
            BadInput: A value is out of range, or no visible document has a key of the filters.
            NotFound: There is no such collection.
            WhenceError: The time ran out, or a stage failed that the answer depends on.
        """
        return await session.ask(self)

    def count(self, result: Answer) -> int:
        """Return the number of citations."""
        return len(result.citations)

    def answer_of(self, result: Answer) -> str:
        """Return the id of the answer."""
        return result.answer_id

    def state_after(self, calls: Sequence[TracedCall], result: Answer | None) -> dict[str, Any]:
        """Return what it searched, read and cited."""
        from whence.operations.pipeline_states import question_state

        return question_state(calls, DocumentRagRequest, result)


class AskLive(Ask, frozen=True):
    """Answer a question from documents, with citations; callbacks receive text and stages as they come."""

    chunk_callback: Annotated[ChunkCallback | None, _CALLBACK] = None
    """Receives the text while it is written."""
    explain_callback: Annotated[ExplainCallback | None, _CALLBACK] = None
    """Receives the triples of each finished stage; its exceptions are only logged."""

    @classmethod
    def of(
        cls,
        asked: Ask,
        chunk_callback: ChunkCallback | None = None,
        explain_callback: ExplainCallback | None = None,
    ) -> AskLive:
        """Return a question with callbacks."""
        fields = {name: getattr(asked, name) for name in Ask.__struct_fields__}
        return cls(**fields, chunk_callback=chunk_callback, explain_callback=explain_callback)

    async def run(self, session: Session) -> Answer:
        """Return the answer; errors as for `Ask`."""
        return await session.ask(self, self.chunk_callback, self.explain_callback)


class DocumentRagRequest(Ask, Message, frozen=True, kw_only=True):
    """A question as it travels and is recorded."""

    TYPE: ClassVar[str] = "document-rag-request.v1"

    access: Access
    """Rights of the reader."""
    answer_id: str = ""
    """Id of the answer; generated when empty. A redelivered question has the same id."""
    streaming: bool = False
    """True for pieces of text as they are written."""
    explain: bool = True
    """False sends no explain events; the trace is recorded all the same."""
    record: bool = True
    """False records no trace, for a question that is repeated only to compare."""
    revision_of: str = ""
    """Id of an answer that the new one replaces; the trace names it."""
    reusable: bool = False
    """Whether the answer may be given again, to the same question of a reader with the same rights."""
    day: str = ""
    """Day that the writer takes for today, `YYYY-MM-DD`; empty for that of the question."""

    @classmethod
    def of(cls, asked: Ask, *, streaming: bool) -> DocumentRagRequest:
        """Return the message for a question."""
        names = ",".join(collection_names(asked.collection))
        return cls(**travelling(asked) | {"collection": names}, streaming=streaming)


def check_question(
    query: object,
    doc_limit: int,
    fetch_limit: int = 0,
    rerank_limit: int = 0,
    *,
    max_bytes: int | None = None,
) -> None:
    """Check a question and its limits.

    Raises:
        BadInput: The question is no text, blank, contains NUL or a lone surrogate, or is longer than
            `max_bytes`; `doc_limit` is below 1, or `fetch_limit` or `rerank_limit` below 0.
    """
    if not isinstance(query, str):
        raise BadInput(f"a question is a text, not a {type(query).__name__}")
    if is_blank(query):
        raise BadInput("the question is blank", hint="ask something")
    check_text("the question", query)
    if max_bytes is not None and len(query.encode()) > max_bytes:
        raise BadInput(
            f"the question has {len(query.encode())} bytes; at most {max_bytes} are taken",
            hint="ask it shorter",
        )
    if doc_limit < 1:
        raise BadInput(f"doc_limit must be at least 1, not {doc_limit}")
    for name, value in (("fetch_limit", fetch_limit), ("rerank_limit", rerank_limit)):
        if value < 0:
            raise BadInput(f"{name} must be at least 0, not {value}")


def check_timeout(timeout_s: float) -> None:
    """Check the time for a question."""
    if not 0.0 < timeout_s <= _MAX_TIMEOUT_S:
        raise BadInput(
            f"the time for a question must be above 0 and at most {_MAX_TIMEOUT_S:g} s, not {timeout_s:g}",
            hint="120 s are the default",
        )

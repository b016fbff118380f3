"""Messages of document RAG: a question in; answer pieces, explain events and the answer out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final, Literal, TypedDict

import msgspec

from whence.schema.access import Access
from whence.schema.message import Message
from whence.schema.places import Location
from whence.schema.search import Correction, Degradation
from whence.schema.terms import Triple

Diversity = Literal["none", "mmr"]


class AnswerPiece(Message, frozen=True, kw_only=True):
    """Text written since the last piece."""

    TYPE: ClassVar[str] = "answer-piece.v1"

    text: str
    """May be empty."""
    end_of_stream: bool = False
    """True on the last piece."""


class ExplainEvent(Message, frozen=True, kw_only=True):
    """The provenance of one stage, sent as soon as the stage is done."""

    TYPE: ClassVar[str] = "explain-event.v1"

    answer_id: str
    """Answer it explains."""
    stage: str
    """`question`, `grounding`, `exploration`, `focus` or `synthesis`."""
    sequence: int
    """0 for the first stage of the question, then one more each."""
    explain_id: str
    """IRI of the stage; subject of its triples."""
    triples: tuple[Triple, ...]
    """Triples of the stage."""


class Citation(Message, frozen=True, kw_only=True, gc=False):
    """Source of one marker of the answer."""

    marker: int
    """The number in `[n]`."""
    chunk_id: str
    """Cited chunk."""
    document_id: str
    """Document of the chunk."""
    title: str = ""
    """Title of the document, when it has one."""
    source_file: str = ""
    """File of the document, relative to its root."""
    root: str = ""
    """Folder or uploads that the file came from; empty when unknown."""
    source_url: str = ""
    """URL of the document, when it has one."""
    heading: str = ""
    """Nearest heading above the passage."""
    quote: str = ""
    """The passage, verbatim."""
    lead: str = ""
    """Header of the table that the quote is a row of: `lead`, a line end and `quote` are a table in Markdown.
    Empty for other quotes."""
    highlights: tuple[tuple[int, int], ...] = ()
    """Offsets in `quote`, `(start, end)`, of the words that answer; in order, not overlapping."""
    outdated: str = ""
    """Why the document is out of date by its own metadata; empty when it is current."""
    location: Location | None = None
    """Where the quote stands in the document; None when that is not known."""
    collection: str = ""
    """Collection of the document where several were asked; else empty."""
    added: bool = False
    """Whether Whence found the passage of a sentence that the model wrote without a marker."""
    document_date: str | None = None
    """The document's own date, ISO 8601; None when it has none or is not known. No trace has it, nor what
    follows."""
    indexed_at: str | None = None
    """When the text of the document was stored, ISO 8601 in UTC."""
    changed: bool | None = None
    """Whether the source is another one now; None when that cannot be known."""


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """Two cited documents that say different numbers or dates for one thing."""

    citations: tuple[int, int]
    """Markers of the documents."""
    values: tuple[str, str]
    """What each says, as written, e.g. `27 days`."""


#: The field's term for each stage; triples and `stage` keep the names of the shared vocabulary.
STAGE_LABELS: Final[Mapping[str, str]] = {
    "question": "query processing",
    "grounding": "query processing",
    "exploration": "retrieval",
    "focus": "reranking",
    "step": "further search",
    "synthesis": "generation",
    "error": "error",
}


def stage_label(stage: str) -> str:
    """Return the field's term for a stage, e.g. `retrieval`; of an unknown stage its name.

    >>> stage_label("step/2")
    'further search 2'
    """
    kind, _, number = stage.partition("/")
    return f"{STAGE_LABELS.get(kind, kind)} {number}".rstrip()


class StageReport(Message, frozen=True, kw_only=True, gc=False):
    """One stage in numbers; only candidates that the reader may see are counted."""

    stage: str
    """`question`, `grounding`, `exploration`, `focus`, `step/1` and so on, or `synthesis`."""
    duration_ms: float
    """Duration in milliseconds."""
    candidates_in: int = 0
    """Chunks (in `grounding`: questions) that entered."""
    candidates_out: int = 0
    """Chunks (in `grounding`: concepts) that left."""

    @property
    def label(self) -> str:
        """The field's term for the stage, e.g. `retrieval`; of an unknown stage its name."""
        return stage_label(self.stage)


RefusalCode = Literal[
    "nothing_retrieved",
    "below_evidence_floor",
    "term_not_in_documents",
    "no_text_readable",
    "model_refused",
    "local_only",
]
"""Why a question has no answer."""


class BestPassage(msgspec.Struct, frozen=True):
    """The passage that comes nearest to an answer."""

    chunk_id: str
    """The passage."""
    score: float
    """0 to 1, comparable with the floor of the refusal."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a question has no answer."""

    code: RefusalCode
    """Code of the reason."""
    reason: str
    """A sentence with the numbers behind the refusal."""
    best: BestPassage | None = None
    """None when no passage was scored."""
    floor: float | None = None
    """Least score of an answer; None when nothing was compared with it."""
    unread_files: int = 0
    """Files of the collection's folders that were not read and that the reader may know of."""


class NearestPassage(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that stands beside a refusal: it does not answer, and nothing that was found comes nearer."""

    chunk_id: str
    """The passage."""
    document_id: str
    """The document that it is part of."""
    heading: str = ""
    """Nearest heading above it."""
    lead: str = ""
    """Header of the table or terms of the definition in which it begins, to be read above it."""
    text: str
    """The whole passage."""
    score: float | None = None
    """Score of the search or the reranker, 0 to 1; None when it has none."""


class Usage(TypedDict):
    """What an answer cost."""

    in_token: int | None
    out_token: int | None
    model: str | None


class Answer(Message, frozen=True, kw_only=True):
    """The answer and its sources."""

    TYPE: ClassVar[str] = "answer.v1"

    answer_id: str
    """Id under which the trace is stored."""
    question: str
    """The question as asked."""
    question_used: str = ""
    """The question that was answered, completed from earlier ones and with the corrections."""
    corrections: tuple[Correction, ...] = ()
    """Misspelt words of the question and what they were taken for."""
    text: str
    """The answer with `[n]` markers, or the statement that nothing was found."""
    found: bool = True
    """False when no citation supports an answer."""
    score: float | None = None
    """How well the best passage answers, 0 to 1, comparable with the floor; None with a language model."""
    refusal: Refusal | None = None
    """Why there is no answer; None when there is one, and when a language model found none."""
    citations: tuple[Citation, ...] = ()
    """In order of their markers."""
    conflicts: tuple[Conflict, ...] = ()
    """Cited documents that contradict each other; no trace has them."""
    nearest: tuple[NearestPassage, ...] = ()
    """Beside a refusal at most three passages, best first."""
    unsupported: tuple[tuple[int, int], ...] = ()
    """Offsets in `text` of sentences of a language model that no passage they cite supports."""
    model: str = ""
    """Writer of the text; empty when it was not called."""
    in_token: int | None = None
    """Tokens that models read for concepts and answer, when known."""
    out_token: int | None = None
    """Tokens that models wrote for concepts and answer, when known."""
    cost: float | None = None
    """What these calls cost by the operator's price list; None when the price of one is not known."""
    currency: str = ""
    """Currency of the price list; empty without a cost."""
    cached: bool = False
    """Whether it was given before, and no model was asked again; its trace is that of then."""
    degraded: tuple[Degradation, ...] = ()
    """What was left out, and why."""
    stages: tuple[StageReport, ...] = ()
    """In the order they ran."""
    latency_ms: float = 0.0
    """From receiving the question to the answer, in milliseconds."""

    @property
    def id(self) -> str:
        """The same as `answer_id`."""
        return self.answer_id

    @property
    def usage(self) -> Usage:
        """Tokens and model, None where not known."""
        return Usage(in_token=self.in_token, out_token=self.out_token, model=self.model or None)

    def __iter__(self) -> Iterator[Any]:
        """Yield the text and the usage, so that `text, usage = answer` works."""
        return iter((self.text, self.usage))


class TraceRecord(Message, frozen=True, kw_only=True):
    """Everything stored of one question; the recorder writes it in one transaction."""

    TYPE: ClassVar[str] = "trace-record.v1"

    answer_id: str
    """Key; recording the same id again changes nothing."""
    collection: str
    """Collection that was searched; several are separated by commas."""
    question: str
    """The question as asked."""
    access: Access
    """Rights of the reader who asked."""
    events: tuple[ExplainEvent, ...]
    """All stages in order."""
    answer: Answer | None = None
    """The answer; None when the question failed."""
    settings: dict[str, Any] = {}
    """Limits, mode and models of the run, for replay."""
    asked_at: str = ""
    """Start, ISO 8601 in UTC."""
    collection_version: int = 0
    """Oldest version of the collection that a search of the question saw; 0 when not known. It counts hidden
    documents too: not to be shown to readers."""
    collection_versions: dict[str, int] = {}
    """The same for each of several collections; empty for one."""

    def version_of(self, collection: str) -> int:
        """Return the oldest version of one of its collections that was seen; 0 when not known."""
        return self.collection_versions.get(collection, self.collection_version)

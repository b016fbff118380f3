"""Messages of the text fetcher: chunk ids in, texts out in one batched read, optionally within a budget."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from whence.schema.access import Access
from whence.schema.message import Message
from whence.schema.places import Place

BudgetKind = Literal["chars", "tokens"]
"""Unit of a budget: characters, or tokens of the configured embedding model."""
Prioritize = Literal["seed_first", "graph_first", "balanced", "clustered"]
"""Order in which texts are considered; `clustered` is each seed followed by the nodes reached from it."""


class ChunkText(Message, frozen=True, kw_only=True, gc=False):
    """The text of one chunk and its place in its source."""

    chunk_id: str
    """IRI of the chunk."""
    document_id: str
    """Document of the chunk."""
    content: str
    """The text, verbatim from the source."""
    metadata: dict[str, Any] = {}
    """`source_file`, `source_url`, `section_path`, `header_path`, `heading`, `chunk_index`, and the
    document's own metadata."""
    lead: str = ""
    """Header of the table or terms of the definition in which it begins, see `ChunkDraft.lead`."""
    digest: str = ""
    """SHA-256 of `content` in UTF-8, hexadecimal."""
    word_signature: bytes = b""
    """Signature of the words of `content`, see `whence.text.signatures`; empty when none is kept."""
    tokens: int | None = None
    """Tokens of `content` by the configured embedding model; None unless a plan needs them."""
    token_codes: bytes = b""
    """Its token vectors for a reranker; empty unless they were asked for and are kept."""
    char_start: int | None = None
    """Offset of `content` in the stored text of its document; None unless places are asked for."""
    places: tuple[Place, ...] = ()
    """Where the stored text of its document stands in the file; empty unless asked for, or not known."""


class PlannedText(Message, frozen=True, kw_only=True, gc=False):
    """A text requested for its place in a graph."""

    id: str
    """Chunk id."""
    depth: int = 1
    """Steps from the nearest seed; 1 when unknown."""
    parent_id: str | None = None
    """Chunk id of the node from which it was reached, when known."""


class TextBudget(Message, frozen=True, kw_only=True):
    """Limit of all texts of one reply together."""

    kind: BudgetKind
    """Unit."""
    limit: int
    """Most units, 1 or more."""
    setting: str = ""
    """Key of the settings file that the limit was read from; empty when it was given as a number."""


class TextPlan(Message, frozen=True, kw_only=True):
    """Order of texts, and the budget for all of them."""

    seeds: tuple[str, ...] = ()
    """Chunk ids in order of rank."""
    graph: tuple[PlannedText, ...] = ()
    """Texts near the seeds; one that is also a seed counts as a seed."""
    prioritize: Prioritize = "balanced"
    """Order in which texts are considered."""
    budget: TextBudget
    """Limit."""


class TextDecision(Message, frozen=True, kw_only=True, gc=False):
    """Whether one text was returned, and why."""

    id: str
    """Chunk id."""
    action: Literal["include", "skip"]
    """A text is included whole or skipped."""
    reason: str
    """`fits`; `over_char_budget`, `over_token_budget`; `not_found` for one that does not exist or is
    hidden."""


class TextRequest(Message, frozen=True, kw_only=True):
    """Ask for the texts of chunks that the reader may see."""

    TYPE: ClassVar[str] = "text-request.v1"

    access: Access
    """Rights of the reader; a hidden chunk is reported as missing."""
    collection: str
    """Name of the collection."""
    chunk_ids: tuple[str, ...] = ()
    """Ids, each once."""
    plan: TextPlan | None = None
    """Texts within a budget, in place of `chunk_ids`."""
    token_codes: bool = False
    """Whether the token codes of the chunks are wanted, too; those of a plan are left out."""
    with_places: bool = False
    """True for offsets and places of each text; only with `chunk_ids`. Reads whole documents."""


class TextResponse(Message, frozen=True, kw_only=True):
    """The texts that exist and are visible, in the order asked."""

    TYPE: ClassVar[str] = "text-response.v1"

    texts: tuple[ChunkText, ...]
    """One entry for every chunk found."""
    missing: tuple[str, ...] = ()
    """Ids not found or not visible, in the order asked."""
    decisions: tuple[TextDecision, ...] = ()
    """With a plan: one for each of its texts in the order considered; `texts` has those included, in this
    order."""

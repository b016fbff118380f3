"""Messages of ingest: chunked documents in, one outcome per document out."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from whence.schema.access import DocumentTags
from whence.schema.embedding import EmbeddingModel
from whence.schema.message import Message
from whence.schema.places import Place

OutcomeKind = Literal["added", "updated", "unchanged", "failed"]


class ChunkDraft(Message, frozen=True, kw_only=True):
    """One chunk before it is stored."""

    content: str
    """The text, verbatim from the document's text; never blank."""
    start: int = 0
    """Offset of the first character in the document's text."""
    end: int = 0
    """Offset after the last character."""
    heading: str = ""
    """Nearest heading above."""
    section_path: str = ""
    """Headings from the top, joined by ` > `."""
    embed_text: str = ""
    """Text to embed and search when it is more than `content`, e.g. with title and heading in front."""
    page: int = 0
    """First page, from 1; 0 when the document has no pages."""
    lead: str = ""
    """Caption and header of the table, or terms of the definition, in which it begins, if they stand before it;
    a table's header ends with the line below it, so that `lead` and `content` are a table in Markdown."""


def words_of_lead(lead: str) -> tuple[str, ...]:
    r"""Return the lines of a lead without the line below a table's header.

    >>> words_of_lead("Prices\n| Item | Euro |\n|---|---|")
    ('Prices', '| Item | Euro |')
    """
    return tuple(line for line in lead.split("\n") if line.strip("|- "))


def text_to_embed(chunk: ChunkDraft) -> str:
    """Return what is embedded of a chunk."""
    return chunk.embed_text or chunk.content


class DocumentDraft(Message, frozen=True, kw_only=True):
    """One document, read and chunked."""

    document_id: str
    """Id within the collection: a path relative to the indexed folder, or a record's own id."""
    chunks: tuple[ChunkDraft, ...]
    """In the order of the text; the position is the chunk index."""
    title: str = ""
    """Title, when it has one."""
    source_file: str = ""
    """File of the document, relative to its root."""
    root: str = ""
    """Name of the folder that was indexed; empty when unknown. Not part of `digest`."""
    source_url: str = ""
    """URL of the document, when it has one."""
    tags: DocumentTags = DocumentTags()
    """Rights a reader needs."""
    metadata: dict[str, Any] = {}
    """The document's own metadata, JSON types only."""
    digest: str = ""
    """SHA-256 of everything stored except the tags, hexadecimal."""
    source_digest: str = ""
    """Fingerprint of the source and the way it was read; empty when unknown. Not part of `digest`."""
    gaps: tuple[str, ...] = ()
    """White space of the text before each chunk, empty where it overlaps the one before; none when the offsets
    of the chunks tell it."""
    places: tuple[Place, ...] = ()
    """Where the parts of the text stand in the file, by offset."""
    date: str = ""
    """Its own date, ISO 8601; empty when it states none."""
    encoding: str = ""
    """Encoding of the file when it was guessed or set; not part of `digest`."""
    left_out: dict[str, int] = {}
    """What the loader saw and did not take, by kind, e.g. pictures; not part of `digest`."""


class IngestRequest(Message, frozen=True, kw_only=True):
    """Store documents; each is stored whole or not at all."""

    TYPE: ClassVar[str] = "ingest-request.v1"

    collection: str
    """Name of the collection; created when it does not exist."""
    documents: tuple[DocumentDraft, ...]
    """Each id once."""
    token_vectors: bool = False
    """Whether token vectors of the chunks are kept, as codes, for a reranker that reads them."""
    vectors_later: bool = False
    """Whether the documents are stored without vectors; requests with `embed` make them."""
    model: EmbeddingModel | None = None
    """Model of a new collection whose vectors are made later; by default that of the embedding service."""
    embed: int = 0
    """Most passages of the collection that wait for vectors and are embedded after the documents are stored."""


class DocumentOutcome(Message, frozen=True, kw_only=True):
    """Outcome of one document."""

    document_id: str
    """As in the request."""
    outcome: OutcomeKind
    """`updated` also when only the tags changed, which embeds nothing."""
    chunks: int = 0
    """Chunks of the document."""
    embedded: int = 0
    """Chunks that were embedded."""
    reason: str = ""
    """Reason of a failure."""


class IngestResponse(Message, frozen=True, kw_only=True):
    """One outcome per document, in the order of the request."""

    TYPE: ClassVar[str] = "ingest-response.v1"

    outcomes: tuple[DocumentOutcome, ...]
    """In the order of the request's documents."""
    model: EmbeddingModel | None = None
    """Model of the collection, when anything was stored."""
    embedded: int = 0
    """Passages that got a vector by `embed`; those of equal texts count once."""
    stored: int = 0
    """Passages that got a vector by `embed`."""
    waiting: int = 0
    """With `embed`: passages that still wait."""
    reason: str = ""
    """With `embed`: why none was embedded: the embedding service has not the model of the collection."""
    refused: tuple[DocumentOutcome, ...] = ()
    """With `embed`: documents with a text that the model does not take; they are found by words."""

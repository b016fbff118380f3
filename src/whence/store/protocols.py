"""What processors ask of the store. The PostgreSQL store is chosen by `flow` and passed in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from whence.schema.access import Access, DocumentTags
from whence.schema.document_rag import TraceRecord
from whence.schema.embedding import EmbeddingModel
from whence.schema.filters import Filters
from whence.schema.idempotency import EffectKind, Effects
from whence.schema.ingest import DocumentDraft
from whence.schema.search import Candidate, Match
from whence.schema.texts import ChunkText
from whence.store.field_boosts import FieldBoosts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = (
    "ChunkStore",
    "CollectionInfo",
    "DocumentParts",
    "DocumentState",
    "EmbeddedDocument",
    "Store",
    "StoreOverview",
    "StoredTrace",
    "TraceStore",
)


class CollectionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A collection and the model all its vectors come from."""

    name: str
    model: EmbeddingModel
    documents: int = 0
    """Documents in it, hidden ones included; for the owner's eyes only."""
    chunks: int = 0
    """Chunks in it, hidden ones included."""
    changed_at: str = ""
    """When a document was stored last, ISO 8601 in UTC; empty when there is none."""
    bytes: int = 0
    """About what it takes on disk: its share, by its chunks, of the tables of all collections. Only in lists; 0
    where nothing is on disk."""


class DocumentState(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of a document, enough to see whether it changed."""

    document_id: str
    digest: str
    tags: DocumentTags
    chunks: int
    source_digest: str = ""
    """As in the draft; empty when it is unknown, or when the tags were changed since."""


class DocumentParts(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a document is stored, by kind."""

    documents: int = 0
    """1 while it is in the collection, else 0."""
    chunks: int = 0
    vectors: int = 0
    postings: int = 0
    """Words of its chunks in the index of words, each counted once a chunk."""
    links: int = 0
    """Names in the passage graph that its chunks bear or mention."""


class EmbeddedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document ready to be stored."""

    draft: DocumentDraft
    vectors: NDArray[np.float32]
    """float32, shape (len(draft.chunks), dimension), rows of length 1."""


class StoreOverview(msgspec.Struct, frozen=True, kw_only=True):
    """What a store is and how much it holds; for the owner's eyes only."""

    server: str
    """The database server and its version."""
    pgvector: str = ""
    """Version of pgvector; empty where there is none."""
    bytes: int = 0
    """Size of the whole database, in bytes."""
    parts: dict[str, int] = {}
    """Bytes by what they are for: `texts`, `vectors`, `words`, `filters`, `links`, `traces`, `code` and
    `other`."""
    questions: int = 0
    """Questions of which a trace is kept."""
    snapshots: int = 0
    """Snapshots of code."""
    asked_at: str = ""
    """When the last question was recorded, ISO 8601 in UTC; empty when none was."""
    stored_at: str = ""
    """When a document was stored last, ISO 8601 in UTC; empty when none was."""


class StoredTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A trace as it was recorded."""

    record: TraceRecord
    recorded_at: str
    """ISO 8601 in UTC."""


class ChunkStore(Protocol):
    """Documents, their chunks and vectors. Everything that reads takes the reader's access."""

    async def collection(self, name: str) -> CollectionInfo | None:
        """Give a collection, or None when it does not exist."""
        ...

    async def collection_model(self, name: str) -> EmbeddingModel | None:
        """Give the model of a collection, or None when it does not exist; counts nothing."""
        ...

    async def collections(self) -> list[CollectionInfo]:
        """Give all collections by name."""
        ...

    async def ensure_collection(self, name: str, model: EmbeddingModel) -> CollectionInfo:
        """Give a collection, made for this model when it does not exist.

        Raises:
            ModelMismatch: It exists with another model, precision or dimension.
            BadInput: The name is not 1 to 63 of `a-z 0-9 _ -`, starting with a letter or digit.
        """
        ...

    async def document_states(
        self, collection: str, document_ids: Sequence[str]
    ) -> dict[str, DocumentState]:
        """Give the state of each of these documents that exists."""
        ...

    async def replace_documents(
        self,
        collection: str,
        documents: Sequence[EmbeddedDocument],
        *,
        effects: Effects | None = None,
    ) -> None:
        """Store documents in one transaction, each in the place of its former self.

        `effects` are kept in the same transaction; see `effects_of`.

        Raises:
            ModelMismatch: A vector's length is not the collection's dimension.
        """
        ...

    async def effects_of(self, collection: str, message_id: str) -> dict[str, EffectKind]:
        """Give what a message did to documents before, by document id; forgotten after a day or so."""
        ...

    async def retag_documents(
        self,
        collection: str,
        tags: Mapping[str, DocumentTags],
        *,
        effects: Effects | None = None,
    ) -> None:
        """Change the tags of documents in one transaction; nothing is embedded again.

        `effects` are kept in the same transaction.
        Their source digests are forgotten, since those vouch for the tags too.
        """
        ...

    async def boost_fields(self, collection: str, boosts: FieldBoosts) -> None:
        """Have words of some fields count more often, in what is stored and in what will be.

        Cost: none when they count so already; else linear in the texts of the collection.

        Raises:
            NotFound: There is no such collection.
        """
        ...

    async def source_digests(self, collection: str, document_ids: Sequence[str]) -> dict[str, str]:
        """Give the source digests of those of these documents that exist and have one."""
        ...

    async def note_sources(self, collection: str, digests: Mapping[str, str]) -> None:
        """Set the source digests of documents that are stored already; unknown ids are left out."""
        ...

    async def remove_documents(self, collection: str, document_ids: Sequence[str]) -> int:
        """Remove documents with all that hangs on them; gives how many there were."""
        ...

    async def erase_document(
        self, collection: str, document_id: str
    ) -> tuple[DocumentParts, DocumentParts]:
        """Remove a document and what a removal leaves for later, such as its postings in old segments.

        Gives what was stored of it before, and what is still found of the same chunks after; both are zero when
        there is no such document. Cost: linear in the segments of postings that it is in.
        """
        ...

    async def document_ids(self, collection: str, *, prefix: str = "") -> list[str]:
        """Give the sorted ids that begin with `prefix`; for the owner's eyes only."""
        ...

    async def search_dense(
        self,
        collection: str,
        vector: NDArray[np.float32],
        *,
        limit: int,
        access: Access,
        threshold: float = 0.0,
        filters: Filters = (),
        exact: bool = False,
    ) -> list[Candidate]:
        """Give the visible chunks nearest to a unit vector, by cosine, ties by chunk id.

        `filters` narrow before anything is ranked. `score` is max(0, cosine), `dense_score` the exact
        cosine. A store may ask an approximate index where very many chunks are visible, but never gives
        fewer than there are; `exact` looks at every visible chunk, at a cost that grows with them.

        Raises:
            NotFound: There is no such collection.
            ModelMismatch: The vector's length is not the collection's dimension.
            BadInput: No visible document has a key of the filters.
        """
        ...

    async def search_lexical(
        self,
        collection: str,
        query_text: str,
        *,
        limit: int,
        access: Access,
        filters: Filters = (),
        match: Match = "any",
    ) -> list[Candidate]:
        """Rank the visible chunks by BM25 over the words of a query, ties by chunk id.

        `sparse_score` is the lexical share, BM25 over its bound with a floor, and `score` the share of the
        query alone that is covered, see `lexicon.bm25`; both give one order. Chunks without any word of the
        query are left out, with `match` of `all` those that lack one, and those that `filters` do not keep. A
        word is there when it is in one of the languages of the collection. The list is exact. Cost grows with
        the visible postings of the query's terms, not with the collection.

        Raises:
            NotFound: There is no such collection.
            BadInput: No visible document has a key of the filters.
        """
        ...

    async def lexical_scores(
        self,
        collection: str,
        query_text: str,
        chunk_ids: Sequence[str],
        access: Access,
        *,
        match: Match = "any",
    ) -> dict[str, float]:
        """Give the lexical share of those chunks that exist and are visible; 0 of one that does not match.

        Raises:
            NotFound: There is no such collection.
        """
        ...

    async def dense_scores(
        self,
        collection: str,
        vector: NDArray[np.float32],
        chunk_ids: Sequence[str],
        access: Access,
    ) -> dict[str, float]:
        """Give the exact cosine of those chunks that exist and are visible.

        Raises:
            NotFound: There is no such collection.
            ModelMismatch: The vector's length is not the collection's dimension.
        """
        ...

    async def chunk_texts(
        self, collection: str, chunk_ids: Sequence[str], access: Access
    ) -> list[ChunkText]:
        """Give the texts of chunks that exist and are visible, in the order asked.

        One statement, whatever the number of ids.
        """
        ...


class TraceStore(Protocol):
    """What is kept of questions."""

    async def record_trace(self, record: TraceRecord) -> bool:
        """Keep a trace in one transaction; False when that answer id is recorded already."""
        ...

    async def trace(self, answer_id: str) -> StoredTrace | None:
        """Give a trace, or None when there is none."""
        ...

    async def recent_traces(self, limit: int = 20) -> list[StoredTrace]:
        """Give the latest traces, newest first."""
        ...

    async def visible_chunks(
        self, collection: str, chunk_ids: Sequence[str], access: Access
    ) -> frozenset[str]:
        """Tell which of these chunks exist and are visible."""
        ...

    async def known_chunks(self, collection: str, chunk_ids: Sequence[str]) -> frozenset[str]:
        """Tell which of these chunks exist, whoever may see them; for the owner's eyes only."""
        ...

    async def traces_about(self, collection: str, document_id: str) -> list[str]:
        """Give the ids of the answers whose traces name a document or its chunks, sorted.

        For the owner's eyes only. Cost: linear in all that is kept of questions.
        """
        ...

    async def rewrite_trace(self, record: TraceRecord) -> bool:
        """Put a trace in the place of the one with its answer id; False when there is none.

        One transaction; the time of its recording stays. Only an erasure has reason to do so.

        Raises:
            BadInput: It could not be given back as it is.
        """
        ...


class Store(ChunkStore, TraceStore, Protocol):
    """Documents and traces in one place."""

    async def overview(self) -> StoreOverview:
        """Describe the store; for the owner's eyes only."""
        ...

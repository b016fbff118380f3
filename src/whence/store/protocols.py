"""What other packages require of a store.

`Store` is what a new store has to implement; `whence.testing` has its contract suites. What only some stores
can do are protocols of their own, which callers test with `isinstance`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from whence.schema.access import Access, DocumentTags
from whence.schema.document_rag import TraceRecord
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import BadInput
from whence.schema.filters import Filters
from whence.schema.idempotency import EffectKind, Effects
from whence.schema.ingest import DocumentDraft
from whence.schema.integrity import EntryKind, Integrity, RemovedTraces, TraceProof
from whence.schema.places import DocumentText
from whence.schema.search import Candidate, Match
from whence.schema.texts import ChunkText
from whence.store.field_boosts import FieldBoosts
from whence.store.reader_records import ReaderStore
from whence.store.source_states import Order, SourceStore, State

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from whence.store.change_log import Change
    from whence.store.linked_titles import LinkStatistics, LinkTitle
    from whence.store.symbol_names import SymbolMatch
    from whence.store.trace_body import AnswerSources
    from whence.store.vector_statistics import VectorStatistics
    from whence.store.vocabulary import AbsentWords


class CollectionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A collection and the model of all its vectors."""

    name: str
    model: EmbeddingModel
    documents: int = 0
    """Documents in it, hidden ones included; not to be shown to readers."""
    chunks: int = 0
    """Chunks in it, hidden ones included."""
    pending: int = 0
    """Chunks without a vector, hidden ones included."""
    changed_at: str = ""
    """When documents, tags or settings changed last, ISO 8601 in UTC; empty when none did."""
    bytes: int = 0
    """Approximate size on disk: its share, by chunks, of the tables of all collections. Set in lists only."""


class DocumentState(msgspec.Struct, frozen=True, kw_only=True):
    """The stored state of a document, enough to detect a change."""

    document_id: str
    digest: str
    tags: DocumentTags
    chunks: int
    source_digest: str = ""
    """As in the draft; empty when unknown or when the tags were changed later."""


class DocumentParts(msgspec.Struct, frozen=True, kw_only=True):
    """Number of stored parts of a document, by kind."""

    documents: int = 0
    """1 while it is in the collection, else 0."""
    chunks: int = 0
    vectors: int = 0
    postings: int = 0
    """Distinct terms of each of its chunks in the lexical index."""
    links: int = 0
    """Entries of its chunks in the passage graph."""
    versions: int = 0
    """Its former versions, and entries of the change log that name it."""


class Expunged(msgspec.Struct, frozen=True, kw_only=True):
    """What was done about the bytes that erased documents leave in files."""

    done: bool
    """Whether no erased word is left in files of the store."""
    files_searched: int = 0
    strings: int = 0
    """Pieces of the erased texts, and rare words of them, that were searched for."""
    found: int = 0
    """Strings that were found, summed over the files."""
    files: tuple[str, ...] = ()
    """Where, relative to the home."""
    hint: str = ""
    """What is left to do."""


class EmbeddedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document ready to be stored."""

    draft: DocumentDraft
    vectors: NDArray[np.float32] | None
    """float32, shape (len(draft.chunks), dimension), rows of length 1. None for vectors that are made later: a
    chunk has that of an equal text of the collection, or waits for one."""
    token_codes: tuple[bytes, ...] = ()
    """Token codes of the chunks, in order; none when they are not kept, or made later."""
    token_codes_wanted: bool = False
    """Whether the codes are made with the vectors that are made later."""


class SampledText(msgspec.Struct, frozen=True, kw_only=True):
    """A passage of a sample, for the owner."""

    chunk_id: str
    heading: str
    text: str


class VectorShare(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the passages that a reader may see have vectors."""

    pending: int
    """Passages without."""
    passages: int
    """All; 0 when none waits, for then nobody counts."""

    @property
    def share(self) -> float:
        """Part of the passages with a vector, 0 to 1, rounded down to two digits."""
        if not self.pending:
            return 1.0
        return max(0, 100 * (self.passages - self.pending) // max(1, self.passages)) / 100


class PendingPassage(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that was claimed because it has no vector."""

    key: Any
    """Names passage and set of vectors to the store, also when its document is replaced meanwhile."""
    chunk_id: str
    document_id: str
    text: str
    """What is embedded."""
    token_codes: bool
    """Whether token codes are wanted, too."""


class PassageVector(msgspec.Struct, frozen=True, kw_only=True):
    """The vector of a claimed passage."""

    passage: PendingPassage
    vector: NDArray[np.float32]
    """float32, shape (dimension,), of length 1."""
    token_codes: bytes = b""
    """Empty when none are kept."""


class OtherVectors(msgspec.Struct, frozen=True, kw_only=True):
    """The vectors of a collection that searches do not use."""

    model: EmbeddingModel
    pending: int
    """Passages without one."""
    former: bool
    """Whether searches used them before."""


class VectorProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Vectors of a collection, hidden passages included; not to be shown to readers."""

    model: EmbeddingModel
    passages: int
    pending: int
    """Passages that wait for a vector."""
    refused: int
    """Passages whose text the encoder did not take; they have none."""
    other: OtherVectors | None = None


class ListedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document, or a file that was not read, as a reader finds it in a list."""

    document_id: str | None
    """None for a file without a document."""
    root: str = ""
    """Root of its file; empty when unknown."""
    path: str = ""
    """Path of its file, relative to the root."""
    state: State = "read"
    reason: str = ""
    """Why its file was not read."""
    title: str = ""
    source_file: str = ""
    source_url: str = ""
    chunks: int = 0
    vectors: int = 0
    """Number of its chunks that have a vector."""
    document_date: str | None = None
    """Its own date, ISO 8601."""
    indexed_at: str | None = None
    """When its text was stored, ISO 8601 in UTC."""
    tried_at: str | None = None
    """When its file was read or tried last, ISO 8601 in UTC."""
    encoding: str = ""
    """Encoding of its file when it was guessed or set."""
    left_out: dict[str, int] = {}
    """What its loader saw and did not take, by kind."""
    size: int = -1
    """Bytes of its file; -1 when unknown."""
    modified: int = 0
    """When its file was changed, in nanoseconds since 1970."""
    file_digest: str = ""
    """Digest of the bytes of its file; empty when unknown."""
    line: int | None = None
    """Line of its file, of a document that is one line, such as a record; None for others."""

    @property
    def key(self) -> str:
        """Its place in the list: the id, or root and path of a file without a document."""
        return f"{self.root}//{self.path}" if self.document_id is None else self.document_id

    @property
    def moment(self) -> str:
        """When its text was stored, else when its file was tried; ISO 8601 in UTC."""
        return self.indexed_at or self.tried_at or _FIRST_MOMENT

    def place(self, order: Order) -> str:
        """What `after` takes in a list of an order for those that follow it."""
        return self.key if order == "key" else f"{self.moment}|{self.key}"


#: Of what was stored before times were.
_FIRST_MOMENT = "1970-01-01T00:00:00+00:00"


def read_place(after: str) -> tuple[datetime, str]:
    """Return moment and key of a place in a list of the newest.

    Raises:
        BadInput: It is no place.
    """
    moment, _, key = after.partition("|")
    try:
        return datetime.fromisoformat(moment).astimezone(UTC), key
    except ValueError:
        raise BadInput(
            f"after is {after!r}", hint="send `next` of the page before, with the same order"
        ) from None


class ListedCollection(msgspec.Struct, frozen=True, kw_only=True):
    """A collection with a document that the reader may see."""

    name: str
    model: EmbeddingModel
    documents: int
    """Documents that the reader may see."""
    chunks: int = 0
    """Passages of these."""
    changed_at: str = ""
    """When one of these was stored last, ISO 8601 in UTC."""


class StoreOverview(msgspec.Struct, frozen=True, kw_only=True):
    """Server, sizes and counts of a store; not to be shown to readers."""

    server: str
    """The database server and its version."""
    pgvector: str = ""
    """Version of pgvector; empty where there is none."""
    bytes: int = 0
    """Size of the whole database, in bytes."""
    parts: dict[str, int] = {}
    """Bytes by purpose: `texts`, `vectors`, `token_vectors`, `words`, `filters`, `links`, `traces`, `changes`,
    `former_versions`, `code` and `other`."""
    questions: int = 0
    """Number of stored traces."""
    snapshots: int = 0
    """Number of code snapshots."""
    asked_at: str = ""
    """When the last question was recorded, ISO 8601 in UTC; empty when none was."""
    stored_at: str = ""
    """When a document was stored last, ISO 8601 in UTC; empty when none was."""


class StoredTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A trace and the time of its recording."""

    record: TraceRecord
    recorded_at: str
    """ISO 8601 in UTC."""


class ChunkStore(Protocol):
    """Collections of documents, cut into chunks with one vector each.

    Rights: every read takes the reader's `Access`. Hidden chunks must not influence ranks, scores,
    counts or errors: hidden and missing look the same. A revoked right holds for the next call.
    """

    async def collections(self) -> list[CollectionInfo]:
        """Return all collections by name."""

    async def collection(self, name: str) -> CollectionInfo | None:
        """Return a collection with its counts, or None."""

    async def collection_model(self, name: str) -> EmbeddingModel | None:
        """Return the model of a collection, or None. Unlike `collection` this counts nothing."""

    async def ensure_collection(self, name: str, model: EmbeddingModel) -> CollectionInfo:
        """Return a collection, created for this model if it does not exist.

        Raises:
            ModelMismatch: It exists with another model, precision or dimension.
            BadInput: The name is not 1 to 63 of `a-z 0-9 _ -`, starting with a letter or digit, or the
                dimension is out of range.
        """

    async def document_states(
        self, collection: str, document_ids: Sequence[str]
    ) -> dict[str, DocumentState]:
        """Return the state of each of these documents that exists."""

    async def replace_documents(
        self,
        collection: str,
        documents: Sequence[EmbeddedDocument],
        *,
        effects: Effects | None = None,
    ) -> None:
        """Store documents in one transaction; each replaces a stored one of the same id.

        Args:
            collection: Its name.
            documents: With chunks and their vectors.
            effects: Recorded in the same transaction, see `effects_of`.

        Raises:
            NotFound: There is no such collection.
            ModelMismatch: A vector's length is not the collection's dimension.
            BadInput: A document cannot be stored; then none is.
        """

    async def vector_progress(self, collection: str) -> VectorProgress | None:
        """Return how many passages have vectors; None when there is no such collection."""

    async def vector_share(self, collection: str, access: Access) -> VectorShare:
        """Return how many of the passages that a reader may see have vectors; hidden ones change nothing.

        Raises:
            NotFound: There is no such collection.
        """

    async def pending_collections(self) -> list[str]:
        """Return the sorted names of collections with passages that wait for vectors. Cost: a look-up each."""

    async def pending_documents(
        self, collection: str, document_ids: Sequence[str] | None = None
    ) -> dict[str, int]:
        """Return the number of passages without vector, by document, hidden ones included.

        Documents whose passages all have one are left out. Cost: linear in these passages.

        Args:
            collection: Its name.
            document_ids: The documents; None for all.
        """

    def claim_passages(
        self, collection: str, limit: int, *, other: bool = False
    ) -> AbstractAsyncContextManager[list[PendingPassage]]:
        """Claim some passages that wait for vectors, the oldest first, for the time of a block.

        No other process gets them meanwhile. None are returned when none wait, or others have all of them.

        Args:
            collection: Its name.
            limit: Most passages.
            other: Whether they wait for vectors of the second set, see `begin_vectors`.

        Raises:
            NotFound: There is no such collection, or no second set.
        """

    async def known_vectors(
        self, collection: str, passages: Sequence[PendingPassage]
    ) -> list[PassageVector]:
        """Return the vectors of those claimed passages whose text another passage has, of the same set."""

    async def store_vectors(self, collection: str, vectors: Sequence[PassageVector]) -> int:
        """Store vectors of claimed passages in one transaction; return how many.

        A passage that was removed or replaced meanwhile, or has a vector by now, is left out.

        Raises:
            NotFound: There is no such collection.
            ModelMismatch: A vector's length is not that of the set.
            BadInput: A vector is not of length 1.
        """

    async def refuse_passages(
        self, collection: str, reasons: Iterable[tuple[PendingPassage, str]]
    ) -> None:
        """Note why the encoder does not take the texts of claimed passages; they are not claimed again."""

    async def begin_vectors(self, collection: str, model: EmbeddingModel) -> None:
        """Begin a second set of vectors, which replaces another one beside those that searches use.

        All passages wait for it, and documents that are stored later as well. One of the same model stays, and
        counts as new.

        Raises:
            NotFound: There is no such collection.
        """

    async def switch_vectors(self, collection: str) -> None:
        """Have searches use the second set, and keep the first one in its place; the change log says so.

        Raises:
            NotFound: There is no such collection.
            BadInput: There is no second set.
        """

    async def sample_passages(self, collection: str, limit: int) -> list[SampledText]:
        """Return passages that represent a collection, hidden ones included; for the owner.

        Always the same ones: those whose ids hash lowest. Cost: linear in the passages.
        """

    async def nearest_passages(
        self, collection: str, vector: NDArray[np.float32], limit: int, *, other: bool = False
    ) -> list[str]:
        """Return the ids of the passages nearest to a vector in one of the sets, exactly; for the owner.

        Hidden passages are among them.

        Raises:
            NotFound: There is no such collection, or no second set.
        """

    async def retag_documents(
        self, collection: str, tags: Mapping[str, DocumentTags], *, effects: Effects | None = None
    ) -> None:
        """Change the access tags of documents in one transaction; unknown ids are ignored.

        Source digests of retagged documents are cleared, since they cover the tags too. `effects` is as for
        `replace_documents`.

        Raises:
            NotFound: There is no such collection.
            BadInput: A tag cannot be stored.
        """

    async def remove_documents(self, collection: str, document_ids: Sequence[str]) -> int:
        """Remove documents with their chunks in one transaction; return how many there were."""

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
        model: EmbeddingModel | None = None,
    ) -> list[Candidate]:
        """Rank the visible chunks by cosine to a unit vector, ties by chunk id.

        `score` is max(0, cosine), `dense_score` the exact cosine. `filters` apply before ranking. A store may
        use an approximate index where many chunks are visible, but never returns fewer than `limit` if there
        are as many; `exact` compares every visible chunk. `model` is that of the vector, when it is known.

        Raises:
            NotFound: There is no such collection.
            ModelMismatch: The collection has vectors of another model, or of another length.
            BadInput: Limit, threshold or vector is out of range, or no visible document has a key of the
                filters.
        """

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
        """Rank the visible chunks by BM25, ties by chunk id; the list is exact.

        `sparse_score` is the lexical share, BM25 over its bound with a floor, and `score` the covered share of
        the query alone, see `whence.store.bm25`; both give one order. Chunks without a term of the query are
        left out, with `match="all"` those that lack one. A term matches in any language of the collection.

        Raises:
            NotFound: There is no such collection.
            BadInput: The limit is below 1, or no visible document has a key of the filters.
        """

    async def dense_scores(
        self,
        collection: str,
        vector: NDArray[np.float32],
        chunk_ids: Sequence[str],
        access: Access,
        *,
        model: EmbeddingModel | None = None,
    ) -> dict[str, float]:
        """Return the exact cosine of those chunks that exist, are visible and have a vector.

        Raises:
            NotFound: There is no such collection.
            ModelMismatch: As for `search_dense`.
            BadInput: The vector is not a unit vector.
        """

    async def lexical_scores(
        self,
        collection: str,
        query_text: str,
        chunk_ids: Sequence[str],
        access: Access,
        *,
        match: Match = "any",
    ) -> dict[str, float]:
        """Return the lexical share of those chunks that exist and are visible; 0 of one that does not match.

        Raises:
            NotFound: There is no such collection.
        """

    async def chunk_texts(
        self, collection: str, chunk_ids: Sequence[str], access: Access
    ) -> list[ChunkText]:
        """Return the texts of those chunks that exist and are visible, in the order asked."""

    async def document_texts(
        self, collection: str, ids: Sequence[str], access: Access
    ) -> dict[str, DocumentText]:
        """Return the texts of documents that exist and are visible, by the ids asked for.

        Cost: linear in the texts.

        Args:
            collection: Its name.
            ids: Of documents, or of chunks: then of the document that has the chunk.
            access: Rights of the reader; hidden and missing documents are both absent.
        """

    async def token_codes(
        self, collection: str, chunk_ids: Sequence[str], access: Access
    ) -> dict[str, bytes]:
        """Return the codes of those chunks that exist, are visible and have one, by chunk id."""

    async def document_ids(self, collection: str, *, prefix: str = "") -> list[str]:
        """Return the sorted ids that begin with `prefix`, hidden documents included."""

    async def source_digests(self, collection: str, document_ids: Sequence[str]) -> dict[str, str]:
        """Return the source digests of those of these documents that exist and have one."""

    async def note_sources(self, collection: str, drafts: Sequence[DocumentDraft]) -> None:
        """Note what is stored beside the content of documents: source digest, root, places, date and so on.

        The content of the drafts is that of the stored documents; unknown ids are ignored.
        """

    async def visible_documents(
        self,
        collection: str,
        access: Access,
        *,
        limit: int,
        after: str = "",
        state: State | None = None,
        unread: bool = False,
        order: Order = "key",
    ) -> list[ListedDocument]:
        """Return the first visible documents that come after one, by the code points of their keys.

        Cost: linear in the documents.

        Args:
            collection: Its name.
            access: Rights of the reader.
            limit: Maximum number.
            after: Place before the first one, see `ListedDocument.place`.
            state: The only state.
            unread: Whether files without a visible document are among them.
            order: By key, or the newest first.

        Raises:
            BadInput: `after` is no place of that order.
        """

    async def describe_documents(
        self, collection: str, document_ids: Sequence[str], access: Access
    ) -> dict[str, ListedDocument]:
        """Return what is known of those of some documents that exist and are visible, by id.

        Cost: linear in the ids.
        """

    async def visible_collections(
        self, access: Access, names: Sequence[str] = ()
    ) -> list[ListedCollection]:
        """Return the collections, of `names` if there are any, with a visible document, by name.

        A collection that is empty, missing or hidden is left out alike. Cost: linear in the documents.
        """

    async def effects_of(self, collection: str, message_id: str) -> dict[str, EffectKind]:
        """Return what a message did to documents, by document id; kept for about a day."""

    async def absent_words(
        self, collection: str, words: Sequence[str], access: Access
    ) -> AbsentWords:
        """Return those of these words and identifiers that no visible chunk has, in any inflection.

        An identifier counts as a whole. May answer from what a search just before it read. Cost: that of the
        postings of words that were not searched for before.

        Raises:
            NotFound: The collection does not exist.
        """

    async def similar_words(self, collection: str, word: str, access: Access) -> Mapping[str, int]:
        """Return words of visible chunks in lower case that may be what a misspelt word means.

        Among them are all that `spelling.nearest_word` accepts; the values are numbers of visible chunks. A
        hidden chunk neither adds a word nor changes a number. Cost: linear in the words whose letters
        differ in at most two from its own.
        """

    async def find_symbols(
        self, collection: str, name: str, *, limit: int, access: Access, filters: Filters = ()
    ) -> list[SymbolMatch]:
        """Return the visible chunks that define the symbol of a name, best matches first, equal ones by id.

        `filters` apply. A collection that does not exist has none. Cost: linear in the chunks of that name,
        hidden ones included.
        """

    async def vector_statistics(self, collection: str, access: Access) -> VectorStatistics | None:
        """Return how vectors of a sample of the visible passages compare; None for passages of one document.

        See `whence.store.vector_statistics`; hidden documents change nothing. Cost: linear in the visible
        documents and quadratic in the sample, once for each version of the collection.

        Raises:
            NotFound: The collection does not exist.
        """

    async def link_statistics(self, collection: str, access: Access) -> LinkStatistics | None:
        """Return how densely the visible passages are linked; None while links are not indexed.

        Hidden documents change nothing. A store may cache the statistics until a tenth of what the reader sees
        has changed.
        """

    async def linked_titles(
        self, collection: str, chunk_ids: Sequence[str], access: Access, *, query_text: str = ""
    ) -> list[LinkTitle]:
        """Return the rare titles that visible chunks have or mention, or that a query mentions, by name.

        Both ends of a link are visible, and hidden passages count for no limit: the result is that of a
        collection of the visible documents alone. Ids that do not exist or are hidden are left out. Cost:
        linear in the titles around the chunks and in their visible passages, up to the limits.
        """

    async def collection_version(self, collection: str) -> int:
        """Return the version that a search of this store saw last, or the current one; 0 when there is none.

        Cost: none after a search.
        """

    async def version_at(self, collection: str, moment: datetime) -> int:
        """Return the version of a collection at a moment; 0 before the first."""

    async def changes(
        self, collection: str, access: Access, *, after: int = 0, whole: bool = False
    ) -> list[Change]:
        """Return the entries of a later version than `after`, by version, then document.

        Those of documents that the reader may see today, and those of the collection. With `whole` the earlier
        entries of the same documents come too. Cost: linear in the entries.
        """

    async def was_hidden(self, collection: str, access: Access, one: int, other: int) -> bool:
        """Return whether a reader saw, by its tags of then, a document in one of two versions alone.

        Only documents that are hidden from the reader today count; which they are is not told. One that was
        hidden in both versions does not count. Cost: linear in the entries after the lower version.
        """

    async def store_at(
        self, collection: str, access: Access, version: int, moment: datetime
    ) -> Any:
        """Return a store that has one version of a collection, for one reader; it is read from memory.

        It has the documents of then that the reader may see by the tags that these have today, or had last, and
        gives the results of then to the last bit; where this store ranks by an approximate index, those of an
        exact search. Cost: linear in the collection.

        Args:
            collection: Its name.
            access: Rights of the reader.
            version: The version.
            moment: When it was the current one.

        Raises:
            NotFound: There is no such collection.
            BadInput: The log begins later, a visible document of then is not kept any more, or there are more
                than `MAX_VERSION_CHUNKS` visible chunks.
        """


class HybridRankings(msgspec.Struct, frozen=True, kw_only=True):
    """What both retrievers rank for one query, in one version of a collection.

    A candidate has its other score, too, as `dense_scores` and `lexical_scores` return it, where that is known.
    """

    lexical: list[Candidate]
    """See `ChunkStore.search_lexical`."""
    dense: list[Candidate]
    """See `ChunkStore.search_dense`."""
    share: VectorShare
    """See `ChunkStore.vector_share`."""


@runtime_checkable
class SupportsHybrid(Protocol):
    """Ranks by words and by vectors in one read, which costs less than one for each ranking and score."""

    async def search_both(
        self,
        collection: str,
        query_text: str,
        vector: NDArray[np.float32],
        *,
        limit: int,
        access: Access,
        filters: Filters = (),
        match: Match = "any",
        model: EmbeddingModel | None = None,
    ) -> HybridRankings:
        """Rank the visible chunks by either retriever; parameters and errors are those of both."""


@runtime_checkable
class SupportsReference(Protocol):
    """Answers a fixed statement, as a measure of the machine."""

    async def reference(self) -> None:
        """Have the database answer the statement."""


class ErasedMeanwhile(Exception):
    """A trace was not stored: documents were erased while its question was under way.

    `documents` are those that the trace names and that were erased; there may be none.
    """

    def __init__(self, documents: Collection[str]) -> None:
        super().__init__("documents were erased while the question was under way")
        self.documents = frozenset(documents)


class TraceStore(Protocol):
    """Traces of answered questions, and the checks that reading them needs."""

    async def record_trace(
        self, record: TraceRecord, *, without: Collection[str] | None = None
    ) -> bool:
        """Store a trace in one transaction; return False when its answer id is recorded already.

        Args:
            record: The trace.
            without: Erased documents whose words it no longer has; None when that was not looked at. It is
                only given after `ErasedMeanwhile`.

        Raises:
            BadInput: It cannot be stored unchanged.
            ErasedMeanwhile: It may have words of other documents that were erased. A store without a change
                log does not notice.
        """

    async def rewrite_trace(self, record: TraceRecord, *, kind: EntryKind = "erase") -> bool:
        """Replace the trace with the same answer id; return False when there is none.

        One transaction; the time of recording stays. `kind` is why, for the chain of traces.

        Raises:
            BadInput: It cannot be stored unchanged.
        """

    async def trace(self, answer_id: str, access: Access | None = None) -> StoredTrace | None:
        """Return a trace, or None when there is none, or the reader lacks a right of its question.

        The two take the same work. With `access` None the caller is the owner.
        """

    async def recent_traces(self, limit: int = 20) -> list[StoredTrace]:
        """Return the latest traces, newest first.

        Raises:
            BadInput: The limit is below 1.
        """

    async def answer_sources(
        self, collection: str, access: Access, since: datetime
    ) -> list[AnswerSources]:
        """Return the documents of the answers of a collection recorded since a time, oldest first.

        Answers to questions of which the reader lacks a right are left out. Cost: linear in their traces.
        """

    async def traces_about(self, collection: str, document_id: str) -> list[str]:
        """Return the sorted ids of answers whose traces name a document or its chunks.

        A document is named by the id of a chunk, a literal without datatype, or a citation.
        """

    async def traces_corrected(self, collection: str) -> list[str]:
        """Return the sorted ids of answers to questions of which words were corrected, and of failed ones."""

    async def visible_chunks(
        self, collection: str, chunk_ids: Sequence[str], access: Access
    ) -> frozenset[str]:
        """Return which of these chunks exist and are visible."""

    async def known_chunks(self, collection: str, chunk_ids: Sequence[str]) -> frozenset[str]:
        """Return which of these chunks exist, hidden ones included."""


@runtime_checkable
class SupportsIntegrity(Protocol):
    """Finds every change of a stored trace that did not come through `TraceStore`."""

    async def check_trace(self, answer_id: str) -> Integrity:
        """Check the trace of an answer.

        Raises:
            NotFound: There is none, and there was none.
        """

    async def check_traces(self) -> Integrity:
        """Check all traces, and that none is missing. Cost: linear in all."""

    async def trace_proof(self, answer_id: str) -> TraceProof | None:
        """Return a trace with what verifies it; None when there is none, or it is in no chain."""


@runtime_checkable
class SupportsRetention(Protocol):
    """Removes old traces."""

    async def remove_traces(self, before: datetime, *, dry_run: bool = False) -> RemovedTraces:
        """Remove the traces recorded before a time; the chain keeps an entry of each.

        Entries of change logs go too, once neither a trace nor a former version needs them.
        A trace that is not as it was recorded stays: its time may not be its own.
        """


class Store(ChunkStore, TraceStore, SourceStore, ReaderStore, Protocol):
    """Everything that the engine uses, in one store."""

    async def rename_collection(self, former: str, name: str) -> int:
        """Rename a collection in one transaction; return how many traces were rewritten.

        Its documents, vectors, passages that wait, links, versions, rights and states of files stay; ids of
        chunks, roots and traces go by the new name, also a trace that is recorded later. A name whose
        collection was removed can be taken. What was renamed so before is left as it is. Cost: linear in its
        chunks and in its traces.

        Raises:
            NotFound: There is no such collection.
            BadInput: Another collection has the name, or no collection can have it.
        """

    async def erase_document(
        self, collection: str, document_id: str
    ) -> tuple[DocumentParts, DocumentParts]:
        """Remove a document physically; return its stored parts before and after.

        Unlike `remove_documents` it leaves nothing for later, such as postings in old segments. Both parts are
        zero when there is no such document. Cost: linear in the segments that have its postings.
        """

    async def stored_texts(self, collection: str, document_id: str) -> list[str]:
        """Return the texts, titles and headings of a document and its former versions, for its owner."""

    async def known_words(self, collection: str, words: Sequence[str]) -> frozenset[str]:
        """Return which of these words in lower case a chunk has as it is written; hidden chunks count."""

    async def document_parts(self, collection: str, document_id: str) -> DocumentParts:
        """Return what is stored of a document; all zero when there is none."""

    async def expunge(
        self, texts: Sequence[str], *, progress: Callable[[int, int | None], None] | None = None
    ) -> Expunged:
        """Remove what erased documents left in files of the store, and search these for erased texts.

        Cost: linear in the size of the store.

        Args:
            texts: Erased texts to search for.
            progress: Called with the number of steps done and their total (None until counted).

        Raises:
            Unavailable: Other processes use the store for too long; the next call goes on.
        """

    async def is_expunged(self) -> bool:
        """Return whether every erasure was followed by `expunge`."""

    async def boost_fields(self, collection: str, boosts: FieldBoosts) -> None:
        """Set the BM25 weights of title, headings and path, for stored and future documents.

        Cost: none when they are set already; else linear in the texts of the collection.

        Raises:
            NotFound: There is no such collection.
        """

    async def overview(self) -> StoreOverview:
        """Return what the store is and how much it holds."""

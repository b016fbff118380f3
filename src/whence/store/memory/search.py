"""Collections and searches in memory, by definition rather than by index, and traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np
from numpy.typing import NDArray

from whence.schema.access import Access
from whence.schema.codec import decode_as, encode
from whence.schema.document_rag import TraceRecord
from whence.schema.embedding import EmbeddingModel
from whence.schema.filters import (
    CHUNK_KEYS,
    DOCUMENT_KEYS,
    Filters,
    Logic,
    conditions_of,
    holds,
    to_filter_value,
    unknown_key_error,
)
from whence.schema.idempotency import EffectKind
from whence.schema.ingest import DocumentDraft, text_to_embed
from whence.schema.integrity import EntryKind
from whence.schema.places import DocumentText
from whence.schema.search import Candidate, Match
from whence.schema.texts import ChunkText
from whence.store.bm25 import mean_length, query_weights, share
from whence.store.change_log import KEEP_VERSIONS, Change
from whence.store.chunk_ids import chunk_key, document_key, split_collections
from whence.store.document_text import document_text, requested_documents, select_texts
from whence.store.field_boosts import FieldBoosts
from whence.store.memory.change_log import MemoryLog
from whence.store.protocols import (
    CollectionInfo,
    EmbeddedDocument,
    ListedCollection,
    StoredTrace,
)
from whence.store.results import (
    chunk_metadata,
    content_digest,
    cosine,
    dense_candidates,
    filter_values,
    lexical_candidates,
)
from whence.store.source_states import SourceFileState
from whence.store.term_counts import (
    TermVector,
    count_document_terms,
    languages_of,
    parse_lexical_query,
)
from whence.store.trace_body import AnswerSources, read_sources
from whence.store.validation import check_dense_query, check_limit, check_trace, missing_collection
from whence.store.vector_statistics import (
    MAX_SAMPLE,
    SampledPassage,
    VectorStatistics,
    sample_key,
    vector_statistics,
)
from whence.store.vocabulary import AbsentWords, whole_terms
from whence.text.signatures import word_signature


class StoredDocument(msgspec.Struct):
    """A document with its chunks; the draft is replaced when its tags change."""

    draft: DocumentDraft
    chunks: list[StoredChunk] = []
    stored_at: str = ""
    """ISO 8601 in UTC."""


class StoredChunk(msgspec.Struct, frozen=True):
    """A chunk with all that is searched of it."""

    document: StoredDocument
    text: ChunkText
    vector: NDArray[np.float32]
    """Of length 1, shape (dimension,); zeros of one that waits for its vector."""
    terms: TermVector
    embedded_text: str
    """What is embedded."""

    @property
    def has_vector(self) -> bool:
        """Whether it has its vector."""
        return bool(self.vector.any())


class SecondSet:
    """The vectors of a collection that searches do not use, by chunk id."""

    def __init__(self, number: int, model: EmbeddingModel) -> None:
        self.number = number
        self.model = model
        self.former = False
        self.vectors: dict[str, NDArray[np.float32]] = {}


class MemoryCollection:
    """The documents and chunks of a collection, by id."""

    def __init__(self, name: str, model: EmbeddingModel, since: datetime) -> None:
        self.info = CollectionInfo(name=name, model=model)
        """Without counts."""
        self.documents: dict[str, StoredDocument] = {}
        self.chunks: dict[str, StoredChunk] = {}
        self.effects: dict[str, dict[str, EffectKind]] = {}
        """What each message did, by document id."""
        self.log = MemoryLog(since)
        self.boosts = FieldBoosts()
        self.vector_set = 0
        """Number of the vectors that searches use."""
        self.other: SecondSet | None = None
        self.claimed: set[str] = set()
        """Chunks that are being embedded."""
        self.codes_wanted: set[str] = set()
        """Chunks whose token codes are made with their vectors."""
        self.refused: dict[tuple[int, str], str] = {}
        """Why the encoder did not take texts, by set and chunk."""

    def renamed(self, name: str) -> None:
        """Take another name, and name the chunks by it."""
        former = f"urn:chunk:{self.info.name}:"
        self.info = msgspec.structs.replace(self.info, name=name)

        def renamed(key: str) -> str:
            return f"urn:chunk:{name}:{key.removeprefix(former)}"

        for document in self.documents.values():
            for place, one in enumerate(document.chunks):
                text = msgspec.structs.replace(one.text, chunk_id=renamed(one.text.chunk_id))
                document.chunks[place] = msgspec.structs.replace(one, text=text)
        self.chunks = {
            one.text.chunk_id: one for each in self.documents.values() for one in each.chunks
        }
        self.claimed, self.codes_wanted = (
            set(map(renamed, one)) for one in (self.claimed, self.codes_wanted)
        )
        self.refused = {(key[0], renamed(key[1])): why for key, why in self.refused.items()}
        if self.other is not None:
            self.other.vectors = {renamed(key): one for key, one in self.other.vectors.items()}

    def counted(self) -> CollectionInfo:
        """Return its description with counts."""
        return msgspec.structs.replace(
            self.info,
            documents=len(self.documents),
            chunks=len(self.chunks),
            pending=len(self.without_vector()),
            changed_at=self.log.entries[-1].changed_at if self.log.entries else "",
        )

    def put(
        self,
        draft: DocumentDraft,
        vectors: Iterable[NDArray[np.float32]],
        codes: Sequence[bytes] = (),
        stored_at: str = "",
    ) -> None:
        """Store a document; it replaces a stored one of the same id."""
        self.remove(draft.document_id)
        document = self.documents[draft.document_id] = StoredDocument(draft, stored_at=stored_at)
        words = count_document_terms(draft, self.boosts)
        codes = codes or [b""] * len(draft.chunks)
        for chunk, vector, terms, code in zip(draft.chunks, vectors, words, codes, strict=True):
            index = len(document.chunks)
            text = ChunkText(
                chunk_id=chunk_key(self.info.name, draft.document_id, index),
                document_id=draft.document_id,
                content=chunk.content,
                lead=chunk.lead,
                metadata=chunk_metadata(draft, chunk, index),
                digest=content_digest(chunk.content),
                word_signature=word_signature(chunk.content),
                token_codes=code,
            )
            stored = StoredChunk(document, text, vector, terms, text_to_embed(chunk))
            document.chunks.append(stored)
            self.chunks[text.chunk_id] = stored

    def embedded(self, document_id: str) -> EmbeddedDocument:
        """Return a stored document as it was given."""
        document = self.documents[document_id]
        size = (len(document.chunks), self.info.model.dimension)
        vectors = np.array([chunk.vector for chunk in document.chunks], dtype=np.float32)
        codes = tuple(chunk.text.token_codes for chunk in document.chunks)
        return EmbeddedDocument(
            draft=document.draft, vectors=vectors.reshape(size), token_codes=codes
        )

    def remove(self, document_id: str) -> bool:
        """Remove a document with its chunks; return False when there is none."""
        document = self.documents.pop(document_id, None)
        for chunk in document.chunks if document else ():
            name = chunk.text.chunk_id
            del self.chunks[name]
            self.codes_wanted.discard(name)
            self.refused = {key: why for key, why in self.refused.items() if key[1] != name}
            if self.other is not None:
                self.other.vectors.pop(name, None)
        return document is not None

    def without_vector(self) -> list[StoredChunk]:
        """Return the chunks without a vector that searches use."""
        return [one for one in self.chunks.values() if not one.has_vector]

    def number(self, *, other: bool) -> int:
        """Return the number of a set; that of the first one when there is no other."""
        return self.other.number if other and self.other is not None else self.vector_set

    def model_of(self, number: int) -> EmbeddingModel | None:
        """Return the model of a set; None when it does not exist any more."""
        if number == self.vector_set:
            return self.info.model
        return None if self.other is None or self.other.number != number else self.other.model

    def vectors_of(self, chunk: StoredChunk) -> dict[int, NDArray[np.float32]]:
        """Return the vectors of a chunk by the number of their set."""
        found = {self.vector_set: chunk.vector} if chunk.has_vector else {}
        if self.other is not None and chunk.text.chunk_id in self.other.vectors:
            found[self.other.number] = self.other.vectors[chunk.text.chunk_id]
        return found

    def add_vector(
        self, number: int, claimed: StoredChunk, vector: NDArray[np.float32], codes: bytes
    ) -> bool:
        """Store the vector of a chunk; return False when it was replaced, or has one by now."""
        name = claimed.text.chunk_id
        chunk = self.chunks.get(name)
        if chunk is None or chunk.embedded_text != claimed.embedded_text:
            return False
        if number in self.vectors_of(chunk):
            return False
        if number != self.vector_set:
            assert self.other is not None
            self.other.vectors[name] = vector
            return True
        text = msgspec.structs.replace(chunk.text, token_codes=codes or chunk.text.token_codes)
        self._exchange(chunk, msgspec.structs.replace(chunk, vector=vector, text=text))
        return True

    def switch(self) -> None:
        """Exchange the vectors that searches use for the second set."""
        assert self.other is not None
        former = SecondSet(self.vector_set, self.info.model)
        former.former = True
        former.vectors = {key: one.vector for key, one in self.chunks.items() if one.has_vector}
        used, self.other = self.other, former
        self.vector_set = used.number
        self.info = msgspec.structs.replace(self.info, model=used.model)
        empty = np.zeros(used.model.dimension, np.float32)
        for key, one in list(self.chunks.items()):
            self._exchange(one, msgspec.structs.replace(one, vector=used.vectors.get(key, empty)))

    def _exchange(self, former: StoredChunk, chunk: StoredChunk) -> None:
        chunks = chunk.document.chunks
        chunks[next(n for n, one in enumerate(chunks) if one is former)] = chunk
        self.chunks[chunk.text.chunk_id] = chunk

    def visible_documents(self, access: Access) -> list[StoredDocument]:
        """Return the documents that a reader may see."""
        return [one for one in self.documents.values() if access.allows(one.draft.tags)]

    def visible(self, access: Access, filters: Filters = ()) -> list[StoredChunk]:
        """Return the chunks that a reader may see and that match all conditions."""
        chunks = [one for one in self.chunks.values() if access.allows(one.document.draft.tags)]
        if not filters:
            return chunks
        kept = [one for one in chunks if _matches_all(one, filters)]
        if not kept or any(isinstance(one, Logic) for one in filters):
            stated = {key for one in self.visible_documents(access) for key in one.draft.metadata}
            for condition in conditions_of(filters):
                if condition.key not in stated.union(DOCUMENT_KEYS, CHUNK_KEYS):
                    raise unknown_key_error(condition.key, sorted(stated))
        return kept

    def shares(
        self, query_text: str, access: Access, match: Match
    ) -> tuple[dict[str, float], float]:
        """Return the lexical share of each visible chunk that matches, and the coverage per share.

        Term weights and the mean length are computed over visible chunks: a hidden chunk changes no score.
        """
        chunks = self.visible(access)
        df: Counter[str] = Counter()
        languages: Counter[str] = Counter()
        length = 0
        for chunk in chunks:
            df.update(chunk.terms.counts.keys())
            languages[chunk.terms.language] += 1
            length += chunk.terms.length
        mean = mean_length(length, len(chunks))
        query = parse_lexical_query(query_text, languages_of(languages))
        counts, required = query.resolve(df)
        weights, per_share = query_weights(counts, df, len(chunks), one_word=query.one_word)
        # A chunk without any of the terms does not match; with `all`, nor does one without a word's terms.
        words: list[Iterable[str]] = [weights, *required] if match == "all" else [weights]
        shares: dict[str, float] = {}
        for chunk in chunks:
            terms = chunk.terms.counts
            if not any(map(terms.keys().isdisjoint, words)):
                shares[chunk.text.chunk_id] = share(weights, terms, chunk.terms.length, mean)
        return shares, per_share


def _matches_all(chunk: StoredChunk, filters: Filters) -> bool:
    """Return whether a chunk matches all conditions."""
    own = [(key, to_filter_value(chunk.text.metadata[key])) for key in CHUNK_KEYS]
    values = [*filter_values(chunk.document.draft), *own]
    return holds(filters, values)


class MemoryPart:
    """A part of a store in memory; all parts share the collections, by name."""

    def __init__(
        self, clock: Callable[[], datetime], keep_versions: timedelta = KEEP_VERSIONS
    ) -> None:
        self._clock = clock
        self._keep_versions = keep_versions
        self._collections: dict[str, MemoryCollection] = {}
        self._roots: dict[str, dict[str, str]] = {}
        """Path of each root by name, by collection."""
        self._files: dict[str, dict[tuple[str, str], tuple[SourceFileState, str]]] = {}
        """State of each file and the time of its last try, by root and path, by collection."""

    def _find(self, name: str) -> MemoryCollection:
        """Return a collection, or raise `NotFound`."""
        if name not in self._collections:
            raise missing_collection(name)
        return self._collections[name]

    def _documents(self, collection: str) -> dict[str, StoredDocument]:
        """Return the documents of a collection by id; none of one that does not exist."""
        found = self._collections.get(collection)
        return {} if found is None else found.documents


class MemorySearch(MemoryPart):
    """Reads chunks and the change log; every call takes time linear in the collection."""

    def _requested(
        self, collection: str, chunk_ids: Sequence[str], access: Access
    ) -> list[StoredChunk]:
        """Return those of these chunks that exist and are visible, in the order asked."""
        found = self._collections.get(collection)
        chunks = {} if found is None else found.chunks
        return [
            chunk
            for one in chunk_ids
            if (chunk := chunks.get(one)) and access.allows(chunk.document.draft.tags)
        ]

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
        """Rank the visible chunks by cosine, always exactly; see `ChunkStore`."""
        found = self._find(collection)
        query = check_dense_query(found.info, vector, limit, threshold, model)
        chunks = [one for one in found.visible(access, filters) if one.has_vector]
        scored = zip(await self._inner_products(query, chunks), chunks, strict=True)
        ranked = sorted(
            (-inner, chunk.text.chunk_id, chunk.text.document_id)
            for inner, chunk in scored
            if threshold <= 0 or inner >= threshold
        )
        return dense_candidates(ranked[:limit])

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
        """Rank the visible chunks by BM25; see `ChunkStore`."""
        found = self._find(collection)
        check_limit(limit)
        chunks = found.visible(access, filters)
        shares, per_share = found.shares(query_text, access, match)
        ranked = sorted(
            (-shares[chunk.text.chunk_id], chunk.text.chunk_id, chunk.text.document_id)
            for chunk in chunks
            if chunk.text.chunk_id in shares
        )
        return lexical_candidates(ranked[:limit], per_share)

    async def dense_scores(
        self,
        collection: str,
        vector: NDArray[np.float32],
        chunk_ids: Sequence[str],
        access: Access,
        *,
        model: EmbeddingModel | None = None,
    ) -> dict[str, float]:
        """Return the exact cosine of visible chunks; see `ChunkStore`."""
        query = check_dense_query(self._find(collection).info, vector, 1, 0.0, model)
        chunks = [one for one in self._requested(collection, chunk_ids, access) if one.has_vector]
        scored = zip(await self._inner_products(query, chunks), chunks, strict=True)
        return {chunk.text.chunk_id: cosine(inner) for inner, chunk in scored}

    async def lexical_scores(
        self,
        collection: str,
        query_text: str,
        chunk_ids: Sequence[str],
        access: Access,
        *,
        match: Match = "any",
    ) -> dict[str, float]:
        """Return the lexical share of visible chunks; see `ChunkStore`."""
        shares, _ = self._find(collection).shares(query_text, access, match)
        chunks = self._requested(collection, chunk_ids, access)
        return {one.text.chunk_id: shares.get(one.text.chunk_id, 0.0) for one in chunks}

    async def _inner_products(
        self, query: NDArray[np.float32], chunks: Sequence[StoredChunk]
    ) -> list[float]:
        """Return the inner product of a query with each chunk; equal vectors get equal values."""
        return inner_products(query, [chunk.vector for chunk in chunks])

    async def vector_statistics(self, collection: str, access: Access) -> VectorStatistics | None:
        """Compare a sample of the visible passages; see `ChunkStore`."""
        documents = self._find(collection).visible_documents(access)
        documents.sort(key=lambda one: sample_key(one.draft.document_id))
        sample = sorted(
            (sample_key(f"{one.draft.document_id}:{index}"), one.draft.document_id, index, chunk)
            for one in documents[:MAX_SAMPLE]
            for index, chunk in enumerate(one.chunks)
        )
        return vector_statistics(
            [
                SampledPassage(
                    document_id=document_id,
                    vector=chunk.vector,
                    terms=chunk.terms.counts,
                    language=chunk.terms.language,
                )
                for _, document_id, _, chunk in sample[:MAX_SAMPLE]
                if chunk.has_vector
            ]
        )

    async def absent_words(
        self, collection: str, words: Sequence[str], access: Access
    ) -> AbsentWords:
        """Return the words that no visible chunk has; see `ChunkStore`."""
        found = self._find(collection)
        chunks = found.visible(access)
        known = {term for chunk in chunks for term in chunk.terms.counts}
        languages = Counter(chunk.terms.language for chunk in chunks)
        terms = {word: whole_terms(word, languages_of(languages)) for word in words}
        return AbsentWords(
            frozenset(word for word, some in terms.items() if some and known.isdisjoint(some)),
            tuple(sorted(languages)),
        )

    async def similar_words(self, collection: str, word: str, access: Access) -> dict[str, int]:
        """Return all words of visible chunks; see `ChunkStore`."""
        chunks = self._find(collection).visible(access)
        return dict(Counter(one for chunk in chunks for one in chunk.terms.words))

    async def chunk_texts(
        self, collection: str, chunk_ids: Sequence[str], access: Access
    ) -> list[ChunkText]:
        """Return the texts of visible chunks, in the order asked; see `ChunkStore`."""
        return [
            # The caller may change the metadata.
            msgspec.structs.replace(one.text, metadata=dict(one.text.metadata), token_codes=b"")
            for one in self._requested(collection, chunk_ids, access)
        ]

    async def token_codes(
        self, collection: str, chunk_ids: Sequence[str], access: Access
    ) -> dict[str, bytes]:
        """Return the token codes of visible chunks; see `ChunkStore`."""
        texts = [one.text for one in self._requested(collection, chunk_ids, access)]
        return {text.chunk_id: text.token_codes for text in texts if text.token_codes}

    async def document_texts(
        self, collection: str, ids: Sequence[str], access: Access
    ) -> dict[str, DocumentText]:
        """Return the texts of visible documents, by id asked; see `ChunkStore`."""
        wanted = requested_documents(collection, ids)
        found = self._collections.get(collection)
        stored = {} if found is None else found.documents
        asked = {one for one, _ in wanted.values()} & stored.keys()
        drafts = [stored[one].draft for one in asked if access.allows(stored[one].draft.tags)]
        texts = {
            one.document_id: document_text(collection, one, one.gaps, one.places) for one in drafts
        }
        return select_texts(wanted, texts)

    async def visible_chunks(
        self, collection: str, chunk_ids: Sequence[str], access: Access
    ) -> frozenset[str]:
        """Return which of these chunks exist and are visible."""
        chunks = self._requested(collection, chunk_ids, access)
        return frozenset(one.text.chunk_id for one in chunks)

    async def visible_collections(
        self, access: Access, names: Sequence[str] = ()
    ) -> list[ListedCollection]:
        """Return the collections with a visible document; see `ChunkStore`."""
        seen = {
            name: held.visible_documents(access)
            for name, held in sorted(self._collections.items())
            if not names or name in names
        }
        return [
            ListedCollection(
                name=name,
                model=self._collections[name].info.model,
                documents=len(documents),
                chunks=sum(len(one.chunks) for one in documents),
                changed_at=max(one.stored_at for one in documents),
            )
            for name, documents in seen.items()
            if documents
        ]

    async def known_chunks(self, collection: str, chunk_ids: Sequence[str]) -> frozenset[str]:
        """Return which of these chunks exist, hidden ones included."""
        found = self._collections.get(collection)
        return frozenset() if found is None else frozenset(found.chunks.keys() & set(chunk_ids))

    async def collection_version(self, collection: str) -> int:
        """Return the current version; see `ChunkStore`."""
        found = self._collections.get(collection)
        return 0 if found is None else found.log.version

    async def version_at(self, collection: str, moment: datetime) -> int:
        """Return the version of a collection at a moment."""
        found = self._collections.get(collection)
        entries = [] if found is None else found.log.entries
        earlier = (one for one in entries if datetime.fromisoformat(one.changed_at) <= moment)
        return max((one.version for one in earlier), default=0)

    async def changes(
        self, collection: str, access: Access, *, after: int = 0, whole: bool = False
    ) -> list[Change]:
        """Return entries of the log that the reader may see; see `ChunkStore`."""
        found = self._collections.get(collection)
        return [] if found is None else found.log.visible(access, after, whole=whole)

    async def was_hidden(self, collection: str, access: Access, one: int, other: int) -> bool:
        """Return whether one version alone shows documents that are hidden today; see `ChunkStore`."""
        found = self._collections.get(collection)
        return found is not None and found.log.was_hidden(access, one, other)


def inner_products(query: NDArray[np.float32], rows: Sequence[NDArray[np.float32]]) -> list[float]:
    """Return the inner product of a query with each vector, float32; equal vectors get equal values.

    Not by BLAS, whose sums depend on the position of a row in the matrix.
    """
    vectors = np.array(rows, dtype=np.float64)
    sums = np.einsum("ij,j->i", vectors.reshape(-1, len(query)), query.astype(np.float64))
    products: list[float] = sums.astype(np.float32).tolist()
    return products


class MemoryTraces:
    """Stores traces by answer id, in the order of recording."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._traces: dict[str, tuple[bytes, str]] = {}

    async def record_trace(
        self, record: TraceRecord, *, without: Collection[str] | None = None
    ) -> bool:
        """Store a trace; return False when its answer id is recorded already. It does not look at erasures."""
        del without
        check_trace(record)
        if record.answer_id in self._traces:
            return False
        recorded_at = self._clock().astimezone(UTC).isoformat()
        self._traces[record.answer_id] = encode(record), recorded_at
        return True

    async def rewrite_trace(self, record: TraceRecord, *, kind: EntryKind = "erase") -> bool:
        """Replace a trace; return False when there is none of its answer id. It has no chain."""
        del kind
        check_trace(record)
        former = self._traces.get(record.answer_id)
        if former is None:
            return False
        self._traces[record.answer_id] = encode(record), former[1]
        return True

    async def trace(self, answer_id: str, access: Access | None = None) -> StoredTrace | None:
        """Return a trace, or None when there is none, or the reader lacks a right of its question."""
        found = self._stored(answer_id) if answer_id in self._traces else None
        hidden = access and found and not access.covers(found.record.access)
        return None if hidden else found

    async def recent_traces(self, limit: int = 20) -> list[StoredTrace]:
        """Return the latest traces, newest first."""
        check_limit(limit)
        return [self._stored(one) for one in list(self._traces)[::-1][:limit]]

    async def answer_sources(
        self, collection: str, access: Access, since: datetime
    ) -> list[AnswerSources]:
        """Return the documents of answers recorded since a time, oldest first; see `TraceStore`."""
        stored = [self._stored(one) for one in self._traces]
        found = [
            read_sources(encode(one.record), one.recorded_at)
            for one in stored
            if collection in split_collections(one.record.collection)
            and datetime.fromisoformat(one.recorded_at) >= since
        ]
        return [one for one in found if access.covers(one.access)]

    async def traces_about(self, collection: str, document_id: str) -> list[str]:
        """Return the sorted ids of answers whose traces name a document or its chunks."""
        return sorted(
            one.answer_id
            for one in (self._stored(answer_id).record for answer_id in self._traces)
            if collection in split_collections(one.collection)
            and _names(one, collection, document_id)
        )

    async def traces_corrected(self, collection: str) -> list[str]:
        """Return the sorted ids of answers to corrected questions, and of failed ones."""
        return sorted(
            one.answer_id
            for one in (self._stored(answer_id).record for answer_id in self._traces)
            if collection in split_collections(one.collection)
            and (one.answer is None or one.answer.corrections)
        )

    def _stored(self, answer_id: str) -> StoredTrace:
        body, recorded_at = self._traces[answer_id]
        return StoredTrace(record=decode_as(body, TraceRecord), recorded_at=recorded_at)


def _names(record: TraceRecord, collection: str, document_id: str) -> bool:
    """Return whether a trace names a document or one of its chunks."""
    prefix = document_key(collection, document_id)
    objects = (triple.o for event in record.events for triple in event.triples)
    citations = record.answer.citations if record.answer else ()
    return any(
        one.iri.startswith(prefix) or (one.value == document_id and not one.datatype)
        for one in objects
    ) or any(citation.document_id == document_id for citation in citations)

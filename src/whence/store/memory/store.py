"""The store in plain memory: the same rules and the same order, for tests and for trying things out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from whence.schema.access import Access, DocumentTags
from whence.schema.document_rag import TraceRecord
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import ModelMismatch
from whence.schema.filters import (
    CHUNK_KEYS,
    DOCUMENT_KEYS,
    Filters,
    matches,
    to_filter_value,
    unknown_key_error,
)
from whence.schema.idempotency import EffectKind, Effects
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.schema.search import Candidate, Match
from whence.schema.texts import ChunkText
from whence.store.bm25 import (
    clipped_impact,
    coverage_per_share,
    mean_length,
    share,
    weights,
)
from whence.store.chunk_ids import chunk_key, document_key, parse_chunk_key
from whence.store.field_boosts import FieldBoosts
from whence.store.memory.names import MemoryNames
from whence.store.protocols import (
    CollectionInfo,
    DocumentParts,
    DocumentState,
    EmbeddedDocument,
    StoredTrace,
    StoreOverview,
)
from whence.store.term_counts import (
    DEFAULT_LANGUAGES,
    DocumentTerms,
    LexicalQuery,
    Words,
    count_document_terms,
    merge_languages,
    parse_lexical_query,
    reader_languages,
)
from whence.store.validation import (
    candidate,
    check_documents,
    check_limit,
    check_model,
    check_name,
    check_query,
    check_tags,
    check_trace,
    chunk_metadata,
    content_digest,
    cosine,
    draft_facts,
    json_text,
    lexical_candidate,
    missing_collection,
    model_words,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ("MemoryStore",)


class _Collection:
    """A model and the documents made with it, by id."""

    def __init__(self, name: str, model: EmbeddingModel) -> None:
        self.name = name
        self.model = model
        self.documents: dict[str, EmbeddedDocument] = {}
        self.words: dict[str, DocumentTerms] = {}
        """Of each document, by its id."""
        self.languages: tuple[str, ...] = DEFAULT_LANGUAGES
        self.boosts = FieldBoosts()

    def info(self) -> CollectionInfo:
        drafts = [document.draft for document in self.documents.values()]
        return CollectionInfo(
            name=self.name,
            model=self.model,
            documents=len(drafts),
            chunks=sum(len(draft.chunks) for draft in drafts),
        )

    def read(self, draft: DocumentDraft) -> None:
        """Count the words of a document."""
        words = count_document_terms(draft, self.boosts)
        self.words[draft.document_id] = words
        self.languages = merge_languages(self.languages, {words.language})

    def visible(self, access: Access) -> Iterator[EmbeddedDocument]:
        """Yield the documents that a reader may see."""
        return (one for one in self.documents.values() if access.allows(one.draft.tags))

    def kept(self, access: Access, filters: Filters) -> frozenset[str] | None:
        """Give the keys of the visible chunks that a filter keeps; None without a filter.

        Raises:
            BadInput: No visible document has a key of the filter.
        """
        if not filters:
            return None
        kept = frozenset(
            chunk_key(self.name, document.draft.document_id, index)
            for document in self.visible(access)
            for index in _kept_chunks(document.draft, filters)
        )
        if not kept:
            stated = {key for one in self.visible(access) for key in one.draft.metadata}
            for one in filters:
                if one.key not in stated.union(DOCUMENT_KEYS, CHUNK_KEYS):
                    raise unknown_key_error(one.key, sorted(stated))
        return kept

    def words_of(self, access: Access) -> list[Words]:
        """Give the words of each chunk that a reader may see."""
        return [
            one
            for document in self.visible(access)
            for one in self.words[document.draft.document_id].of_chunks
        ]

    def seen(self, access: Access) -> tuple[Counter[str], int]:
        """Give how many of the chunks that a reader may see have each term, and how many there are."""
        words = self.words_of(access)
        return Counter(term for one in words for term in one.counts), len(words)

    def spoken(self, access: Access) -> tuple[str, ...]:
        """Give the languages of the chunks that a reader may see."""
        chunks: Counter[str] = Counter()
        for document in self.visible(access):
            words = self.words[document.draft.document_id]
            chunks[words.language] += len(words.of_chunks)
        return reader_languages(chunks)

    def per_share(self, query_text: str, access: Access) -> float:
        """Give the factor from the lexical share to the share of the query alone that is covered."""
        df, chunks = self.seen(access)
        query = self._query(query_text)
        counts = query.counts(df, self.spoken(access))
        return coverage_per_share(counts, df, chunks, one_word=query.one_word)

    def shares(
        self, query_text: str, access: Access, match: Match
    ) -> Iterator[tuple[str, str, float | None]]:
        """Yield id, document and lexical share of each visible chunk; None of one that does not match."""
        lengths = [one.length for one in self.words_of(access)]
        mean = mean_length(sum(lengths), len(lengths))
        query, spoken = self._query(query_text), self.spoken(access)
        df, chunks = self.seen(access)
        parts = weights(query.counts(df, spoken), df, chunks, one_word=query.one_word)
        required = query.required(spoken) if match == "all" else []
        for document in self.visible(access):
            document_id = document.draft.document_id
            for index, words in enumerate(self.words[document_id].of_chunks):
                has_all = all(any(term in words.counts for term in word) for word in required)
                found = _share(words, parts, mean) if has_all else None
                yield chunk_key(self.name, document_id, index), document_id, found

    def _query(self, text: str) -> LexicalQuery:
        return parse_lexical_query(text, self.languages)


def _share(words: Words, parts: Mapping[str, float], mean: float) -> float | None:
    shared = parts.keys() & words.counts.keys()
    if not shared:
        return None
    counts, length = words.counts, words.length
    return share((parts[term], clipped_impact(counts[term], length, mean)) for term in shared)


def _kept_chunks(draft: DocumentDraft, filters: Filters) -> Iterator[int]:
    """Yield the places of those chunks of a document for which all conditions hold."""
    facts = draft_facts(draft)
    for index, chunk in enumerate(draft.chunks):
        shown = chunk_metadata(draft, chunk, index)
        own = [(key, fact) for key in CHUNK_KEYS if (fact := to_filter_value(shown[key]))]
        if all(matches(one, (f for key, f in (*facts, *own) if key == one.key)) for one in filters):
            yield index


class MemoryStore(MemoryNames):
    """Chunks and traces in memory; implements `ChunkStore` and `TraceStore`.

    Every call costs time linear in what the collection holds.

    Args:
        clock: Gives the time a trace is recorded, with its zone.
    """

    def __init__(self, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._clock = clock
        self._collections: dict[str, _Collection] = {}
        self._effects: dict[tuple[str, str], dict[str, EffectKind]] = {}
        self._traces: dict[str, StoredTrace] = {}

    async def aclose(self) -> None:
        """Free nothing; there so that both stores are closed the same way."""

    def _existing(self, name: str) -> _Collection:
        if name not in self._collections:
            raise missing_collection(name)
        return self._collections[name]

    async def collection(self, name: str) -> CollectionInfo | None:
        """Give a collection, or None when it does not exist."""
        found = self._collections.get(name)
        return None if found is None else found.info()

    async def collection_model(self, name: str) -> EmbeddingModel | None:
        """Give the model of a collection, or None when it does not exist."""
        found = self._collections.get(name)
        return None if found is None else found.model

    async def collections(self) -> list[CollectionInfo]:
        """Give all collections by name."""
        return [self._collections[name].info() for name in sorted(self._collections)]

    async def ensure_collection(self, name: str, model: EmbeddingModel) -> CollectionInfo:
        """Give a collection, made for this model when it does not exist.

        Raises:
            ModelMismatch: It exists with another model, precision or dimension.
            BadInput: The name or the dimension cannot be.
        """
        check_name(name)
        check_model(model)
        found = self._collections.setdefault(name, _Collection(name, model))
        if found.model != model:
            raise ModelMismatch(
                f"collection {name!r} was made with {model_words(found.model)},"
                f" not with {model_words(model)}"
            )
        return found.info()

    async def document_states(
        self, collection: str, document_ids: Sequence[str]
    ) -> dict[str, DocumentState]:
        """Give the state of each of these documents that exists."""
        found = self._collections.get(collection)
        stored = {} if found is None else found.documents
        return {
            one: DocumentState(
                document_id=one,
                digest=stored[one].draft.digest,
                tags=stored[one].draft.tags,
                chunks=len(stored[one].draft.chunks),
                source_digest=stored[one].draft.source_digest,
            )
            for one in document_ids
            if one in stored
        }

    async def effects_of(self, collection: str, message_id: str) -> dict[str, EffectKind]:
        """Give what a message did to documents before, by document id."""
        return dict(self._effects.get((collection, message_id), {}))

    def _keep(self, collection: str, effects: Effects | None) -> None:
        if effects is not None:
            kept = self._effects.setdefault((collection, effects.message_id), {})
            kept.update({name: kind for name, kind in effects.outcomes.items() if name not in kept})

    async def replace_documents(
        self,
        collection: str,
        documents: Sequence[EmbeddedDocument],
        *,
        effects: Effects | None = None,
    ) -> None:
        """Store documents, each in the place of its former self.

        Raises:
            NotFound: There is no such collection.
            ModelMismatch: A vector's length is not the collection's dimension.
            BadInput: A document cannot be stored.
        """
        found = self._existing(collection)
        check_documents(found.info(), documents)
        for document in documents:
            found.documents[document.draft.document_id] = EmbeddedDocument(
                draft=_copied(document.draft),
                vectors=np.array(document.vectors, dtype=np.float32),
            )
            found.read(document.draft)
        self._keep(collection, effects)

    async def retag_documents(
        self,
        collection: str,
        tags: Mapping[str, DocumentTags],
        *,
        effects: Effects | None = None,
    ) -> None:
        """Change the tags of documents; documents that do not exist are left out.

        Raises:
            NotFound: There is no such collection.
            BadInput: A tag cannot be stored.
        """
        for one, tag in tags.items():
            check_tags(tag, f"document {one[:100]!r}")
        stored = self._existing(collection).documents
        for one in stored.keys() & tags.keys():
            if stored[one].draft.tags == tags[one]:
                continue
            draft = msgspec.structs.replace(stored[one].draft, tags=tags[one], source_digest="")
            stored[one] = msgspec.structs.replace(stored[one], draft=draft)
        self._keep(collection, effects)

    async def boost_fields(self, collection: str, boosts: FieldBoosts) -> None:
        """Have words of some fields count more often, in what is stored and in what will be.

        Raises:
            NotFound: There is no such collection.
        """
        found = self._existing(collection)
        found.boosts = boosts
        for document in found.documents.values():
            found.read(document.draft)

    async def source_digests(self, collection: str, document_ids: Sequence[str]) -> dict[str, str]:
        """Give the source digests of those of these documents that exist and have one."""
        found = self._collections.get(collection)
        stored = {} if found is None else found.documents
        digests = {one: stored[one].draft.source_digest for one in document_ids if one in stored}
        return {one: digest for one, digest in digests.items() if digest}

    async def note_sources(self, collection: str, digests: Mapping[str, str]) -> None:
        """Set the source digests of documents that are stored already; unknown ids are left out."""
        found = self._collections.get(collection)
        stored = {} if found is None else found.documents
        for one in stored.keys() & digests.keys():
            draft = msgspec.structs.replace(stored[one].draft, source_digest=digests[one])
            stored[one] = msgspec.structs.replace(stored[one], draft=draft)

    async def remove_documents(self, collection: str, document_ids: Sequence[str]) -> int:
        """Remove documents with all that hangs on them; gives how many there were."""
        found = self._collections.get(collection)
        gone = set() if found is None else set(document_ids) & found.documents.keys()
        for one in gone:
            self._collections[collection].documents.pop(one)
            self._collections[collection].words.pop(one)
        return len(gone)

    async def erase_document(
        self, collection: str, document_id: str
    ) -> tuple[DocumentParts, DocumentParts]:
        """Remove a document; gives what was found of it before and after."""
        before = self._parts(collection, document_id)
        await self.remove_documents(collection, [document_id])
        return before, self._parts(collection, document_id)

    def _parts(self, collection: str, document_id: str) -> DocumentParts:
        """Count what is there of a document; who links to it is found out when it is asked for."""
        found = self._collections.get(collection)
        document = None if found is None else found.documents.get(document_id)
        if found is None or document is None:
            return DocumentParts()
        words = found.words[document_id].of_chunks
        return DocumentParts(
            documents=1,
            chunks=len(document.draft.chunks),
            vectors=len(document.vectors),
            postings=sum(len(one.counts) for one in words),
        )

    async def document_ids(self, collection: str, *, prefix: str = "") -> list[str]:
        """Give the sorted ids that begin with `prefix`; for the owner's eyes only."""
        found = self._collections.get(collection)
        stored = () if found is None else found.documents
        return sorted(one for one in stored if one.startswith(prefix))

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
        """Give the visible chunks nearest to a unit vector, by cosine, ties by chunk id; always exact.

        Raises:
            NotFound: There is no such collection.
            ModelMismatch: The vector's length is not the collection's dimension.
            BadInput: Limit, threshold or vector is out of range, or no visible document has a key of the
                filters.
        """
        found = self._existing(collection)
        query = check_query(found.info(), vector, limit, threshold)
        kept = found.kept(access, filters)
        scored = [
            (-inner, chunk_key(collection, document.draft.document_id, index), document)
            for document in found.visible(access)
            for index, inner in enumerate(_cosines(document.vectors, query))
            if threshold <= 0 or inner >= threshold
        ]
        if kept is not None:
            scored = [one for one in scored if one[1] in kept]
        scored.sort(key=lambda one: one[:2])
        return [
            candidate(key, document.draft.document_id, -distance, rank)
            for rank, (distance, key, document) in enumerate(scored[:limit], 1)
        ]

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
        """Rank the visible chunks with a word of a query, or with all, by BM25, ties by chunk id.

        Raises:
            NotFound: There is no such collection.
            BadInput: The limit is below 1, or no visible document has a key of the filters.
        """
        found = self._existing(collection)
        check_limit(limit)
        kept = found.kept(access, filters)
        scored = [
            (-score, key, document_id)
            for key, document_id, score in found.shares(query_text, access, match)
            if score is not None and (kept is None or key in kept)
        ]
        scored.sort()
        per_share = found.per_share(query_text, access)
        return [
            lexical_candidate(key, document_id, -negative, per_share, rank)
            for rank, (negative, key, document_id) in enumerate(scored[:limit], 1)
        ]

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
        wanted = frozenset(chunk_ids)
        shares = self._existing(collection).shares(query_text, access, match)
        return {key: score or 0.0 for key, _, score in shares if key in wanted}

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
            BadInput: The vector is no unit vector.
        """
        found = self._existing(collection)
        query = check_query(found.info(), vector, 1, 0.0)
        wanted = frozenset(chunk_ids)
        scored = (
            (chunk_key(collection, document.draft.document_id, index), inner)
            for document in found.visible(access)
            for index, inner in enumerate(_cosines(document.vectors, query))
        )
        return {key: cosine(inner) for key, inner in scored if key in wanted}

    async def chunk_texts(
        self, collection: str, chunk_ids: Sequence[str], access: Access
    ) -> list[ChunkText]:
        """Give the texts of chunks that exist and are visible, in the order asked."""
        found = ((one, self._visible_chunk(collection, one, access)) for one in chunk_ids)
        return [_text(key, *place) for key, place in found if place is not None]

    async def visible_chunks(
        self, collection: str, chunk_ids: Sequence[str], access: Access
    ) -> frozenset[str]:
        """Tell which of these chunks exist and are visible."""
        return frozenset(
            one for one in chunk_ids if self._visible_chunk(collection, one, access) is not None
        )

    def _visible_chunk(
        self, collection: str, chunk_id: str, access: Access
    ) -> tuple[DocumentDraft, ChunkDraft, int] | None:
        found = self._chunk(collection, chunk_id)
        return found if found is not None and access.allows(found[0].tags) else None

    def _chunk(
        self, collection: str, chunk_id: str
    ) -> tuple[DocumentDraft, ChunkDraft, int] | None:
        key = parse_chunk_key(chunk_id)
        found = self._collections.get(collection)
        if key is None or found is None or key.collection != collection:
            return None
        document = found.documents.get(key.document_id)
        if document is None:
            return None
        chunks = document.draft.chunks
        return (document.draft, chunks[key.index], key.index) if key.index < len(chunks) else None

    async def record_trace(self, record: TraceRecord) -> bool:
        """Keep a trace; False when that answer id is recorded already.

        Raises:
            BadInput: It could not be given back as it is.
        """
        check_trace(record)
        if record.answer_id in self._traces:
            return False
        kept = msgspec.json.decode(msgspec.json.encode(record), type=TraceRecord)
        recorded_at = self._clock().astimezone(UTC).isoformat()
        self._traces[record.answer_id] = StoredTrace(record=kept, recorded_at=recorded_at)
        return True

    async def trace(self, answer_id: str) -> StoredTrace | None:
        """Give a trace, or None when there is none."""
        return self._traces.get(answer_id)

    async def recent_traces(self, limit: int = 20) -> list[StoredTrace]:
        """Give the latest traces, newest first.

        Raises:
            BadInput: The limit is below 1.
        """
        check_limit(limit)
        return list(self._traces.values())[::-1][:limit]

    async def known_chunks(self, collection: str, chunk_ids: Sequence[str]) -> frozenset[str]:
        """Tell which of these chunks exist, whoever may see them."""
        return frozenset(one for one in chunk_ids if self._chunk(collection, one) is not None)

    async def overview(self) -> StoreOverview:
        """Describe the store."""
        recorded = [stored.recorded_at for stored in self._traces.values()]
        return StoreOverview(
            server="memory", questions=len(recorded), asked_at=max(recorded, default="")
        )

    async def traces_about(self, collection: str, document_id: str) -> list[str]:
        """Give the ids of the answers whose traces name a document or its chunks, sorted."""
        return sorted(
            answer_id
            for answer_id, stored in self._traces.items()
            if stored.record.collection == collection and _names(stored.record, document_id)
        )

    async def rewrite_trace(self, record: TraceRecord) -> bool:
        """Put a trace in the place of the one with its answer id; False when there is none.

        Raises:
            BadInput: It could not be given back as it is.
        """
        check_trace(record)
        former = self._traces.get(record.answer_id)
        if former is None:
            return False
        kept = msgspec.json.decode(msgspec.json.encode(record), type=TraceRecord)
        self._traces[record.answer_id] = msgspec.structs.replace(former, record=kept)
        return True


def _names(record: TraceRecord, document_id: str) -> bool:
    """Tell whether a trace names a document or one of its chunks."""
    prefix = document_key(record.collection, document_id)
    objects = (triple.o for event in record.events for triple in event.triples)
    citations = record.answer.citations if record.answer else ()
    return any(one.iri.startswith(prefix) or one.value == document_id for one in objects) or any(
        citation.document_id == document_id for citation in citations
    )


def _copied(draft: DocumentDraft) -> DocumentDraft:
    """Give a draft that shares no mutable value with the caller's."""
    return msgspec.structs.replace(draft, metadata=msgspec.json.decode(json_text(draft.metadata)))


def _cosines(vectors: NDArray[np.float32], query: NDArray[np.float32]) -> list[float]:
    """Give the cosines of unit vectors, float32; equal vectors get equal values.

    Not by BLAS, whose sums depend on where in the matrix a row stands.
    """
    sums = np.einsum("ij,j->i", vectors.astype(np.float64), query.astype(np.float64))
    cosines: list[float] = sums.astype(np.float32).astype(np.float64).tolist()
    return cosines


def _text(key: str, draft: DocumentDraft, chunk: ChunkDraft, index: int) -> ChunkText:
    return ChunkText(
        chunk_id=key,
        document_id=draft.document_id,
        content=chunk.content,
        metadata=chunk_metadata(draft, chunk, index),
        digest=content_digest(chunk.content),
    )

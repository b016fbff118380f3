"""Searches, scores, texts and traces in memory, by definition rather than by index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from whence.schema.access import Access
from whence.schema.document_rag import TraceRecord
from whence.schema.embedding import EmbeddingModel
from whence.schema.filters import (
    CHUNK_KEYS,
    DOCUMENT_KEYS,
    Filters,
    matches,
    to_filter_value,
    unknown_key_error,
)
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.schema.search import Candidate, Match
from whence.schema.texts import ChunkText
from whence.store.bm25 import clipped_impact, coverage_per_share, mean_length, share, weights
from whence.store.chunk_ids import chunk_key, document_key, parse_chunk_key
from whence.store.field_boosts import FieldBoosts
from whence.store.protocols import CollectionInfo, EmbeddedDocument, StoredTrace
from whence.store.term_counts import (
    DEFAULT_LANGUAGES,
    DocumentTerms,
    count_document_terms,
    merge_languages,
    parse_lexical_query,
    reader_languages,
)
from whence.store.validation import (
    candidate,
    check_dense_query,
    check_limit,
    check_trace,
    chunk_metadata,
    content_digest,
    cosine,
    filter_values,
    lexical_candidate,
    missing_collection,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


class MemoryCollection:
    """A model and the documents embedded with it, by id."""

    def __init__(self, name: str, model: EmbeddingModel) -> None:
        self.name = name
        self.model = model
        self.documents: dict[str, EmbeddedDocument] = {}
        self.terms: dict[str, DocumentTerms] = {}
        """Of each document, by its id."""
        self.languages: tuple[str, ...] = DEFAULT_LANGUAGES
        self.boosts = FieldBoosts()

    def info(self) -> CollectionInfo:
        """Return its description with counts."""
        drafts = [document.draft for document in self.documents.values()]
        return CollectionInfo(
            name=self.name,
            model=self.model,
            documents=len(drafts),
            chunks=sum(len(draft.chunks) for draft in drafts),
        )

    def count_terms(self, draft: DocumentDraft) -> None:
        """Count the terms of a document."""
        words = count_document_terms(draft, self.boosts)
        self.terms[draft.document_id] = words
        self.languages = merge_languages(self.languages, {words.language})

    def visible(self, access: Access) -> list[EmbeddedDocument]:
        """Return the visible documents."""
        return [one for one in self.documents.values() if access.allows(one.draft.tags)]

    def filtered(self, access: Access, filters: Filters) -> frozenset[str] | None:
        """Return the ids of the visible chunks that a filter keeps; None without a filter."""
        if not filters:
            return None
        kept = frozenset(
            chunk_key(self.name, document.draft.document_id, index)
            for document in self.visible(access)
            for index in _matching_chunks(document.draft, filters)
        )
        if not kept:
            stated = {key for one in self.visible(access) for key in one.draft.metadata}
            for one in filters:
                if one.key not in stated.union(DOCUMENT_KEYS, CHUNK_KEYS):
                    raise unknown_key_error(one.key, sorted(stated))
        return kept

    def shares(
        self, query_text: str, access: Access, match: Match
    ) -> tuple[list[tuple[str, str, float | None]], float]:
        """Return id, document and lexical share of each visible chunk, and `coverage_per_share`.

        The share of a chunk that does not match is None.
        """
        visible = [
            (document.draft.document_id, self.terms[document.draft.document_id])
            for document in self.visible(access)
        ]
        df: Counter[str] = Counter()
        of_languages: Counter[str] = Counter()
        chunks = length = 0
        for _, terms in visible:
            of_languages[terms.language] += len(terms.of_chunks)
            chunks += len(terms.of_chunks)
            for words in terms.of_chunks:
                df.update(words.counts.keys())
                length += words.length
        mean = mean_length(length, chunks)
        languages = reader_languages(of_languages)
        query = parse_lexical_query(query_text, self.languages)
        counts = query.counts(df, languages)
        parts = weights(counts, df, chunks, one_word=query.one_word)
        required = query.required(languages) if match == "all" else []
        found: list[tuple[str, str, float | None]] = []
        for document_id, terms in visible:
            prefix = document_key(self.name, document_id)
            for index, words in enumerate(terms.of_chunks):
                shared = parts.keys() & words.counts.keys()
                lexical = None
                if shared and not any(words.counts.keys().isdisjoint(word) for word in required):
                    lexical = share(
                        [
                            (parts[term], clipped_impact(words.counts[term], words.length, mean))
                            for term in shared
                        ]
                    )
                found.append((f"{prefix}{index}", document_id, lexical))
        return found, coverage_per_share(counts, df, chunks, one_word=query.one_word)


def _matching_chunks(draft: DocumentDraft, filters: Filters) -> Iterator[int]:
    """Yield the indexes of those chunks of a document that match all conditions."""
    facts = filter_values(draft)
    for index, chunk in enumerate(draft.chunks):
        shown = chunk_metadata(draft, chunk, index)
        own = [(key, fact) for key in CHUNK_KEYS if (fact := to_filter_value(shown[key]))]
        if all(matches(one, (f for key, f in (*facts, *own) if key == one.key)) for one in filters):
            yield index


def find(collections: Mapping[str, MemoryCollection], name: str) -> MemoryCollection:
    """Return a collection, or raise `NotFound`."""
    if name not in collections:
        raise missing_collection(name)
    return collections[name]


class MemorySearch:
    """Reads chunks; every call takes time linear in the collection.

    Args:
        collections: By name, shared with the other parts of the store.
    """

    def __init__(self, collections: dict[str, MemoryCollection]) -> None:
        self._collections = collections

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
        """Rank the visible chunks by cosine, always exactly; see `ChunkStore`."""
        found = find(self._collections, collection)
        query = check_dense_query(found.info(), vector, limit, threshold)
        kept = found.filtered(access, filters)
        scored = [
            (-inner, key, document_id)
            for key, document_id, inner in _inner_products(found, query, access)
            if (threshold <= 0 or inner >= threshold) and (kept is None or key in kept)
        ]
        scored.sort()
        return [
            candidate(key, document_id, -distance, rank)
            for rank, (distance, key, document_id) in enumerate(scored[:limit], 1)
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
        """Rank the visible chunks by BM25; see `ChunkStore`."""
        found = find(self._collections, collection)
        check_limit(limit)
        kept = found.filtered(access, filters)
        shares, per_share = found.shares(query_text, access, match)
        scored = [
            (-score, key, document_id)
            for key, document_id, score in shares
            if score is not None and (kept is None or key in kept)
        ]
        scored.sort()
        return [
            lexical_candidate(key, document_id, -negative, per_share, rank)
            for rank, (negative, key, document_id) in enumerate(scored[:limit], 1)
        ]

    async def dense_scores(
        self, collection: str, vector: NDArray[np.float32], chunk_ids: Sequence[str], access: Access
    ) -> dict[str, float]:
        """Return the exact cosine of visible chunks; see `ChunkStore`."""
        found = find(self._collections, collection)
        query = check_dense_query(found.info(), vector, 1, 0.0)
        wanted = frozenset(chunk_ids)
        scored = _inner_products(found, query, access)
        return {key: cosine(inner) for key, _, inner in scored if key in wanted}

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
        wanted = frozenset(chunk_ids)
        shares, _ = find(self._collections, collection).shares(query_text, access, match)
        return {key: score or 0.0 for key, _, score in shares if key in wanted}

    async def chunk_texts(
        self, collection: str, chunk_ids: Sequence[str], access: Access
    ) -> list[ChunkText]:
        """Return the texts of visible chunks, in the order asked; see `ChunkStore`."""
        texts: list[ChunkText] = []
        for chunk_id in chunk_ids:
            found = self._chunk(collection, chunk_id)
            if found is None or not access.allows(found[0].tags):
                continue
            draft, chunk, index = found
            texts.append(
                ChunkText(
                    chunk_id=chunk_id,
                    document_id=draft.document_id,
                    content=chunk.content,
                    metadata=chunk_metadata(draft, chunk, index),
                    digest=content_digest(chunk.content),
                )
            )
        return texts

    async def visible_chunks(
        self, collection: str, chunk_ids: Sequence[str], access: Access
    ) -> frozenset[str]:
        """Return which of these chunks exist and are visible."""
        found = ((one, self._chunk(collection, one)) for one in chunk_ids)
        return frozenset(one for one, at in found if at is not None and access.allows(at[0].tags))

    async def known_chunks(self, collection: str, chunk_ids: Sequence[str]) -> frozenset[str]:
        """Return which of these chunks exist, hidden ones included."""
        return frozenset(one for one in chunk_ids if self._chunk(collection, one) is not None)

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


def _inner_products(
    collection: MemoryCollection, query: NDArray[np.float32], access: Access
) -> list[tuple[str, str, float]]:
    """Return id, document and inner product of each visible chunk, float32; equal vectors get equal values.

    Not by BLAS, whose sums depend on the position of a row in the matrix.
    """
    found: list[tuple[str, str, float]] = []
    wide = query.astype(np.float64)
    for document in collection.visible(access):
        document_id = document.draft.document_id
        prefix = document_key(collection.name, document_id)
        sums = np.einsum("ij,j->i", document.vectors.astype(np.float64), wide)
        products: list[float] = sums.astype(np.float32).astype(np.float64).tolist()
        found += [(f"{prefix}{index}", document_id, inner) for index, inner in enumerate(products)]
    return found


class MemoryTraces:
    """Stores traces by answer id, in the order of recording."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._traces: dict[str, StoredTrace] = {}

    async def record_trace(self, record: TraceRecord) -> bool:
        """Store a trace; return False when its answer id is recorded already."""
        check_trace(record)
        if record.answer_id in self._traces:
            return False
        kept = msgspec.json.decode(msgspec.json.encode(record), type=TraceRecord)
        recorded_at = self._clock().astimezone(UTC).isoformat()
        self._traces[record.answer_id] = StoredTrace(record=kept, recorded_at=recorded_at)
        return True

    async def rewrite_trace(self, record: TraceRecord) -> bool:
        """Replace a trace; return False when there is none of its answer id."""
        check_trace(record)
        former = self._traces.get(record.answer_id)
        if former is None:
            return False
        kept = msgspec.json.decode(msgspec.json.encode(record), type=TraceRecord)
        self._traces[record.answer_id] = msgspec.structs.replace(former, record=kept)
        return True

    async def trace(self, answer_id: str) -> StoredTrace | None:
        """Return a trace, or None."""
        return self._traces.get(answer_id)

    async def recent_traces(self, limit: int = 20) -> list[StoredTrace]:
        """Return the latest traces, newest first."""
        check_limit(limit)
        return list(self._traces.values())[::-1][:limit]

    async def traces_about(self, collection: str, document_id: str) -> list[str]:
        """Return the sorted ids of answers whose traces name a document or its chunks."""
        return sorted(
            answer_id
            for answer_id, stored in self._traces.items()
            if stored.record.collection == collection and _names(stored.record, document_id)
        )


def _names(record: TraceRecord, document_id: str) -> bool:
    """Return whether a trace names a document or one of its chunks."""
    prefix = document_key(record.collection, document_id)
    objects = (triple.o for event in record.events for triple in event.triples)
    citations = record.answer.citations if record.answer else ()
    return any(one.iri.startswith(prefix) or one.value == document_id for one in objects) or any(
        citation.document_id == document_id for citation in citations
    )

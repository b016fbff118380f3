"""A collection in memory: its documents, and their terms and filters as a reader sees them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from whence.schema.access import Access
from whence.schema.embedding import EmbeddingModel
from whence.schema.filters import (
    CHUNK_KEYS,
    DOCUMENT_KEYS,
    Filters,
    matches,
    to_filter_value,
    unknown_key_error,
)
from whence.schema.ingest import DocumentDraft
from whence.schema.search import Match
from whence.store.bm25 import (
    clipped_impact,
    coverage_per_share,
    mean_length,
    share,
    weights,
)
from whence.store.chunk_ids import chunk_key
from whence.store.field_boosts import FieldBoosts
from whence.store.protocols import (
    CollectionInfo,
    EmbeddedDocument,
)
from whence.store.term_counts import (
    DEFAULT_LANGUAGES,
    DocumentTerms,
    LexicalQuery,
    TermVector,
    count_document_terms,
    merge_languages,
    parse_lexical_query,
    reader_languages,
)
from whence.store.validation import (
    chunk_metadata,
    filter_values,
    missing_collection,
)


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

    def visible(self, access: Access) -> Iterator[EmbeddedDocument]:
        """Yield the visible documents."""
        return (one for one in self.documents.values() if access.allows(one.draft.tags))

    def filtered(self, access: Access, filters: Filters) -> frozenset[str] | None:
        """Return the ids of the visible chunks that a filter keeps; None without a filter.

        Raises:
            BadInput: No visible document has a key of the filter.
        """
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

    def visible_terms(self, access: Access) -> list[TermVector]:
        """Return the terms of each visible chunk."""
        return [
            one
            for document in self.visible(access)
            for one in self.terms[document.draft.document_id].of_chunks
        ]

    def document_frequencies(self, access: Access) -> tuple[Counter[str], int]:
        """Return the number of visible chunks with each term, and of all visible chunks."""
        words = self.visible_terms(access)
        return Counter(term for one in words for term in one.counts), len(words)

    def visible_languages(self, access: Access) -> tuple[str, ...]:
        """Return the languages of the visible chunks."""
        chunks: Counter[str] = Counter()
        for document in self.visible(access):
            words = self.terms[document.draft.document_id]
            chunks[words.language] += len(words.of_chunks)
        return reader_languages(chunks)

    def per_share(self, query_text: str, access: Access) -> float:
        """Return the factor from the lexical share to the covered share of the query alone."""
        df, chunks = self.document_frequencies(access)
        query = self._query(query_text)
        counts = query.counts(df, self.visible_languages(access))
        return coverage_per_share(counts, df, chunks, one_word=query.one_word)

    def shares(
        self, query_text: str, access: Access, match: Match
    ) -> Iterator[tuple[str, str, float | None]]:
        """Yield id, document and lexical share of each visible chunk; None of one that does not match."""
        lengths = [one.length for one in self.visible_terms(access)]
        mean = mean_length(sum(lengths), len(lengths))
        query, languages = self._query(query_text), self.visible_languages(access)
        df, chunks = self.document_frequencies(access)
        parts = weights(query.counts(df, languages), df, chunks, one_word=query.one_word)
        required = query.required(languages) if match == "all" else []
        for document in self.visible(access):
            document_id = document.draft.document_id
            for index, words in enumerate(self.terms[document_id].of_chunks):
                has_all = all(any(term in words.counts for term in word) for word in required)
                found = _share(words, parts, mean) if has_all else None
                yield chunk_key(self.name, document_id, index), document_id, found

    def _query(self, text: str) -> LexicalQuery:
        return parse_lexical_query(text, self.languages)


def _share(words: TermVector, parts: Mapping[str, float], mean: float) -> float | None:
    shared = parts.keys() & words.counts.keys()
    if not shared:
        return None
    counts, length = words.counts, words.length
    return share((parts[term], clipped_impact(counts[term], length, mean)) for term in shared)


def _matching_chunks(draft: DocumentDraft, filters: Filters) -> Iterator[int]:
    """Yield the indexes of those chunks of a document that match all conditions."""
    facts = filter_values(draft)
    for index, chunk in enumerate(draft.chunks):
        shown = chunk_metadata(draft, chunk, index)
        own = [(key, fact) for key in CHUNK_KEYS if (fact := to_filter_value(shown[key]))]
        if all(matches(one, (f for key, f in (*facts, *own) if key == one.key)) for one in filters):
            yield index


def find(collections: Mapping[str, MemoryCollection], name: str) -> MemoryCollection:
    """Return a collection.

    Raises:
        NotFound: There is no such collection.
    """
    if name not in collections:
        raise missing_collection(name)
    return collections[name]

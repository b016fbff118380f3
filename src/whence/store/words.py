"""Counted words: what the lexical leg keeps of a chunk and asks of a query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from whence.schema.ingest import ChunkDraft
from whence.store.analysis import QueryWord, query_words, strong_length, term_counts
from whence.store.languages import DEFAULT_LANGUAGE, language_of, sample

__all__ = (
    "DEFAULT_LANGUAGES",
    "MAX_QUERY_TERMS",
    "DocumentWords",
    "QueryWords",
    "Words",
    "count_words",
    "document_words",
    "read_query",
    "with_languages",
)

#: Languages of a collection before its first document; names and titles are always read in the first.
DEFAULT_LANGUAGES = (DEFAULT_LANGUAGE,)
#: Most distinct words of a query that count; a longer query is a document, and its first pages say what it is
#: about.
MAX_QUERY_TERMS = 1024


class Words(msgspec.Struct, frozen=True):
    """The words of a chunk."""

    counts: dict[str, int]
    """Each term and how often it occurs, weak terms included."""
    length: int
    """Occurrences of strong terms."""


def count_words(text: str, language: str) -> Words:
    """Count the terms of a text. Cost: linear in its length."""
    counts = term_counts(text, language)
    return Words(counts, strong_length(counts))


class DocumentWords(msgspec.Struct, frozen=True):
    """The words of a document."""

    language: str
    """What it was stemmed in."""
    of_chunks: list[Words]


def document_words(chunks: Sequence[ChunkDraft]) -> DocumentWords:
    """Count the words of a document's chunks by what is searched: `embed_text`, or `content` without one.

    They are stemmed in the language that the document is written in, as far as that can be told.
    """
    language = language_of(sample(chunk.content for chunk in chunks))
    of_chunks = [count_words(chunk.embed_text or chunk.content, language) for chunk in chunks]
    return DocumentWords(language, of_chunks)


def with_languages(known: Sequence[str], found: Iterable[str]) -> tuple[str, ...]:
    """Give the languages of a collection together with those of new documents."""
    return (*known, *sorted(set(found).difference(known)))


class QueryWords(msgspec.Struct, frozen=True):
    """The words of a query as a collection may know them."""

    times: dict[QueryWord, int]
    """Each word, its terms in the form that they are looked up in, and how often it stands in the query."""

    @property
    def terms(self) -> list[str]:
        """Every term of any word, each once."""
        return list(dict.fromkeys(term for word in self.times for term in word.terms))

    @property
    def required(self) -> list[tuple[str, ...]]:
        """What a chunk with every word has: one term at least of each of these."""
        return [word.terms for word in self.times if word.required]

    def counts(self, df: Mapping[str, int]) -> dict[str, int]:
        """Count the terms that stand for the words, given how many chunks of those a reader sees have each.

        A word stands as those of its terms that are there, or else as its first: what another language would
        make of it counts nowhere, neither in a chunk's score nor in the query's bound.
        """
        counts: dict[str, int] = {}
        for word, times in self.times.items():
            for term in [one for one in word.terms if df.get(one)] or word.terms[:1]:
                counts[term] = counts.get(term, 0) + times
        return counts


def read_query(text: str, languages: Sequence[str], form: Callable[[str], str] = str) -> QueryWords:
    """Count the words of a query, of the first `MAX_QUERY_TERMS` distinct ones; repeats all count.

    Words beyond that count nowhere, neither in a chunk's score nor in the query's bound.

    Args:
        text: The query.
        languages: Those of the collection.
        form: Gives the form in which a term is looked up.
    """
    counts = Counter(query_words(text, languages))
    return QueryWords(
        {
            QueryWord(tuple(map(form, word.terms)), word.required): times
            for word, times in list(counts.items())[:MAX_QUERY_TERMS]
        }
    )

"""Counted words: what the lexical leg keeps of a chunk and asks of a query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from whence.schema.ingest import DocumentDraft
from whence.schema.search import MAX_QUERY_WORDS
from whence.store.field_boosts import FieldBoosts
from whence.text.analysis import (
    QueryWord,
    field_length,
    parse_query,
    term_counts,
)
from whence.text.languages import DEFAULT_LANGUAGE, detect_language, language_sample

__all__ = (
    "DEFAULT_LANGUAGES",
    "DocumentTerms",
    "LexicalQuery",
    "Words",
    "count_document_terms",
    "count_terms",
    "merge_languages",
    "parse_lexical_query",
    "reader_languages",
)

#: Languages of a collection before its first document; names and titles are always read in the first.
DEFAULT_LANGUAGES = (DEFAULT_LANGUAGE,)


class Words(msgspec.Struct, frozen=True):
    """The words of a chunk."""

    counts: dict[str, int]
    """Each term and how often it occurs, weak terms included."""
    length: int
    """Occurrences of strong terms."""
    language: str = DEFAULT_LANGUAGE
    """What they were stemmed in."""


def count_terms(text: str, language: str) -> Words:
    """Count the terms of a text. Cost: linear in its length."""
    counts = term_counts(text, language)
    return Words(counts, field_length(counts), language)


class DocumentTerms(msgspec.Struct, frozen=True):
    """The words of a document."""

    language: str
    """What it was stemmed in."""
    of_chunks: list[Words]


def count_document_terms(draft: DocumentDraft, boosts: FieldBoosts) -> DocumentTerms:
    """Count the words of a document's chunks by what is searched: `embed_text`, or `content` without one.

    They are stemmed in the language that the document is written in, as far as that can be told.
    """
    language = detect_language(language_sample(chunk.content for chunk in draft.chunks))
    texts = (
        boosts.indexed_text(
            chunk.embed_text or chunk.content,
            title=draft.title,
            heading=chunk.heading,
            path=draft.document_id,
        )
        for chunk in draft.chunks
    )
    return DocumentTerms(language, [count_terms(text, language) for text in texts])


def merge_languages(known: Sequence[str], found: Iterable[str]) -> tuple[str, ...]:
    """Return the languages of a collection together with those of new documents."""
    return (*known, *sorted(set(found).difference(known)))


class LexicalQuery(msgspec.Struct, frozen=True):
    """The words of a query as a collection may know them.

    Which of their terms count is up to the languages that the reader's chunks are written in: in `spoken`, the
    commonest first.
    """

    languages: tuple[str, ...]
    """Those of the collection."""
    times: dict[QueryWord, int]
    """Each word, its terms in the form that they are looked up in, and how often it stands in the query."""
    one_word: bool = False
    """Whether all of them are one word as it was written, and its parts."""

    @property
    def terms(self) -> list[str]:
        """Every term of any word in any language, each once."""
        return list(dict.fromkeys(term for word in self.times for term in word.terms))

    def required(self, spoken: Sequence[str]) -> list[tuple[str, ...]]:
        """What a chunk with every word has: one term at least of each of these."""
        places = self._places(spoken)
        return [tuple(word.terms[n] for n in places) for word in self.times if word.required]

    def counts(self, df: Mapping[str, int], spoken: Sequence[str]) -> dict[str, int]:
        """Count the terms that stand for the words.

        A word stands as what the first language makes of it whose term is there, and as the first one's term
        when none is: were it to stand as several, it would count as often in the query's bound.

        Args:
            df: How many of the reader's chunks have each term.
            spoken: Languages of the reader's chunks.
        """
        places = self._places(spoken)
        counts: dict[str, int] = {}
        for word, times in self.times.items():
            terms = [word.terms[n] for n in places]
            term = next((one for one in terms if df.get(one)), terms[0])
            counts[term] = counts.get(term, 0) + times
        return counts

    def _places(self, spoken: Sequence[str]) -> list[int]:
        known = [one for one in spoken if one in self.languages]
        return [self.languages.index(one) for one in known] or [0]


def reader_languages(chunks: Mapping[str, int]) -> tuple[str, ...]:
    """Return the languages of at least one in a hundred of the reader's chunks, commonest first.

    A rarer language would change the stems of queries about all other documents.

    Args:
        chunks: How many are written in each language.
    """
    least = sum(chunks.values()) / 100
    order = sorted(chunks, key=lambda one: (-chunks[one], one))
    return tuple(one for one in order if chunks[one] > 0 and chunks[one] >= least)


def parse_lexical_query(
    text: str, languages: Sequence[str], form: Callable[[str], str] = str
) -> LexicalQuery:
    """Count the words of a query, of the first `MAX_QUERY_WORDS` distinct ones; repeats all count.

    Words beyond that count nowhere, neither in a chunk's score nor in the query's bound.

    Args:
        text: The query.
        languages: Those of the collection, one at least.
        form: Gives the form in which a term is looked up.
    """
    words, one_word = parse_query(text, languages)
    counts = Counter(words)
    return LexicalQuery(
        tuple(languages),
        {
            QueryWord(tuple(map(form, word.terms)), word.required): times
            for word, times in list(counts.items())[:MAX_QUERY_WORDS]
        },
        one_word,
    )

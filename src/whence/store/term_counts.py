"""Term frequencies of chunks, and the terms of queries, for lexical search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from whence.schema.ingest import DocumentDraft
from whence.schema.search import MAX_QUERY_WORDS
from whence.store.field_boosts import FieldBoosts
from whence.text.analysis import QueryWord, field_length, parse_query, term_counts
from whence.text.languages import DEFAULT_LANGUAGE, detect_language, language_sample

#: Languages of a collection before its first document; titles are always analyzed in the first.
DEFAULT_LANGUAGES = (DEFAULT_LANGUAGE,)


class TermVector(msgspec.Struct, frozen=True):
    """The term vector of a chunk."""

    counts: dict[str, int]
    """Frequency of each term, stop terms included."""
    length: int
    """Field length: occurrences of terms that are not stop terms."""
    language: str = DEFAULT_LANGUAGE
    """Language of the stemmer."""


def count_terms(text: str, language: str) -> TermVector:
    """Count the terms of a text. Cost: linear in its length."""
    counts = term_counts(text, language)
    return TermVector(counts, field_length(counts), language)


class DocumentTerms(msgspec.Struct, frozen=True):
    """The term vectors of a document."""

    language: str
    """Language of the stemmer."""
    of_chunks: list[TermVector]


def count_document_terms(draft: DocumentDraft, boosts: FieldBoosts) -> DocumentTerms:
    """Count the terms of a document's chunks, of `embed_text`, or of `content` without one.

    They are stemmed in the detected language of the document.
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
    """Return the languages of a collection with those of new documents added."""
    return (*known, *sorted(set(found).difference(known)))


class LexicalQuery(msgspec.Struct, frozen=True):
    """The words of a query, with their terms in the languages of a collection.

    Which of the terms count depends on the languages of the reader's chunks, commonest first.
    """

    languages: tuple[str, ...]
    """Those of the collection."""
    times: dict[QueryWord, int]
    """Frequency of each word in the query; terms are in their stored form."""
    one_word: bool = False
    """Whether the query is a single word with its parts."""

    @property
    def terms(self) -> list[str]:
        """Return all terms of all words in all languages, each once."""
        return list(dict.fromkeys(term for word in self.times for term in word.terms))

    def required(self, spoken: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the terms of each required word: a chunk with all words has at least one of each."""
        places = self._places(spoken)
        return [tuple(word.terms[n] for n in places) for word in self.times if word.required]

    def counts(self, df: Mapping[str, int], spoken: Sequence[str]) -> dict[str, int]:
        """Return the frequency of the terms of the query, one term for each word.

        The term of a word is that of the first language whose term the reader's chunks contain, else that of
        the first language: several terms would count several times in the bound of the query.

        Args:
            df: Number of the reader's chunks with each term.
            spoken: Languages of the reader's chunks, commonest first.
        """
        places = self._places(spoken)
        counts: dict[str, int] = {}
        for word, times in self.times.items():
            term = word.terms[places[0]]
            for place in places:
                if df.get(word.terms[place]):
                    term = word.terms[place]
                    break
            counts[term] = counts.get(term, 0) + times
        return counts

    def _places(self, spoken: Sequence[str]) -> list[int]:
        known = [one for one in spoken if one in self.languages]
        return [self.languages.index(one) for one in known] or [0]


def reader_languages(chunks: Mapping[str, int]) -> tuple[str, ...]:
    """Return the languages of at least one in a hundred of the reader's chunks, commonest first.

    A rarer language would change the stems of queries about all other documents.

    Args:
        chunks: Number of chunks in each language.
    """
    least = sum(chunks.values()) / 100
    order = sorted(chunks, key=lambda one: (-chunks[one], one))
    return tuple(one for one in order if chunks[one] > 0 and chunks[one] >= least)


def parse_lexical_query(
    text: str, languages: Sequence[str], form: Callable[[str], str] = str
) -> LexicalQuery:
    """Count the words of a query: the first `MAX_QUERY_WORDS` distinct ones, with all their repeats.

    Further words are ignored.

    Args:
        text: The query.
        languages: Languages of the collection, at least one.
        form: Returns the stored form of a term.
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

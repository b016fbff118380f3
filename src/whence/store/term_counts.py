"""Term frequencies of chunks, and the terms of queries, for lexical search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from operator import itemgetter

import msgspec

from whence.schema.ingest import DocumentDraft
from whence.schema.search import MAX_QUERY_WORDS
from whence.store.field_boosts import FieldBoosts
from whence.text.analysis import (
    QueryWord,
    added_terms,
    document_terms,
    field_length,
    parse_query,
)
from whence.text.languages import DEFAULT_LANGUAGE, language_of_document
from whence.text.spelling import surface_words

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
    words: frozenset[str] = frozenset()
    """Words as they are written, in lower case; see `spelling.surface_words`."""
    content: tuple[str, ...] = ()
    """Terms of the chunk's content, in order; none where it was not given."""


def count_terms(text: str, language: str, content: str = "") -> TermVector:
    """Count the terms of a text, with those of the chunk's content apart. Cost: linear in its length."""
    inner = document_terms(content, language)
    # A line break ends a term, so the parts have the terms of the whole.
    before, found, after = f"\n{text}\n".partition(f"\n{content}\n")
    if content and found:
        terms = document_terms(before, language) + inner + document_terms(after, language)
    else:
        terms = document_terms(text, language)
    counts = dict(Counter(terms + added_terms(text, language)))
    length = field_length(counts)
    return TermVector(counts, length, language, surface_words(text), tuple(inner))


def count_document_terms(draft: DocumentDraft, boosts: FieldBoosts) -> list[TermVector]:
    """Count the terms of each chunk of a document, of `embed_text`, or of `content` without one.

    They are stemmed in the detected language of the document.
    """
    language = language_of_document(chunk.content for chunk in draft.chunks)
    texts = [
        boosts.indexed_text(
            chunk.embed_text or chunk.content,
            title=draft.title,
            heading=chunk.heading,
            path=draft.document_id,
        )
        for chunk in draft.chunks
    ]
    return [
        count_terms(text, language, chunk.content)
        for text, chunk in zip(texts, draft.chunks, strict=True)
    ]


class LexicalQuery(msgspec.Struct, frozen=True):
    """The words of a query, with their terms in some languages, commonest first."""

    times: dict[QueryWord, int]
    """Frequency of each word in the query."""
    one_word: bool = False
    """Whether the query is a single word with its parts."""

    @property
    def terms(self) -> list[str]:
        """Return all terms of all words in all languages, each once."""
        return list(dict.fromkeys(term for word in self.times for term in word.terms))

    def resolve(self, df: Mapping[str, int]) -> tuple[dict[str, int], list[list[str]]]:
        """Return the frequency of each term of the query, and the terms of each required word.

        One term counts for each word: that of the first language whose term the reader's chunks contain, else
        that of the first language. Several terms would count several times in the bound of the query. A chunk
        with all words has at least one term of each required word.

        Args:
            df: Number of the reader's chunks with each term.
        """
        counts: dict[str, int] = {}
        required: list[list[str]] = []
        for word, times in self.times.items():
            term = next(filter(df.get, word.terms), word.terms[0])
            counts[term] = counts.get(term, 0) + times
            if word.required:
                required.append(list(word.terms))
        return counts, required


def languages_of(chunks: Mapping[str, int]) -> tuple[str, ...]:
    """Return the languages that a query is read in, commonest first, equally common ones by name.

    Those of hidden chunks must not be among them: their function words are left out of queries.

    Args:
        chunks: Number of the reader's chunks in each language. One of fewer than one in a hundred is left out:
            it would change the stems of queries about all others.
    """
    least = max(1, sum(chunks.values()) / 100)
    ordered = sorted(sorted(chunks.items()), key=itemgetter(1), reverse=True)
    return tuple(one for one, n in ordered if n >= least) or DEFAULT_LANGUAGES


def parse_lexical_query(text: str, languages: tuple[str, ...]) -> LexicalQuery:
    """Count the words of a query: the first `MAX_QUERY_WORDS` distinct ones, with all their repeats.

    Further words are ignored.

    Args:
        text: The query.
        languages: See `languages_of`.
    """
    words, one_word = parse_query(text, languages)
    times = dict(islice(Counter(words).items(), MAX_QUERY_WORDS))
    return LexicalQuery(times, one_word)

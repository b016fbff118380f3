"""Titles of passages and their mentions in texts, of which the links between passages are made.

A title or heading is normalized to the analyzer's terms in order: stems in place of words, joined by spaces. A
text mentions a title when these terms stand in it side by side. Both are analyzed as for ranking by words, so
that a text which mentions a title is among the postings of each of its terms.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from whence.schema.ingest import DocumentDraft
from whence.store.term_counts import TermVector
from whence.text.analysis import ANALYZER_VERSION, document_terms, is_stop_term

#: Recorded with each collection: titles of another version cannot be matched.
LINKS_VERSION = f"{ANALYZER_VERSION}.1"

#: A title that more visible passages have, or that more visible passages of other documents mention, is a
#: common word and links nothing. Measured on a multi-hop collection: limits of 5 to 50 mentions and 1 to 5
#: passages give the same ranking within 1.5 points; without a limit 6 points are lost.
MAX_TITLED = 3
MAX_MENTIONS = 20

#: A longer title is a sentence, which other texts do not repeat word for word.
_MAX_TERMS = 16
#: In characters; a row of a B-tree holds 2704 bytes, a character takes 4 at most.
_MAX_LENGTH = 400
#: A shorter title is an abbreviation that means something else in most texts.
_MIN_LENGTH = 3
#: A qualifier such as `(planet)` in `Mercury (planet)`; texts leave it out.
_QUALIFIER = re.compile(r"(?<!\s)\s*+\([^()]*+\)\s*+\Z")


class PassageTitles(msgspec.Struct, frozen=True):
    """Titles and terms of a passage."""

    titles: tuple[str, ...]
    """Its normalized titles and headings, each once."""
    terms: tuple[str, ...]
    """Terms of its text, in order."""


def normalize_title(title: str, language: str) -> str | None:
    """Return a title or heading as its terms, joined by spaces; None when it is not fit for links.

    A qualifier in parentheses at the end is left out. A fit title has a term that is not a stop term, at least
    three characters and at most 16 terms.

    >>> normalize_title("Mercury (planet)", "english")
    'mercuri'
    >>> normalize_title("To be", "english") is None
    True
    """
    terms = document_terms(_QUALIFIER.sub("", title) or title, language)
    normalized = " ".join(terms)
    if not title_terms(normalized) or len(terms) > _MAX_TERMS:
        return None
    return normalized if _MIN_LENGTH <= len(normalized) <= _MAX_LENGTH else None


def title_terms(title: str) -> list[str]:
    """Return the terms of a normalized title that are not stop terms."""
    return [term for term in title.split(" ") if not is_stop_term(term)]


def anchor_term(title: str, df: Mapping[str, int]) -> str:
    """Return the term by which a title is looked up: the rarest, then the longest, then the first.

    A text is compared with all titles whose anchor it contains; with the rarest term these are few, also where
    many titles share a word (`Record 1`, `Record 2`, ...). The anchor stays valid when frequencies change.

    Args:
        title: A normalized title.
        df: Document frequencies of terms; a term without one counts as frequent.
    """
    return min(title_terms(title), key=lambda term: (df.get(term, sys.maxsize), -len(term), term))


def chunk_titles(draft: DocumentDraft, language: str) -> list[tuple[str, ...]]:
    """Return the normalized titles of each chunk of a document.

    The first chunk has the title of the document; the first chunk under a heading has the heading.
    """
    used: set[str] = set()
    titles: list[tuple[str, ...]] = []
    for index, chunk in enumerate(draft.chunks):
        candidates = [draft.title, chunk.heading] if index == 0 else [chunk.heading]
        new = dict.fromkeys(title for title in candidates if title.strip() and title not in used)
        used.update(new)
        normalized = (normalize_title(title, language) for title in new)
        titles.append(tuple(dict.fromkeys(title for title in normalized if title is not None)))
    return titles


def passage_titles(
    draft: DocumentDraft, language: str, words: Sequence[TermVector] | None = None
) -> list[PassageTitles]:
    """Return titles and terms of each chunk of a document. Cost: linear in the texts.

    Args:
        draft: The document.
        language: That of the analysis.
        words: Term vectors of the chunks, whose terms are taken where their language is the same.
    """
    titles = chunk_titles(draft, language)
    if words is None or any(one.language != language for one in words):
        texts = [tuple(document_terms(chunk.content, language)) for chunk in draft.chunks]
    else:
        texts = [one.content for one in words]
    return [PassageTitles(*pair) for pair in zip(titles, texts, strict=True)]


class MentionFinder:
    """Finds mentions of titles in texts.

    Args:
        titles: Normalized titles.
    """

    def __init__(self, titles: Iterable[str]) -> None:
        self._titles = frozenset(titles)
        lengths: dict[str, set[int]] = {}
        for title in self._titles:
            terms = title.split(" ")
            lengths.setdefault(terms[0], set()).add(len(terms))
        self._lengths = {first: sorted(some) for first, some in lengths.items()}

    def find(self, terms: Sequence[str]) -> set[str]:
        """Return the titles whose terms stand side by side in a text.

        Cost: linear in the terms, times the different lengths of titles that begin with one term.
        """
        lengths = self._lengths
        return {
            title
            for place in [place for place, term in enumerate(terms) if term in lengths]
            for length in lengths[terms[place]]
            if (title := " ".join(terms[place : place + length])) in self._titles
        }

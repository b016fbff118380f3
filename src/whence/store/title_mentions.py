"""Names of passages, and where texts name them: what the links of the passage graph are made of.

A title or a heading is a name: the analyzer's terms in order, stems in place of words. A text holds a name
when these terms stand in it side by side. Both are cut by the one analyzer that ranking by words uses, so that
a text that holds a name is among the postings of each of its terms.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from whence.schema.ingest import DocumentDraft
from whence.text.analysis import ANALYZER_VERSION, document_terms, is_stop_term

__all__ = (
    "LINKS_VERSION",
    "MAX_MENTIONS",
    "MAX_TITLED",
    "MentionFinder",
    "PassageTitles",
    "anchor_term",
    "chunk_titles",
    "normalize_title",
    "passage_titles",
    "title_terms",
)

#: Recorded with each collection: names of another version do not meet.
LINKS_VERSION = f"{ANALYZER_VERSION}.1"

#: A title that more visible passages have, or that more visible passages of other documents mention, is a
#: common word and links nothing. Measured on a multi-hop collection: limits of 5 to 50 mentions and 1 to 5
#: passages give the same ranking within 1.5 points; without a limit 6 points are lost.
MAX_TITLED = 3
MAX_MENTIONS = 20

#: A longer title is a sentence, which no other text repeats word for word.
_MOST_TERMS = 16
#: In characters; a row of a B-tree holds 2704 bytes, a character takes 4 at most.
_LONGEST_NAME = 400
#: A shorter name is an abbreviation that means something else in most texts.
_SHORTEST_NAME = 3
#: What tells things of one name apart, as in `Mercury (planet)`; texts leave it out.
_QUALIFIER = re.compile(r"\s*\([^()]*\)\s*\Z")


class PassageTitles(msgspec.Struct, frozen=True):
    """What the passage graph needs to know of a passage."""

    borne: tuple[str, ...]
    """Names that it bears, each once."""
    terms: tuple[str, ...]
    """Terms of its text, in order."""


def normalize_title(title: str, language: str) -> str | None:
    """Return the name that a title or heading makes, terms joined by spaces; None when it makes none.

    A qualifier in parentheses at the end is left out. A name has a strong term, three characters at least,
    and 16 terms at most.

    >>> normalize_title("Mercury (planet)", "english")
    'mercuri'
    >>> normalize_title("To be", "english") is None
    True
    """
    terms = document_terms(_QUALIFIER.sub("", title) or title, language)
    name = " ".join(terms)
    if not title_terms(name) or len(terms) > _MOST_TERMS:
        return None
    return name if _SHORTEST_NAME <= len(name) <= _LONGEST_NAME else None


def title_terms(name: str) -> list[str]:
    """Return the terms of a name that are no stop words and no single letters."""
    return [term for term in name.split(" ") if not is_stop_term(term)]


def anchor_term(name: str, chunks: Mapping[str, int]) -> str:
    """Return the term by which a name is looked up: the rarest strong one, then the longest, then the first.

    A text brings up all names with an anchor that it holds, so that of titles which share a word (`Record 1`,
    `Record 2`, ...) each text would bring up all by that. Any strong term would do: what it was does not have
    to be the rarest for ever.

    Args:
        name: As `normalize_title` gives it.
        chunks: How many chunks have a term, as far as that is known.
    """
    return min(
        title_terms(name), key=lambda term: (chunks.get(term, sys.maxsize), -len(term), term)
    )


def chunk_titles(draft: DocumentDraft, language: str) -> list[tuple[str, ...]]:
    """Return the names that each chunk of a document bears.

    The first chunk bears the title; the first chunk under a heading bears the heading.
    """
    seen: set[str] = set()
    borne: list[tuple[str, ...]] = []
    for index, chunk in enumerate(draft.chunks):
        titles = [draft.title, chunk.heading] if index == 0 else [chunk.heading]
        new = dict.fromkeys(title for title in titles if title.strip() and title not in seen)
        seen.update(new)
        names = (normalize_title(title, language) for title in new)
        borne.append(tuple(dict.fromkeys(name for name in names if name is not None)))
    return borne


def passage_titles(draft: DocumentDraft, language: str) -> list[PassageTitles]:
    """Return the names and terms of each chunk of a document. Cost: linear in the texts."""
    return [
        PassageTitles(borne, tuple(document_terms(chunk.content, language)))
        for borne, chunk in zip(chunk_titles(draft, language), draft.chunks, strict=True)
    ]


class MentionFinder:
    """Finds which of some names a text holds.

    Args:
        names: As `normalize_title` gives them.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        lengths: dict[str, set[int]] = {}
        for name in self._names:
            terms = name.split(" ")
            lengths.setdefault(terms[0], set()).add(len(terms))
        self._lengths = {first: sorted(some) for first, some in lengths.items()}

    def find(self, terms: Sequence[str]) -> set[str]:
        """Return the names whose terms stand side by side in a text.

        Cost: linear in the terms, times the number of lengths of names that begin with one term.
        """
        if not self._lengths:
            return set()
        found: set[str] = set()
        for place, term in enumerate(terms):
            for length in self._lengths.get(term, ()):
                name = " ".join(terms[place : place + length])
                if name in self._names:
                    found.add(name)
        return found

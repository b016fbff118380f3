"""What a question names in the form of code, and releases that documents number: an answer must be about these.

A question about `CONN_POOL_WARMUP` is not answered by a passage about its neighbours. Ordinary words are not
named, whatever their case: a synonym may stand in the documents.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec
import regex
from rapidfuzz import fuzz

from whence.text.normalization import fold, function_words
from whence.text.question_words import language_of_question
from whence.text.spelling import QueryToken, query_tokens
from whence.text.values import find_values

TermKind = Literal["identifier", "version"]

#: Least similarity of an identifier that is named as the nearest, 0 to 100.
_LEAST_SIMILARITY: Final = 40
#: The form of code: an option, words joined by `_`, `::` or a point, capitals inside of a word, `ERR-1042`.
_IDENTIFIER: Final = regex.compile(
    r"--\p{L}|[\p{L}\p{N}]_+[\p{L}\p{N}]|\p{Ll}{2}\p{Lu}\w|\p{Lu}{2,}[a-rt-z]\w|::|\p{L}{2}\.\p{L}{2}|\p{Lu}{2}-\d"
)
#: Three words or more that hyphens join; `state-of-the-art` is none, for it has function words.
_HYPHENATED: Final = regex.compile(r"\p{Ll}[\p{L}\p{N}]*(?:-[\p{L}\p{N}]+){2,}")
#: A protocol and its version: `HTTP/3`.
_PROTOCOL: Final = regex.compile(r"(?<![\w/.:])\p{Lu}{2,8}/\d(?:\.\d)?(?![\w/])")
_VERSION: Final = regex.compile(r"v?\d+(?:\.\d+)+")
#: Words between a name and the number of its release.
_RELEASE_WORDS: Final = frozenset(("v", "version", "release"))
_BETWEEN: Final = r"[\s@=~^<>\"'`(-]{0,4}(?:version\s|release\s|v\.?\s?)?"
_SEPARATORS: Final = regex.compile(r"[-\s]")


class NamedTerm(msgspec.Struct, frozen=True):
    """Something that a question names."""

    text: str
    """As the question has it."""
    kind: TermKind
    product: str = ""
    """The name before a version; empty when none stands there."""

    @property
    def spellings(self) -> tuple[str, ...]:
        """The ways in which documents write it: `HTTP/3` is also `HTTP3`."""
        is_protocol = _PROTOCOL.fullmatch(self.text) is not None
        return (self.text, self.text.replace("/", "")) if is_protocol else (self.text,)

    def occurs_in(self, text: str) -> bool:
        """Return whether a text has the term, in any case; a version also as the beginning of a longer one."""
        if self.kind == "version":
            number = regex.escape(self.text.removeprefix("v"))
            return regex.search(rf"(?<![\d.]){number}(?!\d)", text) is not None
        folded = text.casefold()
        # One word may stand there as two.
        return self.text in _SEPARATORS.sub("", folded) or any(
            one.casefold() in folded for one in self.spellings
        )


def named_terms(question: str, absent: Iterable[str]) -> list[NamedTerm]:
    """Return what a question names and the index does not have as it is, in order, each once.

    Args:
        question: The question.
        absent: Words and identifiers of it that no visible chunk has as a whole.

    >>> [one.text for one in named_terms("Does Crate 9.3 have MAX_AGE?", ["Crate", "9.3", "MAX_AGE"])]
    ['9.3', 'MAX_AGE']
    """
    missing = frozenset(absent)
    protocols = list(_PROTOCOL.finditer(question))
    taken = [one.span() for one in protocols]
    # A year or quarter, such as `FY2023`, is no identifier.
    taken += [(one.start, one.end) for one in find_values(question)]
    untopical = function_words(language_of_question(question, ["english"]))
    found: dict[NamedTerm, None] = {}
    name = ""
    for token in query_tokens(question):
        if any(start <= token.start < end for start, end in taken):
            continue
        if _VERSION.fullmatch(token.text):
            if token.text in missing and name:
                found[NamedTerm(token.text, "version", name)] = None
        elif token.text in missing and _is_code(token.text, untopical):
            found[NamedTerm(token.text, "identifier")] = None
        word = fold(token.text)
        if word not in _RELEASE_WORDS:
            is_name = any(map(str.isalpha, word)) and word not in untopical
            name = token.text if is_name else ""
    return [*found, *(NamedTerm(one[0], "identifier") for one in protocols)]


def _is_code(word: str, untopical: frozenset[str]) -> bool:
    """Return whether a word has the form of code."""
    if _HYPHENATED.fullmatch(word):
        return untopical.isdisjoint(fold(word).split("-")[1:])
    return _IDENTIFIER.search(word) is not None


def numbered_releases(product: str, texts: Iterable[str]) -> list[str]:
    """Return the numbers with a point beside a name in some texts: its releases, each once.

    >>> numbered_releases("Crate", ["Crate 4.1 and release 4.2 of Crate are out, as is Box 7.5."])
    ['4.1', '4.2']
    """
    name, number = regex.escape(product), r"(?<![\w.])v?(?P<number>\d+(?:\.\d+)+)"
    after = regex.compile(rf"(?<!\w){name}{_BETWEEN}{number}", regex.IGNORECASE)
    before = regex.compile(rf"{number}\s+(?:\p{{L}}{{1,3}}\s+)?{name}(?!\w)", regex.IGNORECASE)
    return list(
        dict.fromkeys(
            match["number"]
            for text in texts
            for pattern in (after, before)
            for match in pattern.finditer(text)
        )
    )


def nearest_term(term: NamedTerm, texts: Iterable[str]) -> str:
    """Return the term of the same kind in some texts that is most like one they do not have; empty for none.

    Of identifiers those with most parts in common, then the most similar, then the first of the alphabet; of
    the versions of the same product the greatest.
    """
    if term.kind == "version":
        versions = numbered_releases(term.product, texts)
        return max(versions, key=lambda one: [*map(int, one.split("."))], default="")
    tokens = {token.text: token for text in texts for token in query_tokens(text)}
    (own,) = query_tokens(term.text)[:1] or (QueryToken(term.text, 0, ()),)
    parts = {part.lower() for _, part in own.parts}
    best: list[tuple[int, float, str]] = []
    for text, token in tokens.items():
        if len(token.parts) < 2 or not (_IDENTIFIER.search(text) or "-" in text):
            continue
        shared = len(parts.intersection(part.lower() for _, part in token.parts))
        similarity = fuzz.ratio(text.lower(), term.text.lower())
        if shared and similarity >= _LEAST_SIMILARITY:
            best.append((-shared, -similarity, text))
    return min(best)[2] if best else ""

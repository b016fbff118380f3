"""What a question asks for: the things that it names, and the kind of its answer.

The kinds are few and general: a value, the meaning of a name, what a release brought. Whatever fits none is
only compared by words and meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from whence.quoting.identifiers import Identifier, question_identifiers
from whence.text.normalization import fold, function_words
from whence.text.question_words import language_of_question

#: A name that no ordinary word is: with an underscore, a point or a capital inside, a dash before it or two
#: inside. Possessive quantifiers keep the search linear in the length of a word.
_SYMBOL: Final = re.compile(
    r"(?<![\w.-])(?:--?[A-Za-z][\w-]*|[a-z]+(?:-[a-z\d]+){2,}"
    r"|[A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*)+"
    r"|(?=\w*[A-Za-z])(?=\w*_\w)\w++"
    r"|[a-z]+[A-Z]\w*+|[A-Z][a-z]+[A-Z]\w*+)(?![\w-])"
)
_QUOTED: Final = re.compile(r"[`\"\u201c]([^`\"\u201c\u201d]{2,60})[`\"\u201d]")
_VALUE_TEXT: Final = r"""how\s+(?:many|much|long|often|big|large|far|old|fast|high)|default|maximum|minimum|max|min|limit
    |timeout|port|what\s+value|which\s+value|what\s+number|when|what\s+version|which\s+version|what\s+year|percent"""
_ASKS_VALUE: Final = re.compile(rf"\b(?:{_VALUE_TEXT})\b", re.IGNORECASE | re.VERBOSE)
_ASKS_NEWS: Final = re.compile(
    r"\b(?:new|news|chang(?:e[sd]?|ing|elog)|added|adds?|introduc\w+|remov(?:ed|es)|drop(?:ped|s)?|deprecat\w+|since"
    r"|versions?|releases?d?|fix(?:ed|es)|bugs?|history|when|migrat\w+|upgrad\w+|compatib\w+|breaking)\b",
    re.IGNORECASE,
)
_RELEASE: Final = re.compile(r"(?<![\w.])v?(\d+(?:\.\d+){1,8})(?![\w.]*\w)")
#: Titles of documents that tell what each release changed.
_NEWS: Final = re.compile(
    r"\b(?:release\s+notes|release\s+history|change\s?log|what.s\s+new|changes|news|history)\b|\bv?\d+\.\d+(?:\.\d+)?\b",
    re.IGNORECASE,
)
#: A number, or a literal as manuals print it.
_VALUE: Final = re.compile(
    r"\d|\b(?:True|False|None|null|true|false|nil|never|once|twice|unlimited|disabled|enabled|empty"
    r"|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b|`[^`]+`|'[^'\s]+'"
)
#: The same with the word that a number counts.
_WHOLE_VALUE: Final = re.compile(rf"`[^`]+`|'[^'\s]+'|[$\u20ac]?\b\d[\w.,:]*\b%?|{_VALUE.pattern}")


class Asked(NamedTuple):
    """What a question asks for."""

    symbols: tuple[str, ...]
    """Names of code, settings and options as written, and quoted phrases; folded."""
    identifiers: frozenset[Identifier]
    """Releases, codes, dates."""
    news: bool
    """Whether it asks what is or was new, or names a release."""


def read_question(question: str, texts: Sequence[str] = ()) -> Asked:
    """Return what a question asks for.

    Args:
        question: The question.
        texts: Those that may answer it; see `question_identifiers`.

    >>> read_question("What is the default of CONN_MAX_AGE in Django?").symbols
    ('conn_max_age',)
    """
    quoted = [found.strip() for found in _QUOTED.findall(question)]
    written = [one for one in _SYMBOL.findall(question) if not _is_phrase(one, question)]
    symbols = dict.fromkeys(fold(one) for one in [*written, *quoted])
    return Asked(
        symbols=tuple(symbols),
        identifiers=question_identifiers(question, texts),
        news=bool(_ASKS_NEWS.search(question) or _RELEASE.search(question)),
    )


def _is_phrase(symbol: str, question: str) -> bool:
    """Return whether hyphens join function words: `state-of-the-art`, `a-t-elle`."""
    if symbol.startswith("-") or "-" not in symbol:
        return False
    untopical = function_words(language_of_question(question, ["english"]))
    return not untopical.isdisjoint(fold(symbol).split("-")[1:])


def is_news(section: str) -> bool:
    """Return whether the headings above a text are those of the notes of a release."""
    return _NEWS.search(section) is not None


def value_spans(question: str, sentence: str) -> Iterator[tuple[int, int]]:
    """Yield the offsets of numbers and literals in a sentence, where the question asks for a value."""
    if _ASKS_VALUE.search(question):
        for match in _WHOLE_VALUE.finditer(sentence):
            if fold(match[0]).strip("`'\"") not in fold(question):
                yield match.span()

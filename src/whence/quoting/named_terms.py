"""What a question names: identifiers, releases and proper names, which an answer must be about.

A question about `CONN_POOL_WARMUP` is not answered by a passage about its neighbours. Ordinary words are not
named: a synonym may stand in the documents.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal

import msgspec
from rapidfuzz import fuzz

from whence.text.normalization import FUNCTION_WORDS
from whence.text.spelling import QueryToken, can_be_misspelt, query_tokens

TermKind = Literal["identifier", "version", "name"]

#: Least similarity of an identifier that is named as the nearest, 0 to 100.
_LEAST_SIMILARITY: Final = 40
# `a_b`, `aB`, `ABc` but not `CPUs`, `a::b`, dots between words, letters with digits, `--a`.
_IDENTIFIER = re.compile(
    r"--\w|[^\W_]_+[^\W_]|[a-z\d][A-Z]|[A-Z]{2}(?!s\Z)[a-z]|::|[^\W\d]\.[^\W\d_]|[a-z]{2}\d+[a-z]|^[a-z]+\d[a-z]+$"
)
#: Words joined by two hyphens or more, or with capitals on both sides of one.
_HYPHENATED = re.compile(r"\w+(?:-\w+){2,}|[A-Z]\w*-[A-Z]\w*")
#: A protocol and its version: `HTTP/3`.
_PROTOCOL = re.compile(r"(?<![\w/.:])(?:[A-Z]{2,8}|http)/\d(?:\.\d)?(?![\w/])")
_VERSION = re.compile(r"v?\d+(?:\.\d+)+")
_WHOLE_VERSION = re.compile(r"v?\d{1,3}")
#: Questions about what a release brought, in which a whole number after a name is a release.
_ABOUT_RELEASE = re.compile(
    r"\b(?:new|news|chang\w+|features?|added|remove[ds]?|drop(?:s|ped)?|introduc\w+|release\w*|deprecat\w+|upgrad\w+|migrat\w+)\b",
    re.IGNORECASE,
)
_KINDS = """argument attribute class command decorator directive extension field flag function header hook key macro
    method middleware module option package parameter plugin property role setting variable"""
#: Nouns beside which an absent word of no dictionary is an identifier: `the videoembed directive`.
_KIND_WORDS = frozenset(_KINDS.split())
_RELEASE_WORD = frozenset(("version", "release", "v"))
_RELEASES = """versions releases series branch new changed added deprecated removed introduced since until least"""
#: Words after which a number is a release of what the text is about.
_RELEASE_WORDS = _RELEASE_WORD.union(_RELEASES.split())
#: Characters before a number that are searched for the name that it belongs to.
_BEFORE_RELEASE: Final = 80
#: Other releases of an enumeration: `3.7, 3.8 and`.
_ENUMERATED = re.compile(
    r"(?:(?<![\w.])v?\d[\d.]*+\+?\s*+(?:,|/|\band\b|\bor\b|\bto\b)\s*+){1,20}\Z"
)
#: What may stand between a name and its release.
_BETWEEN = re.compile(r"(?<![\s@=~^<>\"'`])[\s@=~^<>\"'`]*+(?:\bv\.?\s*+)?\Z", re.IGNORECASE)
_BETWEEN_OR_HYPHEN = re.compile(rf"-?{_BETWEEN.pattern}", re.IGNORECASE)
#: The number of a section and its title, which is no release: `9.1 History`, not `9.1 Beta` or `9.1 (2024)`.
_NUMBERED_SECTION = re.compile(
    r"[\d.]+:?[ \t]+(?!(?:Release|Version|New|What\S*(?: [Hh]as| [Ii]s)? (?:[Nn]ew|[Cc]hanged)|Change|Note|Alpha|Beta|RC"
    r"|Final|LTS|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec))[A-Z]"
)
_IN_FILE_NAME = re.compile(r"\d+(?:\.\d+)*\.[a-z]")
_WORD_BEFORE = re.compile(r"(?<![\w.+#'\u2019-])[\w.+#'\u2019-]*+(?<=[\w+#])\Z")
_SENTENCE_END = re.compile(r"(?:(?:^|[.!?:;\"'(\u201c])\s*+|(?<!\s)[^\S\n]*+\n\s*+)\Z")
_SEPARATORS = re.compile(r"[-\s]")
_NAME = re.compile(r"[A-Z][a-z]+\Z|[A-Z]{3,}\Z")


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
        """Return whether a text has the term, in any case.

        A version is also found as the beginning of a longer one, and not beside another name than its product:
        `Python 7.2` is no release 7.2 of Celery.
        """
        if self.kind != "version":
            folded = text.casefold()
            # One word may stand there as two.
            return self.text in _SEPARATORS.sub("", folded) or any(
                one.casefold() in folded for one in self.spellings
            )
        number = re.escape(self.text.removeprefix("v"))
        return any(
            self._is_its_release(text, match.start())
            for match in re.finditer(rf"(?<![\d.]){number}(?!\d)", text)
        )

    def _is_its_release(self, text: str, start: int) -> bool:
        """Return whether a number of a text is a release of the product, and not of another name before it."""
        line = text[text.rfind("\n", 0, start) + 1 : start][-_BEFORE_RELEASE:]
        # Paths of headings and rows of an index stand on one line: `Functions > 9.1 History`.
        is_first = not line.strip(" \t#") or line.endswith(("> ", "| ", *"\"'(`\u201c\u2018"))
        if is_first and _NUMBERED_SECTION.match(text, start):
            return False
        # In the name of a file the words before a number are no product: `notes-9.3.md`.
        between = _BETWEEN if _IN_FILE_NAME.match(text, start) else _BETWEEN_OR_HYPHEN
        match = _WORD_BEFORE.search(between.sub("", _ENUMERATED.sub("", line)))
        word = match[0].casefold() if match else ""
        is_marked = re.search(r"\bv\.?\s*\Z", line, re.IGNORECASE) is not None
        product = self.product.casefold()
        if word and (word in _RELEASE_WORDS or (product and product in word)):
            return True
        is_longer = re.match(r"\d+\.\d", text[start:]) is not None
        if not (is_longer or is_marked):
            return False  # A whole number alone counts things.
        is_name = any(map(str.isalpha, word)) and word not in FUNCTION_WORDS
        return not (product and is_name)


def named_terms(question: str, absent: Iterable[str]) -> list[NamedTerm]:
    """Return what a question names and the index does not have as it is, in order, each once.

    Args:
        question: The question.
        absent: Words and identifiers of it that no visible chunk has as a whole.
    """
    missing = frozenset(absent)
    tokens = query_tokens(question)
    about_release = _ABOUT_RELEASE.search(question) is not None
    # A title in capitals has no names to tell from other words.
    words = [
        token for token in tokens if token.is_word and token.text.lower() not in FUNCTION_WORDS
    ]
    titled = len(words) > 2 and all(token.text[0].isupper() for token in words)
    found: dict[NamedTerm, None] = {}
    protocols = list(_PROTOCOL.finditer(question))
    before = name = ""
    for place, token in enumerate(tokens):
        if any(one.start() <= token.start < one.end() for one in protocols):
            continue
        term = _as_version(token, before, name, missing, about_release)
        is_path = re.search(r"(?:^|\s)/\Z", question[: token.start]) is not None
        after = tokens[place + 1].text if place + 1 < len(tokens) else ""
        is_kind = not _KIND_WORDS.isdisjoint((before.lower(), after.lower()))
        term = term or _as_identifier(
            token, missing, is_one=is_path or (is_kind and can_be_misspelt(token.text, ()))
        )
        if term is None and place and not titled:
            term = _as_name(question, token, missing)
        if term is not None:
            found[term] = None
        before = token.text
        if before.lower() not in _RELEASE_WORD:
            name = before
    return [*found, *(NamedTerm(one[0], "identifier") for one in protocols)]


def _as_version(
    token: QueryToken, before: str, name: str, missing: frozenset[str], about_release: bool
) -> NamedTerm | None:
    # The word before a release is a name, which may be absent for itself.
    is_named = before[:1].isupper() or before.lower() in _RELEASE_WORD or about_release
    product = "" if name.lower() in FUNCTION_WORDS else name
    if _VERSION.fullmatch(token.text):
        # Another product may have the number; release notes of this one would be among the passages.
        named = is_named and (token.text in missing or about_release)
        return NamedTerm(token.text, "version", product) if named else None
    if about_release and before and _WHOLE_VERSION.fullmatch(token.text):
        # What a release brought does not count things: `removed 3 files`.
        follows = before.lower() not in FUNCTION_WORDS and before.replace("-", "").isalpha()
        follows = follows and not _ABOUT_RELEASE.fullmatch(before)
        return NamedTerm(token.text, "version", product) if follows else None
    return None


def _as_identifier(token: QueryToken, missing: frozenset[str], *, is_one: bool) -> NamedTerm | None:
    if token.text not in missing or not any(char.isalpha() for char in token.text):
        return None
    if is_one or _IDENTIFIER.search(token.text) or _HYPHENATED.fullmatch(token.text):
        return NamedTerm(token.text, "identifier")
    return None


def _as_name(question: str, token: QueryToken, missing: frozenset[str]) -> NamedTerm | None:
    if token.text not in missing or not _NAME.match(token.text):
        return None
    if _SENTENCE_END.search(question[: token.start]):
        return None
    return NamedTerm(token.text, "name")


def nearest_term(term: NamedTerm, texts: Iterable[str]) -> str:
    """Return the term of the same kind in some texts that is most like one they do not have; empty for none.

    Of identifiers those with most parts in common, then the most similar, then the first of the alphabet; of
    the versions of the same product the greatest.
    """
    if term.kind == "version":
        if not term.product:
            return ""
        # Beside a release with a point a whole number is none.
        points = "+" if "." in term.text else "*"
        product = re.escape(term.product)
        named = re.compile(rf"\b{product}\s+v?(\d+(?:\.\d+){points})", re.IGNORECASE)
        # The number itself may be that of a section.
        absent = term.text.removeprefix("v")
        versions = (one for text in texts for one in named.findall(text) if one != absent)
        return max(versions, key=lambda one: [*map(int, one.split("."))], default="")
    if term.kind == "name":
        return ""
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

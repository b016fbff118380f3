"""Questions of our own over the documentation sets, with the right documents and facts.

In: `questions/SET.jsonl`. Out: `Question`s. A fact is a group of alternatives, one of which must stand in the
answer; every group must be met. Texts are compared in normal form (`normal`), whole words only. An alternative
that begins with `re:` is a regular expression over the normal form.
"""

from __future__ import annotations

import fnmatch
import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

HERE = Path(__file__).resolve().parent
#: Marks that a format adds to words and that a clean rendering leaves out.
_MARKS = re.compile("[`*\"'\u201c\u201d\u2018\u2019\u00ab\u00bb]|\\\\(?=\\W)")
_DASHES = re.compile("[\u2010-\u2014\u2212]")

Kind = Literal["fact", "howto", "definition", "identifier", "misspelt", "unanswerable", "version"]


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question and what a right answer to it has."""

    id: str
    set: str
    question: str
    kind: Kind
    documents: tuple[str, ...] = ()
    """Patterns of the document ids that hold the fact."""
    facts: tuple[tuple[str, ...], ...] = ()
    split: Literal["choose", "judge"]

    @property
    def answerable(self) -> bool:
        """Whether the documents hold an answer."""
        return self.kind != "unanswerable"

    def is_right(self, document_id: str) -> bool:
        """Whether a document is one of those that hold the fact."""
        return any(fnmatch.fnmatchcase(document_id, pattern) for pattern in self.documents)

    def holds(self, text: str) -> bool:
        """Whether a text has one alternative of every group."""
        return bool(self.facts) and all(has_any(normal(text), group) for group in self.facts)


def read_questions(names: Iterable[str]) -> list[Question]:
    """Return the questions of the named sets in their order."""
    questions = []
    for name in names:
        path = HERE / "questions" / f"{name}.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines()
        questions += [msgspec.json.decode(line, type=Question) for line in lines]
    return questions


def normal(text: str) -> str:
    """Return a text in lower case, without marks of emphasis, code and quotation, with single spaces."""
    plain = _DASHES.sub("-", unicodedata.normalize("NFKC", text))
    return " ".join(_MARKS.sub("", plain).casefold().split())


def has_any(text: str, alternatives: Iterable[str]) -> bool:
    """Whether a text in normal form has one of the alternatives as whole words."""
    return any(_pattern(one).search(text) for one in alternatives)


@cache
def _pattern(alternative: str) -> re.Pattern[str]:
    if alternative.startswith("re:"):
        return re.compile(alternative[3:])
    wanted = normal(alternative)
    before = r"(?<!\w)" if wanted[:1].isalnum() else ""
    after = r"(?!\w)" if wanted[-1:].isalnum() else ""
    return re.compile(before + re.escape(wanted) + after)

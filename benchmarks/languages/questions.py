"""Documents and questions of a language: `LANGUAGE.json`.

In: the files beside this one; those of `choosing` are for fitting weights. Out: `Language`s. A fact is one of
several texts, as they stand in the document that is named; a question without facts is about that document, but
no document answers it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from benchmarks.answers.questions import normal

HERE = Path(__file__).resolve().parent
#: Questions that weights are fitted to; none of their documents is among those that are judged.
CHOOSING = HERE / "choosing"

Kind = Literal["how", "how long", "how much", "when", "where", "who", "why", "yes/no"]


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question, the document it is about, and the facts one of which a right answer has."""

    kind: Kind
    question: str
    document: str
    facts: tuple[str, ...]

    @property
    def answerable(self) -> bool:
        """Whether the documents hold an answer."""
        return bool(self.facts)

    def holds(self, text: str) -> bool:
        """Whether a text has one of the facts; case, emphasis and width of characters do not count."""
        return any(_pattern(fact).search(normal(text)) for fact in self.facts)


class Language(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A language with its documents by file name, and the questions about them."""

    language: str
    documents: dict[str, str]
    questions: tuple[Question, ...]

    def passage(self, name: str) -> tuple[str, str]:
        """Return title and text of a document that has one heading."""
        title, _, text = self.documents[name].removeprefix("# ").partition("\n")
        return title, text.strip()


def names() -> list[str]:
    """Return the names of the languages in alphabetical order."""
    return sorted(path.stem for path in HERE.glob("*.json"))


def read_languages(wanted: Iterable[str]) -> dict[str, Language]:
    """Return the named languages by name, in the order given."""
    return {
        name: msgspec.json.decode((HERE / f"{name}.json").read_bytes(), type=Language)
        for name in wanted
    }


def _pattern(fact: str) -> re.Pattern[str]:
    # Not whole words: Chinese and Japanese have no spaces, other languages inflect. A number is a whole one.
    wanted = normal(fact)
    before = r"(?<!\d)" if wanted[0].isdigit() else ""
    after = r"(?!\d)" if wanted[-1].isdigit() else ""
    return re.compile(before + re.escape(wanted) + after)

"""Follow-up questions: whether a question needs the ones before it, and one that stands alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from whence.text.overlap import content_terms

#: Beginnings of a question that goes on with the one before it, in English and German.
_CONTINUES: Final = re.compile(
    r"\W*(?:and|or|but|also|then|(?:and )?(?:what|how) about|what if|why not|same for"
    r"|und|oder|aber|auch|dann|was ist mit|wie ist es mit|wie sieht es (?:mit|bei))\b",
    re.IGNORECASE,
)
#: Words that stand for something named before.
_REFERS: Final = re.compile(
    r"\b(?:it|its|they|them|their|theirs|this|that|these|those|he|him|his|she|her|hers|there|one|ones|both"
    r"|the (?:former|latter|same|other|first|second|third|last)(?: one)?"
    r"|dies(?:e[rsnm]?)?(?=\W*\Z)|das(?=\W*\Z)|davon|dazu|daf\u00fcr|dabei|damit|darin|deren|dessen)\b",
    re.IGNORECASE,
)
_GERMAN_TEXT: Final = "wer was wie wo wann warum wieso welche viel viele ich man wir sie ist gilt"
#: German words that questions are made of, which name nothing.
_GERMAN: Final = frozenset(_GERMAN_TEXT.split())
#: Questions at most that are put together.
_MOST_JOINED: Final = 3


def is_follow_up(question: str) -> bool:
    """Return whether a question names too little to be understood alone.

    It begins by going on with another one, or names nothing, or a word that stands for something comes before
    anything that it could stand for.

    >>> [is_follow_up(one) for one in ("And for contractors?", "Why?", "How do I configure it?")]
    [True, True, True]
    >>> is_follow_up("How do I rotate a log so that it keeps its name?")
    False
    """
    if _CONTINUES.match(question) or not _terms(question):
        return True
    refers = _REFERS.search(question)
    if refers is None:
        return False
    # A verb alone is nothing that the word could stand for.
    return len(_terms(question[: refers.start()])) < 2


def _terms(text: str) -> list[str]:
    return [one for one in content_terms(text) if one not in _GERMAN]


def standalone_question(question: str, earlier: Sequence[str]) -> str:
    """Return a question that can be understood alone: a follow-up question after those that it goes on with.

    The questions from the last one that stands alone are put together, three at most: the first and the last.
    A question that is no follow-up is returned as it is.

    >>> standalone_question("And for contractors?", ["How many days of leave do we get?"])
    'How many days of leave do we get? And for contractors?'
    >>> standalone_question("Who approves travel?", ["How many days of leave do we get?"])
    'Who approves travel?'
    """
    joined = [question]
    for before in reversed(earlier):
        if not is_follow_up(joined[0]):
            break
        joined.insert(0, before)
    if len(joined) > _MOST_JOINED:
        joined = [joined[0], *joined[1 - _MOST_JOINED :]]
    return " ".join(" ".join(one.split()) for one in joined) if len(joined) > 1 else question

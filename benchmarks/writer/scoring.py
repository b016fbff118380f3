"""Judge one answer of a language model, by rules that share nothing with the check of support.

In: a `Question`, the `Answer` and the texts of the cited passages. Out: a `Written`. A number counts as false
when its digits stand in no cited passage, nor in the question.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from benchmarks.answers.questions import Question
from whence.schema import Answer
from whence.text.sentences import split_sentences

_MARKER = re.compile(r"\s*\[\d+(?:, \d+)*\]")
_DIGITS = re.compile(r"(?<![\w.])\d+(?:[.,:]\d+)*(?!\w)")


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What one question showed."""

    id: str
    answerable: bool
    error: str = ""
    """Why there is no answer at all; empty when there is one."""
    refused: bool = False
    right_document: bool = False
    fact: bool = False
    unsupported: int = 0
    """Sentences that are marked."""
    false_numbers: tuple[str, ...] = ()
    """Sentences with a number that no cited passage has, and without a mark."""
    tokens: int = 0
    """Read and written."""
    seconds: float = 0.0


def judge(question: Question, answer: Answer, texts: Mapping[str, str], seconds: float) -> Written:
    """Judge one answer; `texts` has the cited chunks by id."""
    refused = not answer.found
    return Written(
        id=question.id,
        answerable=question.answerable,
        refused=refused,
        right_document=not refused
        and any(question.is_right(one.document_id) for one in answer.citations),
        fact=not refused and question.holds(_MARKER.sub("", answer.text)),
        unsupported=0 if refused else len(answer.unsupported),
        false_numbers=() if refused else tuple(false_numbers(question.question, answer, texts)),
        tokens=(answer.in_token or 0) + (answer.out_token or 0),
        seconds=seconds,
    )


def false_numbers(question: str, answer: Answer, texts: Mapping[str, str]) -> list[str]:
    """Return the sentences without a mark that have a number which no cited passage has."""
    cited = [question]
    for one in answer.citations:
        metadata = (one.document_id, one.title, one.heading, one.lead, one.document_date or "")
        cited += [*metadata, one.quote, texts.get(one.chunk_id, "")]
    known = set(_numbers(" ".join(cited)))
    marked = answer.unsupported
    return [
        sentence
        for one in split_sentences(answer.text)
        if not any(start < one.end and one.start < end for start, end in marked)
        and set(_numbers(sentence := _MARKER.sub("", answer.text[one.start : one.end]))) - known
    ]


def _numbers(text: str) -> list[str]:
    return [one.replace(",", "") for one in _DIGITS.findall(text)]


def summary(verdicts: Sequence[Written]) -> dict[str, Any]:
    """Return the figures: counts, and medians of tokens and seconds."""
    asked = [one for one in verdicts if one.answerable]
    other = [one for one in verdicts if not one.answerable]
    return {
        "questions": len(verdicts),
        "fact": f"{sum(one.fact for one in asked)}/{len(asked)}",
        "right document": f"{sum(one.right_document for one in asked)}/{len(asked)}",
        "wrongly refused": sum(one.refused for one in asked),
        "unanswerable refused": f"{sum(one.refused for one in other)}/{len(other)}",
        "sentences marked": sum(one.unsupported for one in verdicts),
        "false numbers unmarked": sum(len(one.false_numbers) for one in verdicts),
        "errors": sum(bool(one.error) for one in verdicts),
        "median tokens": round(statistics.median([one.tokens for one in verdicts] or [0])),
        "median s": round(statistics.median([one.seconds for one in verdicts] or [0.0]), 1),
    }

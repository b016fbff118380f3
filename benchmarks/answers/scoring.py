"""Judge one answer: the fact, the right document, refusal, markup, invented full stops.

In: a `Question`, the `Answer` of the engine and the hits of a search. Out: a `Verdict`. Every judgement is a
rule on texts; no model takes part.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from benchmarks.answers.questions import Question, normal
from whence.schema import Answer

_MARKER = re.compile(r"\s*\[\d+\]")
_FENCED = re.compile(r"^ *(```+|~~~+).*?^ *\1`* *$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(?<!`)`[^`\n]+`(?!`)(?!_)")
#: What a reader must not see, by name. Code is looked at for the first three only: it may show the others.
_MARKUP = {
    "role": re.compile(r"(?<![\w`]):[a-z][a-z0-9:+.-]*:`|(?<!\S)\{[a-z][a-z0-9:+.-]*\}`[^`\n]"),
    "target": re.compile(r"^\([^\s()]+\)=", re.MULTILINE),
    "double backticks": re.compile(r"(?<!`)``(?!`)"),
    "reference": re.compile(r"`__?(?!\w)|\|\w[^|\n]*\|_"),
    "directive": re.compile(r"(?:^|\s)\.\. (?:[\w:.+-]+::|_[^:\n]+:|\||\[)", re.MULTILINE),
    "tag": re.compile(
        r"</?(?:p|div|span|code|a|b|i|em|strong|pre|li|ul|ol|dl|dt|dd|t[drh]|table|br|h[1-6])\b[^<>\n]*>",
        re.IGNORECASE,
    ),
    "entity": re.compile(r"&(?:amp|lt|gt|nbsp|quot|#\d+|#x[0-9a-f]+);", re.IGNORECASE),
    "underline": re.compile(r"(?:^|\s)([=\-~^\"'+#*.:_])\1{3,}(?=\s|$)"),
    "pilcrow": re.compile("[¶\uf0c1]"),
}
_IN_CODE_TOO = ("role", "double backticks", "pilcrow")
#: Characters before a full stop that are looked up in the source.
_BEFORE_STOP = 24
#: The number of a heading in the path above a quote.
_SECTION_NUMBER = re.compile(r"(?:^|(?<= > ))\d+(?:\.\d+)*\.(?= )", re.MULTILINE)
_STOP = re.compile(r"(?<=\w)\.(?=\s|$)")


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What one question showed."""

    id: str
    answerable: bool
    refused: bool
    right_document: bool
    """A citation leads to a document that holds the fact."""
    fact: bool
    """The answer has every group of facts."""
    markup: tuple[str, ...]
    invented_stops: int
    verbatim: bool
    """Every quote stands in the stored text of its document."""
    words: int
    score: float
    """What is compared with the floor; 0 when nothing was scored, and with a language model."""
    seconds: float
    rank: int | None
    """Rank of the first hit of a search from a right document; None beyond the tenth."""


def judge(
    question: Question,
    answer: Answer,
    ranked: Sequence[str],
    seconds: float,
    stored: dict[str, str],
) -> Verdict:
    """Judge one answer.

    Args:
        question: What was asked.
        answer: What came back.
        ranked: Document ids of the hits of a search for the same words, best first.
        seconds: The time of the warm question.
        stored: Text of each cited chunk as it is stored.
    """
    refused = not (answer.found and answer.citations)
    text = _MARKER.sub("", answer.text)
    quotes = [one.quote for one in answer.citations]
    right = [number for number, name in enumerate(ranked, 1) if question.is_right(name)]
    return Verdict(
        id=question.id,
        answerable=question.answerable,
        refused=refused,
        right_document=not refused
        and any(question.is_right(one.document_id) for one in answer.citations),
        fact=not refused and question.holds(text),
        markup=() if refused else markup(text),
        invented_stops=0 if refused else invented_stops(text, [*quotes, *stored.values()]),
        verbatim=all(one.quote in stored.get(one.chunk_id, one.quote) for one in answer.citations),
        words=0 if refused else len(text.split()),
        score=answer.score or 0.0,
        seconds=seconds,
        rank=right[0] if right else None,
    )


def markup(text: str) -> tuple[str, ...]:
    """Return the names of the kinds of source markup in an answer.

    >>> markup("See :setting:`x` and ``y``.")
    ('role', 'double backticks')
    >>> markup("Set `x` to 1.")
    ()
    """
    prose = _CODE.sub(" x ", _FENCED.sub(" ", text))
    without_fences = _FENCED.sub(" ", text)
    return tuple(
        name
        for name, pattern in _MARKUP.items()
        if pattern.search(without_fences if name in _IN_CODE_TOO else prose)
    )


def invented_stops(text: str, sources: Iterable[str]) -> int:
    """Count the full stops of an answer that its sources do not have at that place.

    >>> invented_stops("Set it to. And run", ["Set it to 4. And run"])
    1
    """
    known = normal("\n".join(sources))
    shown = normal(_SECTION_NUMBER.sub("", text))
    stops = [match.start() for match in _STOP.finditer(shown)]
    return sum(
        (before := shown[max(0, end - _BEFORE_STOP) : end]) in known and before + "." not in known
        for end in stops
    )


def summary(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return the figures of a set: shares between 0 and 1, counts, the median of words and seconds."""
    asked = [one for one in verdicts if one.answerable]
    other = [one for one in verdicts if not one.answerable]
    answered = [one for one in verdicts if not one.refused]
    return {
        "questions": len(verdicts),
        "right_document": _share(one.right_document for one in asked),
        "fact": _share(one.fact for one in asked),
        "refused": _share(one.refused for one in other),
        "wrongly_refused": _share(one.refused for one in asked),
        "markup": sum(bool(one.markup) for one in answered),
        "invented_stops": sum(one.invented_stops for one in answered),
        "not_verbatim": sum(not one.verbatim for one in answered),
        "median_words": statistics.median([one.words for one in answered] or [0]),
        "p50_s": round(statistics.median([one.seconds for one in verdicts] or [0.0]), 3),
        "first": _share(one.rank == 1 for one in asked),
        "among_five": _share(one.rank is not None and one.rank <= 5 for one in asked),
    }


def floors(verdicts: Sequence[Verdict], foreign: Sequence[float]) -> list[dict[str, float]]:
    """Return for each floor which shares of questions it would refuse.

    Args:
        verdicts: Of all questions. What is refused for another reason than its score, such as a name that no
            passage has, scores 0.
        foreign: Scores of questions that were asked of documents about something else.
    """
    own = [one.score for one in verdicts if one.answerable]
    other = [one.score for one in verdicts if not one.answerable]
    kinds = {"unanswerable": other, "of another set": foreign, "wrongly": own}
    steps = [round(0.02 * step, 2) for step in range(10, 36)]
    return [
        {"floor": step}
        | {kind: _share(one < step for one in found) for kind, found in kinds.items()}
        for step in steps
    ]


def _share(flags: Iterable[bool]) -> float:
    found = list(flags)
    return round(sum(found) / len(found), 3) if found else 0.0

"""What is asked for must be near a text beyond the words that stand above it."""

from __future__ import annotations

import numpy as np
import pytest

from whence.models.protocols import AskedWord, Reading, WriteRequest
from whence.quoting.answerability import QuestionTerms, chances, features
from whence.quoting.evidence_spans import all_spans
from whence.text.overlap import Words
from whence.text.question_words import AskedKind

QUESTION = "How many gardeners did Northwick Estate have in 2023?"
TEXT = "We served 4,310 lunches in 2023."


def _found(near: dict[str, float], section: str, kind: AskedKind = "amount") -> tuple[float, float]:
    """Return nearness beyond the headings and chance of a text whose mean nearness is the same always."""
    words = Words()
    spans = all_spans(
        WriteRequest(
            template_id="document-prompt",
            query=QUESTION,
            documents=(TEXT,),
            sections=(section,),
        ),
        words,
    )
    terms = QuestionTerms(QUESTION, frozenset(words.of_question(QUESTION)), {}, 1.0, kind, words)
    read = [AskedWord(text, 1.0, [value]) for text, value in near.items()]
    reading = Reading(np.ones((1, 1), dtype=np.float32), [[0.6]], [[0.7]], [[0.6]], words=[read])
    (one,) = features(terms, spans, reading, 0)
    return one.beyond, chances("reader", [one])[0]


def test_a_name_in_the_title_says_nothing_of_what_is_asked() -> None:
    """Words that stand above a text do not count for it, so what it lacks lowers its chance."""
    lacking = {"gardeners": 0.2, "Northwick": 0.9, "Estate": 0.9, "2023": 0.9, "did": 0.9}

    below, _ = _found(lacking, "Northwick Estate > The year")

    assert below == pytest.approx(0.2)
    assert below < _found(lacking, "The year")[0]


def test_what_is_asked_for_raises_the_chance() -> None:
    """Of two texts below one title that with the thing itself answers more likely."""
    title = "Northwick Estate > The year"
    lacking = _found({"gardeners": 0.2, "Northwick": 0.9, "Estate": 0.9}, title)[1]
    having = _found({"gardeners": 0.9, "Northwick": 0.2, "Estate": 0.2}, title)[1]
    assert having > lacking


def test_a_question_of_headings_alone_is_read_whole() -> None:
    """Where all content words stand above a text, all of them count."""
    near = {"gardeners": 0.3, "Northwick": 0.9, "Estate": 0.9}
    assert _found(near, "Northwick Estate > Gardeners")[0] == pytest.approx(0.7)


@pytest.mark.parametrize("kind", ["way", "reason"])
def test_ways_and_reasons_are_told_in_other_words(kind: AskedKind) -> None:
    """Where a way or a reason is asked for, a missing word counts as in the whole question."""
    near = {"gardeners": 0.2, "Northwick": 0.9, "Estate": 0.9}
    section = "Northwick Estate > The year"
    assert _found(near, section, kind)[0] == pytest.approx(0.7)
    assert _found(near, section)[0] == pytest.approx(0.2)

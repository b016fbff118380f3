"""Follow-up questions are told from questions that stand alone."""

from __future__ import annotations

import doctest

import pytest

from whence.quoting import follow_ups
from whence.quoting.follow_ups import is_follow_up, standalone_question

LEAVE = "How many days of leave do we get?"


@pytest.mark.parametrize(
    "question",
    [
        "And for contractors?",
        "What about part-time staff?",
        "How about Berlin?",
        "Why?",
        "Why not?",
        "How do I configure it?",
        "Who approves them?",
        "What does that cost?",
        "Tell me more about this",
        "What is its default?",
        "Und im Ausland?",
        "Was ist mit Werkstudenten?",
        "Wer genehmigt das?",
    ],
)
def test_questions_that_need_the_one_before(question: str) -> None:
    """A question that goes on, names nothing, or refers to something unnamed is a follow-up."""
    assert is_follow_up(question)
    assert standalone_question(question, ["Who pays?", LEAVE]) == f"{LEAVE} {question}"


@pytest.mark.parametrize(
    "question",
    [
        LEAVE,
        "What is pgvector?",
        "Docker installation",
        "PostgreSQL backups",
        "How do I rotate a log file so that it keeps its name?",
        "Which employees may approve their own travel?",
        "C#",
        "Wie viele Urlaubstage gibt es?",
        "休暇",
    ],
)
def test_questions_that_stand_alone(question: str) -> None:
    """A question that names its subject is used as it is."""
    assert not is_follow_up(question)
    assert standalone_question(question, [LEAVE]) == question


def test_follow_ups_of_follow_ups() -> None:
    """The first and the last of the questions that belong together are kept."""
    assert standalone_question("Why?", [LEAVE, "And for contractors?"]) == (
        f"{LEAVE} And for contractors? Why?"
    )
    earlier = ["Who pays?", LEAVE, "And at sea?", "And on land?", "And in space?"]
    assert standalone_question("Why?", earlier) == f"{LEAVE} And in space? Why?"
    assert standalone_question("Why?", []) == "Why?"


def test_examples() -> None:
    """The examples of the docstrings hold."""
    result = doctest.testmod(follow_ups)
    assert result.attempted
    assert not result.failed

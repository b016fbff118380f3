"""The documents and questions of `benchmarks.languages`, and how an answer is judged."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest
from benchmarks.languages.__main__ import judge, row
from benchmarks.languages.questions import CHOOSING, Language, Question, names, read_languages

from whence.schema import Answer, Citation

LANGUAGES = read_languages(names())


def test_there_are_fourteen_languages() -> None:
    """Every language has documents and questions of its own."""
    assert len(LANGUAGES) == len({one.language for one in LANGUAGES.values()}) == 14
    asked = Counter(each.question for one in LANGUAGES.values() for each in one.questions)
    assert max(asked.values()) == 1


@pytest.mark.parametrize("language", LANGUAGES.values(), ids=LANGUAGES)
def test_facts_stand_in_the_documents_named(language: Language) -> None:
    """Eight documents; twelve questions of five kinds or more, two without an answer; each fact in one."""
    assert len(language.documents) == 8
    assert len(language.questions) == 12
    assert len([one for one in language.questions if not one.answerable]) == 2
    assert len({one.kind for one in language.questions}) >= 5
    for one in language.questions:
        assert one.document in language.documents, one.question
        for fact in one.facts:
            alone = Question(kind=one.kind, question="", document="", facts=(fact,))
            holders = [name for name, text in language.documents.items() if alone.holds(text)]
            assert holders == [one.document], fact


@pytest.mark.parametrize("path", sorted(CHOOSING.glob("*.json")), ids=lambda one: one.stem)
def test_what_weights_are_fitted_to_is_not_judged(path: Path) -> None:
    """Facts stand in the documents named; no document or question of the fit is judged."""
    language = msgspec.json.decode(path.read_bytes(), type=Language)
    for one in language.questions:
        assert all(
            Question(kind=one.kind, question="", document="", facts=(fact,)).holds(
                language.documents[one.document]
            )
            for fact in one.facts
        ), one.question
    for judged in LANGUAGES.values():
        assert set(judged.documents.values()).isdisjoint(language.documents.values())
        assert {each.question for each in judged.questions}.isdisjoint(
            each.question for each in language.questions
        )


@pytest.mark.parametrize(
    ("facts", "text", "expected"),
    [
        (("二週間",), "本は一人五冊まで、二週間借りられます。", True),
        (("120元",), "补助为**120元**", True),
        (("20元",), "补助为120元", False),
        (("21 يوم",), "لمدة 21 يوماً", True),
        (("12",), "120", False),
        (("9,800円",), "上限9,800円", True),
        (("no", "yes"), "Yes.", True),
        ((), "anything", False),
    ],
)
def test_fact_is_a_part_of_the_answer(facts: tuple[str, ...], text: str, expected: bool) -> None:
    """A fact may stand inside a word, a number may not stand inside a number."""
    assert Question(kind="how", question="?", document="a.md", facts=facts).holds(text) is expected


@pytest.mark.parametrize(
    ("text", "document", "found", "outcome"),
    [
        ("It costs 5 euros. [1]", "a.md", True, "right"),
        ("It costs 5 euros. [1]", "b.md", True, "wrong"),
        ("It costs money. [1]", "a.md", True, "wrong"),
        ("It costs 5 euros. [1]", "a.md", False, "refused"),
    ],
)
def test_right_answer_has_the_fact_and_cites_its_document(
    text: str, document: str, found: bool, outcome: str
) -> None:
    """An answer is right, wrong or refused; the table counts each."""
    question = Question(kind="how much", question="?", document="a.md", facts=("5 euros",))
    citation = Citation(marker=1, chunk_id="c", document_id=document, quote="x")
    answer = Answer(answer_id="1", question="?", text=text, found=found, citations=(citation,))
    verdict = judge(question, answer, ["a.md"])
    assert verdict.outcome == outcome
    counts = [f"{int(outcome == kind)}/1" for kind in ("right", "wrong", "refused")]
    assert row([verdict]) == [*counts, "0/0", "1/1"]

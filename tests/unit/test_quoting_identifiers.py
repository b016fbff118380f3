"""Which release, code or day is asked for, and which sentences are about another one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.models.protocols import WriteRequest
from whence.quoting.extractive_writer import NOTHING_FOUND, ExtractiveWriter
from whence.quoting.identifiers import (
    Identifier,
    names_other_identifier,
    names_value,
    question_identifiers,
    ranges_of,
)

#: Question, and the values it is about as `name value`.
ASKED = (
    ("What was repaired in Harbour 4.1?", {"harbour 4.1"}),
    ("Harbour 4.1 release notes", {"harbour 4.1"}),
    ("What changed in v2.9.1?", {"version 2.9.1"}),
    ("What changed in version 2.10?", {"version 2.10"}),
    ("What does ERR-1042 mean?", {"err 1042"}),
    ("Is CVE-2024-1234 fixed?", {"cve 2024-1234"}),
    ("Who may read level 3?", set()),
    ("What happened on 11 February 2025?", {"date 2025-02-11"}),
    ("What happened on 2025-02-11?", {"date 2025-02-11"}),
    ("What was decided in March 2025?", {"date 2025-03"}),
    ("What does ISO 27001 ask for?", {"iso 27001"}),
    # Amounts, years and counts are no values of a name.
    ("May I take 20 days off?", set()),
    ("What costs 3.5 euros?", set()),
    ("What is the budget for 2025?", set()),
    ("Can a hotel cost 120?", set()),
    # A requirement on versions is no release.
    ("What does the caret range ^1.2.3 allow?", set()),
    ("Does pip read ~=2.0.1 as a range?", set()),
    # How values relate is told by sentences about the others.
    ("What changed since v2.9.1?", set()),
    ("In which release was the fault of 4.1 repaired?", set()),
    ("What replaced Harbour 4.1?", set()),
    ("What does Service1 depend on, and who calls it?", set()),
    # A day answers when something was; it is not what the answer must name.
    ("When was the outage of 11 February 2025 over?", set()),
)

#: Question, a sentence with what it stands under, and whether that is about another value.
SCOPES = (
    ("What is new in v2.9.1?", ("Workers can be paused.", "v2.9.0 - 2024-05-01"), True),
    ("What is new in v2.9.1?", ("Workers can be paused.", "2.10 (2024-06-01)"), True),
    ("What is new in v2.9.1?", ("Workers can be paused.", "v2.9.1 - 2024-05-12"), False),
    ("What is new in v2.9.1?", ("It undoes a change of 2.9.1.", "v2.10"), False),
    ("What is new in Barge 4.2.1?", ("A leak introduced in Barge 4.2.0.", "Barge 4.2.1"), False),
    ("What is new in v2.9.1?", ("Up to 2.5 times fewer connections.", "v2.9.1"), False),
    ("What is new in v2.9.1?", ("Workers can be paused.", "2.9"), False),
    ("What is new in Harbour 4.1?", ("It tells Harbour 4.2.", "Barge 2.3"), True),
    ("What is new in Harbour 4.1?", ("It needs Android 9.", "Harbour 4.1"), False),
    ("What is new in Harbour 4.3?", ("It goes into version 4.1.", "Harbour"), True),
    ("What is new in Harbour 4.3?", ("It needs firmware 2.3.", "Barge"), False),
    ("What is in Harbour 4.1?", ("The interface, version 1, stays.", "Harbour 4.1"), False),
    ("Does it run with firmware 2.2?", ("It needs firmware 2.3 or newer.",), False),
    ("Does it run on Windows 11?", ("Windows 10 and 11 are supported.",), False),
    ("Does it run on Windows 11?", ("Windows 10, 11 and 12 are supported.",), False),
    ("Does it run on Windows 11?", ("Windows 8.1 is supported.",), True),
    ("What is new in Harbour 4.2?", ("Harbour 4.1 to 4.3 have it.",), False),
    ("What was on 12 February 2025?", ("It was down on 11\u201313 February 2025.",), False),
    ("What was on 12 February 2025?", ("It was down on 11 to 13 February 2025.",), False),
    ("Is Cas9-induced repair exact?", ("Cas9-mediated breaks are repaired.",), False),
    ("What does P7 mean?", ("P8 means that the battery is empty.",), True),
    ("What does P7 mean?", ("P7 means that the brake is on, P8 is another.",), False),
    ("What was decided in March 2025?", ("On 7 November 2024 it was decided.",), True),
    ("What was decided in March 2025?", ("On 2025-03-13 it was decided.",), False),
    ("What holds on 5 March 2025?", ("Since 1 January 2025 it is free.",), False),
)


@pytest.mark.parametrize(("question", "values"), ASKED)
def test_values_of_a_question(question: str, values: set[str]) -> None:
    """Values of names are extracted; amounts and questions about relations have none."""
    assert {f"{one.name} {one.value}" for one in question_identifiers(question)} == values


@pytest.mark.parametrize(
    ("question", "texts", "values"),
    [
        ("What is task 17 about?", ("Task 18", "Task 19"), {"task 17"}),
        ("What is task 17 about?", ("The task",), set()),
        ("Was ist in Staffel 7?", ("Staffel 6 endet.", "Mehr"), {"staffel 7"}),
        ("Who plays the lead in season 7?", ("the lead in season 6.",), {"season 7"}),
        ("Do I pay 40 euros?", ("They pay 30 euros.", "We pay 50 euros."), set()),
        ("Was invoice 4709 paid?", ("invoice-4710.md",), {"invoice 4709"}),
        ("What did it buy in FY2023?", ("FY2022 and 2Q21",), set()),
    ],
)
def test_a_number_of_a_series_is_a_name(
    question: str, texts: tuple[str, ...], values: set[str]
) -> None:
    """Where texts number other things by a word, a number after it names one; amounts and periods do not."""
    assert {f"{one.name} {one.value}" for one in question_identifiers(question, texts)} == values


@pytest.mark.parametrize(("question", "scopes", "another"), SCOPES)
def test_the_nearest_scope_with_a_value_decides(
    question: str, scopes: tuple[str, ...], another: bool
) -> None:
    """A sentence is about another value, about the requested one, or about none."""
    assert names_other_identifier(question_identifiers(question), scopes) is another


@given(st.text(max_size=80), st.lists(st.text(max_size=80), max_size=3))
def test_any_text_is_read(question: str, scopes: list[str]) -> None:
    """Any text is parsed; without a requested value no sentence is about another one."""
    asked = question_identifiers(question)
    assert names_other_identifier(asked, scopes) in ((True, False) if asked else (False,))


@given(st.text(alphabet="abcXY 0123456789.-v", max_size=60))
def test_a_text_with_the_requested_value_is_kept(text: str) -> None:
    """A text that names the requested value is kept, whatever else it names."""
    assert not names_other_identifier(question_identifiers(text), [text])


async def test_other_releases_are_not_quoted() -> None:
    """For a release the writer quotes its section; for an unknown one, nothing."""
    documents = (
        "- Workers can be paused and resumed.\n- Timeouts are in seconds.",
        "- Workers no longer stop when the clock jumps.",
        "- Workers keep their queues in order.",
    )
    sections = ("Changelog > v2.10.0", "Changelog > v2.9.1", "Changelog > v2.9.0")

    async def quoted(question: str) -> str:
        request = WriteRequest(
            template_id="document-prompt", query=question, documents=documents, sections=sections
        )
        pieces = [piece async for piece in ExtractiveWriter(None).write(request)]
        return "".join(piece.text for piece in pieces)

    said = await quoted("What changed for workers in v2.9.1?")
    assert said == "Changelog > v2.9.1\n\n- Workers no longer stop when the clock jumps. [2]"
    assert await quoted("What changed for workers in v2.9.2?") == NOTHING_FOUND


@pytest.mark.parametrize("asked", ["Ticket 0312", "ticket 312", "TICKET-00312"])
@pytest.mark.parametrize("written", ["Ticket 312", "desk/ticket-0312.txt", "Ticket no. 00312"])
def test_leading_zeros_do_not_part_numbers(asked: str, written: str) -> None:
    """A number of a name is the same with and without leading zeros, and its neighbour is another."""
    texts = ["Ticket 311: the lamp", "Ticket 313: the lift", written]
    identifiers = question_identifiers(f"What is {asked} about?", texts)
    assert [names_other_identifier(identifiers, [one]) for one in texts] == [True, True, False]
    assert all(names_value(one, [written]) for one in identifiers)


@pytest.mark.parametrize(
    "written",
    ["Grades 3 to 6", "Grades 3-6", "Grades 3 \u2013 6", "Grades 3 through 6", "Grades 3 bis 6"],
)
def test_a_range_names_what_lies_in_it(written: str) -> None:
    """A text about grades 3 to 6 is about grade 4, and not about grade 7."""
    scopes = [f"Grade 1 has 20 days, {written} have 28.", "Leave", "Grade 2"]
    texts = ["Grade 1", "Grade 2", *scopes]
    inside, outside = (question_identifiers(f"What has grade {n}?", texts) for n in (4, 7))
    assert [len(inside), len(outside)] == [1, 1]
    assert not names_other_identifier(inside, scopes)
    assert names_other_identifier(outside, scopes)
    assert all(names_value(one, scopes) for one in inside)
    assert not any(names_value(one, scopes) for one in outside)


@pytest.mark.parametrize(
    "written", ["2026-02-03", "1.2-1.4", "555-12345", "12/3-14", "6-3", "3,1-3,9"]
)
def test_what_is_no_range_names_nothing_between(written: str) -> None:
    """Dates, versions, decimals, numbers of telephones and falling pairs are no ranges."""
    assert ranges_of(f"It is {written}.") == ()


async def test_a_passage_about_another_number_has_a_best_sentence_that_answers_nothing() -> None:
    """What the writer left out for its number is measured as well: its sentence, with a support of 0."""
    documents = ("The task is about the roof.", "The task is about the door.")
    request = WriteRequest(
        template_id="document-prompt",
        query="What is task 17 about?",
        documents=documents,
        sections=("Task 17", "Task 18"),
    )
    right, other = [await ExtractiveWriter(None).weigh(request, place) for place in (0, 1)]
    assert right is not None
    assert right.score > right.floor
    assert other is not None
    assert (other.sentence, other.score) == (documents[1], 0.0)


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("Who looks after ticket 312?", True),
        ("Who was ticket 312 named after?", True),
        ("Who had ticket 312 until May?", True),
        ("Who sits between ticket 312 and the door?", False),
        ("What came after ticket 312?", False),
        ("Which one came before 312?", False),
        ("What changed between ticket 312 and 315?", False),
    ],
)
def test_a_word_relates_what_follows_it(question: str, named: bool) -> None:
    """`After` relates a value that follows; at the end, before a month or with its verb it does not."""
    texts = ["Ticket 311: the lamp", "Ticket 313: the door"]

    assert (Identifier("ticket", "312") in question_identifiers(question, texts)) is named

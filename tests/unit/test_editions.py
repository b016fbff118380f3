"""Of several editions of a passage the newest goes first, unless the question names another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.retrieval.editions import newer_editions, newest_first, old_editions
from whence.schema.passages import Passage

BODY = "All employees get {} days of annual leave a year, public holidays not counted."


def passage(document_id: str, number: int = 25, **metadata: Any) -> Passage:
    heading = metadata.pop("heading", "Entitlement")
    path = metadata.pop("section_path", heading)
    return Passage(
        chunk_id=f"{document_id}#{heading}",
        text=metadata.pop("text", BODY.format(number)),
        document_id=document_id,
        metadata={"heading": heading, "section_path": path, **metadata},
    )


def order(question: str, *passages: Passage) -> list[str]:
    """Return the documents in the order of their editions."""
    return [passages[number].document_id for number in newest_first(question, passages)]


OTHER = passage("travel.md", text="Trains are booked by the travel desk.", heading="Trains")
OLD_LEAVE = passage(
    "leave-2022.md", 25, status="superseded", replaced_by="Leave", heading="Entitlement in 2022"
)
LEAVE = passage("leave.md", 27, title="Leave", updated="2025-01-01", text="We now get 27 days.")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (OLD_LEAVE, LEAVE),
        (
            passage("leave-2022.md", replaced_by="Leave", heading="Entitlement in the old policy"),
            passage("leave.md", 27, title="Leave"),
        ),
        (passage("v1/leave.md"), passage("v2/leave.md", 27)),
        (passage("leave-9.2.md"), passage("leave-10.0.md", 27)),
        (passage("a.md", title="Leave v1"), passage("b.md", 27, title="Leave v2")),
        (
            passage("a/leave.md", valid_from="2022-03-01"),
            passage("b/leave.md", 27, valid_from="2024-01-01"),
        ),
        (passage("x/leave.md", version="1.9"), passage("x-2/leave.md", 27, version="1.10")),
    ],
    ids=[
        "successor",
        "reworded",
        "folder",
        "release",
        "title",
        "in force",
        "version",
    ],
)
def test_the_newest_edition_takes_the_place_of_the_older_one(old: Passage, new: Passage) -> None:
    """Fields, and versions in path and title tell the edition; all other passages keep their order."""
    assert newest_first("how much leave?", [old, OTHER, new]) == [2, 0, 1]
    assert newest_first("how much leave?", [new, OTHER, old]) == [0, 1, 2]
    assert old_editions("how much leave?", [old, OTHER, new]) == [0]


def test_a_named_release_or_year_gets_its_edition() -> None:
    """A question that names an edition that is there gets that one; other numbers do not count."""
    editions = [passage("guide-2.0.md"), passage("guide-3.1.md", 27), passage("guide-1.0.md", 20)]
    assert order("leave in release 1.0", *editions)[0] == "guide-1.0.md"
    assert order("leave in version 2", *editions)[0] == "guide-2.0.md"
    for question in ("leave", "leave in 7.3", "is 1 day of leave enough?"):
        assert order(question, *editions)[0] == "guide-3.1.md"
    assert order("leave in 2022", LEAVE, OLD_LEAVE) == ["leave-2022.md", "leave.md"]
    assert old_editions("leave in 2022", [LEAVE, OLD_LEAVE]) == [0]
    assert old_editions("leave", [OTHER, OLD_LEAVE]) == [1]


@pytest.mark.parametrize(
    "other",
    [
        passage("v2/leave.md", heading="Carrying days over"),
        passage("v2/travel.md"),
        passage("v2/leave.md", text="The office in Leeds closes at noon on Fridays."),
        passage("v1/leave.md"),
        passage("v2/leave.md", text="The office in Leeds gets no days at noon on Fridays."),
    ],
    ids=["heading", "document", "words", "edition", "few words"],
)
def test_passages_of_other_subjects_are_no_editions(other: Passage) -> None:
    """Another heading, document or text, or the same edition, changes no order."""
    assert newer_editions("leave", [passage("v1/leave.md"), other]) == {}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (passage("2022.md", title="Leave"), passage("2023.md", title="Travel")),
        (passage("a.md", title="2022"), passage("b.md", title="2023")),
        (passage("", title="Leave 2022"), passage("", title="Travel 2023")),
        (passage("leave.md", status="archived"), passage("b.md", title="Archived")),
        (passage("task-17.md", title="Task 17"), passage("task-18.md", title="Task 18")),
        (passage("invoice-4711.md"), passage("invoice-4712.md")),
        (passage("minutes-2023.md"), passage("minutes-2024.md")),
        (passage("m/2024-01-09.md", title="Minutes"), passage("m/2024-02-13.md", title="Minutes")),
        (
            passage("a.md", title="Minutes", date="2024-01-09"),
            passage("b.md", title="Minutes", date="2024-02-13"),
        ),
        (passage("leave.md", heading="Lesson 1"), passage("leave.md", heading="Lesson 2")),
        (passage("plan-2.0.md"), passage("plan-2024.md")),
        (passage("plan.md", version="1.2.3.4.5"), passage("plan.md", version="1.2.3.4.6")),
        (passage("a.md", replaced_by="b"), passage("c.md", title="B 2")),
    ],
    ids=[
        "numbers",
        "titles",
        "no path",
        "status",
        "tasks",
        "invoices",
        "years",
        "days in paths",
        "days",
        "lessons",
        "release and year",
        "parts",
        "another",
    ],
)
def test_documents_that_nothing_calls_editions_are_none(one: Passage, other: Passage) -> None:
    """A name is what remains without versions; a status is no name; numbers, days and years are no versions."""
    assert newer_editions("leave", [one, other]) == newer_editions("leave", [other, one]) == {}


def test_a_newer_edition_without_the_words_of_the_question_stays_below() -> None:
    """Nothing is lifted above a passage that alone has a word of the question."""
    old = passage("leave-9.2.md", text=BODY.format(25) + " Sabbaticals are extra.")
    new = passage("leave-10.0.md", 27)

    assert newest_first("how much leave?", [old, new]) == [1, 0]
    assert newest_first("are sabbaticals extra?", [old, new]) == [0, 1]


NAMES = st.sampled_from(["a", "b-1", "b-2.0", "b-2024", "v3/b", "b"])
VALUES = st.sampled_from(["", "2024-01-01", "1.2", "old", "archived", "b-1"])


@given(
    st.text(alphabet="ab 12.", max_size=12),
    st.lists(st.tuples(NAMES, VALUES, VALUES, VALUES), max_size=8),
)
def test_every_passage_is_in_the_order_once(question: str, rows: Sequence[tuple[str, ...]]) -> None:
    """The order has each passage once; one without a newer edition never falls behind one it was before."""
    passages = [
        passage(name, valid_from=updated, status=status, replaced_by=successor)
        for name, updated, status, successor in rows
    ]
    found = newest_first(question, passages)
    assert sorted(found) == list(range(len(passages)))
    newer = newer_editions(question, passages)
    assert all(
        found.index(new) < found.index(old) for old, new in newer.items() if new not in newer
    )

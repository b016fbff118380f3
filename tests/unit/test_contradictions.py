"""Statements that differ in a value alone contradict each other; those about different things do not."""

from __future__ import annotations

from typing import Any

import pytest

from whence.operations.freshness import find_conflicts
from whence.schema.document_rag import Citation


def _cited(*quotes: str, **fields: Any) -> list[Citation]:
    """Return a citation of a document of its own for each quote."""
    return [
        Citation(
            marker=n,
            chunk_id=f"urn:chunk:c:d{n}:0",
            **{"document_id": f"d{n}", "quote": quote} | {k: v[n - 1] for k, v in fields.items()},
        )
        for n, quote in enumerate(quotes, 1)
    ]


DIFFERENT = [
    ("Each trainee gets 14 days of study leave.", "Trainees get 21 days of study leave each.", ("14 days", "21 days")),
    ("The warranty ends on 3 May 2027.", "The warranty ends on 04.05.2027.", ("3 May 2027", "04.05.2027")),
    ("Die Kündigungsfrist beträgt 4 Wochen zum Monatsende.", "Die Kündigungsfrist zum Monatsende beträgt 6 Wochen.", ("4 Wochen", "6 Wochen")),
    ("Le remboursement maximal est de 1\u202f250,50 euros par nuit.", "Le remboursement maximal est de 1\u202f300 euros par nuit.", ("1\u202f250,50 euros", "1\u202f300 euros")),
    ("The deposit for a bicycle costs $40 at every desk.", "The deposit for a bicycle costs $45 at every desk.", ("$40", "$45")),
    ("Срок хранения журналов составляет 90 дней.", "Срок хранения журналов составляет 30 дней.", ("90 дней", "30 дней")),
    ("申請期限は14日です。", "申請期限は21日です。", ("14", "21")),
    ("A refund of 80% is paid within 10 days of the claim.", "A refund of 80 % is paid within 15 days of the claim.", ("10 days", "15 days")),
    ("| Item | Days |\n| --- | --- |\n| Laptop loan | 14 |", "| Item | Days |\n| --- | --- |\n| Laptop loan | 21 |", ("14", "21")),
]  # fmt: skip
AGREEING = [
    # The same value in another writing.
    ("The grant is 1,250,000 euros for each project.", "The grant is 1.250.000 euros for each project."),
    ("The office opens on 3 February 2026.", "The office opens on 03.02.2026."),
    # A month has its days.
    ("The office opens on 3 February 2026.", "The office opens in February 2026."),
    # Another subject.
    ("Trainees get 14 days of study leave.", "Managers get 21 days of study leave."),
    ("Trainees get 14 days of study leave.", "Trainees in Oslo get 21 days of study leave."),
    ("Part-time trainees get 14 days of study leave.", "Trainees get 21 days of study leave."),
    # Another thing is counted.
    ("Logs are kept for 90 days on each server.", "Logs are kept for 12 weeks on each server."),
    ("The deposit for a bicycle costs $40 at every desk.", "The deposit for a bicycle costs €38 at every desk."),
    # A number that names a thing.
    ("Room 12 has a projector and whiteboard.", "Room 14 has a projector and whiteboard."),
    ("As § 5 says, the tenant pays for small repairs.", "As § 7 says, the tenant pays for small repairs."),
    ("Model X200 has a battery of lithium.", "Model X300 has a battery of lithium."),
    ("1. Open the main valve slowly.", "2. Open the main valve slowly."),
    # A label of any document.
    ("Revised: 4 May 2025", "Revised: 9 June 2026"),
    # What holds at another time.
    ("Sales in 2023 were 40 million euros overall.", "Sales in 2024 were 55 million euros overall."),
    ("Staff in 2023 were 40 people overall.", "Staff in 2024 were 40 people overall."),
    # Ranges and single values.
    ("Delivery takes 3 to 5 working days by post.", "Delivery takes 5 working days by post."),
    # The header of the column.
    ("| Item | Days |\n| --- | --- |\n| Laptop loan | 14 |", "| Item | Fee |\n| --- | --- |\n| Laptop loan | 21 |"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "values"), DIFFERENT)
def test_another_value_for_one_thing_is_a_conflict(
    one: str, other: str, values: tuple[str, str]
) -> None:
    """Documents that agree in all words and differ in one value are named with what each says."""
    (found,) = find_conflicts(_cited(one, other))
    assert (found.citations, found.values) == ((1, 2), values)


@pytest.mark.parametrize(("one", "other"), AGREEING)
def test_other_things_and_equal_values_are_no_conflict(one: str, other: str) -> None:
    """Other subjects, units, times and names, and equal values in another writing, are no conflict."""
    assert find_conflicts(_cited(one, other)) == ()


PAIR = ("Trainees get 14 days of study leave.", "Trainees get 21 days of study leave.")


def test_a_conflict_is_between_two_current_documents() -> None:
    """Quotes of one document, and of a document that is marked as outdated, are not compared."""
    assert find_conflicts(_cited(*PAIR))
    assert not find_conflicts(_cited(*PAIR, document_id=("same", "same")))
    assert not find_conflicts(_cited(*PAIR, outdated=("", "status: superseded")))


def test_short_sentences_need_one_subject_above_them() -> None:
    """A sentence of few words is about what its headings say."""
    fees = ("The fee is 20 euros.", "The fee is 30 euros.")
    assert find_conflicts(_cited(*fees, heading=("Parking at the site", "Parking fees")))
    assert not find_conflicts(_cited(*fees, heading=("Parking", "Library card")))


def test_only_the_pairs_that_differ_are_named() -> None:
    """Of three documents each pair of different values is a conflict."""
    found = find_conflicts(_cited(*PAIR, PAIR[0]))
    assert [one.citations for one in found] == [(1, 2), (2, 3)]

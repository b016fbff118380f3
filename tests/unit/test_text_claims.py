"""Markers that name no document never reach a reader, and sentences are held to what they cite."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.text.claims import (
    MarkerFilter,
    Source,
    markers_of,
    read_claims,
    says_nothing,
    supports,
)

PIECES = st.lists(
    st.sampled_from(("Open", " at", " nine", " [", "1", "9", "]", ", ", "[2]", "[7]", "`a[9]`", ".", "\n", "```", "["))
)  # fmt: skip


def shown(pieces: list[str], documents: int) -> str:
    markers = MarkerFilter(documents)
    said = [markers.add(piece) for piece in pieces]
    return "".join((*said, markers.add("", end=True)))


@given(PIECES, st.integers(0, 8))
def test_pieces_show_what_the_whole_shows(pieces: list[str], documents: int) -> None:
    """However a text is cut into pieces, the same is shown, and no marker in it names a missing document."""
    whole = "".join(pieces)

    assert shown(pieces, documents) == shown([whole], documents)
    assert set(markers_of(shown([whole], documents))) <= set(range(1, documents + 1))


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("Open at nine [9].", "Open at nine."),
        ("Open at nine [1, 9].", "Open at nine [1]."),
        ("Take `row[9]` of it [2].", "Take `row[9]` of it [2]."),
        ("```\nrow[9]\n```\nIt is so [3].", "```\nrow[9]\n```\nIt is so."),
    ],
)
def test_only_markers_of_no_document_are_left_out(said: str, left: str) -> None:
    """Brackets in code stay, and so do the known numbers of a group."""
    assert shown([said], 2) == left


def test_a_marker_waits_until_it_is_complete() -> None:
    """No half of a marker is shown."""
    markers = MarkerFilter(2)

    assert [markers.add(piece) for piece in ("Nine [", "1", "2", "]. Ten [2", "].")] == [
        "Nine", "", "", ". Ten", " [2].",
    ]  # fmt: skip
    assert list(markers.removed) == [12]


@pytest.mark.parametrize(
    ("sentence", "supported"),
    [
        ("Overdue books cost 20 cents a day [1].", True),
        ("Overdue books cost 30 cents a day [1].", False),
        ("Guests may park bicycles behind the building [1].", False),
        ("Yes [1].", True),
    ],
)
def test_a_sentence_is_held_to_its_source(sentence: str, supported: bool) -> None:
    """Every number of a sentence stands in its source, and enough of its words."""
    (claim,) = read_claims(sentence)

    assert claim.markers == (1,)
    assert supports(claim, [Source("Overdue books cost 20 cents per day and item.")]) is supported


def test_a_statement_of_absence_needs_no_source() -> None:
    """What models say when the documents do not answer is recognized."""
    assert says_nothing("The documents do not answer this question.")
    assert says_nothing("There is no information about parking in the provided context.")
    assert not says_nothing("Children pay no overdue fees.")

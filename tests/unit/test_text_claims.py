"""Markers that name no document never reach a reader, and sentences are held to what they cite."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.text.claims import markers_of, read_claims, says_nothing
from whence.text.replies import ReplyStream
from whence.text.support import Check, Source

PIECES = st.lists(
    st.sampled_from(
        ("Open", " at", " nine", " [", "1", "9", "]", ", ", "[2]", "[7]", "`a[9]`", ".", "\n", "```", "[", "(", ")",
         "\u3010", "\u3011", "\u00b9", "<", "think>", "Sources:", "- ", "Source 1", "<|im_end|>", "{", "</s>", "~~~", "document 1",
         "(1)", "\u2460", "Answer:", "**", "Question:", "<p>", "</p>", '"', "\\", "^1", '[n="1"]')
    )
)  # fmt: skip
#: Long enough that nothing waits for the first cited sentence.
LONG = "Open at nine, and closed at ten [1]. " * 12


def shown(pieces: list[str], documents: int) -> tuple[str, str]:
    stream = ReplyStream(documents, lambda sentence, written, number: True)
    said = [stream.add(piece) for piece in pieces]
    return "".join((*said, stream.add("", end=True))), stream.whole().text


@given(PIECES, st.integers(0, 8), st.sampled_from(("", LONG)), st.booleans())
def test_pieces_show_what_the_whole_shows(
    pieces: list[str], documents: int, before: str, by_characters: bool
) -> None:
    """However a text is cut into pieces, the same is shown, and no marker in it names a missing document."""
    pieces = [before, *("".join(pieces) if by_characters else pieces)]
    streamed, whole = shown(pieces, documents)

    assert streamed == whole
    assert set(markers_of(whole)) <= set(range(1, documents + 1))


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
    assert shown([said], 2) == (left, left)


def test_a_marker_waits_until_it_is_complete() -> None:
    """No half of a marker is shown, and nothing before the first cited sentence."""
    stream = ReplyStream(2)
    said = [
        stream.add(one) for one in ("Six", " [1", "]. Nine [", "1", "2", "]. Ten [2", "]. Two.")
    ]

    assert said[:2] == ["", ""]
    assert "".join(said).startswith("Six [1]")
    assert "[12" not in "".join((*said, stream.add("", end=True)))
    assert stream.whole() == ("Six [1]. Nine. Ten [2]. Two.", "", (12,))


@pytest.mark.parametrize(
    ("sentence", "supported"),
    [
        ("Overdue books cost 20 cents a day [1].", True),
        ("Overdue books cost 30 cents a day [1].", False),
        ("Guests may park bicycles behind the building [1].", False),
        ("Yes [1].", True),
        ("They cost Petra [1].", False),
    ],
)
def test_a_sentence_is_held_to_its_source(sentence: str, supported: bool) -> None:
    """Every number of a sentence stands in its source, and enough of its words."""
    (claim,) = read_claims(sentence)

    assert claim.markers == (1,)
    source = Source("Overdue books cost 20 cents per day and item.")
    assert Check(sentence).supports(claim, [source]) is supported


def test_a_statement_of_absence_needs_no_source() -> None:
    """What models say when the documents do not answer is recognized."""
    assert says_nothing("The documents do not answer this question.")
    assert says_nothing("There is no information about parking in the provided context.")
    assert not says_nothing("Children pay no overdue fees.")


def test_markers_alone_are_no_answer() -> None:
    """Nothing is said by markers without words, so nothing can be supported."""
    assert read_claims("[1] [2][3]") == []
    assert [one.markers for one in read_claims("Six [1]. [2]")] == [(1, 2)]


def test_a_value_below_its_label_is_attributed() -> None:
    """A sentence without a marker may take a label with the value in the sentence below it, and no other."""
    source = Source(
        "Session length in minutes of the reading desk. Defaults to 45 minutes. Cookies of the desk are signed."
    )

    def place(text: str) -> tuple[int, str] | None:
        return Check(text).attributed(read_claims(text)[0], [source])

    assert place("The session length of the reading desk defaults to 45 minutes.") is not None
    assert place("The session length of the reading desk defaults to 54 minutes.") is None
    assert place("The signed cookies of the desk default to 45 minutes.") is None

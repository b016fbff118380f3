"""An answer that is printed as it is written ends its lines between words."""

from __future__ import annotations

import itertools
import textwrap

from hypothesis import given
from hypothesis import strategies as st

from whence.surfaces.cli.output import Wrapping

WORDS = st.lists(st.text("abc日", min_size=1, max_size=9), min_size=1, max_size=40)


def wrapped(pieces: list[str], width: int | None) -> str:
    wrapping = Wrapping(width)
    last = len(pieces) - 1
    return "".join(wrapping.add(piece, end=n == last) for n, piece in enumerate(pieces))


def cut(text: str, places: list[int]) -> list[str]:
    bounds = [0, *sorted({place % (len(text) + 1) for place in places}), len(text)]
    return [text[start:stop] for start, stop in itertools.pairwise(bounds)]


@given(WORDS, st.lists(st.integers(0, 500), max_size=20), st.integers(1, 30))
def test_no_word_is_lost_or_cut(words: list[str], places: list[int], width: int) -> None:
    """For any division of a text into pieces, its words are printed whole and in order."""
    text = " ".join(words)

    assert wrapped(cut(text, places), width).split() == words


@given(
    st.lists(st.text("abc", min_size=1, max_size=9), min_size=1, max_size=40),
    st.lists(st.integers(0, 500), max_size=20),
    st.integers(9, 30),
)
def test_lines_equal_those_of_the_whole_text(
    words: list[str], places: list[int], width: int
) -> None:
    """Lines are wrapped as if the whole text were known."""
    text = " ".join(words)

    assert wrapped(cut(text, places), width) == textwrap.fill(text, width)


def test_line_breaks_of_the_text_are_kept() -> None:
    """A line break of the text is kept, and columns are counted from there."""
    assert wrapped(["one two\nthree", " four"], 10) == "one two\nthree four"


def test_wide_letters_take_two_columns() -> None:
    """Letters that are two columns wide count as two."""
    assert wrapped(["日本 日本"], 8) == "日本\n日本"


def test_without_a_width_nothing_changes() -> None:
    """In a pipe every piece is printed unchanged, at once."""
    assert Wrapping(None).add("one tw", end=False) == "one tw"

"""Runs of letters that a question and texts share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.text.letter_runs import letter_runs, shared_runs

_texts = st.text(max_size=60)


@given(question=_texts, texts=st.lists(_texts, max_size=5))
def test_the_share_is_a_share(question: str, texts: list[str]) -> None:
    """It is 0 to 1, and 1 for a text that has the question's words, unless it has none."""
    found = shared_runs(question, [*texts, f"- {question} -"])

    assert all(0 <= one <= 1 for one in found)
    assert found[-1] == (1.0 if letter_runs(question) else 0.0)


@pytest.mark.parametrize(
    ("question", "near", "far"),
    [
        ("Wann ist die Bücherei geöffnet?", "Öffnungszeiten: 9 bis 17 Uhr", "Adresse: Am Markt 3"),
        ("Kto wynajmuje salę?", "Wynajem sali: pani Nowak", "Godziny pracy biura"),
        ("駐車場はいくら?", "駐車料金は一日五百円です", "受付は九時からです"),
    ],
)
def test_words_of_one_root_share_runs(question: str, near: str, far: str) -> None:
    """A text with other forms of the question's words shares more of it than one without them."""
    first, second = shared_runs(question, [near, far])

    assert first > second

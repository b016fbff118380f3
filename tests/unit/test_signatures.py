"""Signatures of words never part two texts whose words do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.retrieval.duplicates import without_duplicates
from whence.schema.passages import Passage
from whence.text.signatures import compared_words, signature_of, word_signature

TEXTS = st.lists(st.text(alphabet="abcdeäß年1_ .\n", max_size=5), max_size=60).map(" ".join)


@given(TEXTS, TEXTS)
def test_no_signature_lacks_more_than_the_words_do(one: str, other: str) -> None:
    """The bound is a lower one: what the other text has is never counted as lacking."""
    lacking = set(compared_words(one)) - set(compared_words(other))
    own = signature_of(one)

    assert own.lacking(signature_of(other)) <= len(lacking)
    assert own.words == len(compared_words(one))


@pytest.mark.parametrize(
    ("one", "other"),
    [("Annual Leave, 30 days.", "annual  leave (30 DAYS)"), ("STRASSE", "straße"), ("", "?!")],
)
def test_case_and_marks_do_not_count(one: str, other: str) -> None:
    """Texts of the same words have the same signature, in any script."""
    assert word_signature(one) == word_signature(other)


def test_other_words_have_another_signature() -> None:
    """Two hundred words of which none is in the other text lack most of their bits there."""
    own, other = (signature_of(" ".join(f"{letter}{n}" for n in range(200))) for letter in "ab")
    assert own.lacking(other) > 0.15 * own.words + 2


@given(st.lists(TEXTS, max_size=6))
def test_signatures_that_are_kept_change_no_result(texts: list[str]) -> None:
    """A search finds the same copies whether the store has signatures or not."""
    rows = [Passage(chunk_id=str(n), text=text) for n, text in enumerate(texts)]
    kept = [
        Passage(chunk_id=one.chunk_id, text=one.text, word_signature=word_signature(one.text))
        for one in rows
    ]
    found, known = without_duplicates(rows, least_words=5), without_duplicates(kept, least_words=5)

    assert [one.chunk_id for one in known[0]] == [one.chunk_id for one in found[0]]
    assert known[1] == found[1]

"""How much fields count is read strictly and by name."""

from __future__ import annotations

from typing import Any

import pytest

from whence.schema.errors import BadInput
from whence.store.field_boosts import MOST_BOOST, Boosts, read_boosts


def test_what_is_not_given_is_the_default() -> None:
    """Fields count once in the text and paths not at all, unless told otherwise."""
    assert read_boosts({}) == Boosts() == Boosts(title=1, heading=1, path=0)
    assert read_boosts({"title": MOST_BOOST, "path": 0}) == Boosts(title=MOST_BOOST)


@pytest.mark.parametrize(
    "given",
    [
        {"body": 2},
        {"title": 0},
        {"title": MOST_BOOST + 1},
        {"path": -1},
        {"title": 1.5},
        {"path": True},
    ],
    ids=str,
)
def test_what_cannot_be_is_named(given: dict[str, Any]) -> None:
    """An unknown field and a weight out of range are bad input, with what to do."""
    with pytest.raises(BadInput) as caught:
        read_boosts(given)

    assert next(iter(given)) in caught.value.message
    assert caught.value.hint


def test_a_text_is_searched_as_it_is_by_default() -> None:
    """Nothing is added for weights of one; else each field as often as it counts more."""
    fields = {"title": "T", "heading": "H", "path": "p"}

    assert Boosts().searched("text", **fields) == "text"
    assert Boosts(title=3, heading=2, path=1).searched("text", **fields).split() == [
        "text", "T", "T", "H", "p",
    ]  # fmt: skip

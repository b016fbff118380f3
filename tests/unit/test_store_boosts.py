"""How much fields count is read strictly and by name."""

from __future__ import annotations

from typing import Any

import pytest

from whence.schema.errors import BadInput
from whence.store.field_boosts import MAX_BOOST, FieldBoosts, parse_field_boosts


def test_what_is_not_given_is_the_default() -> None:
    """Fields count once in the text and paths not at all, unless told otherwise."""
    assert parse_field_boosts({}) == FieldBoosts() == FieldBoosts(title=1, heading=1, path=0)
    assert parse_field_boosts({"title": MAX_BOOST, "path": 0}) == FieldBoosts(title=MAX_BOOST)


@pytest.mark.parametrize(
    "given",
    [
        {"body": 2},
        {"title": 0},
        {"title": MAX_BOOST + 1},
        {"path": -1},
        {"title": 1.5},
        {"path": True},
    ],
    ids=str,
)
def test_what_cannot_be_is_named(given: dict[str, Any]) -> None:
    """An unknown field and a weight out of range are bad input, with what to do."""
    with pytest.raises(BadInput) as caught:
        parse_field_boosts(given)

    assert next(iter(given)) in caught.value.message
    assert caught.value.hint


def test_a_text_is_searched_as_it_is_by_default() -> None:
    """Nothing is added for weights of one; else each field as often as it counts more."""
    fields = {"title": "T", "heading": "H", "path": "p"}

    assert FieldBoosts().indexed_text("text", **fields) == "text"
    assert FieldBoosts(title=3, heading=2, path=1).indexed_text("text", **fields).split() == [
        "text", "T", "T", "H", "p",
    ]  # fmt: skip

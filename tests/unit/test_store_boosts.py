"""How much fields count is read strictly and by name."""

from __future__ import annotations

from typing import Any

import pytest

from whence.schema.errors import BadInput
from whence.store.field_boosts import MAX_BOOST, FieldBoosts, parse_field_boosts


def test_missing_boosts_are_the_default() -> None:
    """By default fields count once in the text and paths do not count."""
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
def test_invalid_boosts_are_named(given: dict[str, Any]) -> None:
    """An unknown field and a weight out of range are bad input with a remedy."""
    with pytest.raises(BadInput) as caught:
        parse_field_boosts(given)

    assert next(iter(given)) in caught.value.message
    assert caught.value.hint


def test_boosts_repeat_fields() -> None:
    """Weights of one add nothing; otherwise each field is repeated by its weight."""
    fields = {"title": "T", "heading": "H", "path": "p"}

    assert FieldBoosts().indexed_text("text", **fields) == "text"
    assert FieldBoosts(title=3, heading=2, path=1).indexed_text("text", **fields).split() == [
        "text", "T", "T", "H", "p",
    ]  # fmt: skip

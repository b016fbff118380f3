"""Filters as options and as JSON: what is refused, by name."""

from __future__ import annotations

import pytest

from whence.schema.errors import BadInput
from whence.schema.filters import parse_filter_options, parse_filters


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("lang", "'lang' is not a filter"),
        ("=x", "'=x' is not a filter"),
        (" =x", "' =x' is not a filter"),
        ("status=", "'status' has no value"),
        ("status>current", "'current' is neither a number nor a date"),
        ("updated>=soon", "'soon' is neither a number nor a date"),
        ('{"or": [', "is not JSON"),
        ('{"or": []}', "`or` is empty"),
        ('{"or": {"status": "current"}}', "`or` must be a list"),
        ('{"not": "current"}', "must be an object"),
        ('{"not": {}}', "`not` is empty"),
        ('{"not":' * 12 + "{}" + "}" * 12, "nests at most 8"),
    ],
    ids=lambda given: given[:30],
)
def test_a_filter_that_cannot_be_read_is_named(option: str, named: str) -> None:
    """Neither half a condition nor a group without filters is a filter."""
    with pytest.raises(BadInput, match=named):
        parse_filters(parse_filter_options([option]))

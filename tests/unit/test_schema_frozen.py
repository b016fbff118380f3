"""Dicts that cannot be changed."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.schema.frozen import FrozenDict, frozen

FACTS = st.dictionaries(
    st.text(), st.one_of(st.text(), st.integers(), st.booleans(), st.none()), min_size=1
)
CHANGES: list[Callable[[Any], object]] = [
    lambda it: it.__setitem__("a", 2),
    lambda it: it.__delitem__("a"),
    lambda it: it.__ior__({"b": 1}),
    lambda it: it.clear(),
    lambda it: it.pop("a"),
    lambda it: it.popitem(),
    lambda it: it.setdefault("b", 1),
    lambda it: it.update(b=1),
]


@given(values=FACTS)
def test_it_is_the_dict_that_it_was_made_of(values: dict[str, Any]) -> None:
    """Equal, encoded the same, and copied as such; later changes of the original do not reach it."""
    one = frozen(values)

    assert type(one) is FrozenDict
    assert one == values == pickle.loads(pickle.dumps(one)) == copy.deepcopy(one)
    assert msgspec.json.encode(one) == msgspec.json.encode(values)
    assert json.dumps(one) == json.dumps(values)
    before = dict(values)
    values["late"] = 1
    assert one == before


@pytest.mark.parametrize("change", CHANGES)
def test_it_cannot_be_changed(change: Callable[[Any], object]) -> None:
    """Every way to change a dict is refused; a copy is an ordinary one."""
    one = frozen({"a": 1})
    with pytest.raises(TypeError, match="copy"):
        change(one)

    assert one == {"a": 1}
    assert type(one.copy()) is dict


@pytest.mark.parametrize("values", [{"a": []}, {"a": {}}, {1: "a"}, {"a": (1,)}, {}])
def test_what_holds_more_than_scalars_stays_an_ordinary_dict(values: dict[Any, Any]) -> None:
    """A list in it could be changed all the same; an empty one must be a default when it is encoded."""
    one = frozen(values)

    assert type(one) is dict
    assert one == values
    assert one is not values

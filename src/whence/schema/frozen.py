"""Dicts that cannot be changed: what many messages share may travel within a process as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

__all__ = ("SCALARS", "FrozenDict", "frozen")

#: What cannot be changed and reads back from JSON as what it is.
SCALARS = frozenset({str, int, float, bool, type(None)})
_TEXTS = frozenset({str})


class FrozenDict(dict[str, Any]):
    """A dict of scalars that refuses to be changed; `copy` gives an ordinary one. Made by `frozen`."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("this dict is shared and cannot be changed; change a copy of it")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        """Give how to make it anew, for `copy` and `pickle`, which would fill it otherwise."""
        return FrozenDict, (dict(self),)


def frozen(values: Mapping[str, Any]) -> dict[str, Any]:
    """Give a dict that cannot be changed, or an ordinary one when something in it could be.

    An empty one is ordinary, too: only that is left out of a message as the default it is.
    """
    if (
        values
        and SCALARS.issuperset(map(type, values.values()))
        and _TEXTS.issuperset(map(type, values))
    ):
        return FrozenDict(values)
    return dict(values)

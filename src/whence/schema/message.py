"""The base of every message and the registry of their types.

A message is a frozen `msgspec.Struct` whose class states its wire name, e.g.
`TYPE = "search-request.v1"`. The name travels in the `type` header, not in the body, so that a body stays
plain JSON. Within a version fields are only ever added, with defaults; anything else is a new version.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

_REGISTRY: dict[str, type[Message]] = {}


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of all messages; a subclass that travels on its own sets `TYPE`.

    Subclasses repeat `frozen=True, kw_only=True`: the second is not inherited, and type checkers want
    to see the first.
    """

    TYPE: ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        name = cls.__dict__.get("TYPE", "")
        if not name:
            return
        if name in _REGISTRY:
            raise TypeError(f"message type {name!r} is already taken by {_REGISTRY[name]!r}")
        _REGISTRY[name] = cls


def message_types() -> dict[str, type[Message]]:
    """Return every registered message type by wire name, in order of name."""
    return dict(sorted(_REGISTRY.items()))


def message_type(name: str) -> type[Message] | None:
    """Return the message type of a wire name; None when there is none."""
    return _REGISTRY.get(name)

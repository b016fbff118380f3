"""Build a sample of any message type, with every field set; equal on every call."""

from __future__ import annotations

import types
import typing
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from whence.schema.access import Access, DocumentTags

S = TypeVar("S", bound=msgspec.Struct)


def sample(cls: type[S]) -> S:
    """Return an instance with every field set to a value other than its default."""
    hints = typing.get_type_hints(cls)
    return cls(**{name: _value(hints[name], name) for name in cls.__struct_fields__})


def _value(hint: Any, name: str) -> Any:
    origin = get_origin(hint)
    if origin is Literal:
        return get_args(hint)[-1]
    if origin in (Union, types.UnionType):
        return _value(next(arg for arg in get_args(hint) if arg is not types.NoneType), name)
    if origin is tuple:
        items = get_args(hint)
        return tuple(_value(one, name) for one in items if one is not Ellipsis)
    if origin is dict:
        return {"number": 7} | ({} if get_args(hint)[-1] is int else {"key": "value"})
    values: dict[Any, Any] = {
        Access: Access({"finance", "hr"}, {"internal"}, 2),
        DocumentTags: DocumentTags(("finance",), ("internal",), 1),
        str: f"{name} ñ 試",
        int: 7,
        float: 0.25,
        bool: True,
        bytes: b"\x00\x00\x80?\x00\x00\x00\xbf",
        Any: {"any": ["thing", 1, None]},
    }
    return values[hint] if hint in values else sample(hint)

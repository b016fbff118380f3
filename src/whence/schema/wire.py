"""Messages on their way: handed over as they are within a process, bytes wherever bytes are wanted.

A message that cannot be changed anywhere is handed over as it is: nobody reads from bytes what is there
already, and it is encoded when somebody wants the bytes. What cannot travel fails where it is published all the
same, and limits of size hold: a message knows how many bytes it takes at most, or is packed to see (`codec`).
All else is read from bytes, in one process as between two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect as mi

from whence.schema.frozen import SCALARS, FrozenDict
from whence.schema.terms import Statements

__all__ = ("Body", "Shape", "Wire", "most_bytes", "own_copy", "plain", "shape_of")

#: What cannot be changed and reads back from JSON as what it is, given the type.
_PLAIN = (
    mi.StrType,
    mi.IntType,
    mi.FloatType,
    mi.BoolType,
    mi.NoneType,
    mi.BytesType,
    mi.LiteralType,
)
_TEXTS = frozenset({str})
#: Where a message that remembers does so.
_FITS = "fits"
_NONE = frozenset({type(None)})
_TUPLES = frozenset({tuple, Statements})


class Wire(msgspec.Struct, eq=False):
    """A message that cannot be changed, on its way to whoever waits for it in this process."""

    message: Any
    """Frozen, all the way down but for the dicts in `copied`."""
    copied: tuple[str, ...]
    """Fields that hold a dict of scalars and lists of them; every reader gets one of his own."""
    most: int
    """Most bytes that it takes."""
    encode: Callable[[Any], bytes]
    """Gives its bytes."""
    known: bytes | None = None
    """The bytes, once somebody wanted them."""

    @property
    def plain(self) -> bytes:
        """The bytes, made once."""
        if self.known is None:
            self.known = self.encode(self.message)
        return self.known


Body = bytes | Wire
"""What a message is on its way."""


def plain(body: Body) -> bytes:
    """Give the bytes of what is on its way."""
    return body.plain if isinstance(body, Wire) else bytes(body)


def most_bytes(body: Body) -> int:
    """Give the bytes of what is on its way; of a message, what they are at most."""
    return body.most if isinstance(body, Wire) else len(body)


class Part(NamedTuple):
    """A field of which not every value that type checkers allow is one that cannot be changed."""

    get: Callable[[Any], Any]
    """Gives the value."""
    types: frozenset[type]
    """Types that it may have."""
    fits: Callable[[Any], bool] | None = None
    """Looks into a value that is neither None nor empty; None where its type says it all."""


class Shape(msgspec.Struct, frozen=True):
    """How the messages of a class can be handed over as they are."""

    parts: tuple[Part, ...]
    """What must be looked at."""
    copied: tuple[str, ...] = ()
    """Fields that hold a dict, which is copied when it holds scalars and lists of them, and nothing else."""
    assembled: bool = False
    """Whether a message knows how many bytes it takes without being encoded."""
    remembers: bool = False
    """Whether a message remembers that it fits: one that travels several times, alone and within others."""

    def fits(self, message: msgspec.Struct) -> bool:
        """Tell whether nothing of a message can be changed.

        It may hold tuples and frozen structs of the declared types. Texts and numbers are not looked at: type
        checkers do, and `WHENCE_CHECK_MESSAGES` at run time.
        """
        if self.remembers and _FITS in message.__dict__:
            return True
        for get, types, fits in self.parts:
            value = get(message)
            if type(value) not in types or (fits is not None and value and not fits(value)):
                return False
        if self.remembers:
            message.__dict__[_FITS] = True
        return True


def own_copy(message: Any, fields: tuple[str, ...]) -> Any:
    """Give a message with dicts that nobody else has."""
    own = {name: _copy(getattr(message, name)) for name in fields}
    return msgspec.structs.replace(message, **own)


def _copy(values: dict[str, Any]) -> dict[str, Any]:
    own = values.copy()
    for name, value in values.items():
        if type(value) is list:
            own[name] = value.copy()
    return own


@cache
def shape_of(cls: type[msgspec.Struct]) -> Shape | None:
    """Give the shape of a class; None when its messages can be changed somewhere."""
    info = mi.type_info(cls)
    assert isinstance(info, mi.StructType)
    copied = tuple(one.name for one in info.fields if isinstance(one.type, mi.DictType))
    parts = _parts(info, copied)
    if parts is None:
        return None
    dicts = [Part(attrgetter(name), frozenset({dict}), _is_flat) for name in copied]
    return Shape(
        (*parts, *dicts),
        copied,
        assembled="most_bytes" in cls.__dict__,
        remembers=cls.__struct_config__.dict,
    )


def _parts(info: mi.StructType, copied: tuple[str, ...] = ()) -> list[Part] | None:
    """Give what of a struct must be looked at; None when it can be changed."""
    if not info.cls.__struct_config__.frozen:
        return None
    parts: list[Part] = []
    for field in info.fields:
        if field.name in copied or _is_plain(field.type):
            continue
        part = _part(attrgetter(field.name), field.type)
        if part is None:
            return None
        parts.append(part)
    return parts


def _is_plain(kind: mi.Type) -> bool:
    if isinstance(kind, mi.UnionType):
        return all(_is_plain(one) for one in kind.types)
    return isinstance(kind, _PLAIN)


def _part(get: Callable[[Any], Any], kind: mi.Type) -> Part | None:
    """Give what of a field must be looked at; None when all its values can be changed."""
    match kind:
        case mi.UnionType():
            one = [part for part in kind.types if not isinstance(part, mi.NoneType)]
            part = _part(get, one[0]) if len(one) == 1 else None
            return None if part is None else part._replace(types=part.types | _NONE)
        case mi.StructType():
            shape = _inner_shape(kind)
            if shape is None:
                return None
            return Part(get, frozenset({kind.cls}), shape.fits if shape.parts else None)
        case mi.VarTupleType():
            return _tuple_part(get, kind.item_type)
        case mi.SetType() | mi.FrozenSetType():
            return Part(get, frozenset({frozenset}))
        case mi.DictType():
            return Part(get, frozenset({FrozenDict}))
        case mi.AnyType():
            return Part(get, _NONE)
        case _:
            return None


def _inner_shape(info: mi.StructType) -> Shape | None:
    """Give the shape of a struct that is part of another."""
    parts = _parts(info)
    if parts is None:
        return None
    return Shape(tuple(parts), remembers=info.cls.__struct_config__.dict)


def _tuple_part(get: Callable[[Any], Any], item: mi.Type) -> Part | None:
    if isinstance(item, mi.StrType):
        return Part(get, _TUPLES)
    nullable = isinstance(item, mi.UnionType)
    kinds = item.types if isinstance(item, mi.UnionType) else (item,)
    structs = [one for one in kinds if isinstance(one, mi.StructType)]
    if len(structs) != 1 or (nullable and len(kinds) != 2):
        return None
    shape = _inner_shape(structs[0])
    if shape is None:
        return None
    return Part(get, _TUPLES, _items_test(frozenset({structs[0].cls}), shape, nullable=nullable))


def _items_test(
    types: frozenset[type], shape: Shape, *, nullable: bool
) -> Callable[[Iterable[Any]], bool]:
    """Give a test for the structs of a tuple, that looks at all of them field by field."""
    # A struct that is part of each and has nothing to look at in itself is what type checkers say it is.
    parts = [one for one in shape.parts if one.fits is not None or not _is_struct(one.types)]

    def test(items: Iterable[Any]) -> bool:
        if type(items) is Statements:
            # Whoever made them knows each.
            return True
        there = [one for one in items if one is not None] if nullable else items
        if not types.issuperset(map(type, there)):
            return False
        if shape.remembers:
            return all(map(shape.fits, there))
        for get, kinds, fits in parts:
            if not kinds.issuperset(map(type, map(get, there))):
                return False
            if fits is not None and not all(map(fits, filter(None, map(get, there)))):
                return False
        return True

    return test


def _is_struct(types: frozenset[type]) -> bool:
    return all(issubclass(one, msgspec.Struct) for one in types - _NONE)


def _is_flat(value: object) -> bool:
    if type(value) is not dict or not _TEXTS.issuperset(map(type, value)):
        return False
    for one in value.values():
        if type(one) in SCALARS:
            continue
        if type(one) is not list or not SCALARS.issuperset(map(type, one)):
            return False
    return True

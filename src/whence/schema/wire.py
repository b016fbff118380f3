"""Messages on their way: handed over as they are within a process, bytes wherever bytes are wanted.

A message that cannot be changed anywhere is handed over as it is: nobody reads from bytes what is there
already, and it is encoded when somebody wants the bytes. What cannot travel fails where it is published all the
same, and limits of size hold: a message knows how many bytes it takes at most, or is packed to see (`codec`).
All else is read from bytes, in one process as between two.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import inspect as mi

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
_TUPLES = frozenset({tuple, Statements})
_TEXTS = frozenset({str})
_SCALARS = frozenset({str, int, float, bool, type(None)})
#: Where a message that remembers does so.
_FITS = "fits"
_Fits = Callable[[Any], bool]


class Wire(msgspec.Struct, eq=False):
    """A message that cannot be changed, on its way to whoever waits for it in this process."""

    message: Any
    """Frozen, all the way down but for the dicts in `copied`."""
    copied: tuple[str, ...]
    """Fields that hold a dict of scalars; every reader gets one of his own."""
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


class Shape(msgspec.Struct, frozen=True):
    """How the messages of a class can be handed over as they are."""

    parts: tuple[tuple[Callable[[Any], Any], _Fits], ...]
    """What must be looked at: each with how to get it and what it must be."""
    copied: tuple[str, ...] = ()
    """Fields that hold a dict, which is copied when it holds scalars and nothing else."""
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
        for get, test in self.parts:
            if not test(get(message)):
                return False
        if self.remembers:
            message.__dict__[_FITS] = True
        return True


def own_copy(message: Any, fields: tuple[str, ...]) -> Any:
    """Give a message with dicts that nobody else has."""
    own = {name: getattr(message, name).copy() for name in fields}
    return msgspec.structs.replace(message, **own)


@cache
def shape_of(cls: type[msgspec.Struct]) -> Shape | None:
    """Give the shape of a class; None when its messages can be changed somewhere."""
    info = mi.type_info(cls)
    assert isinstance(info, mi.StructType)
    copied = tuple(one.name for one in info.fields if isinstance(one.type, mi.DictType))
    parts = _parts(info, copied)
    if parts is None:
        return None
    dicts: list[tuple[Callable[[Any], Any], _Fits]]
    dicts = [(attrgetter(name), _is_flat) for name in copied]
    return Shape(
        (*parts, *dicts),
        copied,
        assembled="most_bytes" in cls.__dict__,
        remembers=cls.__struct_config__.dict,
    )


def _parts(
    info: mi.StructType, copied: tuple[str, ...] = (), *, inner: bool = False
) -> list[tuple[Callable[[Any], Any], _Fits]] | None:
    """Give what of a struct must be looked at; None when it can be changed.

    Of one among many (`inner`) that is what could hold a list.
    """
    if not info.cls.__struct_config__.frozen:
        return None
    parts: list[tuple[Callable[[Any], Any], _Fits]] = []
    for field in info.fields:
        if field.name in copied or _is_plain(field.type):
            continue
        test = _test(field.type)
        if test is None:
            return None
        if not (inner and isinstance(field.type, mi.StructType) and not _parts(field.type)):
            parts.append((attrgetter(field.name), test))
    return parts


def _is_plain(kind: mi.Type) -> bool:
    if isinstance(kind, mi.UnionType):
        return all(_is_plain(one) for one in kind.types)
    return isinstance(kind, _PLAIN)


def _test(kind: mi.Type) -> _Fits | None:
    """Give a test for values of a type; None when they can be changed."""
    match kind:
        case mi.UnionType():
            one = [part for part in kind.types if not isinstance(part, mi.NoneType)]
            test = _test(one[0]) if len(one) == 1 else None
            return None if test is None else lambda value: value is None or test(value)
        case mi.StructType():
            return _struct_test(kind)
        case mi.VarTupleType():
            return _tuple_test(kind.item_type)
        case mi.SetType() | mi.FrozenSetType():
            return _is_frozenset
        case mi.AnyType():
            return _is_none
        case _:
            return None


def _struct_test(info: mi.StructType) -> _Fits | None:
    parts = _parts(info)
    if parts is None:
        return None
    cls = info.cls
    if not parts:
        return lambda value: type(value) is cls

    def test(value: Any) -> bool:
        if type(value) is not cls:
            return False
        for get, check in parts:  # noqa: SIM110 - for every message, and a generator costs more
            if not check(get(value)):
                return False
        return True

    return test


def _tuple_test(item: mi.Type) -> _Fits | None:
    if isinstance(item, mi.StrType):
        return lambda value: type(value) in _TUPLES
    nullable = isinstance(item, mi.UnionType)
    kinds = item.types if isinstance(item, mi.UnionType) else (item,)
    structs = [one for one in kinds if isinstance(one, mi.StructType)]
    if len(structs) != 1 or (nullable and len(kinds) != 2):
        return None
    parts = _parts(structs[0], inner=True)
    if parts is None:
        return None
    types = {structs[0].cls, *([type(None)] if nullable else [])}
    if structs[0].cls.__struct_config__.dict:
        shape = Shape(tuple(parts), remembers=True)
        return lambda value: (
            type(value) in _TUPLES
            and types.issuperset(map(type, value))
            and all(one is None or shape.fits(one) for one in value)
        )

    def test(value: Any) -> bool:
        if type(value) not in _TUPLES or not types.issuperset(map(type, value)):
            return False
        for get, check in parts:
            for one in value:
                if one is not None and not check(get(one)):
                    return False
        return True

    return test


def _is_frozenset(value: object) -> bool:
    return type(value) is frozenset


def _is_none(value: object) -> bool:
    return value is None


def _is_flat(value: object) -> bool:
    return (
        type(value) is dict
        and _TEXTS.issuperset(map(type, value))
        and _SCALARS.issuperset(map(type, value.values()))
    )

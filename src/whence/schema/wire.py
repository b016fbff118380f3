"""Bytes that remember what they were made of.

A message that cannot be changed anywhere is handed over as it is within its process: nobody reads from bytes
what is there already. It is encoded all the same, so that what cannot travel fails where it is published,
limits of size hold, and whoever keeps it has its bytes. All else is read from bytes, in one process as between
two.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import inspect as mi

__all__ = ("Shape", "Wire", "form_of", "own_copy", "shape_of")

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
_SCALARS = frozenset({str, int, float, bool, type(None)})
_Fits = Callable[[Any], bool]


class Wire(bytes):
    """The wire form of a message, equal to its bytes, with the message: frozen, all the way down."""

    #: The same bytes and nothing else, for whoever keeps them.
    plain: bytes
    message: Any
    #: Fields that hold a dict of scalars; every reader gets one of his own.
    copied: tuple[str, ...]


class Shape(msgspec.Struct, frozen=True):
    """How the messages of a class can be handed over as they are."""

    parts: tuple[tuple[Callable[[Any], Any], _Fits], ...]
    """What must be looked at: each with how to get it and what it must be."""
    copied: tuple[str, ...] = ()
    """Fields that hold a dict, which is copied when it holds scalars and nothing else."""


def form_of(message: msgspec.Struct, payload: bytes) -> Wire | None:
    """Give the wire form with the message; None when something of it could be changed.

    It may hold tuples and frozen structs of the declared types. Texts and numbers are not looked at: type
    checkers do, and `WHENCE_CHECK_MESSAGES` at run time.

    Args:
        message: The message.
        payload: Its bytes.
    """
    cls: type[msgspec.Struct] = type(message)
    shape = shape_of(cls)
    if shape is None:
        return None
    for get, fits in shape.parts:
        if not fits(get(message)):
            return None
    wire = Wire(payload)
    wire.plain = payload
    wire.message = message
    wire.copied = shape.copied
    return wire


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
    return Shape((*parts, *dicts), copied)


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
        return lambda value: type(value) is tuple
    nullable = isinstance(item, mi.UnionType)
    kinds = item.types if isinstance(item, mi.UnionType) else (item,)
    structs = [one for one in kinds if isinstance(one, mi.StructType)]
    if len(structs) != 1 or (nullable and len(kinds) != 2):
        return None
    parts = _parts(structs[0], inner=True)
    if parts is None:
        return None
    types = {structs[0].cls, *([type(None)] if nullable else [])}

    def test(value: Any) -> bool:
        if type(value) is not tuple or not types.issuperset(map(type, value)):
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

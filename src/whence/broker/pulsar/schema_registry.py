"""The schema of a message type as the broker's registry keeps it.

Bodies are written by `whence.schema.codec`; the registry gets an Avro record that describes the JSON, so
that the broker refuses a producer or consumer whose idea of the type does not fit.
"""

# mypy: untyped-calls-exclude=pulsar
from __future__ import annotations

import json
import re
from typing import Any

import msgspec
from msgspec import inspect as mi
from pulsar.schema.schema import JsonSchema

from whence.schema.errors import ConfigError
from whence.schema.message import Message

_NAME = re.compile(r"[^A-Za-z0-9_]")
_SCALARS: list[Any] = ["null", "boolean", "long", "double", "string"]


def _containing(kinds: list[Any]) -> list[Any]:
    return [*_SCALARS, {"type": "array", "items": kinds}, {"type": "map", "values": kinds}]


#: What JSON can hold where the type says nothing, two levels deep: Avro has no word for "and so on", and the
#: broker compares types, not messages.
_ANYTHING = _containing(_containing(_SCALARS))


class MessageSchema(JsonSchema):
    """Registers a message type with the broker and lets bodies pass as they are.

    Args:
        message_type: A type with a wire name.

    Raises:
        ConfigError: A field's type cannot be described to the broker.
    """

    def __init__(self, message_type: type[Message]) -> None:
        definition = avro_record(message_type)
        # The library takes a definition from the method `schema` of a class.
        record = type(message_type.__name__, (), {"schema": staticmethod(lambda: definition)})
        super().__init__(record)  # type: ignore[no-untyped-call]

    def encode(self, obj: bytes) -> bytes:
        """Return the payload, which is encoded already."""
        return obj

    def decode(self, data: bytes) -> bytes:
        """Return the payload; `schema.codec` decodes it."""
        return data


def avro_record(message_type: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the Avro record that describes the JSON form of a message type.

    A field with a default has it in the record too: that is what makes adding it compatible.

    Raises:
        ConfigError: A field's type has no description.
    """
    record = _Describer().describe(mi.type_info(message_type))
    assert isinstance(record, dict)
    return record


class _Describer:
    """Walks a type once; a record is described where it is met first and named after that."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def describe(self, kind: mi.Type) -> Any:
        if isinstance(kind, mi.Metadata):  # a type with a description
            return self.describe(kind.type)
        if isinstance(kind, mi.StructType):
            return self._record(kind)
        if isinstance(kind, mi.UnionType):
            return self._union(kind)
        if isinstance(kind, mi.DictType):
            return {"type": "map", "values": self.describe(kind.value_type)}
        if isinstance(kind, mi.VarTupleType | mi.CollectionType):
            return {"type": "array", "items": self.describe(kind.item_type)}
        if isinstance(kind, mi.TupleType):
            kinds = [self.describe(item) for item in kind.item_types]
            return {"type": "array", "items": _either(kinds)}
        return self._plain(kind)

    def _plain(self, kind: mi.Type) -> Any:
        if isinstance(kind, mi.LiteralType | mi.EnumType):
            values = (
                kind.values if isinstance(kind, mi.LiteralType) else [m.value for m in kind.cls]
            )
            return _either(["string" if isinstance(value, str) else "long" for value in values])
        # Bytes are base64 text in JSON, times are ISO 8601 text.
        for kinds, name in (
            (mi.BoolType, "boolean"),
            (mi.IntType, "long"),
            (mi.FloatType, "double"),
            (mi.NoneType, "null"),
            (mi.StrType | mi.BytesType | mi.DateTimeType | mi.DateType | mi.UUIDType, "string"),
        ):
            if isinstance(kind, kinds):
                return name
        if isinstance(kind, mi.AnyType):
            return list(_ANYTHING)
        raise ConfigError(f"no broker schema for a field of type {type(kind).__name__}")

    def _union(self, kind: mi.UnionType) -> Any:
        # Null goes first: Avro takes the first branch for the type of the default.
        kinds = sorted(kind.types, key=lambda item: not isinstance(item, mi.NoneType))
        return _either([self.describe(item) for item in kinds])

    def _record(self, kind: mi.StructType) -> Any:
        name = _NAME.sub("_", kind.cls.__name__)
        if name in self._seen:
            return name
        self._seen.add(name)
        return {
            "type": "record",
            "name": name,
            "namespace": "whence",
            "fields": [self._field(item) for item in kind.fields],
        }

    def _field(self, item: mi.Field) -> dict[str, Any]:
        described: dict[str, Any] = {
            "name": _NAME.sub("_", item.encode_name),
            "type": self.describe(item.type),
        }
        if item.required:
            return described
        value = item.default if item.default is not msgspec.NODEFAULT else item.default_factory()
        return _with_default(described, json.loads(msgspec.json.encode(value)))


def _with_default(described: dict[str, Any], value: Any) -> dict[str, Any]:
    kind = described["type"]
    is_map = isinstance(kind, dict) and kind["type"] == "map"
    if isinstance(value, dict) and not is_map and not isinstance(kind, list):
        # The defaults of its own fields are left out on the wire but asked for by Avro; a record may be
        # absent instead, which is what a reader needs to know.
        return {**described, "type": ["null", kind], "default": None}
    if value is not None and isinstance(kind, list):
        first = next((name for name in kind if _fits(value, name)), kind[0])
        kind = [first, *(name for name in kind if name != first)]
    return {**described, "type": kind, "default": value}


def _fits(value: Any, kind: Any) -> bool:
    names = {bool: "boolean", int: "long", float: "double", str: "string", list: "array"}
    name = kind.get("type") if isinstance(kind, dict) else kind
    return bool(names.get(type(value), "map") == name)


def _either(kinds: list[Any]) -> Any:
    """Return a union without repetition and without nested unions; a single branch is not a union."""
    flat: list[Any] = []
    for kind in kinds:
        for branch in kind if isinstance(kind, list) else [kind]:
            if branch not in flat:
                flat.append(branch)
    return flat[0] if len(flat) == 1 else flat

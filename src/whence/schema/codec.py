"""The one place where messages become bytes and bytes become messages.

JSON, so that any tool can read a topic; `bytes` fields (vectors) as base64. Sets are written in sorted order.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

import msgspec

from whence.schema.errors import BadInput, CodecError
from whence.schema.message import Message, message_type

M = TypeVar("M", bound=Message)

_encoder = msgspec.json.Encoder(order="deterministic")


@cache
def _decoder(cls: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(cls)


def encode(message: msgspec.Struct) -> bytes:
    """Return the wire form of a message; a text with half of a surrogate pair raises `BadInput`."""
    try:
        return _encoder.encode(message)
    except UnicodeEncodeError as error:
        raise BadInput(
            "a text holds characters that are not Unicode text: "
            f"{error.object[error.start : error.end]!r}",
            hint="use UTF-8",
        ) from error


def decode_as(payload: bytes, cls: type[M]) -> M:
    """Read a message of a known type; bytes that are not UTF-8 JSON of it raise `CodecError`."""
    try:
        message: M = _decoder(cls).decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CodecError(f"not a {cls.TYPE or cls.__name__}: {error}") from error
    return message


def decode(payload: bytes, type_name: str) -> Message:
    """Read a message whose type name came with it; an unknown type raises `CodecError`, too."""
    cls = message_type(type_name)
    if cls is None:
        raise CodecError(
            f"unknown message type {type_name!r}",
            hint="the sender is newer than this processor, or is not Whence",
        )
    return decode_as(payload, cls)


def to_builtins(value: Any) -> Any:
    """Return dicts, lists, strings and numbers, as in the wire form."""
    return msgspec.to_builtins(value, order="deterministic")

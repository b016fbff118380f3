"""The one place where messages become bytes and bytes become messages.

JSON, so that any tool can read a topic; `bytes` fields (vectors) as base64. Sets are written in sorted
order. Within a process most messages are handed over as they are, see `wire`; with `WHENCE_CHECK_MESSAGES=1`
each of these is checked to be what its bytes say.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any, TypeVar

import msgspec

from whence.schema.errors import BadInput, CodecError
from whence.schema.message import Message, message_type
from whence.schema.wire import Body, Wire, own_copy, shape_of

__all__ = ("decode", "decode_as", "encode", "encode_all", "sealed", "to_builtins")

M = TypeVar("M", bound=Message)

#: Whether messages that are handed over as they are must be equal to what their bytes say.
_CHECKED = bool(os.environ.get("WHENCE_CHECK_MESSAGES"))

_encoder = msgspec.json.Encoder(order="deterministic")
#: Tells in half the time or less that a message can travel, and how large it is.
_packer = msgspec.msgpack.Encoder()
#: Most bytes of JSON for one of MessagePack: a control character takes six, `false,` as many.
_WIDEST = 6


@cache
def _decoder(cls: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(cls)


def encode(message: msgspec.Struct) -> bytes:
    """Give the wire form of a message.

    Raises:
        BadInput: As for `encode_all`.
    """
    known = message.encoded() if isinstance(message, Message) else None
    return encode_all(message) if known is None else known


def sealed(message: Message) -> Body:
    """Give what to publish of a message: itself where nothing of it can be changed, else its bytes.

    Raises:
        BadInput: As for `encode_all`.
        CodecError: Messages are checked, and it would be read as something else.
    """
    shape = shape_of(type(message))
    if shape is None or not shape.fits(message):
        return encode(message)
    most = message.most_bytes() if shape.assembled else None
    # Its dicts are written when somebody wants the bytes.
    own = own_copy(message, shape.copied) if shape.copied else message
    wire = Wire(own, shape.copied, _most_bytes(own) if most is None else most, encode)
    if _CHECKED:
        _check(wire)
    return wire


def _check(wire: Wire) -> None:
    """Make sure that a message is what another process would read from its bytes, and not larger than thought.

    Raises:
        CodecError: It is not.
    """
    cls = type(wire.message)
    read = decode_as(wire.plain, cls)
    if not _same(read, wire.message):
        raise CodecError(f"{wire.message!r} would be read as {read!r}")
    if len(wire.plain) > wire.most:
        raise CodecError(f"{wire.message!r} takes {len(wire.plain)} bytes, more than {wire.most}")


def _same(one: Any, other: Any) -> bool:
    """Tell whether two values are equal and of the same types, all the way down: 1 is neither 1.0 nor True.

    Their bytes need not be equal: a text that equals a field's default is left out only where it is the very
    object.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if type(one) is not type(other):
        return False
    if isinstance(one, msgspec.Struct):
        return all(_same(getattr(one, n), getattr(other, n)) for n in one.__struct_fields__)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def encode_all(message: msgspec.Struct) -> bytes:
    """Encode a message, whatever it knows of its bytes.

    Raises:
        BadInput: A text in it holds half of a surrogate pair, as bytes that were no UTF-8 leave behind.
    """
    try:
        return _encoder.encode(message)
    except UnicodeEncodeError as error:
        raise _no_text(error) from error


def _most_bytes(message: Message) -> int:
    """Give the most bytes that a message takes; raises as `encode_all`."""
    try:
        return _WIDEST * len(_packer.encode(message))
    except UnicodeEncodeError as error:
        raise _no_text(error) from error
    except OverflowError:
        # JSON has no largest integer.
        return len(encode_all(message))


def _no_text(error: UnicodeEncodeError) -> BadInput:
    return BadInput(
        f"a text holds characters that are no text: {error.object[error.start : error.end]!r}",
        hint="give it in UTF-8",
    )


def decode_as(payload: Body, cls: type[M]) -> M:
    """Read a message of a known type.

    Raises:
        CodecError: The bytes are not valid UTF-8 JSON of that type.
    """
    if isinstance(payload, Wire):
        if type(payload.message) is cls:
            known: M = payload.message
            return own_copy(known, payload.copied) if payload.copied else known
        payload = payload.plain
    try:
        message: M = _decoder(cls).decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CodecError(f"not a {cls.TYPE or cls.__name__}: {error}") from error
    return message


def decode(payload: Body, type_name: str) -> Message:
    """Read a message whose type name came with it.

    Raises:
        CodecError: The type is unknown, or the bytes are not one.
    """
    cls = message_type(type_name)
    if cls is None:
        raise CodecError(
            f"unknown message type {type_name!r}",
            hint="the sender is newer than this processor, or not a sender of ours",
        )
    return decode_as(payload, cls)


def to_builtins(value: Any) -> Any:
    """Give dicts, lists, strings and numbers, as in the wire form."""
    return msgspec.to_builtins(value, order="deterministic")

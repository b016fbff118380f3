"""Read the elements of a large JSON array or object, one at a time.

Input is a byte stream, output the parsed elements with their lines; memory holds one element. The scanner only
finds where an element ends, `parse_json` decides whether it is valid.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from whence.code.bundles.archive import Location, MemberStream
from whence.ingest.decoding import refuse_wide_encoding
from whence.ingest.strict_json import parse_json
from whence.schema.errors import BadInput

_BLOCK_BYTES = 64 * 1024
_NOT_SPACE = re.compile(rb"[^ \t\r\n]")
_BRACKET_OR_STRING = re.compile(rb'[{}\[\]]|"[^"\\]*+(?:\\.[^"\\]*+)*"|"', re.DOTALL)
_QUOTE_OR_BACKSLASH = re.compile(rb'["\\]')
_AFTER_SCALAR = re.compile(rb"[,\]}: \t\r\n]")
_QUOTE = ord('"')
_OPENING = b"{["
_CLOSING = b"}]"


class JsonElement(msgspec.Struct, frozen=True):
    """One parsed element of an array or object."""

    location: Location
    """Its first line and its number, from 1."""
    key: str
    value: Any


def array_elements(stream: MemberStream, max_bytes: int) -> Iterator[JsonElement]:
    """Yield the elements of a JSON array."""
    return _Scanner(stream, max_bytes).elements(b"[", b"]", "an array")


def object_elements(stream: MemberStream, max_bytes: int) -> Iterator[JsonElement]:
    """Yield the elements of a JSON object; a key may occur again."""
    return _Scanner(stream, max_bytes).elements(b"{", b"}", "an object")


class _Scanner:
    """Reads a stream in blocks and finds where each element ends."""

    def __init__(self, stream: MemberStream, max_bytes: int) -> None:
        self._stream = stream
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._position = 0
        self._line = 1

    def elements(self, opening: bytes, closing: bytes, name: str) -> Iterator[JsonElement]:
        self._skip_byte_order_mark()
        self._expect(opening, name)
        number = 0
        has_more = not self._accept(closing)
        while has_more:
            number += 1
            key_location, key = self._key(number) if closing == b"}" else (None, "")
            location, value = self._value(number)
            yield JsonElement(key_location or location, key, value)
            has_more = not self._accept(closing)
            if has_more:
                self._expect(b",", f"a comma or {closing.decode()!r} after item {number}")
        if self._peek() is not None:
            raise self._location().error("is not JSON: there is more text after its end")

    def _key(self, number: int) -> tuple[Location, str]:
        location, key = self._value(number)
        if not isinstance(key, str):
            raise location.error("is not JSON: a key must be a string")
        self._expect(b":", "a colon after the key")
        return location, key

    def _value(self, number: int) -> tuple[Location, Any]:
        first = self._peek()
        location = self._location(number)
        if first is None:
            raise location.error("is not JSON: it ends in the middle")
        with location.prefix_errors():
            end = self._value_end(first)
            if end - self._position > self._max_bytes:
                raise BadInput(self._too_long())
        text = location.decode(self._buffer[self._position : end])
        self._advance(end)
        try:
            return location, parse_json(text)
        except BadInput as error:
            raise location.error(error.message, error.hint) from error

    def _accept(self, token: bytes) -> bool:
        if self._peek() != token[0]:
            return False
        self._advance(self._position + 1)
        return True

    def _expect(self, token: bytes, name: str) -> None:
        if not self._accept(token):
            raise self._location().error(f"is not JSON: {name} is expected here")

    def _too_long(self) -> str:
        return f"is longer than {self._max_bytes:,} bytes, the limit for one item"

    def _location(self, item: int = 0) -> Location:
        return self._stream.location.at_line(self._line, item)

    def _skip_byte_order_mark(self) -> None:
        while len(self._buffer) < len(codecs.BOM_UTF32_LE) and self._fill():
            pass
        with self._stream.location.prefix_errors():
            refuse_wide_encoding(bytes(self._buffer[:4]))
        if self._buffer.startswith(codecs.BOM_UTF8):
            self._position = len(codecs.BOM_UTF8)

    def _peek(self) -> int | None:
        """Skip space and return the next byte; None at the end."""
        while (found := _NOT_SPACE.search(self._buffer, self._position)) is None:
            self._advance(len(self._buffer))
            if not self._fill():
                return None
        self._advance(found.start())
        return self._buffer[self._position]

    def _advance(self, to: int) -> None:
        self._line += self._buffer.count(b"\n", self._position, to)
        self._position = to
        if to >= _BLOCK_BYTES:
            del self._buffer[:to]
            self._position = 0

    def _fill(self) -> bool:
        block = self._stream.read(_BLOCK_BYTES)
        self._buffer += block
        return bool(block)

    def _value_end(self, first: int) -> int:
        if first == _QUOTE:
            return self._string_end(self._position + 1)
        if first in _OPENING:
            return self._container_end()
        return self._search(_AFTER_SCALAR, self._position).start()

    def _container_end(self) -> int:
        depth, position = 0, self._position
        while True:
            start, position = self._search(_BRACKET_OR_STRING, position).span()
            byte = self._buffer[start]
            if byte in _CLOSING:
                depth -= 1
                if depth == 0:
                    return position
            elif byte != _QUOTE:
                depth += 1
            elif position == start + 1:
                # The string does not end in the buffer.
                position = self._string_end(position)

    def _string_end(self, position: int) -> int:
        while True:
            position = self._search(_QUOTE_OR_BACKSLASH, position).end()
            if self._buffer[position - 1] == _QUOTE:
                return position
            position += 1

    def _search(self, pattern: re.Pattern[bytes], position: int) -> re.Match[bytes]:
        """Find a pattern at or after a position, reading more blocks as needed; each byte is scanned once."""
        while (found := pattern.search(self._buffer, position)) is None:
            # The position is beyond the end after a backslash whose partner is in the next block.
            position = max(position, len(self._buffer))
            if len(self._buffer) - self._position > self._max_bytes:
                raise BadInput(self._too_long())
            if not self._fill():
                raise BadInput("is not JSON: it ends in the middle")
        return found

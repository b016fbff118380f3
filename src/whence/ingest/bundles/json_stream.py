"""The parts of a large JSON document, one at a time.

A member of a bundle is one JSON array or object of any size. It is read in blocks: the elements that a block
holds whole are parsed in one go where nothing is odd about them, and one by one otherwise. A streaming parser
was weighed and left: ijson 3.6 tells no line, has no bound on one string, and hides a key given twice, which
in a node may hide its rights. The cutter knows strings and brackets only, so it judges nothing but where an
element ends.
"""

from __future__ import annotations

import codecs
import itertools
import re
from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from whence.ingest.bundles.locations import Place
from whence.ingest.decoding import refuse_wide_encoding
from whence.ingest.strict_json import parse_json, parse_start
from whence.schema.errors import BadInput

__all__ = ("Element", "array_elements", "decoded", "object_elements")

#: Bytes asked for at a time.
BLOCK_BYTES = 64 * 1024
#: A longer buffer holds one long element, and to decode it again with every block would cost its square.
_MOST_DECODED = 4 * BLOCK_BYTES
_NO_SPACE = re.compile(rb"[^ \t\r\n]")
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*"'
# A string as a whole when all of it is there, which takes one step where quote by quote takes three.
_BRACKET_OR_STRING = re.compile(rb"[{}\[\]]|(?:" + _STRING + rb')|"', re.DOTALL)
_BETWEEN = rb'[^"{}\[\]]*+'
_FLAT = rb"[{\[]" + _BETWEEN + rb"(?:" + _STRING + _BETWEEN + rb")*[}\]]"
# An object or array in one step, when it holds none but flat ones and all of it is there: nearly every element.
_CONTAINER = re.compile(
    rb"[{\[]" + _BETWEEN + rb"(?:(?:" + _STRING + rb"|" + _FLAT + rb")" + _BETWEEN + rb")*[}\]]",
    re.DOTALL,
)
# A key with the colon behind it, when nothing in it is escaped: nearly every key.
_PLAIN_KEY = re.compile(rb'"([^"\\\x00-\x1f]*+)"[ \t\r\n]*+:')
_QUOTE_OR_BACKSLASH = re.compile(rb'["\\]')
_AFTER_SCALAR = re.compile(rb"[,\]}: \t\r\n]")
_SPACE = ord(" ")
_QUOTE = ord('"')
#: How often to look further back for the end of an element; one that is found may stand in a string.
_CUTS = 8
#: A character that a parser turns into a quotation mark.
_HIDDEN_QUOTE = rb"\u0022"
# What stands before a value in an array, and in an object.
_BEFORE_ITEM = re.compile(rb"[, \t\r\n]*+")
_BEFORE_VALUE = re.compile(rb"[, \t\r\n]*+(" + _STRING + rb")[ \t\r\n]*+:[ \t\r\n]*+", re.DOTALL)
_raw_array = msgspec.json.Decoder(list[msgspec.Raw])
_raw_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_OPENING = b"{["
_DELIMITED = b'{["'
_CLOSING = b"}]"


class ByteStream(Protocol):
    """Bytes of a member, in order."""

    @property
    def place(self) -> Place:
        """The member, for errors."""
        ...

    def read(self, size: int) -> bytes:
        """Return up to `size` more bytes, none at the end."""
        ...


class Element(msgspec.Struct, frozen=True):
    """One element of an array or object, parsed."""

    place: Place
    """Its first line and its number among the elements."""
    key: str
    """Its key in the object; empty in an array."""
    value: Any
    """What it is, in Python's terms."""


def array_elements(stream: ByteStream, max_bytes: int) -> Iterator[Element]:
    """Yield the elements of the array that the stream is.

    Memory holds one element, or a block of them; cost grows with the bytes, in whatever pieces they come.

    Raises:
        BadInput: It is not UTF-8, not an array, not JSON, or an element is longer than `max_bytes`.
    """
    return _elements(_Cutter(stream, max_bytes), b"[]", "an array")


def object_elements(stream: ByteStream, max_bytes: int) -> Iterator[Element]:
    """Yield the elements of the object that the stream is; a key may come again.

    Raises:
        BadInput: As for `array_elements`, or it is not an object.
    """
    return _elements(_Cutter(stream, max_bytes), b"{}", "an object")


def _elements(cutter: _Cutter, brackets: bytes, name: str) -> Iterator[Element]:
    closing = brackets[1:]
    cutter.expect(brackets[:1], name)
    number = 0
    has_more = not cutter.takes(closing)
    while has_more:
        for element in cutter.block(brackets, number + 1):
            number += 1
            yield element
        number += 1
        yield cutter.keyed(number) if closing == b"}" else cutter.item(number)
        has_more = not cutter.takes(closing)
        if has_more:
            cutter.expect(b",", f"a comma or {closing.decode()!r} after item {number}")
    cutter.expect_end()


def decoded(data: bytes | bytearray, place: Place) -> str:
    """Return the text of UTF-8 bytes that begin on the line of `place`.

    Raises:
        BadInput: They are no UTF-8; the line of the first bad byte is named.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = place.line + data.count(b"\n", 0, error.start)
        raise place.on_line(line).error(
            f"is not UTF-8: byte 0x{data[error.start]:02x}", "save the member as UTF-8"
        ) from error


class _Cutter:
    """Reads a member in blocks and finds where each of its elements ends."""

    def __init__(self, stream: ByteStream, max_bytes: int) -> None:
        self._stream = stream
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        #: The buffer as text while all of it is ASCII: places are the same in both then.
        self._ascii: str | None = None
        self._at = 0
        self._line = 1
        #: Blocks read, and how many there were when the buffer was last parsed in one go.
        self._fills = 0
        self._tried = 0
        self._skip_mark()

    def block(self, brackets: bytes, number: int) -> Iterator[Element]:
        """Take the elements that the buffer holds whole, each with the comma behind it, and yield them.

        There are none when anything about them is to be judged one by one.

        Args:
            brackets: Those around the elements, of an array or an object.
            number: Which element the first is.
        """
        if self._fills == self._tried and len(self._buffer) - self._at < BLOCK_BYTES:
            self._fill()
        if self._fills == self._tried:
            return
        self._tried = self._fills
        whole = self._whole(brackets)
        if whole is None:
            return
        parsed, data = whole
        lines = _lines(data, self._line)
        self._advance(self._at + len(data) - 1)
        bundle, member = self._stream.place.bundle, self._stream.place.member
        pairs = parsed.items() if brackets == b"{}" else (("", value) for value in parsed)
        for item, ((key, value), line) in enumerate(zip(pairs, lines, strict=False), number):
            yield Element(Place(bundle, member, line, item), key, value)

    def _whole(self, brackets: bytes) -> tuple[Any, bytes] | None:
        """Return the elements that are whole, and their bytes between brackets.

        What parses up to a comma is elements: cut in a string or deeper inside, it would not.
        """
        last = b"}," if brackets == b"[]" else b"],"
        end = len(self._buffer)
        for _ in range(_CUTS):
            end = self._buffer.rfind(last, self._at, end)
            if end < 0 or end - self._at >= self._max_bytes:
                return None
            data = brackets[:1] + self._buffer[self._at : end + 1] + brackets[1:]
            parsed = _parsed(bytes(data))
            if parsed is not None:
                return parsed, bytes(data)
        return None

    def takes(self, token: bytes) -> bool:
        """Take one byte if it stands here; tell whether it did."""
        if self._peek() != token[0]:
            return False
        self._advance(self._at + 1)
        return True

    def item(self, number: int) -> Element:
        """Take the next element of an array."""
        place, value = self.value(number)
        return Element(place, "", value)

    def keyed(self, number: int) -> Element:
        """Take the next element of an object."""
        place, key = self.key(number)
        _, value = self.value(number)
        return Element(place, key, value)

    def expect(self, token: bytes, name: str) -> None:
        """Take one byte.

        Raises:
            BadInput: Another one stands there, or none.
        """
        if not self.takes(token):
            raise self._place().error(f"is not JSON: {name} is expected here")

    def expect_end(self) -> None:
        """Check that nothing but space is left, which also reads the archive's checksum.

        Raises:
            BadInput: Something is left.
        """
        if self._peek() is not None:
            raise self._place().error("is not JSON: something stands after its end")

    def value(self, number: int) -> tuple[Place, Any]:
        """Take the next value and give it with its place.

        Raises:
            BadInput: There is none, it is too long, or it is not JSON.
        """
        first = self._peek()
        place = self._place(number)
        if first is None:
            raise place.error("is not JSON: it ends in the middle")
        if self._ascii is not None and first in _DELIMITED:
            whole = parse_start(self._ascii, self._at)
            if whole is not None and whole[1] - self._at <= self._max_bytes:
                self._advance(whole[1])
                return place, whole[0]
        try:
            end = self._value_end(first)
        except BadInput as error:
            raise place.error(error.message) from error
        text = self._taken(end, end, place)
        try:
            return place, parse_json(text)
        except BadInput as error:
            raise place.error(error.message, error.hint) from error

    def key(self, number: int) -> tuple[Place, str]:
        """Take the next key and the colon behind it; give it with its place.

        Raises:
            BadInput: There is none, or it is not JSON.
        """
        self._peek()
        plain = _PLAIN_KEY.match(self._buffer, self._at)
        if plain is not None:
            place = self._place(number)
            return place, self._taken(plain.end(1) + 1, plain.end(), place)[1:-1]
        place, key = self.value(number)
        if not isinstance(key, str):
            raise place.error("is not JSON: a key must be a string")
        self.expect(b":", "a colon after the key")
        return place, key

    def _taken(self, end: int, following: int, place: Place) -> str:
        """Return what stands here up to an end, and go to what follows it."""
        if end - self._at > self._max_bytes:
            raise place.error(self._too_long())
        data = self._buffer[self._at : end]
        self._advance(following)
        return decoded(data, place)

    def _too_long(self) -> str:
        return f"is longer than {self._max_bytes:,} bytes, the limit for one item"

    def _place(self, item: int = 0) -> Place:
        member = self._stream.place
        return Place(member.bundle, member.member, self._line, item)

    def _skip_mark(self) -> None:
        while len(self._buffer) < len(codecs.BOM_UTF32_LE) and self._fill():
            pass
        with self._stream.place.blamed():
            refuse_wide_encoding(bytes(self._buffer[:4]))
        if self._buffer.startswith(codecs.BOM_UTF8):
            self._at = len(codecs.BOM_UTF8)

    def _peek(self) -> int | None:
        """Go to the next byte that is no space and give it; None at the end."""
        if self._at < len(self._buffer) and self._buffer[self._at] > _SPACE:
            return self._buffer[self._at]
        while (found := _NO_SPACE.search(self._buffer, self._at)) is None:
            self._advance(len(self._buffer))
            if not self._fill():
                return None
        self._advance(found.start())
        return self._buffer[self._at]

    def _advance(self, to: int) -> None:
        self._line += self._buffer.count(b"\n", self._at, to)
        self._at = to
        if self._at >= BLOCK_BYTES:
            del self._buffer[: self._at]
            self._ascii = self._ascii and self._ascii[self._at :]
            self._at = 0

    def _fill(self) -> bool:
        """Read a block; False at the end."""
        block = self._stream.read(BLOCK_BYTES)
        self._fills += bool(block)
        self._buffer += block
        is_ascii = len(self._buffer) <= _MOST_DECODED and self._buffer.isascii()
        self._ascii = self._buffer.decode() if is_ascii else None
        return bool(block)

    def _value_end(self, first: int) -> int:
        if first == _QUOTE:
            return self._string_end(self._at + 1)
        if first in _OPENING:
            return self._container_end()
        found = self._search(_AFTER_SCALAR, self._at)
        return found.start()

    def _container_end(self) -> int:
        whole = _CONTAINER.match(self._buffer, self._at)
        if whole is not None:
            return whole.end()
        depth, position = 0, self._at
        while True:
            found = self._search(_BRACKET_OR_STRING, position)
            start, position = found.span()
            byte = self._buffer[start]
            if byte in _CLOSING:
                depth -= 1
                if depth == 0:
                    return position
            elif byte != _QUOTE:
                depth += 1
            elif position == start + 1:
                position = self._string_end(position)

    def _string_end(self, position: int) -> int:
        while True:
            position = self._search(_QUOTE_OR_BACKSLASH, position).end()
            if self._buffer[position - 1] == _QUOTE:
                return position
            position += 1

    def _search(self, pattern: re.Pattern[bytes], position: int) -> re.Match[bytes]:
        """Find a byte at or after a position, reading on as far as it takes.

        Every byte is looked at once: the search goes on where the last block ended.
        """
        while (found := pattern.search(self._buffer, position)) is None:
            # A position behind the end is right after a backslash whose partner is not read yet.
            position = max(position, len(self._buffer))
            if len(self._buffer) - self._at > self._max_bytes:
                raise BadInput(self._too_long())
            if not self._fill():
                raise BadInput("is not JSON: it ends in the middle")
        return found


def _parsed(data: bytes) -> Any:
    """Parse JSON that is as `parse_json` wants it; None when it is not, or might not be.

    A key that is given twice is lost, and its quotation marks with it: written again, what was parsed has as
    many as it had, or something is missing.
    """
    try:
        found = msgspec.json.decode(data)
        written = msgspec.json.encode(found)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    marks = data.count(b'"') + data.count(_HIDDEN_QUOTE)
    return found if marks == written.count(b'"') else None


def _lines(data: bytes, line: int) -> Iterator[int]:
    """Yield the line on which each element of an array or object begins, endlessly where all are on one.

    Args:
        data: The array or object.
        line: On which it begins.
    """
    if b"\n" not in data:
        yield from itertools.repeat(line)
    is_object = data.startswith(b"{")
    raw = _raw_object.decode(data).values() if is_object else _raw_array.decode(data)
    before = _BEFORE_VALUE if is_object else _BEFORE_ITEM
    at = 1
    for value in raw:
        found = before.match(data, at)
        assert found is not None
        begin = found.start(1) if is_object else found.end()
        line += data.count(b"\n", at, begin)
        yield line
        end = found.end() + len(bytes(value))
        line += data.count(b"\n", begin, end)
        at = end

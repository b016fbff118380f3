"""Decode files: UTF-8 first, else the encoding detected from the bytes."""

from __future__ import annotations

import codecs
import os
import re

from whence.schema.errors import BadInput

#: Byte order marks other than that of UTF-8; UTF-32 first, because its mark begins with that of UTF-16.
_WIDE_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32", "utf-32"),
    (codecs.BOM_UTF32_BE, "UTF-32", "utf-32"),
    (codecs.BOM_UTF16_LE, "UTF-16", "utf-16"),
    (codecs.BOM_UTF16_BE, "UTF-16", "utf-16"),
)
#: Lines of one document; a text that may be stored has fewer, unless most are blank.
MAX_LINES = 1_000_000
#: Bytes from which an encoding is detected; more take seconds without better results.
_SAMPLE_BYTES = 64 * 2**10
#: Used if detection fails, as in browsers (WHATWG Encoding, 4.2).
_FALLBACK = "cp1252"
#: Common encodings of the WHATWG Encoding Standard. With all encodings, `charset-normalizer` detects German
#: text as Icelandic of old Macintoshes.
_ENCODINGS = [
    *(f"cp125{number}" for number in range(9)),
    *("cp866", "iso8859_2", "iso8859_5", "iso8859_7", "koi8_r", "koi8_u"),
    *("big5", "gb18030", "euc_jp", "euc_kr", "shift_jis", "iso2022_jp"),
]
#: Fewer bytes do not identify the language of a text.
_DETECTABLE_BYTES = 1024
_MAX_ACCENT_SHARE = 0.3
_WESTERN = re.compile(
    "[\x00-\x7f\xa0\xc0-\xd6\xd8-\xf6\xf8-\xff\u0152\u0153\u0160\u0161\u017d\u017e\u0178"
    "\u2018\u2019\u201c\u201d\u201a\u201e\u2013\u2014\u2022\u2026\u20ac\u2122\xa3\xa7\xa9\xab\xae\xb0\xb7\xbb\xa1\xbf\xaa\xba]*"
)
_SIGN_IN_WORD = re.compile(r"[^\W\d_][\xa1\xa3\xa7\xaa\xb0\xb7\xba\xbf\u20ac\u2022][^\W\d_]")


def read_bytes(path: str, limit: int) -> bytes:
    """Return the content of a file of at most `limit` bytes."""
    with open(path, "rb", buffering=0) as stream:  # noqa: PTH123 - paths are strings here
        if os.fstat(stream.fileno()).st_size <= limit:
            data = stream.readall()
            if len(data) <= limit:
                return data
    raise BadInput(f"is larger than {limit:,} bytes, the limit for one document")


def decode_text(data: bytes) -> tuple[str, str]:
    r"""Return the text and the name of its encoding, empty for UTF-8.

    Tried in this order: a byte order mark, UTF-8, cp1252 for short Western European texts, and the detection of
    `charset-normalizer` from the first 64 KiB. The text has no byte order mark and `\n` as line ends, so that a
    checkout on another system has the same offsets and content hash.

    Raises:
        BadInput: The bytes are not text, or have more than a million lines.
    """
    for mark, _, name in _WIDE_MARKS:
        if data.startswith(mark):
            return _normalize_line_ends(decode_as(data, name)), name
    try:
        text = data.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError:
        _refuse_nul(data)
        name = _detect(data)
        return _normalize_line_ends(decode_as(data, name)), name
    return _normalize_line_ends(_check_nul(text)), ""


def decode_as(data: bytes, name: str) -> str:
    """Return the text of bytes in a known encoding."""
    try:
        return _check_nul(data.decode(name).removeprefix("\ufeff"))
    except (UnicodeDecodeError, LookupError) as error:
        raise BadInput(f"is not text: neither UTF-8 nor {name}, save it as UTF-8") from error


def decode_utf8(data: bytes) -> str:
    r"""Return the text of UTF-8 bytes, without a byte order mark and with line ends as `\n`."""
    refuse_wide_encoding(data)
    try:
        text = data.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise BadInput(
            f"is not UTF-8: byte 0x{error.object[error.start]:02x} in line {line}"
        ) from error
    return _normalize_line_ends(_check_nul(text))


def refuse_wide_encoding(data: bytes) -> None:
    """Raise `BadInput` if bytes begin with the byte order mark of UTF-16 or UTF-32."""
    for mark, name, _ in _WIDE_MARKS:
        if data.startswith(mark):
            raise BadInput(f"is {name}, save it as UTF-8")


def _detect(data: bytes) -> str:
    from charset_normalizer import from_bytes

    sample = data[:_SAMPLE_BYTES]
    if len(sample) < _DETECTABLE_BYTES and _is_western(sample):
        return _FALLBACK
    found = from_bytes(sample, cp_isolation=_ENCODINGS).best()
    name = found.encoding if found else _FALLBACK
    # The sample may end inside a character, or the rest may not be in the detected encoding.
    for each in (name, _FALLBACK):
        try:
            data.decode(each)
        except UnicodeDecodeError:
            continue
        return each
    return name


def _is_western(sample: bytes) -> bool:
    """Return whether bytes decoded as cp1252 look like Western European words."""
    text = sample.decode(_FALLBACK, "replace")
    accents = sum(not sign.isascii() for sign in text)
    return (
        accents <= _MAX_ACCENT_SHARE * len(text)
        and bool(_WESTERN.fullmatch(text))
        and not _SIGN_IN_WORD.search(text)
    )


def _refuse_nul(data: bytes) -> None:
    nul = data.find(b"\0")
    if nul >= 0:
        raise BadInput(f"is not text: a NUL character in line {data.count(10, 0, nul) + 1}")


def _check_nul(text: str) -> str:
    nul = text.find("\0")
    if nul >= 0:
        raise BadInput(f"holds a NUL character in line {text.count(chr(10), 0, nul) + 1}")
    return text


def _normalize_line_ends(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.count("\n") > MAX_LINES:
        raise BadInput(f"has more than {MAX_LINES:,} lines, the limit for one document")
    return text

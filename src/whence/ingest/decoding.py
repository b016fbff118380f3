"""Bytes of a file to text: UTF-8 only, and a clear reason for everything else."""

from __future__ import annotations

import codecs
from pathlib import Path

from whence.schema.errors import BadInput

__all__ = ("decode_text", "read_bytes", "refuse_wide_encoding")

#: Byte order marks of encodings that are not UTF-8; the longer ones first, since UTF-16's begins UTF-32's.
_WIDE_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def read_bytes(path: Path, limit: int) -> bytes:
    """Give the content of a file of at most `limit` bytes.

    One byte more than the limit is read and no more, so a file that grows meanwhile does no harm.

    Raises:
        BadInput: The file is larger.
        OSError: It cannot be read.
    """
    with path.open("rb") as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise BadInput(f"is larger than {limit:,} bytes, the limit for one document")
    return data


def decode_text(data: bytes) -> str:
    r"""Give the text of UTF-8 bytes, without a byte order mark and with line ends as `\n`.

    The same document checked out on another system has other line ends; its offsets and its digest
    stay the same.

    Raises:
        BadInput: The bytes are not UTF-8, or hold NUL.
    """
    refuse_wide_encoding(data)
    try:
        text = data.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise BadInput(
            f"is not UTF-8: byte 0x{error.object[error.start]:02x} in line {line}"
        ) from error
    nul = text.find("\0")
    if nul >= 0:
        raise BadInput(f"holds a NUL character in line {text.count(chr(10), 0, nul) + 1}")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def refuse_wide_encoding(data: bytes) -> None:
    """Refuse bytes that begin with the mark of UTF-16 or UTF-32.

    Raises:
        BadInput: They do.
    """
    for mark, name in _WIDE_MARKS:
        if data.startswith(mark):
            raise BadInput(f"is {name}, save it as UTF-8")

"""Passwords of encrypted PDF and Office files: read from a file, tried in its order, and never shown.

They stay in memory and go to the process that reads documents. No message, log, trace or reason has them.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from os import PathLike
from pathlib import Path

from whence.ingest.content_detection import HEAD_BYTES, PROTECTED, has_pdf_signature
from whence.schema.errors import BadInput

#: Deriving the key of an Office file from one takes a tenth of a second, so that these take a third of the time
#: that reading one document may take by default.
_MOST = 100
_MAX_BYTES = 2**16
_COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
#: PDFium writes the file without its encryption.
_REMOVE_SECURITY = 3


class Passwords:
    """The passwords of a file; an object, so that nothing that prints its neighbours prints them.

    Args:
        lines: The passwords.
        path: The file, which is no document.
    """

    def __init__(self, lines: Sequence[str] = (), path: str = "") -> None:
        self._lines = tuple(lines)
        self._path = path

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __repr__(self) -> str:
        return f"<{len(self._lines)} passwords>"

    def is_their_file(self, path: str) -> bool:
        """Return whether a path is that of the file they are from, whatever it is called."""
        try:
            return bool(self._path) and os.path.samefile(path, self._path)  # noqa: PTH121 - paths are strings here
        except OSError:
            return False


def read_passwords(path: str | PathLike[str]) -> Passwords:
    """Return the passwords of a file: one a line, UTF-8; blank lines do not count.

    Raises:
        BadInput: It cannot be read as such, or has none or too many.
    """
    name = os.fspath(path)
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise BadInput(f"the file of passwords {name} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        # The error has the bytes.
        raise BadInput(f"the file of passwords {name} is not UTF-8") from None
    # Only line ends end a line: a password may have any other character, spaces at its ends included.
    lines = [line for line in text.replace("\r\n", "\n").split("\n") if line.strip()]
    if not lines or len(lines) > _MOST or len(data) > _MAX_BYTES:
        raise BadInput(
            f"the file of passwords {name} must have 1 to {_MOST} lines, a password each",
            hint="index folders of other passwords by another command",
        )
    return Passwords(lines, name)


def unlock(data: bytes, passwords: Sequence[str]) -> bytes:
    """Return the bytes of a file without its encryption, where one of the passwords opens it.

    Other files are returned as they are. Cost: one key derivation a password for an Office file.

    Raises:
        BadInput: None of the passwords opens it, or the library that decrypts Office files is not installed.
    """
    if not passwords:
        return data
    if data.startswith(_COMPOUND):
        return _unlock_office(data, passwords)
    if has_pdf_signature(data[:HEAD_BYTES]) and b"/Encrypt" in data:
        return _unlock_pdf(data, passwords)
    return data


def _unlock_office(data: bytes, passwords: Sequence[str]) -> bytes:
    try:
        import msoffcrypto
        from msoffcrypto.exceptions import DecryptionError, FileFormatError, InvalidKeyError
    except ImportError as error:
        raise BadInput(f"is {PROTECTED}, which pip install 'whence[passwords]' opens") from error
    try:
        file = msoffcrypto.OfficeFile(io.BytesIO(data))
        if not file.is_encrypted():
            return data
    except (FileFormatError, OSError, ValueError, IndexError):
        # The loader of its format says what is wrong with it.
        return data
    for one in passwords:
        plain = io.BytesIO()
        try:
            file.load_key(password=one, verify_password=True)
            file.decrypt(plain)
        except (InvalidKeyError, DecryptionError):
            continue
        return plain.getvalue()
    raise _closed()


def _unlock_pdf(data: bytes, passwords: Sequence[str]) -> bytes:
    from pypdfium2 import PdfDocument, PdfiumError

    for one in ("", *passwords):
        try:
            document = PdfDocument(data, password=one or None)
        except PdfiumError as error:
            if "password" not in str(error).lower():
                return data
            continue
        with closing(document):
            if not one:
                return data
            plain = io.BytesIO()
            document.save(plain, flags=_REMOVE_SECURITY)
            return plain.getvalue()
    raise _closed()


def _closed() -> BadInput:
    return BadInput(f"is {PROTECTED}, and none of those given opens it")

"""Detect the format of a file by its first bytes, because a suffix may be wrong."""

from __future__ import annotations

import io
import re
import zipfile

from whence.ingest.loader_registry import loaders_by_suffix
from whence.ingest.loaders.base import Loader
from whence.schema.errors import BadInput

_ARCHIVE = "an archive, unpack it first"
#: First bytes of files that are not documents.
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"\x7fELF", "a program"),
    (b"MZ\x90\0", "a program"),
    (b"\xca\xfe\xba\xbe", "a program"),
    (b"\0asm", "a program"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office file, save it as .docx"),
    (b"{\\rtf", "RTF, save it as .docx"),
    (b"\x1f\x8b", _ARCHIVE),
    (b"BZh", _ARCHIVE),
    (b"\xfd7zXZ\0", _ARCHIVE),
    (b"7z\xbc\xaf\x27\x1c", _ARCHIVE),
    (b"Rar!\x1a\x07", _ARCHIVE),
    (b"\x28\xb5\x2f\xfd", _ARCHIVE),
)
_ZIP = b"PK\x03\x04"
#: A PDF may begin with other bytes (PDF 1.7, appendix H.3.4.1, note 13).
_PDF_SIGNATURE, _PDF_WITHIN = b"%PDF-", 1024
_HTML_START = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html)\b",
    re.IGNORECASE | re.DOTALL,
)
_HEAD_BYTES = 4096


def detect_loader(named: Loader, data: bytes) -> Loader:
    """Return the loader for the content of a file: PDF, Word and HTML are recognized under any suffix."""
    by_suffix = loaders_by_suffix()
    pdf, word = by_suffix[".pdf"], by_suffix[".docx"]
    if named.is_binary and named not in (pdf, word):
        return named
    head = data[:_HEAD_BYTES]
    for signature, what in _SIGNATURES:
        if head.startswith(signature):
            raise BadInput(f"is not {named.name} but {what}")
    is_pdf = _PDF_SIGNATURE in head[:_PDF_WITHIN]
    if is_pdf and (named.is_binary or head.startswith(_PDF_SIGNATURE)):
        return pdf
    if head.startswith(_ZIP):
        if _is_word(data, damaged=named == word):
            return word
        raise BadInput(f"is not {named.name} but {_ARCHIVE}")
    if named.detects_html and _HTML_START.match(head):
        return by_suffix[".html"]
    if named.is_binary:
        raise BadInput(f"is not {named.name}, as its suffix states")
    return named


def _is_word(data: bytes, *, damaged: bool) -> bool:
    """Return whether an archive is a Word document; `damaged` if it cannot be opened."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return "word/document.xml" in archive.namelist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        return damaged

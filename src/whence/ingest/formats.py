"""Kinds of files: which suffix is read how, and what the content says when the suffix lies."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

import msgspec

from whence.ingest.blocks import ParsedDocument
from whence.ingest.sources import SourceFile
from whence.schema.errors import BadInput

__all__ = (
    "MAX_DOCUMENT_BYTES",
    "MAX_PACKED_BYTES",
    "Format",
    "format_of",
    "sniffed",
    "supported_suffixes",
)

#: Largest file of text that is one document, and longest record of a `.jsonl`, in bytes.
MAX_DOCUMENT_BYTES = 16 * 2**20
#: Largest PDF or Word file: most of one is pictures, which are not read.
MAX_PACKED_BYTES = 128 * 2**20

Loader = Callable[[SourceFile, bytes], ParsedDocument]


class Format(msgspec.Struct, frozen=True):
    """How files of one kind are read."""

    name: str
    """For people."""
    module: str
    """In `whence.ingest`."""
    function: str
    packed: bool = False
    """True when the bytes are no text."""
    holds_records: bool = False
    """True when the ids are those of records in the file."""

    def load(self, file: SourceFile, data: bytes) -> ParsedDocument:
        """Read a file; its loader is imported now, so that a kind costs nothing until one is met.

        Raises:
            BadInput: It cannot be read, or the library that reads it is not installed.
        """
        try:
            loader: Loader = self._function()
            return loader(file, data)
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0].replace("_", "-")
            raise BadInput(
                f"is {self.name}, which needs {package}: pip install {package}"
            ) from error

    def stream(self, file: SourceFile, max_bytes: int) -> Iterator[Any]:
        """Read the records of a file of records, one by one."""
        records: Iterator[Any] = self._function()(file, max_bytes)
        return records

    def limit(self, max_bytes: int) -> int:
        """Return the largest file that is read, in bytes, from what is allowed for text."""
        return max(max_bytes, MAX_PACKED_BYTES) if self.packed else max_bytes

    def _function(self) -> Any:
        return getattr(import_module(f"whence.ingest.loaders.{self.module}"), self.function)


_HTML = Format("HTML", "html", "load_html")
_PDF = Format("PDF", "pdf", "load_pdf", packed=True)
_WORD = Format("Word", "docx", "load_word", packed=True)


def _code(name: str) -> Format:
    return Format(name, "source_code", "load_code")


_KINDS: Mapping[Format, str] = {
    Format("Markdown", "markdown", "load_markdown"): ".md .markdown",
    Format("text", "plain_text", "load_text"): ".txt .text",
    Format("reStructuredText", "rst", "load_rst"): ".rst .rest",
    Format("JSON Lines", "jsonl", "load_jsonl", holds_records=True): ".jsonl",
    Format("SQL", "sql", "load_sql"): ".sql",
    _HTML: ".html .htm .xhtml",
    _PDF: ".pdf",
    _WORD: ".docx",
    _code("Python"): ".py .pyi .pyw",
    _code("C#"): ".cs",
    _code("TypeScript"): ".ts .tsx .mts .cts",
    _code("JavaScript"): ".js .jsx .mjs .cjs",
    _code("Go"): ".go",
    _code("Java"): ".java",
    _code("Rust"): ".rs",
    _code("C"): ".c",
    _code("C++"): ".cpp .cc .cxx .h .hh .hpp .hxx",
}
_BY_SUFFIX = {
    suffix: format_ for format_, suffixes in _KINDS.items() for suffix in suffixes.split()
}
_SUFFIXES = frozenset(_BY_SUFFIX)

#: First bytes of what is no document, whatever its suffix says.
_BINARIES = (
    (b"\x89PNG\r\n\x1a\n", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"\x7fELF", "a program"),
    (b"MZ\x90\0", "a program"),
    (b"\xca\xfe\xba\xbe", "a program"),
    (b"\0asm", "a program"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a file of old Office, save it as .docx"),
    (b"{\\rtf", "RTF, save it as .docx"),
    (b"\x1f\x8b", "an archive, unpack it first"),
    (b"BZh", "an archive, unpack it first"),
    (b"\xfd7zXZ\0", "an archive, unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "an archive, unpack it first"),
    (b"Rar!\x1a\x07", "an archive, unpack it first"),
    (b"\x28\xb5\x2f\xfd", "an archive, unpack it first"),
)
_ZIP = b"PK\x03\x04"
#: A PDF may have other bytes in front (PDF 1.7, appendix H.3.4.1, note 13).
_PDF_MARK, _PDF_WITHIN = b"%PDF-", 1024
_HTML_START = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html)\b",
    re.IGNORECASE | re.DOTALL,
)
_LOOKED_AT = 4096


def supported_suffixes() -> frozenset[str]:
    """Return the suffixes of the files that are read."""
    return _SUFFIXES


def format_of(file: SourceFile) -> Format:
    """Return how a file is read by its suffix, which must be a supported one."""
    return _BY_SUFFIX[file.suffix]


def sniffed(named: Format, data: bytes) -> Format:
    """Return how some bytes are read, by their name and what they look like.

    A PDF, a Word file and a page of HTML are known by their content, whatever their name is.

    Raises:
        BadInput: They are not what their name says, and nothing else that is read.
    """
    head = data[:_LOOKED_AT]
    for mark, what in _BINARIES:
        if head.startswith(mark):
            raise BadInput(f"is not {named.name} but {what}")
    if _PDF_MARK in head[:_PDF_WITHIN] and (named.packed or head.startswith(_PDF_MARK)):
        return _PDF
    if head.startswith(_ZIP):
        if _is_word(data, damaged=named == _WORD):
            return _WORD
        raise BadInput(f"is not {named.name} but an archive, unpack it first")
    if named.name != "HTML" and named.module in ("text", "pdf", "word") and _HTML_START.match(head):
        return _HTML
    if named.packed:
        raise BadInput(f"is not {named.name}, as its name says")
    return named


def _is_word(data: bytes, *, damaged: bool) -> bool:
    """Look into an archive; `damaged` is the answer when that cannot be done, and its loader says why."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return "word/document.xml" in archive.namelist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        return damaged

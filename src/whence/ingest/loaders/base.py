"""The interface of a document loader: which files it reads, and the function that parses them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any

import msgspec

from whence.ingest.blocks import ParsedDocument
from whence.ingest.load_results import LoadFailure
from whence.ingest.sources import SourceFile
from whence.schema.errors import BadInput


class Record(msgspec.Struct, frozen=True):
    """A record of a file of records whose id is known and whose text is not yet parsed."""

    file: SourceFile
    display_path: str
    document_id: str
    line: bytes
    """Its bytes, which need not be a line."""
    values: dict[str, Any]
    line_number: int
    """Line of the file, from 1; 0 for none."""


class Loader(msgspec.Struct, frozen=True, kw_only=True):
    """Reads files of one format.

    A file is one document, which `parse_file` returns; or, if `records` is given, a file of records, each of
    which is a document. `parse_record` parses a record; without it the bytes of a record are read as the file
    `Record.file`, by the loader of that. Documents inside a document, such as the attachments of a mail, are in
    `ParsedDocument.members`. All three functions raise `BadInput` for input that they cannot read, and import
    the libraries that they need when they are called. `parse_file` runs in a process with limits, see `reader`;
    the other two run in the process that indexes.
    """

    name: str
    suffixes: tuple[str, ...]
    """In lower case, with the dot; no other loader may have the same."""
    parse_file: Callable[[SourceFile, bytes], ParsedDocument] | None = None
    """Parses the bytes of a file; a document without text has no blocks."""
    records: Callable[[SourceFile, int], Iterator[Record | LoadFailure]] | None = None
    """Yields the records of a file, each of at most so many bytes, one at a time."""
    parse_record: Callable[[Record], ParsedDocument] | None = None
    is_binary: bool = False
    """Whether the files are not text, so that most of their bytes may be pictures."""
    is_plain: bool = False
    """Whether small files may be parsed in the process that stores them, not in one of their own with limits:
    time and memory grow at most with the square of the size."""
    detects_html: bool = False
    """Whether a file that begins like an HTML page is read as one."""
    version: str = ""
    """Changes when the loader reads the same bytes in another way; known files are then read again."""
    module: str = ""
    """Module without which nothing can be read; empty if the base installation has all."""
    extra: str = ""
    """Extra of Whence that brings the module."""
    program: str = ""
    """Command without which nothing can be read; empty if none is needed."""
    absent: str = ""
    """Why its files are skipped where the command is not installed: what they are, and what reads them."""
    reads_pictures: bool = False
    """Whether what it reads depends on OCR."""

    @property
    def is_installed(self) -> bool:
        """Whether the module of an extra, or the command, is installed; true without one."""
        if self.program and shutil.which(self.program) is None:
            return False
        return not self.module or _is_installed(self.module)

    @property
    def why_skipped(self) -> str:
        """Why its files are skipped where what it needs is not installed."""
        return self.absent or f"{self.name}, which pip install 'whence[{self.extra}]' reads"

    def parse(self, file: SourceFile, data: bytes) -> ParsedDocument:
        """Parse a file."""
        assert self.parse_file is not None
        try:
            return self.parse_file(file, data)
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0].replace("_", "-")
            raise BadInput(
                f"is {self.name}, which needs {package}: pip install {package}"
            ) from error


@cache
def _is_installed(module: str) -> bool:
    return find_spec(module) is not None

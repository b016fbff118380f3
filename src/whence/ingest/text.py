"""Plain text to blocks: paragraphs between blank lines, and front matter."""

from __future__ import annotations

from collections.abc import Iterator

from whence.ingest.assembly import file_document
from whence.ingest.blocks import ParsedDocument, prose_blocks
from whence.ingest.decoding import decode_text, read_bytes
from whence.ingest.front_matter import read_front_matter
from whence.ingest.sources import SourceFile

__all__ = ("load_text",)


def load_text(file: SourceFile, max_bytes: int) -> Iterator[ParsedDocument]:
    """Read one file of plain text.

    Raises:
        BadInput: The file is too large, no UTF-8, or its front matter is not understood.
        OSError: It cannot be read.
    """
    text = decode_text(read_bytes(file.path, max_bytes))
    front = read_front_matter(text)
    yield file_document(file, text, front, prose_blocks(text, front.end, len(text)))

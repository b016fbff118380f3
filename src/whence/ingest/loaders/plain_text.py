"""Plain text to blocks: paragraphs between blank lines, and front matter."""

from __future__ import annotations

from whence.ingest.blocks import ParsedDocument, prose_blocks
from whence.ingest.decoding import decode_text
from whence.ingest.document_builder import file_document
from whence.ingest.loaders.front_matter import read_front_matter
from whence.ingest.sources import SourceFile

__all__ = ("load_text",)


def load_text(file: SourceFile, data: bytes) -> ParsedDocument:
    """Read one file of plain text.

    Raises:
        BadInput: The bytes are no text, or the front matter is not understood.
    """
    text, encoding = decode_text(data)
    front = read_front_matter(text)
    blocks = prose_blocks(text, front.end, len(text))
    return file_document(file, text, front, blocks, encoding=encoding)

"""Load plain text: paragraphs between blank lines, and front matter."""

from __future__ import annotations

from whence.ingest.blocks import ParsedDocument, line_places, prose_blocks
from whence.ingest.decoding import decode_text
from whence.ingest.document_builder import build_document
from whence.ingest.front_matter import read_front_matter
from whence.ingest.loaders.base import Loader
from whence.ingest.sources import SourceFile


def load_text(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a file of plain text."""
    text, encoding = decode_text(data)
    front = read_front_matter(text)
    blocks = prose_blocks(text, front.end, len(text))
    return build_document(
        file, text, blocks, front=front, encoding=encoding, places=line_places(text, blocks)
    )


LOADERS = (
    Loader(name="text", suffixes=(".txt", ".text"), parse_file=load_text, detects_html=True),
)

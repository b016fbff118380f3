"""Load pictures: the text that OCR reads in them, where tesseract is installed."""

from __future__ import annotations

from itertools import groupby

from whence.ingest import ocr
from whence.ingest.blocks import ParsedDocument
from whence.ingest.document_builder import build_document
from whence.ingest.loaders.base import Loader
from whence.ingest.sources import SourceFile
from whence.ingest.text_builder import TextBuilder


def load_picture(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a picture; one without legible text has no blocks."""
    text = TextBuilder()
    words = ocr.read_words(data) if ocr.is_available() else []
    for _, some in groupby(words, key=lambda word: word.line[:2]):
        text.add_paragraph(_joined(list(some)))
    return build_document(file, text.text, text.blocks, places=text.places)


def _joined(words: list[ocr.Word]) -> str:
    """Return the words of a paragraph; what is divided at the end of a line is one word."""
    found = ""
    for before, word in zip([None, *words], words, strict=False):
        is_divided = (
            before is not None
            and before.line != word.line
            and found[-1:] == "-"
            and found[-2:-1].islower()
            and word.text[:1].islower()
        )
        found = found[:-1] + word.text if is_divided else f"{found} {word.text}".lstrip()
    return found


LOADERS = (
    Loader(
        name="picture",
        suffixes=(".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp"),
        parse_file=load_picture,
        is_binary=True,
        reads_pictures=True,
        program=ocr.PROGRAM,
        absent="a picture; OCR, which would read its text, is not installed (Debian: tesseract-ocr)",
    ),
)

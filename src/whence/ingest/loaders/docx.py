"""Word documents (DOCX) to text and blocks: headings by their styles, lists, tables row by row."""

from __future__ import annotations

import io
import re
import zipfile
from typing import Any

from whence.ingest.blocks import ParsedDocument
from whence.ingest.document_builder import file_document
from whence.ingest.loaders.front_matter import FrontMatter
from whence.ingest.loaders.html import write_html
from whence.ingest.sources import SourceFile
from whence.ingest.text_builder import ExtractedText
from whence.schema.errors import BadInput

__all__ = ("load_word",)

#: Bytes that the parts of a document that are read may have once unpacked; a zip can claim a thousand times
#: its own size.
_MOST_UNPACKED = 128 * 2**20
#: Styles of Word that are headings without being called so.
_STYLES = """
p[style-name='Title'] => h1:fresh
p.Title => h1:fresh
p[style-name='Subtitle'] => h2:fresh
p.Subtitle => h2:fresh
p[style-name='Heading 7'] => h6:fresh
p[style-name='Heading 8'] => h6:fresh
p[style-name='Heading 9'] => h6:fresh
"""
#: References back from a note to its place, which are no words of the text.
_BACK_LINK = re.compile(r"\s*<a href=\"#(?:foot|end)note-ref-\d+\">↑</a>")


def load_word(file: SourceFile, data: bytes) -> ParsedDocument:
    """Read one document. Its title is the first title or heading; pictures and comments are left out.

    Raises:
        BadInput: It is damaged, protected by a password, or unpacks to more than 128 MiB.
    """
    from selectolax.lexbor import LexborHTMLParser

    _check_archive(data)
    root = LexborHTMLParser(f"<body>{_html(data)}</body>").body
    text = ExtractedText()
    if root is not None:
        write_html(text, root)
    title = next((block.path[0] for block in text.blocks if block.kind == "heading"), "")
    return file_document(file, text.text, FrontMatter(), text.blocks, title=title)


def _html(data: bytes) -> str:
    import mammoth

    try:
        converted = mammoth.convert_to_html(
            io.BytesIO(data),
            style_map=_STYLES,
            convert_image=mammoth.images.img_element(_no_picture),
        )
    # The library reads files of any program without checking them first: what it stumbles over is a fault
    # of the file, whatever it is called.
    except Exception as error:
        raise BadInput(f"is no Word document that can be read: {_words(error)}") from error
    return _BACK_LINK.sub("", converted.value)


def _no_picture(_image: Any) -> dict[str, str]:
    return {}


def _check_archive(data: bytes) -> None:
    """Look at the directory of the archive before anything is unpacked."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parts = [
                part for part in archive.infolist() if part.filename.endswith((".xml", ".rels"))
            ]
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise BadInput(f"is no Word document that can be read: {_words(error)}") from error
    if any(part.flag_bits & 1 for part in parts):
        raise BadInput("is protected by a password")
    unpacked = sum(part.file_size for part in parts)
    if unpacked > _MOST_UNPACKED:
        raise BadInput(f"unpacks to {unpacked:,} bytes, the limit is {_MOST_UNPACKED:,}")


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__

"""Load Word documents (DOCX): headings by their styles, lists, tables row by row."""

from __future__ import annotations

import io
import re
import zipfile

from whence.ingest.blocks import ParsedDocument
from whence.ingest.document_builder import build_document, first_heading
from whence.ingest.html_writer import write_html
from whence.ingest.loaders.base import Loader
from whence.ingest.sources import SourceFile
from whence.ingest.text_builder import TextBuilder
from whence.schema.errors import BadInput, error_text

#: Largest unpacked size of the parts that are read, in bytes.
_MAX_UNPACKED_BYTES = 128 * 2**20
#: Styles of headings that mammoth does not map by itself.
_STYLES = """
p[style-name='Title'] => h1:fresh
p.Title => h1:fresh
p[style-name='Subtitle'] => h2:fresh
p.Subtitle => h2:fresh
p[style-name='Heading 7'] => h6:fresh
p[style-name='Heading 8'] => h6:fresh
p[style-name='Heading 9'] => h6:fresh
"""
_MAIN_PART = "word/document.xml"
#: Paragraphs without content are nothing in the result, and each takes the library as long as a sentence.
_EMPTY_PARAGRAPH = re.compile(rb"<w:p(?: [^<>]*)?(?:/>|></w:p>)")
#: Fewer are left to the library.
_MANY_EMPTY = 1000
#: Links from a note back to its reference.
_BACK_LINK = re.compile(r"(?<!\s)\s*+<a href=\"#(?:foot|end)note-ref-\d+\">↑</a>")


def load_word(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a document; its title is the first title or heading. Pictures and comments are ignored."""
    from selectolax.lexbor import LexborHTMLParser

    _check_archive(data)
    root = LexborHTMLParser(f"<body>{_html(data)}</body>").body
    text = TextBuilder()
    if root is not None:
        write_html(text, root)
    return build_document(
        file,
        text.text,
        text.blocks,
        title=first_heading(text.blocks),
        places=text.places,
        left_out=text.left_out,
    )


def _html(data: bytes) -> str:
    import mammoth

    try:
        converted = mammoth.convert_to_html(
            io.BytesIO(_without_empty_paragraphs(data)),
            style_map=_STYLES,
            convert_image=mammoth.images.img_element(lambda _image: {}),
        )
    # The library does not validate files: any exception means that the file is invalid.
    except Exception as error:
        raise BadInput(f"is not a readable Word document: {error_text(error)[:200]}") from error
    return _BACK_LINK.sub("", converted.value)


def _check_archive(data: bytes) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parts = [
                part for part in archive.infolist() if part.filename.endswith((".xml", ".rels"))
            ]
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise BadInput(f"is not a readable Word document: {error_text(error)[:200]}") from error
    if any(part.flag_bits & 1 for part in parts):
        raise BadInput("is protected by a password")
    unpacked = sum(part.file_size for part in parts)
    if unpacked > _MAX_UNPACKED_BYTES:
        raise BadInput(f"unpacks to {unpacked:,} bytes, the limit is {_MAX_UNPACKED_BYTES:,}")


def _without_empty_paragraphs(data: bytes) -> bytes:
    """Return the document without its empty paragraphs, if it has many."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if _MAIN_PART not in archive.namelist():
            return data
        main, count = _EMPTY_PARAGRAPH.subn(b"", archive.read(_MAIN_PART))
        if count < _MANY_EMPTY:
            return data
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as smaller:
            for name in dict.fromkeys(archive.namelist()):
                smaller.writestr(name, main if name == _MAIN_PART else archive.read(name))
    return out.getvalue()


LOADERS = (Loader(name="Word", suffixes=(".docx",), parse_file=load_word, is_binary=True),)

"""Load e-books (EPUB 2 and 3): chapters in reading order, notes with the section that refers to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence.ingest.blocks import ParsedDocument
from whence.ingest.document_builder import build_document
from whence.ingest.document_dates import iso_date
from whence.ingest.epub_archive import open_book
from whence.ingest.front_matter import FrontMatter
from whence.ingest.html_content import remove_tools
from whence.ingest.html_hidden import read_rules
from whence.ingest.html_nodes import has_ancestor, words_of
from whence.ingest.html_notes import Notes
from whence.ingest.html_writer import HtmlWriter, prepare
from whence.ingest.loaders.base import Loader
from whence.ingest.loaders.html import decode_html, parse_page
from whence.ingest.office.archive import DamagedPart, OfficeArchive
from whence.ingest.sources import SourceFile
from whence.ingest.text_builder import TextBuilder
from whence.schema.errors import BadInput

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

#: The top level, for the titles of chapters that have no heading of their own.
_CHAPTER_LEVEL = 1
_HEADINGS = "h1, h2, h3, h4, h5, h6"


def load_epub(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a book; anchors are `chapter.xhtml#id`, with the path in the book.

    Its title, authors and date are those of its package. The table of contents and the cover are left out.
    """
    archive, package = open_book(data)
    text = TextBuilder()
    pages: dict[str, LexborHTMLParser] = {}
    for path in package.chapters:
        page = _page(archive, path) if path not in package.contents else None
        if page is not None:
            pages[path] = page
        text.left_out["parts"] += page is None and path not in package.contents
    bodies = {path: page.body for path, page in pages.items() if page.body is not None}
    if not bodies:
        raise BadInput("has no part with text that can be read")
    notes = Notes()
    notes.collect(bodies)
    for path, body in bodies.items():
        rules = read_rules(pages[path])
        remove_tools(pages[path])
        text.left_out.update(prepare(body, rules))
        if not _has_own_text(body, notes):
            continue
        text.anchor = path
        stated = package.titles.get(path, "")
        if body.css_first(_HEADINGS) is None and stated:
            text.add_heading(_CHAPTER_LEVEL, stated)
        HtmlWriter(text, notes, path).write_page(body)
    values = {"title": package.title, "author": ", ".join(filter(None, package.authors))}
    return build_document(
        file,
        text.text,
        text.blocks,
        front=FrontMatter({name: value for name, value in values.items() if value}),
        places=text.places,
        date=iso_date(package.date),
        left_out=text.left_out,
    )


def _page(archive: OfficeArchive, path: str) -> LexborHTMLParser | None:
    """Return the tree of a chapter; none if it is damaged."""
    try:
        source = archive.read(path)
    except DamagedPart:
        return None
    try:
        return parse_page(decode_html(source)[0])
    except BadInput:
        return None


def _has_own_text(body: LexborNode, notes: Notes) -> bool:
    """Return whether a part has text beside its headings and the notes that stand with their sections."""
    moved = [
        *body.css(_HEADINGS),
        *(note.node for note in notes.found if has_ancestor(note.node, {body.mem_id})),
    ]
    own = len(words_of(body).replace(" ", ""))
    is_notes = notes.around & {body.mem_id}
    return (
        own > sum(len(words_of(node).replace(" ", "")) for node in moved) if is_notes else own > 0
    )


LOADERS = (
    Loader(name="EPUB", suffixes=(".epub",), parse_file=load_epub, is_binary=True, version="4"),
)

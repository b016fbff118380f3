"""Load HTML: the main content, without scripts, navigation and other boilerplate."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from whence.ingest.blocks import ParsedDocument
from whence.ingest.decoding import DecodedText, decode_text
from whence.ingest.document_builder import build_document, lone_heading
from whence.ingest.front_matter import FrontMatter
from whence.ingest.html_content import main_content, remove_tools
from whence.ingest.html_hidden import read_rules
from whence.ingest.html_limits import refuse_costly, refuse_deep
from whence.ingest.html_metadata import canonical_url, page_date, page_title
from whence.ingest.html_notes import Notes
from whence.ingest.html_writer import HtmlWriter, prepare, write_html
from whence.ingest.loaders.base import Loader
from whence.ingest.sources import SourceFile
from whence.ingest.text_builder import TextBuilder
from whence.schema.errors import BadInput

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

_META_CHARSET = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*+=\s*+["']?\s*+([\w.:-]{1,40})""", re.IGNORECASE
)
_CHARSET_WITHIN = 4096
#: An empty element as XHTML writes it, which HTML reads as one that is open.
_EMPTY_ELEMENT = re.compile(
    r"""<(?!(?:area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr)\b)([a-zA-Z][\w:-]*+)"""
    r"""((?:\s++[^\s"'<>/=]++(?:\s*+=\s*+(?:"[^"<]*+"|'[^'<]*+'))?)*+)\s*+/>"""
)


def load_html(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a page; its title is `<title>`, else the only top heading, and its URL a canonical link."""
    return load_page(file, decode_html(data, file.encoding))


def load_page(
    file: SourceFile, decoded: DecodedText, *, url: str = "", title: str = ""
) -> ParsedDocument:
    """Return the document of a page.

    Args:
        file: The file.
        decoded: The page as text.
        url: Its address, unless it states one.
        title: Its title, unless it states one.
    """
    page = parse_page(decoded.text)
    values = {"title": page_title(page) or title, "source_url": canonical_url(page) or url}
    date = page_date(page)
    text = TextBuilder()
    write_page(text, page)
    front = FrontMatter({name: value for name, value in values.items() if value})
    return build_document(
        file,
        text.text,
        text.blocks,
        front=front,
        title=lone_heading(text.blocks),
        encoding=decoded.encoding,
        places=text.places,
        date=date,
        left_out=decoded.left_out | text.left_out,
    )


def parse_page(source: str) -> LexborHTMLParser:
    """Return the tree of a page, in HTML or XHTML.

    Raises:
        BadInput: It would take too long to parse, or is nested too deeply.
    """
    from selectolax.lexbor import LexborHTMLParser

    if "/>" in source:
        source = _EMPTY_ELEMENT.sub(r"<\1\2></\1>", source)
    refuse_costly(source)
    # Characters that the marks of notes are written with.
    page = LexborHTMLParser(source.replace("\x0e", "").replace("\x0f", ""))
    refuse_deep(page)
    return page


def write_page(text: TextBuilder, page: LexborHTMLParser) -> None:
    """Write the main content of a page."""
    if page.root is None:
        raise BadInput("contains no HTML")
    notes = Notes()
    notes.collect({"": page.root})
    rules = read_rules(page)
    root = main_content(page, notes.around)
    text.left_out.update(prepare(root, rules))
    HtmlWriter(text, notes).write_page(root)


def write_fragment(text: TextBuilder, source: str) -> None:
    """Write HTML that stands inside another format."""
    page = parse_page(source)
    remove_tools(page)
    if page.body is not None:
        write_html(text, page.body)


def decode_html(data: bytes, encoding: str = "") -> DecodedText:
    """Return the text; a byte order mark and UTF-8 take precedence over what the page declares.

    `encoding` is that of pages which declare none; empty to detect it.
    """
    found = _META_CHARSET.search(data, 0, _CHARSET_WITHIN)
    return decode_text(data, encoding, declared=found[1].decode() if found else "")


LOADERS = (
    Loader(name="HTML", suffixes=(".html", ".htm", ".xhtml"), parse_file=load_html, version="12"),
)

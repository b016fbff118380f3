"""Load RTF: headings, lists, tables and notes, with deleted and hidden passages and pictures left out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from whence.ingest.blocks import ParsedDocument
from whence.ingest.document_builder import build_document, first_heading
from whence.ingest.line_breaks import add_run
from whence.ingest.loaders.base import Loader
from whence.ingest.office.archive import telling_title
from whence.ingest.office.lists import Item, nothing, write_items
from whence.ingest.office.rtf_flow import RtfFlow, RtfParagraph, RtfRow
from whence.ingest.office.rtf_reader import RtfReader
from whence.ingest.office.runs import BOLD_LEVEL, is_title, without_marks
from whence.ingest.office.tables import grid, header_rows
from whence.ingest.sources import SourceFile
from whence.ingest.text_builder import BREAK, TextBuilder


def load_rtf(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a document; its title is that of its properties, else the first heading."""
    reader = RtfReader(data)
    reader.read()
    text = TextBuilder()
    _write(text, reader.flow, is_inside=False)
    return build_document(
        file,
        text.text,
        text.blocks,
        title=telling_title(reader.title) or first_heading(text.blocks),
        places=text.places,
        date=reader.date,
        left_out=reader.counts,
    )


def _write(text: TextBuilder, flow: RtfFlow, *, is_inside: bool) -> None:
    """Write a text; headings inside notes and boxes are paragraphs."""
    items: list[Item] = []
    rows: list[RtfRow] = []
    for block in (*flow.blocks, None):
        if not isinstance(block, RtfRow) and rows:
            _write_table(text, rows)
            rows = []
        is_item = isinstance(block, RtfParagraph) and block.mark and not block.heading
        if items and not is_item:
            write_items(text, items)
            items = []
        if isinstance(block, RtfRow):
            rows.append(block)
        elif block is not None and is_item:
            below = partial(_write_beside, text, block.beside) if block.beside else nothing
            items.append(Item(block.level, block.mark, block.text, below))
        elif block is not None:
            _write_paragraph(text, block, is_inside=is_inside)


def _write_paragraph(text: TextBuilder, paragraph: RtfParagraph, *, is_inside: bool) -> None:
    level = paragraph.heading
    if not level and is_title(paragraph.text, is_bold=paragraph.is_bold):
        level = BOLD_LEVEL
    if level and not is_inside and paragraph.text.strip():
        marks = (flow.mark for flow in paragraph.beside)
        words = without_marks(paragraph.text.replace(BREAK, " "), marks)
        text.add_heading(level, f"{paragraph.mark} {words}".removeprefix("- "))
    else:
        add_run(text, paragraph.text)
    _write_beside(text, paragraph.beside)


def _write_beside(text: TextBuilder, flows: Sequence[RtfFlow]) -> None:
    for flow in flows:
        if flow.mark:
            text.lead_in(f"[{flow.mark}]")
        _write(text, flow, is_inside=True)
        text.end_lead_in()


def _write_table(text: TextBuilder, rows: Sequence[RtfRow]) -> None:
    cells = [row.cells for row in rows]
    texts = grid(cells)
    stated = next((at for at, row in enumerate(rows) if not row.is_header), len(rows))
    text.add_table(texts, header_rows=header_rows(cells, texts, stated))
    for row in rows:
        _write_beside(text, row.beside)


LOADERS = (
    Loader(name="RTF", suffixes=(".rtf",), parse_file=load_rtf, is_binary=True, version="3"),
)

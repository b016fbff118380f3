"""Load Word documents (DOCX): what Word shows, with the numbers of headings and lists, notes and tables.

Left out and counted: deleted and hidden passages, tables of contents, comments, pictures without a description.
Headers and footers are running titles; they are read when the body has no text. A note stands below the
paragraph, list item or table that refers to it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from xml.etree.ElementTree import Element

from whence.ingest.blocks import ParsedDocument
from whence.ingest.decoding import decode_text
from whence.ingest.document_builder import first_heading
from whence.ingest.line_breaks import add_run
from whence.ingest.loaders.base import Loader
from whence.ingest.loaders.html import write_fragment
from whence.ingest.office.archive import OfficeArchive, Relation
from whence.ingest.office.document import nesting_refused, office_document
from whence.ingest.office.drawings import write_chart, write_diagram
from whence.ingest.office.lists import Item, PendingBlocks, nothing
from whence.ingest.office.runs import BOLD_LEVEL, HIDDEN, STRUCK, is_title, without_marks
from whence.ingest.office.tables import Cell, cell_text, grid, header_rows
from whence.ingest.office.word_numbering import Label, WordNumbering
from whence.ingest.office.word_styles import VAL, Styles, W, is_on, whole_number
from whence.ingest.office.word_text import Beside, Paragraph, ParagraphReader, body_elements
from whence.ingest.sources import SourceFile
from whence.ingest.text_builder import BREAK, TextBuilder
from whence.schema.errors import BadInput

_TITLES = {"title": 1, "subtitle": 2}
_CONTENTS = re.compile(r"toc (?:[1-9]|heading)")
_HEADING_STYLES = {f"heading {level}": level for level in range(1, 10)}
#: Notes that hold the lines between text and notes.
_SEPARATORS = frozenset(("separator", "continuationSeparator", "continuationNotice"))


def load_word(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a document; its title is its first one, else that of its properties, else the first heading."""
    archive = OfficeArchive(data, "Word document")
    with nesting_refused():
        reader = _WordReader(archive)
        reader.read()
    title, date = archive.properties()
    title = reader.title or title or first_heading(reader.text.blocks)
    return office_document(file, archive, reader.text, reader.counts, title=title, date=date)


class _WordReader:
    """Writes the body of a document."""

    def __init__(self, archive: OfficeArchive) -> None:
        self.text = TextBuilder()
        self.counts: Counter[str] = Counter()
        self.title = ""
        self._archive = archive
        self._main = archive.main_part()
        self._relations = archive.relations(self._main)
        self._part_relations = self._relations
        styles = Styles(self._related("styles"))
        numbering = WordNumbering(self._related("numbering"), styles)
        self._paragraphs = ParagraphReader(styles, numbering, self.counts)
        self._notes: dict[str, dict[str, Element]] = {}
        self._joined: list[Paragraph] = []
        """Paragraphs that the next one continues."""
        self._in_box = False

    def read(self) -> None:
        """Write the document."""
        body = self._archive.xml(self._main).find(f"{W}body")
        if body is None:
            raise BadInput("is not a readable Word document: it has no body")
        self._write(list(body_elements(body)))
        comments = self._related("comments")
        self.counts["comments"] += len(list(comments)) if comments is not None else 0
        if not self.text.blocks:
            self._write_running_titles()

    def _named(self, kind: str) -> Iterator[Relation]:
        return (each for each in self._relations.values() if each.kind == kind)

    def _related(self, kind: str) -> Element | None:
        for relation in self._named(kind):
            return self._archive.optional_xml(relation.target)
        return None

    def _write_running_titles(self) -> None:
        for relation in (*self._named("header"), *self._named("footer")):
            root = self._archive.optional_xml(relation.target)
            if root is not None:
                self._write(list(body_elements(root)))

    def _write(self, elements: Sequence[Element]) -> None:
        """Write paragraphs and tables; those of a list one after another are one block."""
        pending = PendingBlocks(self.text)
        caption = ""
        at = 0
        while at < len(elements):
            element = elements[at]
            at += 1
            if element.tag == f"{W}p":
                if len(element):
                    caption = self._write_element(element, elements, at, pending)
                continue
            self._end_joined(pending)
            pending.end()
            if element.tag == f"{W}tbl":
                if not caption and self._is_caption_below(elements, at):
                    below = self._read(elements[at])
                    caption = below.text if below is not None else ""
                    at += 1
                self._write_table(element, caption)
                caption = ""
            elif element.tag == f"{W}altChunk":
                self._write_chunk(element)
            else:
                self.counts["tables of contents"] += 1
        self._end_joined(pending)
        pending.end()

    def _write_element(
        self, element: Element, elements: Sequence[Element], at: int, pending: PendingBlocks
    ) -> str:
        """Write a paragraph; return the caption of the table that follows, if it is one."""
        paragraph = self._read(element)
        if paragraph is None:
            return ""
        words = paragraph.text
        if paragraph.style.is_code and paragraph.label is None:
            pending.add_code(words)
            return ""
        if not (words.strip() or paragraph.beside):
            return ""
        if paragraph.label is not None and self._is_list_item(paragraph, elements, at, pending):
            pending.add_item(self._item(paragraph, paragraph.label))
            return ""
        pending.end()
        if _is_caption(paragraph) and _tag(elements, at) == f"{W}tbl":
            self._write_beside(paragraph.beside)
            return words
        self._write_paragraph(paragraph)
        return ""

    def _end_joined(self, pending: PendingBlocks) -> None:
        """Write paragraphs that another would continue, if none follows."""
        before, self._joined = self._joined, []
        for paragraph in before:
            pending.end()
            self._write_paragraph(paragraph)

    def _is_caption_below(self, elements: Sequence[Element], at: int) -> bool:
        return (
            _tag(elements, at) == f"{W}p"
            and self._paragraphs.style_of(elements[at]).name.startswith("caption")
            and _tag(elements, at + 1) != f"{W}tbl"
        )

    def _read(self, element: Element) -> Paragraph | None:
        """Read a paragraph; None if it is part of the next one or of a table of contents."""
        paragraph = self._paragraphs.read(element)
        if paragraph.joins_next:
            self._joined.append(paragraph)
            return None
        if self._joined:
            before, self._joined = self._joined, []
            paragraph = paragraph._replace(
                text="".join([*(each.text for each in before), paragraph.text]),
                beside=tuple(b for each in (*before, paragraph) for b in each.beside),
            )
        if _CONTENTS.fullmatch(paragraph.style.name):
            self.counts["tables of contents"] = max(1, self.counts["tables of contents"])
            return None
        return paragraph

    @staticmethod
    def _is_list_item(
        paragraph: Paragraph, elements: Sequence[Element], at: int, pending: PendingBlocks
    ) -> bool:
        """Return whether a paragraph belongs to a list; a short bold one alone is a heading with a number."""
        if paragraph.label is None or _heading_level(paragraph):
            return False
        is_bold = is_title(paragraph.text, is_bold=paragraph.is_bold)
        if not paragraph.label.text or not is_bold or pending.has_items:
            return True
        return _is_numbered_like(elements, at, elements[at - 1])

    def _write_paragraph(self, paragraph: Paragraph) -> None:
        words = paragraph.text
        if paragraph.label is not None and paragraph.label.text and words.strip():
            words = f"{paragraph.label.text} {words}"
        level = 0 if self._in_box else _heading_level(paragraph)
        if not level and is_title(paragraph.text, is_bold=paragraph.is_bold) and not self._in_box:
            level = BOLD_LEVEL + (paragraph.label.level if paragraph.label else 0)
        if level and words.strip():
            words = without_marks(words.replace(BREAK, " "), self._marks(paragraph))
            self.text.add_heading(level, words)
            if paragraph.style.name == "title" and not self.title:
                self.title = " ".join(words.split())
        else:
            add_run(self.text, words)
        self._write_beside(paragraph.beside)

    def _marks(self, paragraph: Paragraph) -> list[str]:
        notes = ((each.kind, each.words) for each in paragraph.beside)
        return [self._paragraphs.note_marks.get(key, "") for key in notes]

    def _item(self, paragraph: Paragraph, label: Label) -> Item:
        below = partial(self._write_beside, paragraph.beside) if paragraph.beside else nothing
        return Item(label.level, label.text or "-", paragraph.text, below)

    def _write_beside(self, beside: Sequence[Beside]) -> None:
        for each in beside:
            if each.kind == "picture":
                self.text.add_paragraph(f"Picture: {each.words}")
            elif each.kind == "box" and each.node is not None:
                self._write_box(each.node)
            elif each.kind in ("footnote", "endnote"):
                self._write_note(each)
            elif each.kind == "part":
                self._relation(each.words)
            else:
                self._write_drawing(each)

    def _write_box(self, node: Element) -> None:
        outer, self._in_box = self._in_box, True
        shaded, self._paragraphs.is_shaded = self._paragraphs.is_shaded, True
        self._write(list(body_elements(node)))
        self._in_box, self._paragraphs.is_shaded = outer, shaded

    def _write_note(self, beside: Beside) -> None:
        node = self._notes_of(beside.kind).get(beside.words)
        mark = self._paragraphs.note_marks[beside.kind, beside.words]
        if node is None:
            self._archive.damaged.add(f"{beside.kind} {beside.words}")
            return
        self.text.lead_in(f"[{mark}]")
        outer, self._in_box = self._in_box, True
        relations = self._part_relations
        self._part_relations = self._relations_of(f"{beside.kind}s")
        self._write(list(body_elements(node)))
        self.text.end_lead_in()
        self._in_box, self._part_relations = outer, relations

    def _relations_of(self, kind: str) -> dict[str, Relation]:
        named = next(self._named(kind), None)
        return self._archive.relations(named.target) if named is not None else {}

    def _notes_of(self, kind: str) -> dict[str, Element]:
        if kind not in self._notes:
            root = self._related(f"{kind}s")
            self._notes[kind] = {
                each.get(f"{W}id", ""): each
                for each in (root if root is not None else ())
                if each.get(f"{W}type") not in _SEPARATORS
            }
        return self._notes[kind]

    def _relation(self, relation_id: str) -> Relation | None:
        """Return the part that an id stands for; an absent one is counted."""
        relation = self._part_relations.get(relation_id)
        if relation is None or not (relation.is_external or relation.target in self._archive):
            self._archive.damaged.add(relation_id)
            return None
        return relation

    def _write_drawing(self, beside: Beside) -> None:
        relation = self._relation(beside.words)
        root = self._archive.optional_xml(relation.target) if relation is not None else None
        if root is None:
            return
        if beside.kind == "diagram":
            write_diagram(self.text, root)
            return
        self.counts["charts"] += not write_chart(self.text, root)

    def _write_chunk(self, element: Element) -> None:
        """Write a text of another format that the document embeds, if it is HTML."""
        relation = self._relation(next(iter(element.attrib.values()), ""))
        if relation is None:
            return
        if not relation.target.lower().endswith((".htm", ".html", ".xhtml")):
            self.counts["objects"] += 1
            return
        with suppress(BadInput):
            write_fragment(self.text, decode_text(self._archive.read(relation.target)).text)

    def _write_table(self, table: Element, caption: str) -> None:
        rows = list(_rows(table))
        if _is_layout(rows):
            self.text.add_paragraph(caption)
            for row in rows:
                for cell in _cells(row):
                    self._write(list(body_elements(cell)))
            return
        beside: list[Beside] = []
        cells, stated = self._table_cells(table, rows, beside)
        texts = grid(cells)
        if texts:
            heads = header_rows(cells, texts, stated)
            self.text.add_table(texts, header_rows=heads, caption=caption)
        self._write_beside(beside)

    def _table_cells(
        self, table: Element, rows: Sequence[Element], beside: list[Beside]
    ) -> tuple[list[list[Cell]], int]:
        """Return the cells of the rows that are not deleted, and how many rows the table states as header."""
        named = table.find(f"{W}tblPr/{W}tblStyle")
        style = self._paragraphs.styles.style(named.get(VAL, "") if named is not None else "-")
        shaded = self._paragraphs.is_shaded
        self._paragraphs.is_shaded = shaded or style.is_shaded or _has_shade(table)
        above: dict[int, Cell] = {}
        found: list[list[Cell]] = []
        stated = 0
        for row in rows:
            look = row.find(f"{W}trPr")
            if look is not None and look.find(f"{W}del") is not None:
                self.counts[STRUCK] += 1
                continue
            if look is not None and is_on(look.find(f"{W}hidden")):
                self.counts[HIDDEN] += 1
                continue
            is_header = look is not None and is_on(look.find(f"{W}tblHeader"))
            # A merged cell of the header that goes on makes the row one of the header.
            goes_on = stated > 0 and any(map(_is_merged_above, _cells(row)))
            if (is_header or goes_on) and stated == len(found):
                stated += 1
            is_styled = not found and style.heads_rows and _marks_first_row(table)
            found.append(self._row_cells(row, above, beside, is_styled=is_styled))
        self._paragraphs.is_shaded = shaded
        return found, stated

    def _row_cells(
        self, row: Element, above: dict[int, Cell], beside: list[Beside], *, is_styled: bool
    ) -> list[Cell]:
        before = row.find(f"{W}trPr/{W}gridBefore")
        skipped = whole_number(before.get(VAL)) if before is not None else 0
        cells = [Cell("")] * min(skipped or 0, 63)
        column = len(cells)
        for node in _cells(row):
            look = node.find(f"{W}tcPr")
            span = look.find(f"{W}gridSpan") if look is not None else None
            across = min(max((whole_number(span.get(VAL)) if span is not None else 1) or 1, 1), 63)
            merge = look.find(f"{W}vMerge") if look is not None else None
            if merge is not None and merge.get(VAL, "continue") != "restart" and column in above:
                cell = above[column]
            else:
                words, is_bold = self._cell_words(node, beside)
                shade = look.find(f"{W}shd") if look is not None else None
                is_filled = shade is not None and _fill(shade)
                cell = Cell(words, across, is_header=is_styled or is_bold or is_filled)
            above.pop(column, None)
            if merge is not None:
                above[column] = cell
            cells.append(cell)
            column += across
        return cells

    def _cell_words(self, node: Element, beside: list[Beside]) -> tuple[str, bool]:
        """Return the text of a cell, with that of tables inside it, and whether all of it is bold."""
        parts: list[str] = []
        is_bold = True
        for element in body_elements(node):
            if element.tag == f"{W}tbl":
                inner, _ = self._table_cells(element, list(_rows(element)), beside)
                parts += (", ".join(filter(None, row)) for row in grid(inner))
            elif element.tag == f"{W}p":
                paragraph = self._read(element)
                if paragraph is None or not paragraph.text.strip():
                    beside += paragraph.beside if paragraph is not None else ()
                    continue
                label = paragraph.label.text if paragraph.label is not None else ""
                parts.append(f"{label} {paragraph.text.replace(BREAK, ' ')}")
                is_bold &= paragraph.is_bold
                beside += paragraph.beside
        parts += (each.text for each in self._joined)
        self._joined = []
        words = cell_text(parts)
        return words, is_bold and bool(words)


def _tag(elements: Sequence[Element], at: int) -> str:
    return elements[at].tag if at < len(elements) else ""


def _is_caption(paragraph: Paragraph) -> bool:
    return paragraph.style.name.startswith("caption")


def _heading_level(paragraph: Paragraph) -> int:
    """Return the level of a heading by its style or its outline, from 1; 0 if it is none."""
    name = paragraph.style.name
    if name in _TITLES:
        return _TITLES[name]
    if paragraph.outline is not None:
        return paragraph.outline + 1 if paragraph.outline < 9 else 0
    return _HEADING_STYLES.get(name, 0)


def _is_numbered_like(elements: Sequence[Element], at: int, other: Element) -> bool:
    """Return whether the next paragraph has the style and numbering of another one, as items of a list do."""
    if _tag(elements, at) != f"{W}p":
        return False
    looks = [each.find(f"{W}pPr") for each in (elements[at], other)]
    return _numbering_key(looks[0]) == _numbering_key(looks[1])


def _numbering_key(look: Element | None) -> list[tuple[str, str]]:
    names = ("pStyle", "numPr/" + f"{W}numId", "numPr/" + f"{W}ilvl")
    found = (look.find(f"{W}{name}") if look is not None else None for name in names)
    return [(each.tag, each.get(VAL, "")) for each in found if each is not None]


def _is_merged_above(cell: Element) -> bool:
    merge = cell.find(f"{W}tcPr/{W}vMerge")
    return merge is not None and merge.get(VAL, "continue") != "restart"


def _rows(table: Element) -> Iterator[Element]:
    """Yield the rows of a table, also those in content controls."""
    return _inside(table, f"{W}tr")


def _cells(row: Element) -> Iterator[Element]:
    return _inside(row, f"{W}tc")


def _inside(node: Element, tag: str) -> Iterator[Element]:
    for child in node:
        if child.tag == tag:
            yield child
        elif child.tag in (f"{W}sdt", f"{W}sdtContent", f"{W}customXml", f"{W}ins"):
            yield from _inside(child, tag)


def _is_layout(rows: Sequence[Element]) -> bool:
    """Return whether a table only places texts: it has one column, or one row with tables of its own."""
    counts = [len(list(_cells(row))) for row in rows]
    if max(counts, default=0) <= 1:
        return True
    return len(rows) == 1 and next(rows[0].iter(f"{W}tbl"), None) is not None


def _fill(shade: Element) -> bool:
    return shade.get(f"{W}fill", "auto").lower() not in ("auto", "ffffff")


def _has_shade(table: Element) -> bool:
    return any(map(_fill, table.iter(f"{W}shd")))


def _marks_first_row(table: Element) -> bool:
    """Return whether a table says that its style applies to its first row."""
    look = table.find(f"{W}tblPr/{W}tblLook")
    if look is None:
        return False
    try:
        return look.get(f"{W}firstRow") in ("1", "true", "on") or bool(
            int(look.get(VAL, "0"), 16) & 0x20
        )
    except ValueError:
        return False


LOADERS = (
    Loader(
        name="Word",
        suffixes=(".docx", ".docm", ".dotx", ".dotm"),
        parse_file=load_word,
        is_binary=True,
        version="4",
    ),
)

"""Load presentations of PowerPoint (PPTX): slide by slide, its title as heading, its notes below.

The order on a slide is the title, the other placeholders, then what stands above what. Left out and counted:
hidden slides, deleted text, comments, pictures without a description.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element

from whence.ingest.blocks import ParsedDocument
from whence.ingest.line_breaks import add_run
from whence.ingest.loaders.base import Loader
from whence.ingest.office.archive import OfficeArchive, Relation
from whence.ingest.office.document import nesting_refused, office_document
from whence.ingest.office.drawings import (
    CHART,
    DIAGRAM,
    DRAWING,
    RELATION_ID,
    description,
    is_decorative,
    without_branches,
    write_chart,
    write_diagram,
)
from whence.ingest.office.equations import linear
from whence.ingest.office.lists import Item, write_items
from whence.ingest.office.numbering import format_number
from whence.ingest.office.runs import HIDDEN, STRUCK, RunText
from whence.ingest.office.tables import Cell, cell_text, grid, header_rows
from whence.ingest.office.word_styles import whole_number
from whence.ingest.sources import SourceFile
from whence.ingest.text_builder import BREAK, TextBuilder

_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_A = DRAWING
_MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}oMath"
_TITLES = frozenset(("title", "ctrTitle"))
#: Placeholders that repeat the same on all slides.
_RUNNING = frozenset(("ftr", "dt", "sldNum", "hdr"))
#: Placeholders whose paragraphs have bullets unless they say otherwise.
_BULLETED = frozenset(("body", "obj", ""))
#: Shapes whose upper edges differ less stand in one line, in units of 1/914400 inch.
_LINE = 228_600
_AUTOMATIC = {
    "arabic": "decimal",
    "alphaLc": "lowerLetter",
    "alphaUc": "upperLetter",
    "romanLc": "lowerRoman",
    "romanUc": "upperRoman",
    "circleNum": "decimalEnclosedCircle",
}


def load_presentation(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a presentation; its title is that of its title slide, else of its properties, else of a slide."""
    archive = OfficeArchive(data, "PowerPoint presentation")
    with nesting_refused():
        reader = _SlideReader(archive)
        reader.read()
    title, date = archive.properties()
    title = reader.title or title or reader.first_title
    return office_document(file, archive, reader.text, reader.counts, title=title, date=date)


class _Shape(NamedTuple):
    """A shape and where it stands."""

    node: Element
    placeholder: str | None
    """Type of its placeholder, empty for the usual one; None for none."""
    at: tuple[int, int]
    """Line and distance from the left edge."""

    @property
    def order(self) -> tuple[int, int, int]:
        if self.placeholder is not None:
            return (0 if self.placeholder in _TITLES else 1, 0, 0)
        return (2, *self.at)


class _SlideReader:
    """Writes the slides of a presentation."""

    def __init__(self, archive: OfficeArchive) -> None:
        self.text = TextBuilder()
        self.counts: Counter[str] = Counter()
        self.title = ""
        """Title of the title slide."""
        self.first_title = ""
        """Title of the first slide that has one."""
        self._archive = archive
        self._main = archive.main_part()
        self._relations: dict[str, Relation] = {}

    def read(self) -> None:
        """Write all slides that are shown."""
        root, relations = self._archive.xml(self._main), self._archive.relations(self._main)
        for number, entry in enumerate(root.iterfind(f"{_P}sldIdLst/{_P}sldId"), 1):
            relation = relations.get(entry.get(f"{RELATION_ID}id", ""))
            slide = self._archive.optional_xml(relation.target) if relation is not None else None
            if relation is None:
                self._archive.damaged.add(f"slide {number}")
            if relation is None or slide is None:
                continue
            if slide.get("show") in ("0", "false"):
                self.counts["hidden slides"] += 1
                continue
            self._relations = self._archive.relations(relation.target)
            self.text.slide = self.text.page = number
            self._write_slide(slide, number)

    def _write_slide(self, slide: Element, number: int) -> None:
        tree = slide.find(f"{_P}cSld/{_P}spTree")
        shapes = list(_shapes(tree)) if tree is not None else []
        title = next((each for each in shapes if each.placeholder in _TITLES), None)
        words = " ".join(self._words(title.node).split()) if title is not None else ""
        if title is not None and words and number == 1 and title.placeholder == "ctrTitle":
            self.title = words
        self.first_title = self.first_title or words
        # Without a heading its text would stand under that of the slide before.
        heading = words or f"Slide {number}"
        rest = [each for each in shapes if each is not title]
        notes = self._notes()
        if words or notes is not None or any(map(self._has_content, rest)):
            self.text.add_heading(1, heading)
        self._write_shapes(rest)
        if notes is not None:
            self.text.lead_in("Notes")
            self._write_body(notes, is_bulleted=False)
            self.text.end_lead_in()
        self._count_comments()

    @staticmethod
    def _has_content(shape: _Shape) -> bool:
        return any(
            each.tag in (f"{CHART}chart", f"{DIAGRAM}relIds")
            or (each.tag == f"{_A}t" and each.text)
            for each in shape.node.iter()
        )

    def _count_comments(self) -> None:
        for relation in self._relations.values():
            if relation.kind == "comments":
                root = self._archive.optional_xml(relation.target)
                self.counts["comments"] += len(list(root)) if root is not None else 0

    def _write_shapes(self, shapes: Sequence[_Shape]) -> None:
        for shape in sorted(shapes, key=lambda each: each.order):
            node = shape.node
            if shape.placeholder in _RUNNING:
                continue
            if _is_hidden(node):
                self.counts[HIDDEN] += bool(self._words(node).strip())
            elif node.tag == f"{_P}grpSp":
                self._write_shapes(list(_shapes(node)))
            elif node.tag == f"{_P}pic":
                self._write_picture(node)
            elif node.tag == f"{_P}graphicFrame":
                self._write_frame(node)
            else:
                body = node.find(f"{_P}txBody")
                if body is not None:
                    self._write_body(body, is_bulleted=shape.placeholder in _BULLETED)

    def _words(self, node: Element) -> str:
        """Return the text of a shape as one line."""
        paragraphs = (self._paragraph(each) for each in node.iter(f"{_A}p"))
        return " ".join(each.replace(BREAK, " ") for each in paragraphs)

    def _write_body(self, body: Element, *, is_bulleted: bool) -> None:
        paragraphs = [(each, self._paragraph(each)) for each in body.iterfind(f"{_A}p")]
        shown = [each for each in paragraphs if each[1].strip()]
        is_list = is_bulleted and len(shown) > 1
        items: list[Item] = []
        counts: dict[int, int] = {}
        for node, words in shown:
            look = node.find(f"{_A}pPr")
            level = (whole_number(look.get("lvl", "0")) if look is not None else 0) or 0
            mark = _mark(look, level, counts, is_list=is_list)
            if mark:
                items.append(Item(level, mark, words))
                continue
            write_items(self.text, items)
            items = []
            add_run(self.text, words)
        write_items(self.text, items)

    def _paragraph(self, node: Element) -> str:
        runs = RunText(self.counts)
        self._read_runs(node, runs)
        return runs.text

    def _read_runs(self, node: Element, runs: RunText) -> None:
        for child in without_branches(node):
            if child.tag == f"{_A}r" or (
                child.tag == f"{_A}fld" and child.get("type") != "slidenum"
            ):
                look, words = child.find(f"{_A}rPr"), child.find(f"{_A}t")
                self._read_run(look, (words.text or "") if words is not None else "", runs)
            elif child.tag == f"{_A}br":
                runs.add(BREAK)
            elif child.tag == _MATH:
                runs.add(f" {linear(child).strip()} ")
            elif child.tag not in (f"{_A}pPr", f"{_A}endParaRPr"):
                self._read_runs(child, runs)

    @staticmethod
    def _read_run(look: Element | None, words: str, runs: RunText) -> None:
        if look is not None and look.get("strike", "noStrike") != "noStrike":
            runs.omit(words, STRUCK)
            return
        baseline = (look.get("baseline") or "0") if look is not None else "0"
        is_raised = not baseline.startswith("-") and baseline.strip("0%") != ""
        runs.add(words.replace("\v", BREAK), is_raised=is_raised)

    def _write_picture(self, node: Element) -> None:
        named = node.find(f"{_P}nvPicPr/{_P}cNvPr")
        words = description(named) if named is not None else ""
        if words:
            self.text.add_paragraph(f"Picture: {words}")
        elif named is None or not is_decorative(named):
            self.counts["pictures"] += 1

    def _write_frame(self, node: Element) -> None:
        for child in node.iter():
            if child.tag == f"{_A}tbl":
                self._write_table(child)
                return
            if child.tag == f"{CHART}chart":
                self._write_chart(self._related(child.get(f"{RELATION_ID}id", "")))
                return
            if child.tag == f"{DIAGRAM}relIds":
                diagram = self._related(child.get(f"{RELATION_ID}dm", ""))
                if diagram is not None:
                    write_diagram(self.text, diagram)
                return
            if child.tag == f"{_P}oleObj":
                self.counts["objects"] += 1
                return

    def _related(self, relation_id: str) -> Element | None:
        relation = self._relations.get(relation_id)
        if relation is None:
            self._archive.damaged.add(relation_id)
            return None
        return self._archive.optional_xml(relation.target)

    def _write_chart(self, root: Element | None) -> None:
        if root is None:
            return
        self.counts["charts"] += not write_chart(self.text, root)

    def _write_table(self, table: Element) -> None:
        rows = [
            [self._cell(each) for each in row.iterfind(f"{_A}tc") if not _is_merged(each)]
            for row in table.iterfind(f"{_A}tr")
        ]
        look = table.find(f"{_A}tblPr")
        stated = int(look is not None and look.get("firstRow") in ("1", "true"))
        texts = grid(rows)
        if texts:
            self.text.add_table(texts, header_rows=header_rows(rows, texts, stated))

    def _cell(self, node: Element) -> Cell:
        paragraphs = (self._paragraph(each) for each in node.iter(f"{_A}p"))
        words = cell_text(each.replace(BREAK, " ") for each in paragraphs)
        across, down = (whole_number(node.get(name)) or 1 for name in ("gridSpan", "rowSpan"))
        return Cell(words, across, down)

    def _notes(self) -> Element | None:
        """Return the text of the notes of the slide, if it has any."""
        for relation in self._relations.values():
            if relation.kind != "notesSlide":
                continue
            root = self._archive.optional_xml(relation.target)
            for shape in root.iter(f"{_P}sp") if root is not None else ():
                body = shape.find(f"{_P}txBody")
                if _placeholder(shape) == "body" and body is not None and _has_text(body):
                    return body
        return None


def _shapes(tree: Element) -> Iterator[_Shape]:
    for node in without_branches(tree):
        if node.tag not in (f"{_P}nvGrpSpPr", f"{_P}grpSpPr", f"{_P}extLst"):
            yield _Shape(node, _placeholder(node), _position(node))


def _placeholder(node: Element) -> str | None:
    for properties in node:
        found = properties.find(f"{_P}nvPr/{_P}ph")
        if found is not None:
            return found.get("type", "")
    return None


def _position(node: Element) -> tuple[int, int]:
    for properties in node:
        # A frame has the element itself, other shapes have it in their properties.
        place = properties if properties.tag == f"{_P}xfrm" else properties.find(f"{_A}xfrm")
        offset = place.find(f"{_A}off") if place is not None else None
        if offset is not None:
            x, y = (whole_number(offset.get(name)) or 0 for name in ("x", "y"))
            return (y // _LINE, x)
    return (0, 0)


def _is_hidden(node: Element) -> bool:
    return any(
        named.get("hidden") in ("1", "true")
        for properties in node
        for named in properties.iterfind(f"{_P}cNvPr")
    )


def _is_merged(cell: Element) -> bool:
    """Return whether another cell spans this one."""
    return any(cell.get(name) in ("1", "true") for name in ("hMerge", "vMerge"))


def _has_text(body: Element) -> bool:
    return any(each.text and each.text.strip() for each in body.iter(f"{_A}t"))


def _mark(look: Element | None, level: int, counts: dict[int, int], *, is_list: bool) -> str:
    """Return the bullet or number of a paragraph, nothing for one without; `counts` has those of each level."""
    for deeper in [each for each in counts if each > level]:
        del counts[deeper]
    numbered = look.find(f"{_A}buAutoNum") if look is not None else None
    if numbered is not None:
        start = whole_number(numbered.get("startAt", "1")) or 1
        counts[level] = counts[level] + 1 if level in counts else start
        return _number(counts[level], numbered.get("type", ""))
    counts.pop(level, None)
    if look is None:
        return "-" if is_list else ""
    if look.find(f"{_A}buNone") is not None:
        return ""
    has_bullet = any(look.find(f"{_A}{name}") is not None for name in ("buChar", "buBlip"))
    return "-" if is_list or has_bullet else ""


def _number(count: int, shape: str) -> str:
    """Return a number in a shape such as `alphaLcParenBoth`."""
    kind = next((shown for name, shown in _AUTOMATIC.items() if shape.startswith(name)), "decimal")
    number = format_number(count, kind)
    if shape.endswith("ParenBoth"):
        return f"({number})"
    if shape.endswith("ParenR"):
        return f"{number})"
    return f"{number}." if shape.endswith("Period") else number


LOADERS = (
    Loader(
        name="PowerPoint",
        suffixes=(".pptx", ".pptm", ".potx", ".ppsx", ".ppsm"),
        parse_file=load_presentation,
        is_binary=True,
        version="2",
    ),
)

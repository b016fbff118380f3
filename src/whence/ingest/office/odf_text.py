"""Write the text of OpenDocument files: paragraphs, lists, notes, tables, and frames beside the text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from xml.etree.ElementTree import Element

from whence.ingest.line_breaks import add_run
from whence.ingest.office.archive import OfficeArchive
from whence.ingest.office.equations import linear
from whence.ingest.office.lists import Item, PendingBlocks, nothing
from whence.ingest.office.odf_styles import DRAW, OFFICE, TABLE, TEXT, OdfStyle, OdfStyles
from whence.ingest.office.runs import HIDDEN, STRUCK, RunText, without_marks
from whence.ingest.office.tables import Cell, cell_text, grid, header_rows
from whence.ingest.office.word_styles import whole_number
from whence.ingest.text_builder import BREAK, TextBuilder

_SVG = "{urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0}"
_FORM = "{urn:oasis:names:tc:opendocument:xmlns:form:1.0}"
_CHART = "{urn:oasis:names:tc:opendocument:xmlns:chart:1.0}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_MATH = "{http://www.w3.org/1998/Math/MathML}math"
#: Generated lists of headings, tables and so on.
_CONTENTS = frozenset(
    f"{TEXT}{name}"
    for name in ("table-of-content", "illustration-index", "table-index", "object-index", "user-index",
                 "alphabetical-index")
)  # fmt: skip
_SKIPPED = frozenset(
    f"{TEXT}{name}" for name in ("label", "script", "placeholder", "tracked-changes", "page-number")
)
_CAPTIONS = frozenset(("Caption", "Table", "Text_20_Table"))
#: Styles of lines of code.
_CODE = frozenset(
    ("Preformatted_20_Text", "Source_20_Text", "Source_20_Code", "Code", "HTML_20_Preformatted")
)
_MOST_REPEATED = 100
_Beside = list[Callable[[], None]]


class OdfText:
    """Writes texts of a file.

    Args:
        archive: The file.
        styles: Its styles.
    """

    def __init__(self, archive: OfficeArchive, styles: OdfStyles) -> None:
        self.text = TextBuilder()
        self.counts: Counter[str] = Counter()
        self.title = ""
        """Text of the first paragraph with the style of a title, or of the title slide."""
        self.first_title = ""
        """First heading, or title of the first slide that has one."""
        self.controls: dict[str, str] = {}
        """Values of form fields by their ids."""
        self._archive = archive
        self._styles = styles
        self._lists = styles.new_counts()
        self._is_shaded = False
        """Whether there may be a colour behind what is read, so that white text is no sign of anything."""
        self._depth = 0
        """How many boxes and notes are open; headings in them are paragraphs."""

    def is_hidden_page(self, page: Element) -> bool:
        """Return whether a slide is not shown."""
        return self._styles.is_hidden_page(page.get(f"{DRAW}style-name"))

    def read_controls(self, root: Element) -> None:
        """Note the values of the form fields."""
        for node in root.iter(f"{OFFICE}forms"):
            for field in node.iter():
                names = {value for name, value in field.attrib.items() if name.endswith("}id")}
                state = field.get(f"{_FORM}current-state")
                value = field.get(f"{_FORM}current-value") or field.get(f"{_FORM}value", "")
                if state is not None or field.tag == f"{_FORM}checkbox":
                    value = f"{'☒' if state == 'checked' else '☐'} {field.get(f'{_FORM}label', '')}"
                for name in names:
                    self.controls[name] = value or ""

    def count_changes(self, root: Element) -> None:
        """Count the passages that tracked changes delete; they stand apart from the text."""
        for node in root.iter(f"{TEXT}deletion"):
            self.counts[STRUCK] += bool("".join(node.itertext()).strip())

    def write(self, nodes: Iterable[Element]) -> None:
        """Write paragraphs, lists, tables and frames."""
        pending = PendingBlocks(self.text)
        elements = list(self._flat(nodes, 0, ""))
        at = 0
        while at < len(elements):
            node, item = elements[at]
            at += 1
            following = elements[at][0] if at < len(elements) else None
            if item is not None:
                pending.add_item(item)
            elif _is_paragraph(node) and not _CODE.isdisjoint(self._style_of(node).names):
                pending.add_code(self._read(node)[0].text)
            elif node.tag == f"{TEXT}p" and not len(node) and not (node.text or "").strip():
                continue
            else:
                pending.end()
                below = elements[at + 1][0] if at + 1 < len(elements) else None
                at += self._write_block(node, following, below)
        pending.end()

    def _write_block(self, node: Element, following: Element | None, below: Element | None) -> int:
        """Write a block; return 1 if the next one is its caption, or the table that it is the caption of."""
        if _is_table(node):
            has_caption = self._is_caption(following) and not _is_table(below)
            self._write_captioned(node, following if has_caption else None)
            return int(has_caption)
        if self._is_caption(node) and following is not None and _is_table(following):
            self._write_captioned(following, node)
            return 1
        if _is_paragraph(node):
            self._write_paragraph(node)
        else:
            self._write_frame(node)
        return 0

    def _write_captioned(self, table: Element, caption: Element | None) -> None:
        if caption is None:
            self.write_table(table, "")
            return
        runs, beside = self._read(caption)
        self.write_table(table, runs.text)
        self._write_all(beside)

    def _flat(
        self, nodes: Iterable[Element], level: int, style: str
    ) -> Iterator[tuple[Element, Item | None]]:
        """Yield the blocks of a text in order, those of lists as items."""
        for node in nodes:
            if node.tag == f"{TEXT}list":
                yield from self._items(node, level + 1, style)
            elif node.tag in _CONTENTS:
                self.counts["tables of contents"] += 1
            elif node.tag == f"{TEXT}tracked-changes":
                self.count_changes(node)
            elif node.tag == f"{TEXT}section" and node.get(f"{TEXT}display") == "none":
                self.counts[HIDDEN] += 1
            elif node.tag in (f"{TEXT}p", f"{TEXT}h", f"{TABLE}table") or node.tag.startswith(DRAW):
                yield node, None
            elif node.tag not in (
                f"{OFFICE}forms",
                f"{TEXT}sequence-decls",
                f"{TEXT}index-title-template",
            ):
                yield from self._flat(node, level, style)

    def _items(
        self, node: Element, level: int, outer: str
    ) -> Iterator[tuple[Element, Item | None]]:
        style = node.get(f"{TEXT}style-name") or outer
        goes_on = (
            node.get(f"{TEXT}continue-numbering") == "true" or f"{TEXT}continue-list" in node.attrib
        )
        self._lists.begin(style, level, goes_on=goes_on or level > 1)
        for child in node:
            blocks = [each for each in child if each.tag != f"{TEXT}list"]
            if blocks and blocks[0].tag == f"{TEXT}h":
                # Headings that a list numbers are no list.
                mark = self._item_mark(child, style, level)
                for each in blocks:
                    self._write_paragraph(each, mark if each is blocks[0] else "")
            elif blocks:
                runs, beside = self._read(blocks[0])
                below = [*beside]
                if len(blocks) > 1:
                    below.append(partial(self.write, blocks[1:]))
                mark = self._item_mark(child, style, level)
                after = partial(self._write_all, below) if below else nothing
                yield child, Item(level - 1, mark or "-", runs.text, after)
            for each in child:
                if each.tag == f"{TEXT}list":
                    yield from self._items(each, level + 1, style)

    def _item_mark(self, node: Element, style: str, level: int) -> str:
        if node.tag == f"{TEXT}list-header":
            return ""
        return self._lists.mark(style, level, whole_number(node.get(f"{TEXT}start-value")))

    def _style_of(self, node: Element) -> OdfStyle:
        return self._styles.style("paragraph", node.get(f"{TEXT}style-name"))

    def _is_caption(self, node: Element | None) -> bool:
        if node is None:
            return False
        return node.tag == f"{TEXT}p" and not _CAPTIONS.isdisjoint(self._style_of(node).names)

    def _write_paragraph(self, node: Element, mark: str | None = None) -> None:
        runs, beside = self._read(node)
        words, style = runs.text, self._style_of(node)
        level = whole_number(node.get(f"{TEXT}outline-level")) or style.outline
        is_title = "Title" in style.names
        if node.tag == f"{TEXT}h" and mark is None and node.get(f"{TEXT}is-list-header") != "true":
            mark = self._lists.mark("", max(level, 1))
        if mark and words.strip():
            words = f"{mark} {words}"
        if is_title and not self.title:
            self.title = " ".join(words.split())
        if "Subtitle" in style.names:
            level = 2
        if (node.tag == f"{TEXT}h" or is_title or "Subtitle" in style.names) and not self._depth:
            words = without_marks(words.replace(BREAK, " "), runs.marks)
            self.text.add_heading(max(level, 1), words)
        else:
            add_run(self.text, words)
        self._write_all(beside)

    @staticmethod
    def _write_all(beside: Iterable[Callable[[], None]]) -> None:
        for write in beside:
            write()

    def words(self, node: Element) -> str:
        """Return the text of a paragraph as one line."""
        return " ".join(self._read(node)[0].text.replace(BREAK, " ").split())

    def _read(self, node: Element) -> tuple[RunText, _Beside]:
        """Read a paragraph: its text, and what is written below it."""
        runs = RunText(self.counts)
        beside: _Beside = []
        look = self._style_of(node) if node.tag in (f"{TEXT}p", f"{TEXT}h") else OdfStyle()
        for each in node.iter(f"{TEXT}hidden-paragraph"):
            look = look._replace(is_hidden=each.get(f"{TEXT}is-hidden") == "true")
        if node.tag.startswith(DRAW):
            beside.append(partial(self._write_frame, node))
        else:
            self._read_inline(node, look, runs, beside)
        return runs, beside

    def _read_inline(self, node: Element, look: OdfStyle, runs: RunText, beside: _Beside) -> None:
        self._add(node.text or "", look, runs)
        for child in node:
            self._read_child(child, look, runs, beside)
            self._add(child.tail or "", look, runs)

    def _add(self, words: str, look: OdfStyle, runs: RunText) -> None:
        if not words:
            return
        if look.is_hidden or (look.is_white and not self._is_shaded):
            runs.omit(words, HIDDEN)
        elif look.is_struck:
            runs.omit(words, STRUCK)
        else:
            runs.add(words, is_raised=look.is_raised, is_bold=look.is_bold)

    def _read_child(self, node: Element, look: OdfStyle, runs: RunText, beside: _Beside) -> None:
        tag = node.tag
        if tag == f"{TEXT}span":
            own = self._styles.style("text", node.get(f"{TEXT}style-name"))
            self._read_inline(node, _over(look, own), runs, beside)
        elif tag in (f"{TEXT}s", f"{TEXT}tab"):
            self._add(" ", look, runs)
        elif tag == f"{TEXT}line-break":
            self._add(BREAK, look, runs)
        elif tag == f"{TEXT}hidden-text":
            is_hidden = node.get(f"{TEXT}is-hidden") == "true"
            hidden = look._replace(is_hidden=look.is_hidden or is_hidden)
            self._add("".join(node.itertext()), hidden, runs)
        elif tag == f"{TEXT}note":
            self._read_note(node, runs, beside)
        elif tag.startswith(DRAW) and tag != f"{DRAW}a":
            self._read_frame(node, runs, beside)
        elif tag == f"{OFFICE}annotation":
            self.counts["comments"] += 1
        elif tag == f"{TEXT}ruby":
            parts = (node.find(f"{TEXT}ruby-{name}") for name in ("base", "text"))
            runs.add_ruby(*("".join(part.itertext()) if part is not None else "" for part in parts))
        elif tag not in _SKIPPED and not tag.startswith(OFFICE):
            self._read_inline(node, look, runs, beside)

    def _read_frame(self, node: Element, runs: RunText, beside: _Beside) -> None:
        """Read what is drawn within a line: a form field, a formula; all else is written below it."""
        if node.tag == f"{DRAW}control":
            runs.add(self.controls.get(node.get(f"{DRAW}control", ""), ""))
        elif node.tag == f"{DRAW}frame" and (formula := self._formula(node)) is not None:
            runs.add(f" {linear(formula).strip()} ")
        else:
            beside.append(partial(self._write_frame, node))

    def _read_note(self, node: Element, runs: RunText, beside: _Beside) -> None:
        cited, body = node.find(f"{TEXT}note-citation"), node.find(f"{TEXT}note-body")
        mark = "".join(cited.itertext()).strip() if cited is not None else ""
        runs.add_mark(mark or "*")
        if body is not None:
            beside.append(partial(self._write_note, mark or "*", body))

    def _write_note(self, mark: str, body: Element) -> None:
        self.text.lead_in(f"[{mark}]")
        self.write_inside(body)
        self.text.end_lead_in()

    def write_inside(self, node: Iterable[Element]) -> None:
        """Write a box or a slide: headings in it are paragraphs, and it may have a colour of its own."""
        outer, self._is_shaded = self._is_shaded, True
        self._depth += 1
        self.write(node)
        self._depth -= 1
        self._is_shaded = outer

    def _object(self, node: Element) -> Element | None:
        """Return the document that a frame shows, if it stands in the file."""
        for child in node.iterfind(f"{DRAW}object"):
            inner = next(iter(child), None)
            if inner is not None:
                return inner
            name = child.get(_HREF, "").removeprefix("./").strip("/")
            return self._archive.optional_xml(f"{name}/content.xml")
        return None

    def _formula(self, node: Element) -> Element | None:
        found = self._object(node)
        if found is None or found.tag == _MATH:
            return found
        return found.find(f".//{_MATH}")

    def _write_frame(self, node: Element) -> None:
        """Write what stands beside the text: a box, a shape with text, a table, a chart, a picture."""
        if node.tag == f"{DRAW}frame":
            self._write_framed(node)
        elif node.tag in (f"{DRAW}g", f"{DRAW}a"):
            for child in node:
                self._write_frame(child)
        elif node.tag == f"{DRAW}control":
            self.text.add_paragraph(self.controls.get(node.get(f"{DRAW}control", ""), ""))
        else:
            self.write_inside(each for each in node if each.tag.startswith(TEXT))

    def _write_framed(self, node: Element) -> None:
        found = self._object(node)
        if found is not None:
            self._write_object(found)
            return
        if any(
            node.find(f"{DRAW}{name}") is not None for name in ("object", "object-ole", "plugin")
        ):
            self.counts["objects"] += 1
            return
        for child in node:
            if child.tag == f"{DRAW}text-box":
                self.write_inside(child)
            elif child.tag == f"{TABLE}table":
                self.write_table(child, "")
            elif child.tag == f"{DRAW}image":
                self._write_picture(node)
                return

    def _write_picture(self, node: Element) -> None:
        for name in ("desc", "title"):
            words = " ".join((node.findtext(f"{_SVG}{name}") or "").split())
            if words:
                self.text.add_paragraph(f"Picture: {words}")
                return
        self.counts["pictures"] += 1

    def _write_object(self, root: Element) -> None:
        formula = root if root.tag == _MATH else root.find(f".//{_MATH}")
        chart = root.find(f".//{_CHART}chart")
        if formula is not None:
            self.text.add_paragraph(linear(formula))
        elif chart is not None:
            title = chart.find(f"{_CHART}title")
            table = chart.find(f".//{TABLE}table")
            if table is not None:
                words = " ".join("".join(title.itertext()).split()) if title is not None else ""
                self.write_table(table, words)
            else:
                self.counts["charts"] += 1
        else:
            self.counts["objects"] += 1

    def write_table(self, table: Element, caption: str) -> None:
        """Write a table; one of a single column is its paragraphs."""
        nodes = list(_rows(table, is_header=False))
        if max((len(_cells(row)) for row, _ in nodes), default=0) <= 1:
            self.text.add_paragraph(caption)
            for row, _ in nodes:
                for cell in _cells(row):
                    self.write(cell)
            return
        beside: _Beside = []
        outer, self._is_shaded = self._is_shaded, True
        rows, stated = [], int(table.get(f"{TABLE}use-first-row-styles") == "true")
        for node, is_header in nodes:
            cells = [self._cell(each, beside) for each in _cells(node)]
            times = min(whole_number(node.get(f"{TABLE}number-rows-repeated")) or 1, _MOST_REPEATED)
            stated += is_header
            rows += [cells] * (times if any(cell.text for cell in cells) else 1)
        self._is_shaded = outer
        texts = grid(rows)
        if texts:
            heads = header_rows(rows, texts, stated)
            self.text.add_table(texts, header_rows=heads, caption=caption)
        self._write_all(beside)

    def _cell(self, node: Element, beside: _Beside) -> Cell:
        parts: list[str] = []
        looks: list[bool] = []
        self._read_cell(node, parts, looks, beside)
        style = self._styles.style("table-cell", node.get(f"{TABLE}style-name"))
        across, down = (
            whole_number(node.get(f"{TABLE}number-{name}-spanned")) or 1
            for name in ("columns", "rows")
        )
        words = cell_text(parts)
        is_header = style.is_filled or (all(looks) and bool(looks))
        return Cell(words, across, down, is_header=is_header)

    def _read_cell(
        self, node: Iterable[Element], parts: list[str], looks: list[bool], beside: _Beside
    ) -> None:
        for child in node:
            if child.tag in (f"{TEXT}p", f"{TEXT}h"):
                runs, below = self._read(child)
                beside += below
                if runs.text.strip():
                    parts.append(runs.text.replace(BREAK, " "))
                    names = self._style_of(child).names
                    looks.append(runs.is_bold or "Table_20_Heading" in names)
            elif child.tag == f"{TABLE}table":
                inner = [
                    [self._cell(each, beside) for each in _cells(row)] for row, _ in _rows(child)
                ]
                parts += (", ".join(filter(None, row)) for row in grid(inner))
            elif child.tag == f"{TEXT}list":
                self._read_cell_list(child, 1, "", parts, beside)
            elif child.tag != f"{OFFICE}annotation":
                self._read_cell(child, parts, looks, beside)
            else:
                self.counts["comments"] += 1

    def _read_cell_list(
        self, node: Element, level: int, outer: str, parts: list[str], beside: _Beside
    ) -> None:
        style = node.get(f"{TEXT}style-name") or outer
        self._lists.begin(style, level, goes_on=node.get(f"{TEXT}continue-numbering") == "true")
        for item in node:
            found: list[str] = []
            self._read_cell([each for each in item if each.tag != f"{TEXT}list"], found, [], beside)
            mark = self._item_mark(item, style, level) if found else ""
            parts += (
                f"{mark} {each}" if at == 0 and mark not in ("", "-") else each
                for at, each in enumerate(found)
            )
            for each in item:
                if each.tag == f"{TEXT}list":
                    self._read_cell_list(each, level + 1, style, parts, beside)


def _over(outer: OdfStyle, own: OdfStyle) -> OdfStyle:
    """Return how a run looks inside another one."""
    return outer._replace(
        is_struck=outer.is_struck or own.is_struck,
        is_hidden=outer.is_hidden or own.is_hidden,
        is_raised=outer.is_raised or own.is_raised,
        is_bold=outer.is_bold or own.is_bold,
        is_white=own.is_white and not outer.is_filled,
        is_filled=outer.is_filled or own.is_filled,
    )


def _is_table(node: Element | None) -> bool:
    return node is not None and node.tag == f"{TABLE}table"


def _is_paragraph(node: Element) -> bool:
    return node.tag in (f"{TEXT}p", f"{TEXT}h")


def _rows(table: Element, *, is_header: bool = False) -> Iterator[tuple[Element, bool]]:
    """Yield the rows of a table, and whether each belongs to the header."""
    for child in table:
        if child.tag == f"{TABLE}table-row":
            yield child, is_header
        elif child.tag in (
            f"{TABLE}table-header-rows",
            f"{TABLE}table-rows",
            f"{TABLE}table-row-group",
        ):
            yield from _rows(child, is_header=is_header or child.tag.endswith("header-rows"))


def _cells(row: Element) -> Sequence[Element]:
    """Return the cells of a row that no other one covers."""
    found: list[Element] = []
    for cell in row:
        if cell.tag == f"{TABLE}table-cell":
            times = whole_number(cell.get(f"{TABLE}number-columns-repeated")) or 1
            found += [cell] * min(times, _MOST_REPEATED)
    return found

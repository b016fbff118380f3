"""Read the paragraphs of a Word document: their text as Word shows it, their style and number.

What stands beside the text, such as notes, pictures and text boxes, is returned with the paragraph, to be
written after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple
from xml.etree.ElementTree import Element

from whence.ingest.office.drawings import (
    CHART,
    COMPATIBILITY,
    DIAGRAM,
    DRAWING,
    RELATION_ID,
    branch,
    description,
    is_decorative,
)
from whence.ingest.office.equations import linear
from whence.ingest.office.numbering import format_number
from whence.ingest.office.runs import HIDDEN, STRUCK, RunText
from whence.ingest.office.symbols import in_font, is_symbol_font
from whence.ingest.office.word_numbering import Label, WordNumbering
from whence.ingest.office.word_styles import (
    VAL,
    RunProperties,
    Style,
    Styles,
    W,
    is_on,
    is_raised,
    is_struck,
    is_white,
    numbering_of,
    outline_of,
    run_properties,
    whole_number,
)
from whence.ingest.text_builder import BREAK

_MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_WORD_2010 = "{http://schemas.microsoft.com/office/word/2010/wordml}"
_PICTURE = "{http://schemas.openxmlformats.org/drawingml/2006/picture}pic"
_VML = "{urn:schemas-microsoft-com:vml}"
_OFFICE = "{urn:schemas-microsoft-com:office:office}"
_PAGE_DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
#: Characters of a run that are elements.
_CHARACTERS = {
    f"{W}tab": " ", f"{W}ptab": " ", f"{W}br": BREAK, f"{W}cr": BREAK, f"{W}noBreakHyphen": "-",
}  # fmt: skip
#: Elements of paragraphs without text of their own.
_SKIPPED = frozenset(
    f"{W}{name}"
    for name in (
        "pPr",
        "rPr",
        "sdtPr",
        "sdtEndPr",
        "moveFrom",
        "smartTagPr",
        "customXmlPr",
        "fldData",
    )
)
_CHECKED = {True: "\u2612", False: "\u2610"}


class Beside(NamedTuple):
    """What stands beside a paragraph: a kind, its element, and the mark of a note or words."""

    kind: str
    """`box`, `picture`, `chart`, `diagram`, `footnote` or `endnote`."""
    node: Element | None = None
    words: str = ""


class Paragraph(NamedTuple):
    """A paragraph as Word shows it."""

    text: str
    style: Style
    label: Label | None
    outline: int | None
    """Level of a heading, from 0; None for text."""
    is_bold: bool
    """Whether it has text and all of it is bold."""
    joins_next: bool
    """Whether the next paragraph goes on: its end was deleted, or it is a large first letter."""
    beside: tuple[Beside, ...]


class ParagraphReader:
    """Reads paragraphs in order: numbers of lists and notes count on.

    Args:
        styles: Styles of the document.
        numbering: Its lists.
        counts: What is left out is counted here, by kind.
    """

    def __init__(self, styles: Styles, numbering: WordNumbering, counts: Counter[str]) -> None:
        self.styles = styles
        self.numbering = numbering
        self.counts = counts
        self.is_shaded = False
        """Whether there may be a colour behind what is read, so that white text is no sign of anything."""
        self.note_marks: dict[tuple[str, str], str] = {}
        """Marks of the notes that were referred to, by kind and id."""
        self._runs = RunText(counts)
        self._paragraph: RunProperties = {}
        self._beside: list[Beside] = []
        self._in_code: list[bool] = []
        """For each open field whether its code, not its result, is read."""
        self._handlers: dict[str, Callable[[Element], None]] = {
            f"{W}r": self._read_run,
            f"{W}del": self._omit_deleted,
            f"{W}sdt": self._read_control,
            f"{COMPATIBILITY}AlternateContent": self._read_branch,
            f"{_MATH}oMath": self._read_equation,
        }
        self._run_handlers: dict[str, Callable[[Element], None]] = {
            f"{W}fldChar": self._read_field,
            f"{W}footnoteReference": self._read_note,
            f"{W}endnoteReference": self._read_note,
            f"{W}ruby": self._read_ruby,
            f"{W}drawing": self._read_drawing,
            f"{W}pict": self._read_drawing,
            f"{W}object": self._read_object,
            f"{COMPATIBILITY}AlternateContent": self._read_run_branch,
        }

    def style_of(self, node: Element) -> Style:
        """Return the style of a paragraph."""
        named = node.find(f"{W}pPr/{W}pStyle")
        return self.styles.style(named.get(VAL, "") if named is not None else "")

    def read(self, node: Element) -> Paragraph:
        """Read a paragraph."""
        style, look = self.style_of(node), node.find(f"{W}pPr")
        mark = look.find(f"{W}rPr") if look is not None else None
        self._runs, self._beside, self._in_code = RunText(self.counts), [], []
        self._paragraph = self.styles.base | style.run
        shade = look.find(f"{W}shd") if look is not None else None
        if style.is_shaded or (shade is not None and shade.get(f"{W}fill", "auto") != "auto"):
            self._paragraph = self._paragraph | {"shd": True}
        self._read_inline(node)
        text = self._runs.text
        frame = look.find(f"{W}framePr") if look is not None else None
        is_initial = frame is not None and frame.get(f"{W}dropCap", "none") != "none"
        joins = is_initial or (
            mark is not None and any(mark.find(f"{W}{n}") is not None for n in ("del", "moveFrom"))
        )
        is_hidden = not text.strip() and bool(run_properties(mark).get("vanish"))
        label = None
        if not (joins or is_hidden):
            numbering = style.numbering
            if look is not None:
                numbering = numbering_of(look, numbering)
            label = self.numbering.label(numbering) if numbering.list_id else None
        outline = outline_of(look) if look is not None else None
        return Paragraph(
            text=text,
            style=style,
            label=label,
            outline=style.outline if outline is None else outline,
            is_bold=self._runs.is_bold and bool(text.strip()),
            joins_next=joins,
            beside=tuple(self._beside),
        )

    def _read_inline(self, node: Element) -> None:
        for child in node:
            handler = self._handlers.get(child.tag)
            if handler is not None:
                handler(child)
            elif child.tag not in _SKIPPED:
                self._read_inline(child)

    def _read_run(self, run: Element) -> None:
        look = self.styles.run_look(run.find(f"{W}rPr"), self._paragraph)
        kind = self._omission(look)
        for child in run:
            text = self._characters(child, look)
            if text is None:
                handler = self._run_handlers.get(child.tag)
                if handler is not None and (not kind or child.tag == f"{W}fldChar"):
                    handler(child)
            elif not text or any(self._in_code):
                continue
            elif kind:
                self._runs.omit(text, kind)
            else:
                self._runs.add(text, is_raised=is_raised(look), is_bold=bool(look.get("b")))

    def _omission(self, look: RunProperties) -> str:
        """Return as what a run is left out, or nothing."""
        if look.get("vanish"):
            return HIDDEN
        if is_struck(look):
            return STRUCK
        return HIDDEN if "color" in look and not self.is_shaded and is_white(look) else ""

    @staticmethod
    def _characters(node: Element, look: RunProperties) -> str | None:
        """Return the text of an element of a run; None if it is something else."""
        if node.tag == f"{W}t":
            font = look.get("rFonts", "")
            text = node.text or ""
            return in_font(text, font) if is_symbol_font(font) else text
        if node.tag == f"{W}br" and node.get(f"{W}type") in ("page", "column"):
            return " "
        if node.tag == f"{W}sym":
            code = node.get(f"{W}char", "")
            try:
                return in_font(chr(int(code, 16)), node.get(f"{W}font", ""))
            except (ValueError, OverflowError):
                return ""
        return _CHARACTERS.get(node.tag)

    def _omit_deleted(self, node: Element) -> None:
        words = (each.text or "" for each in node.iter(f"{W}delText"))
        self._runs.omit("".join(words), STRUCK)

    def _read_control(self, control: Element) -> None:
        properties = control.find(f"{W}sdtPr")
        if properties is not None and is_on(properties.find(f"{W}showingPlcHdr")):
            return
        for content in control.iterfind(f"{W}sdtContent"):
            self._read_inline(content)

    def _read_branch(self, node: Element) -> None:
        chosen = branch(node)
        if chosen is not None:
            self._read_inline(chosen)

    def _read_run_branch(self, node: Element) -> None:
        chosen = branch(node)
        if chosen is None:
            return
        for child in chosen:
            handler = self._run_handlers.get(child.tag)
            if handler is not None:
                handler(child)
            else:
                self._runs.add(self._characters(child, {}) or "")

    def _read_equation(self, node: Element) -> None:
        if not any(self._in_code):
            self._runs.add(f" {linear(node).strip()} ")

    def _read_field(self, node: Element) -> None:
        kind = node.get(f"{W}fldCharType")
        if kind == "begin":
            value = _form_value(node.find(f"{W}ffData"))
            if value and not any(self._in_code):
                self._runs.add(value)
            self._in_code.append(True)
        elif kind == "separate" and self._in_code:
            self._in_code[-1] = False
        elif kind == "end" and self._in_code:
            self._in_code.pop()

    def _read_note(self, node: Element) -> None:
        kind = node.tag.removeprefix(W).removesuffix("Reference")
        key = (kind, node.get(f"{W}id", ""))
        if key not in self.note_marks:
            count = sum(1 for each, _ in self.note_marks if each == kind) + 1
            shape = "decimal" if kind == "footnote" else "lowerRoman"
            self.note_marks[key] = format_number(count, shape)
            self._beside.append(Beside(kind, None, key[1]))
        if not is_on(node) or node.get(f"{W}customMarkFollows") not in ("1", "true"):
            self._runs.add_mark(self.note_marks[key])

    def _read_ruby(self, node: Element) -> None:
        parts = []
        for name in ("rubyBase", "rt"):
            outer, self._runs = self._runs, RunText(self.counts)
            for each in node.iterfind(f"{W}{name}"):
                self._read_inline(each)
            parts.append(self._runs.text)
            self._runs = outer
        self._runs.add_ruby(*parts)

    def _read_drawing(self, node: Element, described: Element | None = None) -> None:
        """Find the pictures, boxes, charts and diagrams of a drawing."""
        for child in node:
            tag = child.tag
            if tag == f"{COMPATIBILITY}AlternateContent":
                chosen = branch(child)
                if chosen is not None:
                    self._read_drawing(chosen, described)
            elif tag == f"{W}txbxContent":
                self._beside.append(Beside("box", child))
            elif tag == f"{_PAGE_DRAWING}docPr":
                described = child
            elif tag in (_PICTURE, f"{_VML}imagedata"):
                self._read_picture(node if tag == f"{_VML}imagedata" else child, described)
            elif tag == f"{CHART}chart":
                self._beside.append(Beside("chart", None, child.get(f"{RELATION_ID}id", "")))
            elif tag == f"{DIAGRAM}relIds":
                self._beside.append(Beside("diagram", None, child.get(f"{RELATION_ID}dm", "")))
            else:
                self._read_drawing(child, described)

    def _read_picture(self, node: Element, described: Element | None) -> None:
        own = next((e for e in node.iter() if e.tag.endswith("}cNvPr")), None)
        described_by = [each for each in (described, own) if each is not None]
        words = next(filter(None, map(description, described_by)), node.get("alt", ""))
        if words:
            self._beside.append(Beside("picture", None, words))
        elif not any(map(is_decorative, described_by)):
            self.counts["pictures"] += 1
        for each in node.iter(f"{DRAWING}blip"):
            embedded = each.get(f"{RELATION_ID}embed", "")
            if embedded:
                self._beside.append(Beside("part", None, embedded))

    def _read_object(self, node: Element) -> None:
        if next(node.iter(f"{_OFFICE}OLEObject"), None) is not None:
            self.counts["objects"] += 1
        else:
            self._read_drawing(node)


def _form_value(data: Element | None) -> str:
    """Return the value of a box to check or of a list to choose from, which stands in no text."""
    if data is None:
        return ""
    box, choice = data.find(f"{W}checkBox"), data.find(f"{W}ddList")
    if box is not None:
        checked = box.find(f"{W}checked")
        return _CHECKED[is_on(checked if checked is not None else box.find(f"{W}default"))]
    if choice is None:
        return ""
    entries = [each.get(VAL, "") for each in choice.iterfind(f"{W}listEntry")]
    chosen = choice.find(f"{W}result")
    at = whole_number(
        (chosen if chosen is not None else choice.find(f"{W}default") or Element("")).get(VAL)
    )
    return entries[at or 0] if 0 <= (at or 0) < len(entries) else ""


def body_elements(node: Element) -> Iterator[Element]:
    """Yield the paragraphs, tables and embedded texts of a body, a cell, a note or a box, in order."""
    for child in node:
        tag = child.tag
        if tag in (f"{W}p", f"{W}tbl", f"{W}altChunk"):
            yield child
        elif tag == f"{COMPATIBILITY}AlternateContent":
            chosen = branch(child)
            if chosen is not None:
                yield from body_elements(chosen)
        elif tag == f"{W}sdt" and is_contents(child):
            yield child
        elif tag not in _SKIPPED and tag != f"{W}del":
            yield from body_elements(child)


def is_contents(control: Element) -> bool:
    """Return whether a content control holds the table of contents."""
    gallery = control.find(f"{W}sdtPr/{W}docPartObj/{W}docPartGallery")
    return gallery is not None and gallery.get(VAL) == "Table of Contents"

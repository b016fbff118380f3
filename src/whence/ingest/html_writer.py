"""Write the content of HTML elements: blocks, and the text in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from whence.ingest.html_elements import write_elements
from whence.ingest.html_forms import write_fields
from whence.ingest.html_hidden import (
    NO_RULES,
    Rules,
    mark_positions,
    position_of,
    remove_hidden,
)
from whence.ingest.html_math import write_formulas
from whence.ingest.html_nodes import (
    ALL_HEADINGS,
    BLOCKS,
    COMMENT_TAGS,
    HEADINGS,
    LISTS,
    attribute,
    children,
    classes,
    words_of,
)
from whence.ingest.html_notes import MARK, Note, Notes, without_label
from whence.ingest.html_tables import is_bold, is_layout, read_table, table_rows
from whence.ingest.line_breaks import add_run
from whence.ingest.office.numbering import BY_SIGN, format_number
from whence.ingest.roles import without_left_over_roles
from whence.ingest.text_builder import (
    BREAK,
    TextBuilder,
    code_span,
    collapse_spaces,
    lowered,
    raised,
)

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_CODE = frozenset(["code", "tt", "kbd", "samp"])
#: Classes of terms that are signatures, as Sphinx writes them.
_SIGNATURES = frozenset(["sig", "sig-object"])
_LANGUAGE = re.compile(r"(?:^|\s)(?:highlight|language|lang|brush)[-:]\s?([\w+#.-]{1,20})")
_NO_LANGUAGE = frozenset(
    ["default", "none", "text", "plain", "plaintext", "output", "notranslate", "source"]
)
#: Level of a title that is a bold paragraph: below all headings.
_TITLE_LEVEL = 6
#: A cell with a property of what the first cell names, `Default: 20`; such a row heads the text below it.
_FACT = re.compile(r"[A-Z]\w*+(?: \w++)?: \S")
_MOST_TITLE_WORDS = 24
_LIST_STYLE = re.compile(r"list-style(?:-type)?\s*+:\s*+([a-z-]++)")
#: Formats of numbers by the style that names them.
_NUMBERINGS = {
    "decimal": "decimal", "decimal-leading-zero": "decimalZero",
    "lower-alpha": "lowerLetter", "lower-latin": "lowerLetter", "lower-roman": "lowerRoman",
    "upper-alpha": "upperLetter", "upper-latin": "upperLetter", "upper-roman": "upperRoman",
}  # fmt: skip
#: Terms that are marks of a list.
_MARKS = frozenset(["-", "*", "•", "\u2013"])
#: Classes of boxes whose heading leads to their text and heads nothing else.
_BOXES = frozenset(
    [
        "note",
        "warning",
        "tip",
        "important",
        "caution",
        "danger",
        "hint",
        "attention",
        "admonition",
        "callout",
        "example",
    ]
)
#: Quotes as TeX and manual pages write them.
_TEX_QUOTES = re.compile(r"``([^`\n]{1,80}?)''")
#: White space that is no line break.
_SPACES = " \t\r\n"
#: What stands between items of a list and cells of a table that are in a line.
_SEPARATORS = {"li": "; ", "tr": "; ", "dd": ": ", "td": ", ", "th": ", "}
#: Blocks in code that are a line each.
_CODE_LINES = frozenset(["div", "p", "li", "tr"])


def write_html(text: TextBuilder, root: LexborNode) -> None:
    """Write the content of an element with its notes.

    The element is changed. Cost: linear in the page, times the depth of inline elements.
    """
    notes = Notes()
    notes.collect({"": root})
    text.left_out.update(prepare(root))
    HtmlWriter(text, notes).write_page(root)


def prepare(root: LexborNode, rules: Rules = NO_RULES) -> Counter[str]:
    """Leave nothing but text and its structure below an element; return what is left out, by kind.

    Args:
        root: The element.
        rules: What the page says of its elements elsewhere.
    """
    write_formulas(root)
    left_out = remove_hidden(root, rules)
    mark_positions(root, rules)
    write_fields(root)
    return left_out + write_elements(root)


class HtmlWriter:
    """Writes elements, and notes in the section that refers to them.

    Args:
        text: What is written to.
        notes: The notes of the pages.
        path: Path of the page among several; anchors begin with it, as in `chapter.xhtml#id`.
    """

    def __init__(self, text: TextBuilder, notes: Notes, path: str = "") -> None:
        self._text = text
        self._notes = notes
        self._path = path
        self._pending: list[Note] = []
        self._written: set[int] = set()
        self._depth = 0
        """Lists and definitions around what is written next."""
        self._label = ""
        """Label of the note whose first words are written next."""

    def write_page(self, root: LexborNode) -> None:
        """Write the content of a page, and the notes that its last section refers to."""
        self.write(root)
        self._write_notes()

    def write(self, root: LexborNode) -> None:
        """Write the content of an element."""
        run: list[LexborNode] = []
        for child in children(root):
            tag = child.tag or ""
            if child.mem_id in self._notes.ids:
                continue
            if tag not in BLOCKS and not _holds_block(child):
                run.append(child)
                continue
            self._run(run)
            run = []
            anchor, own = self._text.anchor, self._anchor(child)
            self._text.anchor = own or anchor
            self._block(child, tag)
            # What follows a heading belongs to it; what follows any other element does not.
            if own and tag not in HEADINGS:
                self._text.anchor = anchor
        self._run(run)

    def _run(self, nodes: Sequence[LexborNode]) -> None:
        words = self._shown(_joined(nodes))
        if self._label and words.strip():
            words, self._label = without_label(words, self._label), ""
        add_run(self._text, _quoted(words))

    def _inline(self, node: LexborNode, *, has_code: bool = True) -> str:
        return self._shown(_inline(node, has_code=has_code))

    def _shown(self, words: str) -> str:
        """Return a text with the marks of notes as they are shown; their notes are written with the section."""
        if "\x0e" not in words:
            return words
        for _, number in MARK.findall(words):
            at = int(number) if number and len(number) < 9 else -1
            if 0 <= at < len(self._notes.found) and at not in self._written:
                self._written.add(at)
                self._pending.append(self._notes.found[at])
        return MARK.sub(r"[\1]", words)

    def _write_notes(self) -> None:
        anchor, path = self._text.anchor, self._path
        while self._pending:
            note = self._pending.pop(0)
            self._path = note.path
            self._text.anchor = self._anchor(note.node) or anchor
            self._text.lead_in(f"Note {note.label}")
            self._label = note.label
            self.write(note.node)
            self._label = ""
            self._text.end_lead_in()
        self._text.anchor, self._path = anchor, path

    def _anchor(self, node: LexborNode) -> str:
        """Return the id of an element, or for a heading that of the anchor inside it."""
        found = attribute(node, "id")
        if not found and node.tag in HEADINGS:
            inner = node.css_first("[id], a[name]")
            if inner is not None:
                found = attribute(inner, "id") or attribute(inner, "name")
        return f"{self._path}#{found}" if found and self._path else found

    def _block(self, node: LexborNode, tag: str) -> None:
        if tag in HEADINGS and _heads_box(node):
            self._text.lead_in(self._inline(node, has_code=False))
        elif tag in HEADINGS:
            if not self._depth:
                self._write_notes()
            self._text.add_heading(HEADINGS[tag], self._inline(node, has_code=False))
        elif tag == "table":
            self._table(node)
        elif tag == "pre":
            code = self._shown(_code_text(node))
            self._text.add_code(code.split("\n"), language=_language(node))
        elif tag == "dl":
            self._definitions(node)
        elif tag in LISTS:
            self._list(node, tag)
        elif "admonition-title" in classes(node):
            self._text.lead_in(self._inline(node))
        elif tag == "p" and _is_title(node):
            self._text.add_heading(_TITLE_LEVEL, self._inline(node, has_code=False))
        else:
            self.write(node)

    def _list(self, node: LexborNode, tag: str) -> None:
        start = attribute(node, "start")
        counted = tag == "ol"
        number = int(start) if counted and start.isdecimal() and len(start) < 6 else 1
        step = 1
        if counted and "reversed" in node.attributes:
            number, step = number if start else sum(child.tag == "li" for child in node.iter()), -1
        self._depth += 1
        with self._text.block():
            for child in node.iter():
                if child.mem_id in self._notes.ids:
                    continue
                if child.tag != "li":
                    self._block(child, child.tag or "")
                    continue
                value = attribute(child, "value")
                number = int(value) if counted and value.isdecimal() and len(value) < 6 else number
                anchor = self._text.anchor
                self._text.anchor = self._anchor(child) or anchor
                sign = f"{format_number(number, _numbering(node, child))}. "
                with self._text.item(sign if counted else "- "):
                    self.write(child)
                self._text.anchor = anchor
                number += step
        self._depth -= 1

    def _definitions(self, node: LexborNode) -> None:
        """Write a list of definitions; those of one term may be several elements."""
        self._depth += 1
        with self._text.block():
            terms: list[LexborNode] = []
            bodies: list[LexborNode] = []
            for child in (*_definition_parts(node), None):
                if terms and (child is None or (child.tag == "dt" and bodies)):
                    self._definition(terms, bodies)
                    terms, bodies = [], []
                if child is None or child.mem_id in self._notes.ids:
                    continue
                if child.tag == "dt":
                    terms.append(child)
                elif terms:
                    bodies.append(child)
                else:
                    self.write(child)
        self._depth -= 1

    def _definition(self, terms: Sequence[LexborNode], bodies: Sequence[LexborNode]) -> None:
        anchor = self._text.anchor
        self._text.anchor = next(filter(None, map(self._anchor, terms)), anchor)
        shown = [line for node in terms for line in self._term(node).split(BREAK)]
        is_item = all(collapse_spaces(term).strip("`") in _MARKS for term in shown)
        with self._text.item() if is_item else self._text.definition(shown):
            for node in bodies:
                self.write(node)
        self._text.anchor = anchor

    def _term(self, node: LexborNode) -> str:
        """Return a term; the signature of a function is code."""
        if _SIGNATURES.isdisjoint(classes(node)):
            return _quoted(self._inline(node))
        return code_span(collapse_spaces(self._inline(node, has_code=False)))

    def _table(self, table: LexborNode) -> None:
        """Write a table as rows; one that is layout as the blocks in it."""
        icon, content = table.css_first("td.icon"), table.css_first("td.content")
        if icon is not None and content is not None:
            self._text.lead_in(self._inline(icon) or "Note")
            self.write(content)
            return
        if is_layout(table):
            self.write(table)
            return
        rows = list(table_rows(table))
        only = [words_of(cell) for cell in rows[0].iter()] if len(rows) == 1 else []
        name, *facts = only or [""]
        if facts and len(name.split()) == 1 and all(map(_FACT.match, facts)):
            self._text.add_heading(_TITLE_LEVEL, f"{name} ({', '.join(facts)})")
            return
        read = read_table(table, self._inline)
        self._text.add_table(read.rows, header_rows=read.header_rows, caption=read.caption)


def _numbering(*nodes: LexborNode) -> str:
    """Return how the items of a list are numbered, as the last of its elements that says it does."""
    kind = "decimal"
    for node in nodes:
        style = _LIST_STYLE.search(attribute(node, "style").lower())
        by_attribute = BY_SIGN.get(attribute(node, "type"), "")
        kind = (_NUMBERINGS.get(style[1], "") if style else "") or by_attribute or kind
    return kind


def _quoted(words: str) -> str:
    return _TEX_QUOTES.sub("\u201c\\1\u201d", words)


def _heads_box(heading: LexborNode) -> bool:
    """Return whether a heading is the title of a note or the like, the only one in it."""
    box = heading.parent
    if box is None or _BOXES.isdisjoint(classes(box)):
        return False
    first = next(box.iter(), None)
    return first is not None and first.mem_id == heading.mem_id and len(box.css(ALL_HEADINGS)) == 1


def _definition_parts(node: LexborNode) -> Iterator[LexborNode]:
    """Yield the terms and descriptions of a list, which may be grouped in `<div>`s."""
    for child in node.iter():
        if child.tag == "div":
            yield from _definition_parts(child)
        elif child.tag in ("dt", "dd"):
            yield child


def _is_title(paragraph: LexborNode) -> bool:
    """Return whether a paragraph is a title that is not marked as such, like a question of a list of them."""
    words = words_of(paragraph)
    is_short = 1 < len(words.split()) <= _MOST_TITLE_WORDS and not words.endswith((".", ":", "!"))
    return is_short and is_bold(paragraph)


def _language(node: LexborNode) -> str:
    """Return the language of code, as classes of the element or of one around or in it name it."""
    around = [node, *filter(None, (node.css_first("code"), node.parent))]
    if node.parent is not None and node.parent.parent is not None:
        around.append(node.parent.parent)
    for each in around:
        found = _LANGUAGE.search(each.attributes.get("class") or "")
        if found and found[1].lower() not in _NO_LANGUAGE:
            return found[1].lower()
    return ""


def _code_text(node: LexborNode) -> str:
    """Return the text of code, with a line end for each line break and around each block."""
    if node.tag == "-text":
        return node.text_content or ""
    if node.tag == "br":
        return "\n"
    if node.tag in COMMENT_TAGS:
        return ""
    words = ""
    for child in children(node):
        piece = _code_text(child)
        if child.tag in _CODE_LINES:
            words += "" if not words or words.endswith("\n") else "\n"
            piece += "" if piece.endswith("\n") else "\n"
        words += piece
    return words


def _inline(node: LexborNode, *, has_code: bool = True, before: str = "") -> str:
    """Return the text of an element, with space around blocks and line breaks, and code in backticks.

    Args:
        node: The element.
        has_code: Whether code stands in backticks.
        before: The end of the text before the element.
    """
    if node.tag == "-text":
        words = node.text_content or ""
        return without_left_over_roles(words) if has_code else words
    if node.tag in ("br", "hr"):
        return f"{BREAK} "
    if node.tag in COMMENT_TAGS:
        return ""
    if has_code and node.tag in _CODE:
        inner = _joined(children(node), has_code=False)
        return BREAK.join(_around(code_span, each) for each in inner.split(BREAK))
    words = _joined(children(node), has_code=has_code)
    if (position := position_of(node)) and not MARK.search(words):
        return raised(words, before) if position == "sup" else lowered(words, before)
    return f" {words} " if node.tag in BLOCKS else words


def _joined(nodes: Iterable[LexborNode], *, has_code: bool = True) -> str:
    """Return the text of elements; code beside code (`<code>a=</code><i><code>b</code></i>`) is one span."""
    pieces = [""]
    after_code = False
    for node in nodes:
        piece = _inline(node, has_code=has_code, before=pieces[-1])
        is_text = node.tag == "-text"
        if after_code and not is_text and piece.startswith("`"):
            pieces[-1], piece = pieces[-1][:-1], piece[1:]
        if node.tag in _SEPARATORS and piece.strip():
            while len(pieces) > 1 and not pieces[-1].strip(_SPACES):
                pieces.pop()
            pieces[-1] = pieces[-1].rstrip(_SPACES)
            pieces.append(_separator(pieces, _SEPARATORS[node.tag]))
        if piece:
            pieces.append(piece)
        after_code = not is_text and piece.endswith("`")
    return "".join(pieces)


def _separator(pieces: Sequence[str], sign: str) -> str:
    """Return what stands before an item or a cell that follows others in a line."""
    last = next((each.rstrip()[-1] for each in reversed(pieces) if each.strip()), "")
    return sign if last and (last.isalnum() or last in ')]`"%') else " "


def _around(change: Callable[[str], str], words: str) -> str:
    """Change a text without the space around it."""
    bare = words.strip()
    lead = words[: len(words) - len(words.lstrip())]
    return f"{lead}{change(collapse_spaces(bare))}{words[len(words.rstrip()) :]}" if bare else words


def _holds_block(node: LexborNode) -> bool:
    """Return whether an inline element (`<a>`, an unknown one) contains blocks, which HTML allows."""
    return node.tag != "-text" and any(
        child.tag in BLOCKS or _holds_block(child) for child in node.iter()
    )

"""Load Markdown: CommonMark with tables, front matter and blocks of common dialects, as text without markup."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from whence.ingest.blocks import ParsedDocument
from whence.ingest.html_hidden import HIDDEN
from whence.ingest.line_breaks import add_run
from whence.ingest.loaders.base import Loader
from whence.ingest.loaders.rst import load_written, write_rst_into
from whence.ingest.markdown_dialects import LEAD, RST, plain_markdown
from whence.ingest.markdown_inline import InlineWriter, hides
from whence.ingest.obsidian import add_obsidian_rules, without_block_id, without_comments
from whence.ingest.sources import SourceFile
from whence.ingest.text_builder import LINE_END, TextBuilder
from whence.schema.errors import BadInput

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.tree import SyntaxTreeNode

#: Levels of nested blocks; deeper ones are not read.
_MAX_NESTING = 100
#: Open brackets around a link; the parser looks for the end of each of them in all of the text.
_MAX_BRACKETS = 20
_BRACKET = re.compile(r"!?\[|\]")
_ATTRIBUTES = re.compile(r"(?<![ \t])[ \t]*+\{:?[ \t]*+(?:#(?P<id>[\w.:-]++))?[^{}`\n]*+\}[ \t]*+$")
#: A note of GitHub or Obsidian, which may have a title.
_ALERT = re.compile(r"\[!([\w-]{1,40})(?:\|[^\]\n]*)?\][+-]?[ \t]*([^\n\f]*)\f?(?:\n|$)")
_TAG = re.compile(r"<(/?)([a-zA-Z][\w-]*+)([^<>]*+)>")
_VOID = frozenset(
    [
        "area",
        "base",
        "br",
        "col",
        "embed",
        "hr",
        "img",
        "input",
        "link",
        "meta",
        "source",
        "track",
        "wbr",
    ]
)
_LEAD_IN = re.compile(f"{LEAD}([^{LEAD}]*){LEAD}")
_DEFINITION = re.compile(r"\n[ ]{0,3}:[ \t]+")


def load_markdown(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a Markdown file; its title is that of the front matter, else the only heading of the top level."""
    return load_written(file, data, write_markdown)


def write_markdown(text: str, start: int = 0) -> TextBuilder:
    r"""Return the text of Markdown that begins at an offset; line ends must be `\n`.

    Raises:
        BadInput: HTML in it is nested too deeply.
    """
    builder = TextBuilder()
    write_markdown_into(builder, text[start:], text.count("\n", 0, start) + 1)
    return builder


def write_markdown_into(builder: TextBuilder, text: str, line: int, anchor: str = "") -> None:
    """Write Markdown that begins on a line of the file, from 1; 0 for files without lines.

    Args:
        builder: What is written to.
        text: The Markdown.
        line: The line.
        anchor: Anchor of all of the text; empty for those of its headings.

    Raises:
        BadInput: It is nested too deeply.
    """
    from markdown_it.tree import SyntaxTreeNode

    shown, hidden = without_comments(text)
    builder.left_out[HIDDEN] += hidden
    notes: dict[str, Any] = {}
    try:
        tree = SyntaxTreeNode(_parser().parse(plain_markdown(shown), notes))
        _Writer(builder, line, anchor, notes.get("footnotes", {})).write_all(tree)
    except RecursionError as error:
        raise BadInput("is nested too deeply") from error


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import image, link
    from mdit_py_plugins.dollarmath import dollarmath_plugin
    from mdit_py_plugins.footnote import footnote_plugin
    from mdit_py_plugins.footnote.index import footnote_inline

    parser = MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING})
    dollarmath_plugin(parser, allow_space=False, allow_digits=False, double_inline=True)
    footnote_plugin(parser, move_to_end=False)
    for name, rule in (("link", link), ("image", image), ("footnote_inline", footnote_inline)):
        parser.inline.ruler.at(name, _unless_crowded(rule))
    add_obsidian_rules(parser)
    return parser.enable(["table", "strikethrough"])


_Rule = Callable[["StateInline", bool], bool]


def _unless_crowded(rule: _Rule) -> _Rule:
    """Return a rule of links that does not look for the end of a bracket inside many others."""

    def wrapped(state: StateInline, silent: bool) -> bool:
        if state.src[state.pos] not in "![^":
            return False
        bracket = state.pos + (state.src[state.pos] == "^")
        return bracket not in _crowded(state.src) and rule(state, silent)

    return wrapped


@lru_cache(maxsize=4)
def _crowded(text: str) -> frozenset[int]:
    """Return where brackets, or the marks of images before them, are text.

    They are inside too many others, or among too many that are never closed.
    """
    found: list[range] = []
    still_open: list[range] = []
    for bracket in _BRACKET.finditer(text):
        if bracket[0] != "]":
            still_open.append(range(*bracket.span()))
            if len(still_open) > _MAX_BRACKETS:
                found.append(still_open[-1])
        elif still_open:
            still_open.pop()
    if len(still_open) > _MAX_BRACKETS:
        found += still_open
    return frozenset(at for places in found for at in places)


class _Writer:
    """Writes the blocks of a tree.

    Args:
        text: What is written to.
        first: Line of the file on which the text begins; 0 for files without lines.
        anchor: Anchor of all blocks; empty for those of headings.
        notes: Notes inside the text, as the parser lists them.
    """

    def __init__(self, text: TextBuilder, first: int, anchor: str, notes: dict[str, Any]) -> None:
        self._text = text
        self._first = first
        self._anchor = anchor
        self._inline_notes: dict[int, Any] = notes.get("list", {})
        self._inline = InlineWriter(text, self._note_mark).write
        self._notes: dict[str, SyntaxTreeNode] = {}
        self._referred_labels = {
            each["label"] for each in self._inline_notes.values() if "label" in each
        }
        self._pending: list[dict[str, Any]] = []
        self._referred: set[int] = set()
        self._kinds: dict[str, Callable[[SyntaxTreeNode], None]] = {
            "heading": self._heading,
            "paragraph": self._paragraph,
            "fence": self._code,
            "code_block": self._code,
            "bullet_list": self._list,
            "ordered_list": self._list,
            "table": self._table,
            "html_block": self._html,
            "blockquote": self._quote,
            "math_block": self._formula,
            "math_block_label": self._formula,
            "footnote_reference": self._lone_note,
        }
        self._depth = 0
        """Lists around what is written next."""

    def write_all(self, tree: SyntaxTreeNode) -> None:
        """Write all blocks, and each note in the section that refers to it first."""
        self._text.anchor = self._anchor
        self._notes = {
            node.meta["label"]: node for node in tree.walk() if node.type == "footnote_reference"
        }
        self.write(tree)
        self._write_notes()

    def write(self, node: SyntaxTreeNode) -> None:
        """Write the blocks below a node."""
        hidden: list[str] = []
        for child in node.children:
            was_hidden = bool(hidden)
            if child.type == "html_block":
                self._follow_tags(hidden, child.content)
            if not was_hidden:
                self._kinds.get(child.type, self.write)(child)

    def _line(self, node: SyntaxTreeNode) -> int:
        return self._first + node.map[0] if node.map and self._first else 0

    def _heading(self, node: SyntaxTreeNode) -> None:
        if not self._depth:
            self._write_notes()
        words = self._inline(node.children[0], has_code=False) if node.children else ""
        words = without_block_id(words)
        found = _ATTRIBUTES.search(words)
        words = words[: found.start()] if found else words
        self._text.anchor = self._anchor or ((found["id"] or "") if found else "")
        self._text.add_heading(int(node.tag[1:]), words, line=self._line(node))

    def _paragraph(self, node: SyntaxTreeNode) -> None:
        words, line = without_block_id(self._inline(node.children[0])), self._line(node)
        words = self._lead_in(words, line)
        # Of texts that were reStructuredText once.
        words = words[:-1] if words.endswith("::") else words
        term, *said = _DEFINITION.split(words)
        if not said or "\n" in term.strip():
            add_run(self._text, words, line=line)
            return
        with self._text.block(), self._text.definition([term], line=line):
            for each in said:
                line += bool(line)
                self._text.add_paragraph(each, line=line)
                line += line and each.count("\n")

    def _lead_in(self, words: str, line: int) -> str:
        """Take the words before a note from the start of a text."""
        while found := _LEAD_IN.search(words):
            self._text.add_paragraph(words[: found.start()], line=line)
            line += line and words.count("\n", 0, found.end())
            self._text.lead_in(found[1], line=line)
            words = LINE_END * words.count("\n", 0, found.end()) + words[found.end() :]
        return words

    def _code(self, node: SyntaxTreeNode) -> None:
        is_fence = node.type == "fence"
        info = node.info.split()[0] if is_fence and node.info.strip() else ""
        if info == RST:
            write_rst_into(self._text, node.content, max(self._line(node), 0) + 1)
            return
        language = re.match(r"[\w+#.-]{1,20}", info.strip("{}.").lower())
        self._text.add_code(
            node.content.split("\n"),
            language=language[0] if language else "",
            line=self._line(node) and self._line(node) + is_fence,
        )

    def _list(self, node: SyntaxTreeNode) -> None:
        is_numbered = node.type == "ordered_list"
        number = int(node.attrs.get("start", 1))
        self._depth += 1
        with self._text.block():
            for item in node.children:
                with self._text.item(f"{number}. " if is_numbered else "- "):
                    self.write(item)
                number += 1
        self._depth -= 1

    def _table(self, node: SyntaxTreeNode) -> None:
        rows = [row for part in node.children for row in part.children]
        cells = [
            [self._inline(cell.children[0]) if cell.children else "" for cell in row.children]
            for row in rows
        ]
        lines = [(self._line(row), self._line(row)) for row in rows]
        self._text.add_table(cells, lines=lines)

    def _html(self, node: SyntaxTreeNode) -> None:
        from whence.ingest.loaders.html import write_fragment

        first, after = node.map or (0, 0)
        anchor = self._text.anchor
        if self._first:
            self._text.lines = (self._first + first, self._first + after - 1)
        write_fragment(self._text, node.content)
        self._text.lines, self._text.anchor = (0, 0), self._anchor or anchor

    def _follow_tags(self, hidden: list[str], html: str) -> None:
        """Follow elements that hide blocks: `hidden` has the one that is open and those in it."""
        for tag in _TAG.finditer(html):
            name = tag[2].lower()
            if tag[1] and hidden and name == hidden[-1]:
                hidden.pop()
            elif not tag[1] and name not in _VOID and not tag[3].endswith("/"):
                kind = "" if hidden else hides(name, tag[3])
                is_closed = re.search(rf"</{name}\s*>", html[tag.end() :], re.IGNORECASE)
                if kind and not is_closed:
                    self._text.left_out[kind] += 1
                if kind or hidden:
                    hidden.append(name)

    def _quote(self, node: SyntaxTreeNode) -> None:
        """Write a quotation, or a note of GitHub or Obsidian: its kind, its title, and its blocks."""
        first = node.children[0] if node.children else None
        words = (
            self._inline(first.children[0])
            if first is not None and first.type == "paragraph"
            else ""
        )
        alert = _ALERT.match(words)
        if alert is None or first is None:
            self.write(node)
            return
        line = self._line(first)
        self._text.lead_in(alert[1].replace("-", " ").capitalize(), line=line)
        self._text.add_paragraph(alert[2], line=line)
        rest = words[alert.end() :]
        add_run(self._text, without_block_id(rest), line=line and line + alert[0].count("\n"))
        node.children.pop(0)
        self.write(node)
        self._text.end_lead_in()

    def _formula(self, node: SyntaxTreeNode) -> None:
        """Write a formula of a line as a paragraph, one of several lines as code."""
        lines = node.content.strip("\n").split("\n")
        if len(lines) > 1:
            self._text.add_code(lines, line=self._line(node) and self._line(node) + 1)
        else:
            self._text.add_paragraph(lines[0], line=self._line(node))

    # --- notes -------------------------------------------------------------------------------------

    def _note_mark(self, meta: dict[str, Any]) -> str:
        """Return the mark of a note, and let the note be written with the section."""
        number: int = meta["id"]
        if number not in self._referred:
            self._referred.add(number)
            self._pending.append(meta)
        return f"[{meta.get('label', number + 1)}]"

    def _write_notes(self) -> None:
        while self._pending:
            meta = self._pending.pop(0)
            label = meta.get("label", "")
            if label in self._notes:
                self._note(label, self._notes[label])
                continue
            from markdown_it.token import Token
            from markdown_it.tree import SyntaxTreeNode

            stated = self._inline_notes.get(meta["id"], {})
            tokens = [
                Token(
                    "inline",
                    "",
                    0,
                    content=stated.get("content", ""),
                    children=stated.get("tokens", []),
                )
            ]
            self._text.lead_in(f"Note {meta['id'] + 1}")
            self._text.add_paragraph(self._inline(SyntaxTreeNode(tokens).children[0]))

    def _lone_note(self, node: SyntaxTreeNode) -> None:
        """Write a note that no text refers to where it stands."""
        if node.meta["label"] not in self._referred_labels:
            self._note(node.meta["label"], node)

    def _note(self, label: str, node: SyntaxTreeNode) -> None:
        self._text.lead_in(f"Note {label}", line=self._line(node))
        self.write(node)
        self._text.end_lead_in()


LOADERS = (
    Loader(
        name="Markdown",
        suffixes=(".md", ".markdown"),
        parse_file=load_markdown,
        is_plain=True,
        version="12",
    ),
)

"""Load Markdown: CommonMark with tables, front matter and blocks of common dialects, as text without markup."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from whence.ingest.blocks import ParsedDocument
from whence.ingest.line_breaks import add_run
from whence.ingest.loaders.base import Loader
from whence.ingest.loaders.rst import load_written, write_rst_into
from whence.ingest.markdown_dialects import LEAD, RST, plain_markdown
from whence.ingest.roles import shown_role, without_left_over_roles
from whence.ingest.sources import SourceFile
from whence.ingest.text_builder import BREAK, LINE_END, TextBuilder, code_span
from whence.schema.errors import BadInput

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token
    from markdown_it.tree import SyntaxTreeNode

#: Levels of nested blocks; deeper ones are not read.
_MAX_NESTING = 100
#: Open brackets around a link; the parser looks for the end of each of them in all of the text.
_MAX_BRACKETS = 20
_BRACKET = re.compile(r"!?\[|\]")
_HTML_TAG = re.compile(r"<(/?)([a-zA-Z][\w-]*)")
_CODE_TAGS = frozenset(["code", "kbd", "tt", "samp"])
_ATTRIBUTES = re.compile(r"(?<![ \t])[ \t]*+\{:?[ \t]*+(?:#(?P<id>[\w.:-]++))?[^{}`\n]*+\}[ \t]*+$")
_INLINE_ATTRIBUTES = re.compile(r"\{:?[ \t]*[.#][\w-][^{}\n]*\}|\{%[^%\n]*%\}")
#: Before code: `{role}` of MyST, `:role:` of a text that was reStructuredText once.
_ROLE = re.compile(r"(?:\{([\w:+-]+)\}|(?<![\w`:]):([A-Za-z][\w:+.-]{0,80}):)$")
#: After code that was a reference in reStructuredText, and the address in it.
_REFERENCE_MARK = re.compile(r"__?(?!\w)")
_ADDRESS = re.compile(r"(?<!\s)\s*+<[^<>\s]+>(?=\x0b*$)")
_ALERT = re.compile(r"\[!(\w+)\][ \t\f]*(?:\n|$)")
_LEAD_IN = re.compile(f"{LEAD}([^{LEAD}]*){LEAD}")
_FOOTNOTE = re.compile(r"\[\^([^\]\s]+)\]:[ \t]*")
_FOOTNOTE_MARK = re.compile(r"(?<![ \t])[ \t]*+\[\^([^\]\s]{1,200})\]")
_DEFINITION = re.compile(r"\n[ ]{0,3}:[ \t]+")


def load_markdown(file: SourceFile, data: bytes) -> ParsedDocument:
    """Load a Markdown file; its title is that of the front matter, else the only heading of the top level."""
    return load_written(file, data, write_markdown)


def write_markdown(text: str, start: int = 0) -> TextBuilder:
    r"""Return the text of Markdown that begins at an offset; line ends must be `\n`.

    Raises:
        BadInput: HTML in it is nested too deeply.
    """
    from markdown_it.tree import SyntaxTreeNode

    above = text.count("\n", 0, start)
    builder = TextBuilder()
    try:
        tree = SyntaxTreeNode(_parser().parse(plain_markdown(text[start:])))
        _Writer(builder, above + 1).write(tree)
    except RecursionError as error:
        raise BadInput("is nested too deeply") from error
    return builder


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import image, link

    parser = MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING})
    for name, rule in (("link", link), ("image", image)):
        parser.inline.ruler.at(name, _unless_crowded(rule))
    return parser.enable(["table", "strikethrough"])


_Rule = Callable[["StateInline", bool], bool]


def _unless_crowded(rule: _Rule) -> _Rule:
    """Return a rule of links that does not look for the end of a bracket inside many others."""

    def wrapped(state: StateInline, silent: bool) -> bool:
        if state.src[state.pos] not in "![":
            return False
        return state.pos not in _crowded(state.src) and rule(state, silent)

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
    """Writes the blocks of a tree; `first` is the line of the file on which the text begins."""

    def __init__(self, text: TextBuilder, first: int) -> None:
        self._text = text
        self._first = first

    def write(self, node: SyntaxTreeNode) -> None:
        """Write the blocks below a node."""
        for child in node.children:
            kind = child.type
            if kind == "heading":
                self._heading(child)
            elif kind == "paragraph":
                self._paragraph(child)
            elif kind in ("fence", "code_block"):
                self._code(child)
            elif kind in ("bullet_list", "ordered_list"):
                self._list(child)
            elif kind == "table":
                self._table(child)
            elif kind == "html_block":
                self._html(child)
            else:
                self.write(child)

    def _line(self, node: SyntaxTreeNode) -> int:
        return self._first + node.map[0] if node.map else 0

    def _heading(self, node: SyntaxTreeNode) -> None:
        words = _inline(node.children[0], has_code=False) if node.children else ""
        found = _ATTRIBUTES.search(words)
        words = words[: found.start()] if found else words
        self._text.anchor = (found["id"] or "") if found else ""
        self._text.add_heading(int(node.tag[1:]), words, line=self._line(node))

    def _paragraph(self, node: SyntaxTreeNode) -> None:
        words, line = _inline(node.children[0]), self._line(node)
        words = self._lead_in(words, line)
        note = _FOOTNOTE.match(words)
        if note:
            self._text.lead_in(f"Note {note[1]}", line=line)
            words = words[note.end() :]
        words = _FOOTNOTE_MARK.sub(r" (note \1)", words)
        # Of texts that were reStructuredText once.
        words = words[:-1] if words.endswith("::") else words
        term, *said = _DEFINITION.split(words)
        if not said or "\n" in term.strip():
            add_run(self._text, words, line=line)
            return
        with self._text.block(), self._text.definition([term], line=line):
            for each in said:
                line += 1
                self._text.add_paragraph(each, line=line)
                line += each.count("\n")

    def _lead_in(self, words: str, line: int) -> str:
        """Take the words before a note from the start of a text."""
        alert = _ALERT.match(words)
        if alert:
            self._text.lead_in(alert[1].capitalize(), line=line)
            return LINE_END * alert[0].count("\n") + words[alert.end() :]
        while found := _LEAD_IN.search(words):
            self._text.add_paragraph(words[: found.start()], line=line)
            line += words.count("\n", 0, found.end())
            self._text.lead_in(found[1], line=line)
            words = LINE_END * words.count("\n", 0, found.end()) + words[found.end() :]
        return words

    def _code(self, node: SyntaxTreeNode) -> None:
        is_fence = node.type == "fence"
        info = node.info.split()[0] if is_fence and node.info.strip() else ""
        if info == RST:
            write_rst_into(self._text, node.content, self._line(node) + 1)
            return
        language = re.match(r"[\w+#.-]{1,20}", info.strip("{}.").lower())
        self._text.add_code(
            node.content.split("\n"),
            language=language[0] if language else "",
            line=self._line(node) + is_fence,
        )

    def _list(self, node: SyntaxTreeNode) -> None:
        is_numbered = node.type == "ordered_list"
        number = int(node.attrs.get("start", 1))
        with self._text.block():
            for item in node.children:
                with self._text.item(f"{number}. " if is_numbered else "- "):
                    self.write(item)
                number += 1

    def _table(self, node: SyntaxTreeNode) -> None:
        rows = [row for part in node.children for row in part.children]
        cells = [
            [_inline(cell.children[0]) if cell.children else "" for cell in row.children]
            for row in rows
        ]
        lines = [(self._line(row), self._line(row)) for row in rows]
        self._text.add_table(cells, lines=lines)

    def _html(self, node: SyntaxTreeNode) -> None:
        from whence.ingest.loaders.html import write_fragment

        first, after = node.map or (0, 0)
        self._text.lines = (self._first + first, self._first + after - 1)
        write_fragment(self._text, node.content)
        self._text.lines = (0, 0)


def _inline(node: SyntaxTreeNode, *, has_code: bool = True) -> str:
    """Return the text of inline elements; line ends are those of the file."""
    token = node.token
    if token is None or not token.children:
        return ""
    pieces: list[str] = []
    tags: list[str] = []
    at = 0
    # Of emphasis that is open, whether it is the marks of two references.
    references: list[bool] = []
    for before, child in zip([None, *token.children], token.children, strict=False):
        mark = _reference_mark(before, child, references)
        if mark is not None:
            pieces[-1] = _ADDRESS.sub("", pieces[-1].replace("`", ""))
        if child.type == "code_inline":
            at = _write_code(pieces, child, token.content, at, has_code=has_code)
        elif child.type == "html_inline":
            _write_tag(pieces, tags, child.content, has_code=has_code)
        elif child.type in ("softbreak", "hardbreak"):
            pieces.append("\n" if child.type == "softbreak" else f"{BREAK}\n")
        elif child.type == "image":
            pieces.append(LINE_END * child.content.count("\n"))
        elif child.content:
            words = child.content.removeprefix(mark or "")
            pieces.append(without_left_over_roles(_INLINE_ATTRIBUTES.sub("", words)))
    words = "".join(pieces)
    return words + "`" * (words.count("`") % 2 if tags else 0)


def _reference_mark(before: Token | None, child: Token, references: list[bool]) -> str | None:
    """Return the marks of a reST reference after code, which may be read as emphasis; else None."""
    after_code = before is not None and before.type == "code_inline"
    if child.type in ("em_open", "strong_open"):
        references.append(after_code and child.markup[0] == "_")
        return child.markup if references[-1] else None
    if child.type in ("em_close", "strong_close"):
        return child.markup if references.pop() and after_code else None
    found = _REFERENCE_MARK.match(child.content) if after_code else None
    return found[0] if found else None


def _write_code(pieces: list[str], child: Token, raw: str, at: int, *, has_code: bool) -> int:
    """Add inline code, with the line ends that the parser made spaces; return where the search goes on."""
    pattern = r"[ \n]".join(map(re.escape, child.content.split(" ")))
    found = re.compile(pattern).search(raw, at)
    broken = found[0].count("\n") if found else 0
    role = _ROLE.search(pieces[-1]) if pieces else None
    words, is_code = child.content, has_code
    if role:
        pieces[-1] = pieces[-1][: role.start()]
        words, shows_code = shown_role(role[1] or role[2], child.content)
        is_code = has_code and shows_code
    pieces.append((code_span(words) if is_code else words) + LINE_END * broken)
    return found.end() if found else at


def _write_tag(pieces: list[str], tags: list[str], html: str, *, has_code: bool) -> None:
    """Add what stands for a tag inside a text: a line break, backticks around code, `; ` between items."""
    tag = _HTML_TAG.match(html)
    name = tag[2].lower() if tag else ""
    if name == "br":
        pieces.append(f"{BREAK} ")
    elif name in _CODE_TAGS and has_code:
        pieces.append("`")
        tags.append(name)
    elif html == "</li>":
        pieces.append("; ")
    elif html in ("</ul>", "</ol>") and pieces[-2:-1] == ["; "]:
        del pieces[-2:]
    pieces.append(LINE_END * html.count("\n"))


LOADERS = (
    Loader(
        name="Markdown",
        suffixes=(".md", ".markdown"),
        parse_file=load_markdown,
        is_plain=True,
        version="7",
    ),
)

"""Units of a text: the smallest pieces that a reader understands as their author wrote them.

In: a passage, as plain text with Markdown's lists, tables and fences, and definitions indented below terms.
Out: spans of it, always verbatim. `split_blocks` cuts it into blocks that do not overlap and contain all of it.
`split_units` joins these to what can be quoted: a paragraph, a definition with its term, a list with its lead
or one item, a table or one row, code with its lead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Literal, NamedTuple

from whence.text.scripts import count_words

UnitKind = Literal["prose", "definition", "section", "list", "item", "table", "row", "code"]
BlockKind = Literal["heading", "prose", "term", "item", "header", "row", "code"]

#: Most words of a unit that is joined of several blocks; a longer one is offered in parts.
MAX_WORDS = 90
#: Most lines of code that are quoted with their lead-in.
_MAX_CODE_LINES = 40

#: Most words of a caption.
_CAPTION_WORDS = 20
_SENTENCE_ENDS = ".!?\u2026\u3002"

_HEADING = re.compile(r"#{1,6}[ \t]+\S")
_FENCE = re.compile(r"[ \t]*(```+|~~~+)")
#: The line before or after code in a text.
FENCE_LINE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
_LINE_BEFORE = re.compile(r"\S[ \t]*\n\Z")
_NOTHING_FOLLOWS = re.compile(r"[`~]*[ \t]*(?:\n[ \t]*(?:\n|\Z)|\Z)")
_ITEM = re.compile(r"[ \t]*(?:[-*+\u2022]|\d{1,3}[.)])[ \t]+\S")
_TABLE = re.compile(r"[ \t]*\|.*\|[ \t]*\Z")
#: A label of a few words and what it stands for; a question that a line asks has its answer in the next one.
LABEL = re.compile(
    r"[ \t]*([^\s:\uff1a][^\n:\uff1a]{0,48})(?::[ \t]|\uff1a[ \t]*)(?=\S)(?!.*[?\uff1f]\s*\Z)"
)
_RULE = re.compile(r"(?=[ \t:|=+~^-]*+\Z).*?[-=~^]{3}")


def begins_in_code(text: str) -> bool:
    r"""Return whether a text begins inside of code: a passage may begin there if the code is longer than one.

    The line before code follows an empty one or a term. The line after code follows the code, and an empty one
    follows it.

    >>> begins_in_code("x = 1\n```\n\nThen:"), begins_in_code("Then:\n\n```\nx = 1")
    (True, False)
    >>> begins_in_code("break\n    ```\n    break [n]\n    ```")
    False
    """
    first = FENCE_LINE.search(text)
    if first is None or not _LINE_BEFORE.search(text, 0, first.start()):
        return False
    return _NOTHING_FOLLOWS.match(text, first.end()) is not None


class Block(NamedTuple):
    """A piece of a text between blank lines, or one item, term, row or heading."""

    start: int
    end: int
    kind: BlockKind
    indent: int
    """Columns before its first character."""


class Unit(NamedTuple):
    """One or more adjacent blocks that are understood without the others."""

    start: int
    end: int
    kind: UnitKind
    context: tuple[str, ...] = ()
    """Terms, lead-ins and headings of tables above it that its span does not contain, the outermost first."""


class _Line(NamedTuple):
    start: int
    end: int
    indent: int
    kind: Literal["blank", "fence", "code", "heading", "table", "rule", "item", "text"]


def split_blocks(
    text: str, headings: Sequence[str] = (), *, is_preformatted: bool = False
) -> list[Block]:
    r"""Cut a text into blocks: in order, not overlapping, with all characters that are not space.

    Args:
        text: The text.
        headings: Lines that are headings, though nothing marks them as such.
        is_preformatted: Whether the text has no marks of Markdown: `#` begins a comment there.

    >>> text = "port\n    The port.\n\n- one\n- two"
    >>> [(text[b.start:b.end], b.kind) for b in split_blocks(text)]
    [('port', 'term'), ('The port.', 'prose'), ('- one', 'item'), ('- two', 'item')]
    """
    found = _plain_lines(text) if is_preformatted else _lines(text, frozenset(headings))
    lines = _with_first_indent(list(found))
    blocks: list[Block] = []
    open_kind: str = ""
    for place, line in enumerate(lines):
        following = lines[place + 1] if place + 1 < len(lines) else None
        blank = not text[line.start : line.end].strip()
        if line.kind == "blank" or (blank and open_kind != "code"):
            open_kind = ""
            continue
        start = line.start + _spaces(text, line.start, line.end)
        deeper = bool(blocks) and line.indent > blocks[-1].indent
        if line.kind == "text" and open_kind == "prose" and deeper:
            # Text directly below, indented: the lines before it are the terms of a definition.
            blocks[-1] = blocks[-1]._replace(kind="term")
            open_kind = ""
        joins = (
            (line.kind in ("code", "fence") and open_kind == "code")
            or (line.kind == "rule" and open_kind in ("header", "prose"))
            or (line.kind == "text" and open_kind in ("prose", "item"))
        )
        if joins:
            last = blocks[-1]
            underlined = line.kind == "rule" and last.kind == "prose"
            blocks[-1] = last._replace(end=line.end, kind="heading" if underlined else last.kind)
            closes_fence = line.kind == "fence"
            open_kind = "" if underlined or closes_fence else open_kind
            continue
        kind = _kind(line, following, open_kind)
        blocks.append(Block(start, line.end, kind, line.indent))
        open_kind = "" if kind in ("heading", "term") else kind
    return [one._replace(end=one.start + len(text[one.start : one.end].rstrip())) for one in blocks]


def _with_first_indent(lines: list[_Line]) -> list[_Line]:
    """Restore the indent that the first line of a passage has lost, where it is a term.

    The definition below it is indented more; the next term beside it, less than that.
    """
    if len(lines) < 2 or lines[0].kind != "text" or lines[1].kind not in ("text", "fence"):
        return lines
    body = lines[1].indent
    beside = (one.indent for one in lines[2:] if one.kind == "text" and one.indent < body)
    return [lines[0]._replace(indent=max(beside, default=0)), *lines[1:]]


def _kind(line: _Line, following: _Line | None, open_kind: str) -> BlockKind:
    """Return the kind of a block that begins with a line."""
    if line.kind in ("fence", "code"):
        return "code"
    if line.kind == "heading":
        return "heading"
    if line.kind == "item":
        return "item"
    if line.kind == "table":
        return "row" if open_kind in ("header", "row") else "header"
    below = following is not None and following.kind in ("text", "item", "fence")
    return "term" if below and following and following.indent > line.indent else "prose"


def _lines(text: str, headings: frozenset[str]) -> Iterator[_Line]:
    fence = "```" if begins_in_code(text) else ""
    start = 0
    for whole in text.split("\n"):
        end = start + len(whole)
        line = whole.rstrip()
        mark = _FENCE.match(line)
        indent = len(line) - len(line.lstrip())
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
            yield _Line(start, end, indent, "fence")
        elif fence:
            yield _Line(start, end, indent, "code")
        elif not line:
            yield _Line(start, end, 0, "blank")
        elif _HEADING.match(line) or line in headings:
            yield _Line(start, end, indent, "heading")
        elif _RULE.match(line):
            yield _Line(start, end, indent, "rule")
        elif _TABLE.match(line):
            yield _Line(start, end, indent, "table")
        else:
            yield _Line(start, end, indent, "item" if _ITEM.match(line) else "text")
        start = end + 1


def _plain_lines(text: str) -> Iterator[_Line]:
    """Yield the lines of code, settings or logs, which have items of lists but no other marks."""
    start = 0
    for whole in text.split("\n"):
        line = whole.rstrip()
        indent = len(line) - len(line.lstrip())
        kind: Literal["blank", "item", "text"] = "item" if _ITEM.match(line) else "text"
        yield _Line(start, start + len(whole), indent, kind if line else "blank")
        start += len(whole) + 1


def _spaces(text: str, start: int, end: int) -> int:
    return len(text[start:end]) - len(text[start:end].lstrip())


class _Node(NamedTuple):
    """A block with those that are indented below it."""

    block: Block
    children: list[_Node]

    @property
    def end(self) -> int:
        return self.children[-1].end if self.children else self.block.end


def split_units(
    text: str, headings: Sequence[str] = (), *, is_preformatted: bool = False
) -> list[Unit]:
    r"""Return all spans of a text that can be quoted alone, in order of their start, the longer first.

    Units may contain one another: a short list is a unit, and so is each of its items. A heading is none. Cost:
    linear in the text, times the depth of nesting.

    >>> text = "Ports:\n\n- http is 80\n- https is 443"
    >>> [(text[u.start:u.end], u.context) for u in split_units(text)][1:]
    [('- http is 80', ('Ports:',)), ('- https is 443', ('Ports:',))]
    """
    units: dict[tuple[int, int], Unit] = {}
    nodes = _tree(split_blocks(text, headings, is_preformatted=is_preformatted))
    for unit in (*_units(text, nodes, ()), *_sections(text, nodes)):
        units.setdefault((unit.start, unit.end), unit)
    return sorted(units.values(), key=lambda one: (one.start, -one.end))


def _tree(blocks: Sequence[Block]) -> list[_Node]:
    """Hang each block below the nearest term or item before it that is indented less."""
    root: list[_Node] = []
    path: list[_Node] = []
    for block in blocks:
        while path and (block.kind == "heading" or block.indent <= path[-1].block.indent):
            path.pop()
        node = _Node(block, [])
        (path[-1].children if path else root).append(node)
        if block.kind in ("term", "item"):
            path.append(node)
    return root


def _units(text: str, nodes: Sequence[_Node], context: tuple[str, ...]) -> Iterator[Unit]:
    place = 0
    while place < len(nodes):
        group = _group(text, nodes, place)
        lead = nodes[place] if group and nodes[place].block.kind == "prose" else None
        place += bool(lead) + len(group)
        if group:
            yield from _joined(text, lead, group, context)
            continue
        node = nodes[place]
        place += 1
        if node.block.kind == "term":
            yield from _definition(text, node, context)
        elif node.block.kind == "prose" and not _announces(text, node):
            yield Unit(node.block.start, node.end, "prose", context)
            yield from _labelled(text, node.block, context)
            answer = nodes[place] if place < len(nodes) else None
            if (
                answer
                and answer.block.kind == "prose"
                and text[: node.end].endswith(("?", "\uff1f"))
            ):
                yield Unit(node.block.start, answer.end, "prose", context)


def _labelled(text: str, block: Block, context: tuple[str, ...]) -> Iterator[Unit]:
    r"""Yield the lines of a paragraph in which each has a label of its own, as those of contacts have.

    >>> text = "Office: Ida Berg, room 4\nPlumber: Jo Lind, 0171 55"
    >>> [text[one.start:one.end] for one in split_units(text)][1:]
    ['Office: Ida Berg, room 4', 'Plumber: Jo Lind, 0171 55']
    """
    lines = text[block.start : block.end].split("\n")
    labels = [label[1].strip() for line in lines if (label := LABEL.match(line))]
    if len(lines) < 2 or len(set(labels)) < len(lines):
        return
    start = block.start
    for line in lines:
        indent = len(line) - len(line.lstrip())
        yield Unit(start + indent, start + len(line.rstrip()), "item", context)
        start += len(line) + 1


def _sections(text: str, nodes: Sequence[_Node]) -> Iterator[Unit]:
    """Yield what follows each heading, as far as it is short, if that is more than one block."""
    for place, node in enumerate(nodes):
        below = list(takewhile(lambda one: one.block.kind != "heading", nodes[place + 1 :]))
        if node.block.kind != "heading" or not below:
            continue
        start = below[0].block.start
        short = [one for one in below if _words(text, start, one.end) <= MAX_WORDS]
        if len(short) > 1 and not _announces(text, short[-1]):
            yield Unit(start, short[-1].end, "section")


def _group(text: str, nodes: Sequence[_Node], place: int) -> list[_Node]:
    """Return the list, table or code that begins here, or after the paragraph here."""
    first = nodes[place].block.kind
    if first == "prose":
        place += 1
    kind = nodes[place].block.kind if place < len(nodes) else ""
    kinds = {"item": ("item",), "header": ("row",), "row": ("row",), "code": ()}
    if kind not in kinds:
        return []
    lead = nodes[place - 1]
    named = kind == "header" and _names_table(text, lead)
    if first == "prose" and kind != "code" and not named and not _announces(text, lead):
        return []
    end = place + 1
    while end < len(nodes) and nodes[end].block.kind in kinds[kind]:
        end += 1
    return list(nodes[place:end])


def _names_table(text: str, node: _Node) -> bool:
    """Return whether a paragraph above a table is its caption: short, and no sentence."""
    said = text[node.block.start : node.block.end]
    return count_words(said) <= _CAPTION_WORDS and said[-1:] not in _SENTENCE_ENDS


def _announces(text: str, node: _Node) -> bool:
    return text[: node.block.end].endswith((":", "\uff1a"))


def _joined(
    text: str, lead: _Node | None, group: Sequence[_Node], context: tuple[str, ...]
) -> Iterator[Unit]:
    """Yield a list, table or code with its lead-in if it is short, and its parts."""
    kind = group[0].block.kind
    start = (lead or group[0]).block.start
    end = group[-1].end
    said = text[lead.block.start : lead.block.end] if lead else ""
    below = (*context, said) if said else context
    if kind == "code":
        if text.count("\n", start, end) <= _MAX_CODE_LINES:
            yield Unit(start, end, "code", context)
        if lead and not _announces(text, lead):
            yield Unit(lead.block.start, lead.block.end, "prose", context)
        return
    whole: UnitKind = "list" if kind == "item" else "table"
    if _words(text, start, end) <= MAX_WORDS:
        yield Unit(start, end, whole, context)
    if kind == "item":
        for node in group:
            yield from _item(text, node, below)
        return
    header = group[0].block if kind == "header" else None
    row_context = (*below, text[header.start : header.end]) if header else below
    for node in group[1:] if header else group:
        yield Unit(node.block.start, node.block.end, "row", row_context)


def _item(text: str, node: _Node, context: tuple[str, ...]) -> Iterator[Unit]:
    """Yield an item with all that belongs to it if that is short, else its first paragraph and the others."""
    block = node.block
    if not node.children or _words(text, block.start, node.end) <= MAX_WORDS:
        yield Unit(block.start, node.end, "item", context)
    if node.children:
        yield Unit(block.start, block.end, "item", context)
        yield from _units(text, node.children, (*context, text[block.start : block.end]))


def _definition(text: str, node: _Node, context: tuple[str, ...]) -> Iterator[Unit]:
    """Yield a term with the first piece of its definition, with all that is short, and each further piece."""
    start, children = node.block.start, node.children
    term = text[start : node.block.end]
    pieces = list(_units(text, children, (*context, term)))
    first = min((one.end for one in pieces), default=node.end)
    lead = children[0] if children else node
    if lead.block.kind == "prose":
        first = max(first, lead.end)
    short = [child.end for child in children if _words(text, start, child.end) <= MAX_WORDS]
    for end in sorted({first, *short[-1:]}):
        yield Unit(start, end, "definition", context)
    # What begins where the definition begins would be quoted without its term.
    yield from (one for one in pieces if one.start > lead.block.start or one.kind != "prose")


def _words(text: str, start: int, end: int) -> int:
    return count_words(text[start:end])

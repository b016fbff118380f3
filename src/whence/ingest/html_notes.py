"""Find footnotes and endnotes of pages, so that their text can stand in the section that refers to them.

A mark of a note becomes text that no text contains, `MARK`; the writer of a page shows it as `[2]`, and writes
the note before the next heading.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from posixpath import dirname, join, normpath
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from whence.ingest.html_nodes import (
    ALL_HEADINGS,
    BLOCKS,
    HEADINGS,
    ancestors,
    attribute,
    has_ancestor,
    words_of,
)

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

#: A mark of a note: its label and the number of the note, empty if its text is not known.
MARK = re.compile("\x0e([^\x0e\x0f]*)\x0f([0-9]*)\x0f")
_REFERENCE_CLASS = re.compile(r"(?:foot|end|side)[\s_-]?note|note-?ref|fn-?ref", re.IGNORECASE)
_REFERENCE_ROLES = frozenset(["doc-noteref", "noteref"])
_BACK_ROLES = frozenset(["doc-backlink", "backlink"])
_BACK_CLASS = re.compile(r"back-?(?:ref|link)|reversefootnote|fn-?back", re.IGNORECASE)
_BRACKETED = re.compile(r"\[(?:\d{1,3}|[^\W\d_]|[*\u2020\u2021])\]")
_LABEL = re.compile(
    r"[\[(]?\s*((?:[^\W_]{1,5}\s)?[^\W_]{1,4}|[*\u2020\u2021\u00a7\u00b6#]{1,4})\s*[\])]?"
)
_ARROWS = re.compile(r"[\u2191\u21a9\u21b5\u2b06\ufe0e\ufe0f^\s\[\]]+")
#: Characters of a note; a longer one is a section that a link leads to.
_MAX_NOTE = 5000
#: The label that a note begins with, and what is left of it without the link in it.
_OWN_LABEL = re.compile(r"\s*+[\[(^]{0,2}([^\s\[\](){}.:^]{1,10})[\])]?[.:)]?(?![^\W_])\s*+")
_EMPTY_LABEL = re.compile(r"[\s\u2191^]*+(?:\[\s*+\]|\(\s*+\))?[.:]?\s*+")
_CLIMBED = frozenset(["li", "dd", "aside"])


class Note(NamedTuple):
    """A note: its label, its element, and the path of its page."""

    label: str
    node: LexborNode
    path: str


class Notes:
    """The notes of some pages that refer to one another, and the elements that contain them."""

    def __init__(self) -> None:
        self.found: list[Note] = []
        self.ids: set[int] = set()
        """`mem_id`s of the notes."""
        self.around: set[int] = set()
        """`mem_id`s of the notes and of all elements around them."""

    def collect(self, pages: Mapping[str, LexborNode]) -> None:
        """Replace the marks of notes in some pages, by path; one page may have an empty path."""
        targets = {
            (path, attribute(node, "id") or attribute(node, "name")): node
            for path, root in pages.items()
            for node in reversed(root.css("[id], a[name]"))
        }
        numbers: dict[int, int] = {}
        back: list[LexborNode] = []
        marks: list[tuple[LexborNode, str]] = []
        for path, root in pages.items():
            for link in root.css("a[href*='#']"):
                address = _target(path, attribute(link, "href"))
                target = targets.get(address)
                if _is_back(link) or (target is not None and has_ancestor(link, self.ids)):
                    back.append(link)
                    continue
                label = _reference_label(link)
                if not label:
                    continue
                block = _note_block(target, link) if target is not None else None
                if block is not None and block.mem_id not in numbers:
                    numbers[block.mem_id] = len(self.found)
                    self.found.append(Note(label, block, address[0]))
                    self.ids.add(block.mem_id)
                    self.around.update((block.mem_id, *(each.mem_id for each in ancestors(block))))
                number = numbers.get(block.mem_id, "") if block is not None else ""
                marks.append((link, f"\x0e{label}\x0f{number}\x0f"))
        for link, mark in marks:
            _outer(link).replace_with(mark)
        for link in back:
            label = words_of(link).strip("[]() ")
            if (
                label in {note.label for note in self.found}
                or _ARROWS.fullmatch(label)
                or _is_back(link)
            ):
                link.decompose()


def without_label(words: str, label: str) -> str:
    """Return the text of a note without the label that it begins with.

    >>> without_label("2. Since May.", "2"), without_label("[2] Since May.", "2"), without_label("20 men", "2")
    ('Since May.', 'Since May.', '20 men')
    """
    found = _OWN_LABEL.match(words)
    rest = words[found.end() :] if found and found[1] == label else words
    empty = _EMPTY_LABEL.match(rest)
    return rest[empty.end() :] if empty else rest


def _target(path: str, href: str) -> tuple[str, str]:
    file, _, name = unquote(href).partition("#")
    return (normpath(join(dirname(path), file)) if file else path), name


def _is_back(link: LexborNode) -> bool:
    if _BACK_ROLES & {attribute(link, "role"), attribute(link, "epub:type")}:
        return True
    near = (link, *islice(ancestors(link), 3))
    return any(
        _BACK_CLASS.search(attribute(each, "class")) for each in near if each.tag not in BLOCKS
    )


def _reference_label(link: LexborNode) -> str:
    """Return the label of a link that is the mark of a note; else empty."""
    words = words_of(link)
    label = _LABEL.fullmatch(words)
    if label is None:
        return ""
    roles = {attribute(link, "role"), attribute(link, "epub:type")}
    raised = link.css_first("sup")
    is_raised = _is_in_raised(link) or (raised is not None and words_of(raised) == words)
    is_mark = (
        is_raised
        or bool(roles & _REFERENCE_ROLES)
        or bool(_REFERENCE_CLASS.search(attribute(link, "class")))
        or bool(_BRACKETED.fullmatch(words))
    )
    return label[1] if is_mark else ""


def _is_in_raised(link: LexborNode) -> bool:
    parent = link.parent
    for _ in range(2):
        if parent is not None and parent.tag == "sup":
            return True
        parent = parent.parent if parent is not None else None
    return False


def _outer(link: LexborNode) -> LexborNode:
    """Return the element that shows nothing but a mark: raised text around a link."""
    outer, words = link, words_of(link)
    parent = link.parent
    while (
        parent is not None
        and parent.tag not in BLOCKS
        and words_of(parent).strip("[]()") == words.strip("[]()")
    ):
        outer, parent = parent, parent.parent
    return outer


def _note_block(target: LexborNode, link: LexborNode) -> LexborNode | None:
    """Return the block of a note that a link leads to; none if what it leads to is no note."""
    block = target
    while block.tag not in BLOCKS:
        if block.parent is None:
            return None
        block = block.parent
    parent = block.parent
    if parent is not None and parent.tag in _CLIMBED and len(words_of(parent)) <= _MAX_NOTE:
        block = parent
    around = {block.mem_id}
    is_note = (
        block.tag not in HEADINGS
        and block.tag not in ("body", "html", "td", "th", "tr", "table", "dt")
        and block.css_first(ALL_HEADINGS) is None
        and 0 < len(words_of(block)) <= _MAX_NOTE
        and not has_ancestor(link, around)
    )
    return block if is_note else None

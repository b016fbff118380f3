"""Number the paragraphs of a Word document as Word shows them."""

from __future__ import annotations

import re
from typing import NamedTuple
from xml.etree.ElementTree import Element

from whence.ingest.office.numbering import format_number
from whence.ingest.office.word_styles import VAL, Numbering, Styles, W, is_on, whole_number

_LEVELS = 9
_DIGITS = ("decimal", "decimalZero", "none")
_PLACEHOLDER = re.compile("%([1-9])")
#: Lists that lead to one another through styles more often are damaged.
_MAX_LINKS = 10


class Level(NamedTuple):
    """How paragraphs of a level are numbered."""

    start: int
    kind: str
    text: str
    restarts_after: int | None
    """Number of the level, from 1, after which it begins again; None for any above it, 0 for none."""
    is_legal: bool
    """Whether the numbers of levels above are written in digits."""
    style: str


class Label(NamedTuple):
    """The number of a paragraph as shown, `1.1` or `(a)`; empty for a bullet."""

    text: str
    level: int


class WordNumbering:
    """The lists of a document, and how far each was counted.

    Args:
        root: The part that holds them; None for none.
        styles: The styles, which may name lists.
    """

    def __init__(self, root: Element | None, styles: Styles) -> None:
        self._styles = styles
        self._abstract: dict[str, Element] = {}
        self._lists: dict[str, Element] = {}
        self._levels: dict[str, tuple[str, dict[int, Level], dict[int, int]]] = {}
        self._counts: dict[str, dict[int, int]] = {}
        self._begun: set[tuple[str, int]] = set()
        for node in root if root is not None else ():
            if node.tag == f"{W}abstractNum":
                self._abstract[node.get(f"{W}abstractNumId", "")] = node
            elif node.tag == f"{W}num":
                self._lists[node.get(f"{W}numId", "")] = node

    def label(self, numbering: Numbering) -> Label | None:
        """Count a paragraph and return its label; None if it is in no list."""
        if numbering.list_id is None or numbering.list_id not in self._lists:
            return None
        abstract, levels, starts = self._list(numbering.list_id)
        at = self._level_of(numbering, levels)
        level = levels.get(at)
        if level is None:
            return None
        counts = self._counts.setdefault(abstract, {})
        if at in starts and (numbering.list_id, at) not in self._begun:
            self._begun.add((numbering.list_id, at))
            counts.pop(at, None)
        counts[at] = counts[at] + 1 if at in counts else starts.get(at, level.start)
        for other, below in levels.items():
            if other < at:
                counts.setdefault(other, starts.get(other, below.start))
            elif other > at and _restarts(below, at):
                counts.pop(other, None)
        if level.kind == "bullet":
            return Label("", at)
        text = _PLACEHOLDER.sub(
            lambda found: self._number(found, level, levels, counts), level.text
        ).strip()
        return Label(text, at) if text else None

    @staticmethod
    def _level_of(numbering: Numbering, levels: dict[int, Level]) -> int:
        if numbering.style:
            for at, level in levels.items():
                if level.style == numbering.style:
                    return at
        return min(max(numbering.level or 0, 0), _LEVELS - 1)

    @staticmethod
    def _number(
        found: re.Match[str], level: Level, levels: dict[int, Level], counts: dict[int, int]
    ) -> str:
        at = int(found[1]) - 1
        if at not in levels or at not in counts:
            return ""
        kind = levels[at].kind
        in_digits = level.is_legal and kind not in _DIGITS
        return format_number(counts[at], "decimal" if in_digits else kind)

    def _list(self, list_id: str) -> tuple[str, dict[int, Level], dict[int, int]]:
        """Return the id of the numbers that a list shares with others, its levels, and where it begins anew."""
        if list_id not in self._levels:
            node = self._lists[list_id]
            abstract = self._abstract_of(node)
            levels: dict[int, Level] = {}
            starts: dict[int, int] = {}
            found = self._abstract.get(abstract)
            for each in found.iter(f"{W}lvl") if found is not None else ():
                levels[whole_number(each.get(f"{W}ilvl")) or 0] = _level(each)
            for override in node.iter(f"{W}lvlOverride"):
                at = whole_number(override.get(f"{W}ilvl")) or 0
                own, start = override.find(f"{W}lvl"), override.find(f"{W}startOverride")
                if own is not None:
                    levels[at] = _level(own)
                if start is not None:
                    starts[at] = whole_number(start.get(VAL)) or 0
            self._levels[list_id] = (abstract, dict(sorted(levels.items())), starts)
        return self._levels[list_id]

    def _abstract_of(self, node: Element | None) -> str:
        """Return the id of the definition of a list, which may be that of a style of lists."""
        abstract = ""
        for _ in range(_MAX_LINKS):
            named = node.find(f"{W}abstractNumId") if node is not None else None
            if named is None:
                break
            abstract = named.get(VAL, "")
            found = self._abstract.get(abstract)
            link = found.find(f"{W}numStyleLink") if found is not None else None
            if link is None:
                break
            style = self._styles.style(link.get(VAL, ""))
            node = self._lists.get(style.numbering.list_id or "")
        return abstract


def _restarts(level: Level, after: int) -> bool:
    if level.restarts_after is None:
        return True
    return after < level.restarts_after


def _level(node: Element) -> Level:
    def value(name: str) -> str | None:
        found = node.find(f"{W}{name}")
        return found.get(VAL, "") if found is not None else None

    kind = value("numFmt") or "decimal"
    text = value("lvlText") or ""
    start = whole_number(value("start"))
    return Level(
        start=0 if start is None else start,
        kind=kind,
        text=text,
        restarts_after=whole_number(value("lvlRestart")),
        is_legal=is_on(node.find(f"{W}isLgl")),
        style=value("pStyle") or "",
    )

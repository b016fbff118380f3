"""Find how paragraphs, runs and lists of OpenDocument files look."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from xml.etree.ElementTree import Element

from whence.ingest.office.numbering import BY_SIGN, format_number
from whence.ingest.office.word_styles import whole_number

_URN = "{urn:oasis:names:tc:opendocument:xmlns:"
OFFICE = f"{_URN}office:1.0}}"
STYLE = f"{_URN}style:1.0}}"
TEXT = f"{_URN}text:1.0}}"
TABLE = f"{_URN}table:1.0}}"
DRAW = f"{_URN}drawing:1.0}}"
FO = f"{_URN}xsl-fo-compatible:1.0}}"
PRESENTATION = f"{_URN}presentation:1.0}}"
_PLACEHOLDER = re.compile("%([0-9]{1,2})%")
#: Styles that are based on one another more often are damaged.
_MAX_BASES = 50


class OdfStyle(NamedTuple):
    """What a style says, with what it inherits."""

    names: tuple[str, ...] = ()
    """Its name and those that it is based on."""
    is_struck: bool = False
    is_hidden: bool = False
    is_raised: bool = False
    is_bold: bool = False
    is_white: bool = False
    is_filled: bool = False
    """Whether it has a colour behind the text."""
    list_style: str = ""
    outline: int = 0
    """Level of a heading, from 1; 0 for none."""


class _Level(NamedTuple):
    kind: str
    """Format of the number; empty for a bullet or no number."""
    shape: str
    """`%1%.%2%` with the numbers of levels from 1."""
    start: int
    is_bullet: bool


class OdfStyles:
    """The styles of a file.

    Args:
        roots: Its parts that have styles; a style of an earlier one is taken before one of the same name.
    """

    def __init__(self, roots: Iterable[Element]) -> None:
        self._nodes: dict[tuple[str, str], Element] = {}
        self._resolved: dict[tuple[str, str], OdfStyle] = {}
        self._lists: dict[str, dict[int, _Level]] = {}
        for root in roots:
            for node in root.iter(f"{STYLE}style"):
                key = (node.get(f"{STYLE}family", ""), node.get(f"{STYLE}name", ""))
                self._nodes.setdefault(key, node)
            for node in root.iter(f"{TEXT}list-style"):
                self._lists.setdefault(node.get(f"{STYLE}name", ""), _levels(node))
            for node in root.iter(f"{TEXT}outline-style"):
                self._lists.setdefault("", _levels(node))

    def style(self, family: str, name: str | None) -> OdfStyle:
        """Return a style by its family and name."""
        key = (family, name or "")
        if key not in self._resolved:
            self._resolved[key] = self._resolve(key)
        return self._resolved[key]

    def is_hidden_page(self, name: str | None) -> bool:
        """Return whether the style of a page hides it."""
        node = self._nodes.get(("drawing-page", name or ""))
        look = node.find(f"{STYLE}drawing-page-properties") if node is not None else None
        return look is not None and look.get(f"{PRESENTATION}visibility") == "hidden"

    def _resolve(self, key: tuple[str, str]) -> OdfStyle:
        chain = list(self._chain(key))
        values: dict[str, str] = {}
        for node in reversed(chain):
            for kind in ("text-properties", "paragraph-properties", "table-cell-properties"):
                look = node.find(f"{STYLE}{kind}")
                if look is not None:
                    values |= look.attrib
            values |= {
                name: node.attrib[name]
                for name in (f"{STYLE}list-style-name", f"{STYLE}default-outline-level")
                if name in node.attrib
            }
        position = values.get(f"{STYLE}text-position", "0%").split() or ["0%"]
        is_filled = values.get(f"{FO}background-color", "transparent") not in (
            "transparent",
            "#ffffff",
        )
        return OdfStyle(
            names=tuple(node.get(f"{STYLE}name", "") for node in chain) or (key[1],),
            is_struck=any(
                values.get(f"{STYLE}text-line-through-{each}", "none") != "none"
                for each in ("style", "type")
            ),
            is_hidden=values.get(f"{TEXT}display") == "none",
            is_raised=position[0] == "super"
            or (
                position[0] != "sub"
                and not position[0].startswith("-")
                and position[0].strip("0.%") != ""
            ),
            is_bold=values.get(f"{FO}font-weight") in ("bold", "700", "800", "900"),
            is_white=values.get(f"{FO}color", "").lower() == "#ffffff" and not is_filled,
            is_filled=is_filled,
            list_style=values.get(f"{STYLE}list-style-name", ""),
            outline=whole_number(values.get(f"{STYLE}default-outline-level")) or 0,
        )

    def _chain(self, key: tuple[str, str]) -> Iterator[Element]:
        family, name = key
        for _ in range(_MAX_BASES):
            node = self._nodes.get((family, name))
            if node is None:
                return
            yield node
            name = node.get(f"{STYLE}parent-style-name", "")

    def new_counts(self) -> ListCounts:
        """Return counters for all lists, none of which has begun."""
        return ListCounts(self._lists)


class ListCounts:
    """How far each list of a file was counted."""

    def __init__(self, lists: dict[str, dict[int, _Level]]) -> None:
        self._lists = lists
        self._counts: dict[str, dict[int, int]] = {}

    def begin(self, style: str, level: int, *, goes_on: bool) -> None:
        """Begin a list, or go on with the last one of its style.

        Args:
            style: Name of its style; empty for the numbers of headings.
            level: Its level, from 1.
            goes_on: Whether the file says that the numbers go on.
        """
        if not goes_on:
            counts = self._counts.setdefault(style, {})
            for at in [each for each in counts if each >= level]:
                del counts[at]

    def mark(self, style: str, level: int, start: int | None = None) -> str:
        """Count a paragraph and return its number, `-` for a bullet, or nothing.

        Args:
            style: Name of the list's style; empty for headings.
            level: Its level, from 1.
            start: The number that the paragraph states for itself.
        """
        levels = self._lists.get(style, {})
        counts = self._counts.setdefault(style, {})
        own = levels.get(level)
        first = own.start if own is not None else 1
        counts[level] = counts[level] + 1 if level in counts else first
        if start is not None:
            counts[level] = start
        for deeper in [each for each in counts if each > level]:
            del counts[deeper]
        if own is None or own.is_bullet:
            return "" if not style else "-"
        if not own.kind:
            return ""

        def number(found: re.Match[str]) -> str:
            at = int(found[1])
            above = levels.get(at)
            if above is None or not above.kind:
                return ""
            return format_number(counts.get(at, above.start), above.kind)

        return _PLACEHOLDER.sub(number, own.shape).strip()


def _levels(node: Element) -> dict[int, _Level]:
    return {whole_number(each.get(f"{TEXT}level")) or 1: _level(each) for each in node}


def _level(node: Element) -> _Level:
    at = whole_number(node.get(f"{TEXT}level")) or 1
    shown = min(whole_number(node.get(f"{TEXT}display-levels")) or 1, at)
    stated = next(
        (value for name, value in node.attrib.items() if name.endswith("}num-list-format")), ""
    )
    numbers = ".".join(f"%{each}%" for each in range(at - shown + 1, at + 1))
    before, after = (node.get(f"{STYLE}num-{name}", "") for name in ("prefix", "suffix"))
    start = whole_number(node.get(f"{TEXT}start-value"))
    kind = node.get(f"{STYLE}num-format", "")
    return _Level(
        kind=BY_SIGN.get(kind[:1], "decimal") if kind else "",
        shape=stated or f"{before}{numbers}{after}",
        start=1 if start is None else start,
        is_bullet=node.tag != f"{TEXT}list-level-style-number" and "outline" not in node.tag,
    )

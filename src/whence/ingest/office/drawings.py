"""Read charts and diagrams of Office files: their cached values, and their texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from xml.etree.ElementTree import Element

from whence.ingest.text_builder import TextBuilder

CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
DIAGRAM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
COMPATIBILITY = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
RELATION_ID = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
#: Most values of a chart that are written; more are a curve.
_MAX_VALUES = 2000
#: A description that is the name of a file.
_FILE_NAME = re.compile(r"\S+\.\w{2,5}|(?:picture|image|grafik|bild)\s?\d*", re.IGNORECASE)


class Chart(NamedTuple):
    """The table behind a chart; no rows if it has no values."""

    title: str
    rows: list[list[str]]


def branch(node: Element) -> Element | None:
    """Return the one of several forms of the same content that is read."""
    found = node.find(f"{COMPATIBILITY}Choice")
    return found if found is not None else node.find(f"{COMPATIBILITY}Fallback")


def description(node: Element) -> str:
    """Return what the author says that a picture shows; empty if that is the name of its file."""
    words = " ".join((node.get("descr") or node.get("title") or "").split())
    return "" if _FILE_NAME.fullmatch(words) else words


def is_decorative(node: Element) -> bool:
    """Return whether the author says that a picture shows nothing."""
    return any(
        each.tag.endswith("}decorative") and each.get("val") in ("1", "true")
        for each in node.iter()
    )


def _read_chart(root: Element) -> Chart:
    """Return the table of a chart: a row for each category, a column for each series."""
    title = _words(root.find(f"{CHART}chart/{CHART}title"))
    series = list(root.iter(f"{CHART}ser"))
    names = [_words(each.find(f"{CHART}tx")) for each in series]
    categories: dict[str, str] = {}
    columns = []
    for each in series:
        kinds = _values(each, "cat") or _values(each, "xVal")
        categories = categories | kinds
        columns.append(_values(each, "val") or _values(each, "yVal"))
    places = sorted({at for column in columns for at in column} | set(categories), key=_order)
    if not any(columns) or len(places) * len(columns) > _MAX_VALUES:
        return Chart(title, [])
    rows = [[categories.get(at, ""), *(column.get(at, "") for column in columns)] for at in places]
    return Chart(title, [["", *names], *rows])


def _order(place: str) -> int:
    return int(place) if place.isdecimal() and len(place) < 10 else 0


def _words(node: Element | None) -> str:
    if node is None:
        return ""
    return " ".join(
        each.text for each in node.iter() if each.tag in (f"{DRAWING}t", f"{CHART}v") and each.text
    )


def _values(series: Element, kind: str) -> dict[str, str]:
    node = series.find(f"{CHART}{kind}")
    if node is None:
        return {}
    is_share = any("%" in (each.text or "") for each in node.iter(f"{CHART}formatCode"))
    levels = list(node.iter(f"{CHART}lvl")) or [node]
    found: dict[str, str] = {}
    for level in reversed(levels):
        for point in level.iter(f"{CHART}pt"):
            at, value = point.get("idx", ""), _number(_words(point), is_share)
            found[at] = f"{found[at]} {value}" if at in found else value
    return found


def _number(words: str, is_share: bool) -> str:
    """Return a stored number as it is read: `0.30000000000000004` is `0.3`."""
    try:
        number = float(words)
    except ValueError:
        return words
    return f"{number * 100:.12g}%" if is_share else f"{number:.12g}"


def write_chart(text: TextBuilder, root: Element) -> bool:
    """Write the table behind a chart with its title; without values the title alone, and return False."""
    chart = _read_chart(root)
    if chart.rows:
        text.add_table(chart.rows, caption=chart.title)
    else:
        text.add_paragraph(chart.title)
    return bool(chart.rows)


def write_diagram(text: TextBuilder, root: Element) -> None:
    """Write the texts of a diagram as a list, those of a box that belongs to another below it."""
    points = {
        point.get("modelId", ""): " ".join(
            each.text for each in point.iter(f"{DRAWING}t") if each.text
        )
        for point in root.iter(f"{DIAGRAM}pt")
        if point.get("type", "node") in ("node", "doc", "asst")
    }
    below: dict[str, list[tuple[int, str]]] = {}
    for link in root.iter(f"{DIAGRAM}cxn"):
        if link.get("type", "parOf") == "parOf" and link.get("destId", "") in points:
            order = _order(link.get("srcOrd", "0"))
            below.setdefault(link.get("srcId", ""), []).append((order, link.get("destId", "")))
    inner = {name for links in below.values() for _, name in links}
    done: set[str] = set()
    with text.block():
        for name in points:
            if name not in inner:
                _write_point(text, name, points, below, done)


def _write_point(
    text: TextBuilder,
    name: str,
    points: dict[str, str],
    below: dict[str, list[tuple[int, str]]],
    done: set[str],
) -> None:
    if name in done:
        return
    done.add(name)
    inner = [each for _, each in sorted(below.get(name, ()))]
    if not points[name].strip():
        for each in inner:
            _write_point(text, each, points, below, done)
        return
    with text.item():
        text.add_paragraph(points[name])
        if inner:
            with text.block():
                for each in inner:
                    _write_point(text, each, points, below, done)


def without_branches(node: Element) -> Iterator[Element]:
    """Yield the children of an element, those of one branch in place of alternatives."""
    for child in node:
        if child.tag == f"{COMPATIBILITY}AlternateContent":
            chosen = branch(child)
            if chosen is not None:
                yield from without_branches(chosen)
        else:
            yield child

"""Write data as text: objects alike as rows of a table, others as headings and `name: value`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from whence.ingest.text_builder import TextBuilder
from whence.text.spans import Span

#: Names of outer objects that are headings; deeper ones stand before the name, with a dot.
_MAX_HEADINGS = 3
#: Least objects that are a table.
_LEAST_ROWS = 2
_MAX_COLUMNS = 60
#: Most members of an object that is written with its name before theirs.
_MAX_FLAT = 8
#: Objects of one table have at least this share of its columns, so that it is no patchwork.
_LEAST_FILLED = 0.5


class Node(NamedTuple):
    """A value with its name; a name is empty for the items of an array and for text between elements."""

    name: str
    value: str | tuple[Node, ...]
    lines: Span = (0, 0)
    """First and last line of the file; `(0, 0)` if that is not known."""


def flatten_small(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Return the members of an object; in place of a small object of values alone are its own, `outer.inner`.

    A row of a table, or a line, then has what belongs to it. Objects of one name are rows and stay.
    """
    members = tuple(nodes)
    times = Counter(node.name for node in members)
    flat: list[Node] = []
    for node in members:
        inner = node.value
        is_small = node.name and len(inner) <= _MAX_FLAT and all(map(_is_flat, inner))
        if isinstance(inner, str) or not is_small or times[node.name] > 1:
            flat.append(node)
        else:
            flat.extend(
                each._replace(name=f"{node.name}.{each.name}".rstrip(".")) for each in inner
            )
    return tuple(flat)


def write_nodes(text: TextBuilder, nodes: Sequence[Node]) -> None:
    """Write data into a text; cost: linear."""
    _write(text, nodes, (), "")


def _write(text: TextBuilder, nodes: Sequence[Node], path: tuple[str, ...], prefix: str) -> None:
    pairs: list[Node] = []
    for (name, is_pair), group in groupby(nodes, lambda node: (node.name, _is_pair(node))):
        items = list(group)
        if is_pair:
            pairs.extend(
                each._replace(name=f"{prefix}{each.name}" if name else "") for each in items
            )
            continue
        _write_pairs(text, pairs)
        pairs = []
        if table := _table(items):
            _write_table(text, f"{prefix}{name}", items, table)
            continue
        for number, item in enumerate(items, 1):
            assert not isinstance(item.value, str)
            if len(items) > 1 and not name:
                text.add_heading(len(path) + 1, f"# {number}", line=item.lines[0])
            if name and len(path) < _MAX_HEADINGS:
                text.add_heading(len(path) + 1, name, line=item.lines[0])
                _write(text, item.value, (*path, name), "")
            else:
                _write(text, item.value, path, f"{prefix}{name}." if name else prefix)
    _write_pairs(text, pairs)


def _is_pair(node: Node) -> bool:
    return isinstance(node.value, str)


def _write_pairs(text: TextBuilder, pairs: Sequence[Node]) -> None:
    for is_text, group in groupby(pairs, lambda node: not node.name):
        items = list(group)
        if is_text:
            for item in items:
                text.lines = item.lines
                text.add_paragraph(str(item.value))
            text.lines = (0, 0)
        else:
            lines = [f"{item.name}: {item.value}" for item in items]
            text.add_lines(lines, places=[item.lines for item in items])


def _table(items: Sequence[Node]) -> list[str]:
    """Return the columns of objects alike; none if they are no table."""
    columns: dict[str, None] = {}
    cells = 0
    for item in items:
        names = [node.name for node in item.value if isinstance(node, Node)]
        if len(set(names)) != len(names) or not all(_is_flat(node) for node in item.value):
            return []
        columns.update(dict.fromkeys(names))
        cells += len(names)
    if len(items) < _LEAST_ROWS or not 1 < len(columns) <= _MAX_COLUMNS:
        return []
    return list(columns) if cells >= _LEAST_FILLED * len(columns) * len(items) else []


def _is_flat(node: Node | str) -> bool:
    """Return whether a member of an object is a cell: a value, or an element with only attributes and text."""
    return isinstance(node, Node) and isinstance(node.value, str)


def _write_table(
    text: TextBuilder, caption: str, items: Sequence[Node], columns: Sequence[str]
) -> None:
    rows: list[list[str]] = [list(columns)]
    for item in items:
        values = {node.name: str(node.value) for node in item.value if isinstance(node, Node)}
        rows.append([values.get(column, "") for column in columns])
    lines = [items[0].lines, *(item.lines for item in items)] if items[0].lines[0] else []
    text.lines = items[0].lines
    text.add_table(rows, caption=caption, lines=[(0, 0), *lines[1:]] if lines else ())
    text.lines = (0, 0)

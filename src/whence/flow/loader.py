"""Reads a flow file: bytes to a tree with places, and on to a checked definition.

The file is not trusted: size, depth and number of nodes are bounded, and anchors, aliases and tags are
refused, so that a small file can not grow large or make objects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from whence.flow.definition import FlowDefinition
from whence.flow.parser import build_flow
from whence.flow.registry import Registry
from whence.flow.yaml_nodes import Entry, FlowError, Node, Problem, Problems
from whence.schema.errors import ConfigError

__all__ = ("MAX_BYTES", "MAX_DEPTH", "MAX_NODES", "load_flow", "parse_flow", "read_yaml")

#: Bounds of a flow file; the shipped ones have under 8 kB, 300 nodes and a depth of 5.
MAX_BYTES = 262_144
MAX_NODES = 20_000
MAX_DEPTH = 20

_parse_events: Any = yaml.parse
# The C parser is ten times faster; wheels have it, a build from source may not.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# The scalars of YAML 1.2's core schema that make sense here. PyYAML's own rules (1.1) would read
# `on` as a boolean and `12:30` as a number.
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}\Z")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][-+]?[0-9]{1,3})?\Z")
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}


def load_flow(
    path: str | Path,
    *,
    values: Mapping[str, Any] | None = None,
    registry: Registry | None = None,
) -> FlowDefinition:
    """Read and check a flow file.

    Args:
        path: The file.
        values: Values of flow parameters, instead of their defaults; strings are read as on a
            command line.
        registry: Where processor types are looked up.

    Raises:
        FlowError: The file is wrong; all problems found are in it, the first in its message.
        ConfigError: The file cannot be read.
    """
    file = Path(path)
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"cannot read the flow file {path}: {error.strerror or error}",
            hint="give the path of a YAML file, or the name of a shipped flow",
        ) from error
    return parse_flow(data, source=str(path), values=values, registry=registry)


def parse_flow(
    data: bytes,
    *,
    source: str = "<flow>",
    values: Mapping[str, Any] | None = None,
    registry: Registry | None = None,
) -> FlowDefinition:
    """Check a flow given as bytes; as `load_flow` otherwise.

    Raises:
        FlowError: The text is wrong.
        ConfigError: It is too large.
    """
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{source} is larger than {MAX_BYTES} bytes, too large for a flow file")
    root = _parse(_decode(data, source), source)
    return build_flow(root, Problems(source), registry or Registry(), values or {})


def read_yaml(text: str, source: str) -> Any:
    """Read YAML that is no flow as dicts, lists and scalars, with the same bounds and the same strictness.

    Args:
        text: The text.
        source: Its name in errors.

    Raises:
        FlowError: It is not such YAML, or a key occurs twice.
        ConfigError: It is too large.
    """
    if len(text) > MAX_BYTES:
        raise ConfigError(f"{source} is larger than {MAX_BYTES} bytes")
    root = _parse(text, source)
    pending = [root]
    while pending:
        node = pending.pop()
        pending += [*node.items, *(entry.node for entry in node.entries)]
        keys: set[Any] = set()
        for entry in node.entries:
            if entry.key.kind != "scalar" or entry.key.value in keys:
                words = f"the key {entry.key.describe()} is no word or occurs twice"
                raise FlowError(source, [Problem(entry.key.line, entry.key.column, words)])
            keys.add(entry.key.value)
    return root.plain()


def _decode(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = error.start - (before.rfind(b"\n") + 1) + 1
        raise FlowError(
            source, [Problem(line, column, "not UTF-8", "save the file as UTF-8")]
        ) from error


def _parse(text: str, source: str) -> Node:
    try:
        return _Composer(source).compose(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        words = " ".join(part for part in (error.context, error.problem) if part)
        raise FlowError(source, [Problem(line, column, f"not valid YAML: {words}")]) from error
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        message = f"not valid YAML: a character that it does not allow ({error.reason})"
        raise FlowError(source, [Problem(line, 1, message)]) from error


class _Open:
    """A mapping or list whose end was not seen yet."""

    def __init__(self, event: yaml.CollectionStartEvent) -> None:
        self.event = event
        self.children: list[Node] = []

    def close(self, source: str) -> Node:
        mark = self.event.start_mark
        line, column = mark.line + 1, mark.column + 1
        if isinstance(self.event, yaml.SequenceStartEvent):
            return Node("list", line, column, items=tuple(self.children))
        keys, values = self.children[::2], self.children[1::2]
        entries = tuple(Entry(key, node) for key, node in zip(keys, values, strict=True))
        return Node("mapping", line, column, entries=entries)


class _Composer:
    """Makes the tree from the parser's events, without recursion. Cost: linear in the text."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._open: list[_Open] = []
        self._roots: list[Node] = []
        self._nodes = 0

    def compose(self, text: str) -> Node:
        for event in _parse_events(text, Loader=_Loader):
            self._take(event)
        if not self._roots:
            raise FlowError(self._source, [Problem(1, 1, "the file is empty")])
        return self._roots[0]

    def _take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.NodeEvent):
            self._check(event)
        if isinstance(event, yaml.ScalarEvent):
            self._add(_scalar(event))
        elif isinstance(event, yaml.CollectionStartEvent):
            self._open.append(_Open(event))
            if len(self._open) > MAX_DEPTH:
                self._refuse(event, f"nested more than {MAX_DEPTH} deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            self._add(self._open.pop().close(self._source))

    def _check(self, event: yaml.NodeEvent) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            self._refuse(event, f"more than {MAX_NODES} values")
        if event.anchor is not None:
            self._refuse(event, "anchors and aliases are not allowed", "write the value out")
        tag = getattr(event, "tag", None)
        if tag is not None:
            self._refuse(event, f"the tag {tag!r} is not allowed", "leave it out")

    def _add(self, node: Node) -> None:
        if self._open:
            self._open[-1].children.append(node)
            return
        if self._roots:
            problem = Problem(node.line, node.column, "a second document in one file")
            raise FlowError(self._source, [problem])
        self._roots.append(node)

    def _refuse(self, event: yaml.Event, message: str, hint: str = "") -> None:
        mark = event.start_mark
        raise FlowError(self._source, [Problem(mark.line + 1, mark.column + 1, message, hint)])


def _scalar(event: yaml.ScalarEvent) -> Node:
    mark = event.start_mark
    value = event.value if event.style else _plain_value(event.value)
    return Node("scalar", mark.line + 1, mark.column + 1, value)


def _plain_value(text: str) -> Any:
    """Read a scalar without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.match(text):
        return int(text)
    if _NUMBER.match(text):
        return float(text)
    return text

"""YAML with bounds: text in, PyYAML's nodes with their line marks out, or an error that names the line.

Files are not trusted: size, depth and number of nodes are bounded; anchors, aliases and tags are refused. So a
small file can neither grow large nor create objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec
import yaml

from whence.schema.errors import ConfigError

#: Bounds of a file; the shipped flows have under 8 kB, 300 nodes and a depth of 5.
MAX_BYTES = 262_144
MAX_NODES = 20_000
MAX_DEPTH = 20

# The C parser is ten times faster; wheels have it, a build from source may not.
_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_parse: Any = yaml.parse
_compose: Any = yaml.compose

# The scalars of YAML 1.2's core schema. PyYAML's own rules (1.1) would read `on` as a boolean and `12:30` as a
# number.
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}\Z")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][-+]?[0-9]{1,3})?\Z")
_CONSTANTS = {"": None, "~": None, "null": None, "true": True, "false": False}


class Problem(msgspec.Struct, frozen=True, order=True):
    """One fault of a file; problems are ordered by place."""

    line: int
    column: int
    message: str
    hint: str = ""


class FlowError(ConfigError):
    """A YAML file is wrong; nothing was started."""

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.source = source
        self.problems = tuple(sorted(set(problems)))
        first, *others = self.problems
        message = f"{source}:{first.line}:{first.column}: {first.message}"
        if others:
            lines = ", ".join(str(problem.line) for problem in others[:10])
            message += f" (and {len(others)} more, line {lines})"
        super().__init__(message, hint=first.hint or "correct the file and run the command again")


def compose(text: str, source: str) -> yaml.Node:
    """Parse one YAML document. Cost: linear in the text.

    Raises:
        FlowError: The text is not YAML, exceeds a bound, or uses an anchor, an alias or a tag.
        ConfigError: The text is too large.
    """
    if len(text) > MAX_BYTES:
        raise ConfigError(f"{source} is larger than {MAX_BYTES} bytes, the limit of a YAML file")
    try:
        _check_events(text, source)
        root: yaml.Node | None = _compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        message = " ".join(part for part in (error.context, error.problem) if part)
        raise FlowError(source, [Problem(line, column, f"not valid YAML: {message}")]) from error
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        message = f"not valid YAML: a character that YAML does not allow ({error.reason})"
        raise FlowError(source, [Problem(line, 1, message)]) from error
    if root is None:
        raise FlowError(source, [Problem(1, 1, "the file is empty")])
    return root


def _check_events(text: str, source: str) -> None:
    """Check the bounds before nodes are built: composing recurses, parsing does not."""
    depth = nodes = documents = 0
    for event in _parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        nodes += isinstance(event, yaml.NodeEvent)
        documents += isinstance(event, yaml.DocumentStartEvent)
        tag = getattr(event, "tag", None)
        refusals = (
            (depth > MAX_DEPTH, f"nested more than {MAX_DEPTH} deep", ""),
            (nodes > MAX_NODES, f"more than {MAX_NODES} values", ""),
            (documents > 1, "a second document in one file", "write one document a file"),
            (
                getattr(event, "anchor", None) is not None,
                "anchors and aliases are not allowed",
                "write the value out",
            ),
            (tag is not None, f"the tag {tag!r} is not allowed", "remove it"),
        )
        for refused, message, hint in refusals:
            if refused:
                raise FlowError(source, [problem_at(event, message, hint)])


def problem_at(place: yaml.Node | yaml.Event, message: str, hint: str = "") -> Problem:
    """Return a problem at the start of a node or an event."""
    mark: Any = place.start_mark
    return Problem(mark.line + 1, mark.column + 1, message, hint)


def empty_mapping(place: yaml.Node) -> yaml.Node:
    """Return a mapping without entries, at the place of another node."""
    make: Any = yaml.MappingNode
    node: yaml.Node = make("", [], place.start_mark)
    return node


def scalar(node: yaml.Node) -> Any:
    """Return a scalar node as a string, integer, float, boolean or None; quoted ones are strings."""
    text: str = node.value
    if getattr(node, "style", None):
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.match(text):
        return int(text)
    return float(text) if _NUMBER.match(text) else text


def describe(node: yaml.Node) -> str:
    """Return a few words for a node, for an error."""
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    value = scalar(node)
    return "empty" if value is None else repr(value)


def to_builtins(node: yaml.Node, source: str) -> Any:
    """Return a node as dicts, lists and scalars."""
    if isinstance(node, yaml.SequenceNode):
        return [to_builtins(item, source) for item in node.value]
    if not isinstance(node, yaml.MappingNode):
        return scalar(node)
    found: dict[Any, Any] = {}
    for key, value in node.value:
        name = scalar(key) if isinstance(key, yaml.ScalarNode) else None
        if not isinstance(key, yaml.ScalarNode) or name in found:
            message = f"the key {describe(key)} is not a scalar or occurs twice"
            raise FlowError(source, [problem_at(key, message)])
        found[name] = to_builtins(value, source)
    return found


def read_yaml(text: str, source: str) -> Any:
    """Read YAML as dicts, lists and scalars."""
    return to_builtins(compose(text, source), source)

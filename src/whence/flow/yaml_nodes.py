"""YAML with bounds: text in, PyYAML's nodes with their line marks out, or an error that names the line.

Files are not trusted: size, depth and number of nodes are bounded; anchors, aliases and tags are refused. So a
small file can neither grow large nor create objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, Literal, get_args, get_origin

import msgspec
import yaml

from whence.flow.definition import ParameterDefinition, did_you_mean
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


def compose_yaml(text: str, source: str) -> yaml.Node:
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


def parse_scalar(node: yaml.Node) -> Any:
    """Return a scalar node as a string, integer, float, boolean or None; quoted ones are strings."""
    text: str = node.value
    if getattr(node, "style", None):
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.match(text):
        return int(text)
    return float(text) if _NUMBER.match(text) else text


def describe_node(node: yaml.Node) -> str:
    """Return a few words for a node, for an error."""
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    value = parse_scalar(node)
    return "empty" if value is None else repr(value)


def to_builtins(node: yaml.Node, source: str) -> Any:
    """Return a node as dicts, lists and scalars."""
    if isinstance(node, yaml.SequenceNode):
        return [to_builtins(item, source) for item in node.value]
    if not isinstance(node, yaml.MappingNode):
        return parse_scalar(node)
    found: dict[Any, Any] = {}
    for key, value in node.value:
        name = parse_scalar(key) if isinstance(key, yaml.ScalarNode) else None
        if not isinstance(key, yaml.ScalarNode) or name in found:
            message = f"the key {describe_node(key)} is not a scalar or occurs twice"
            raise FlowError(source, [problem_at(key, message)])
        found[name] = to_builtins(value, source)
    return found


def read_yaml(text: str, source: str) -> Any:
    """Read YAML as dicts, lists and scalars."""
    return to_builtins(compose_yaml(text, source), source)


#: The whole file, in errors.
THE_FLOW = "the flow"

_REFERENCE = re.compile(r"\$\{([^{}]*)\}")


class InvalidValue(Exception):
    """A value was wrong; the problem was reported already."""


class TypedReader:
    """Reads the values of one file and collects its problems."""

    def __init__(self, root: yaml.Node, source: str) -> None:
        self.root = root
        self.source = source
        self.problems: list[Problem] = []
        #: Parameters that `${name}` in a value refers to; None while references are not resolved.
        self.parameters: Mapping[str, ParameterDefinition] | None = None

    def report(
        self, path: tuple[str, ...], message: str, hint: str = "", *, at_key: bool = False
    ) -> None:
        """Add a problem at the value (or the key) under a path of keys, or at the last key that exists."""
        while (found := self._find(path)) is None:
            path, at_key = path[:-1], True
        key, value = found
        self._add(key if at_key else value, message, hint)

    def has(self, path: tuple[str, ...]) -> bool:
        """Return whether the file has a value under a path of keys."""
        return self._find(path) is not None

    def convert(self, node: yaml.Node, kind: Any, what: str) -> Any:
        """Return a node as a value of a type.

        Optional fields of a struct and entries of a dict are left out when they are wrong.

        Args:
            node: The value in the file.
            kind: A struct, a `dict[str, T]`, `yaml.Node` (the node itself), or any type of msgspec.
            what: Words for the value in errors.
        """
        if kind in (yaml.Node, yaml.Node | None):
            return node
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return self._struct(node, kind, what)
        if get_origin(kind) is dict:
            values: dict[str, Any] = {}
            for name, (_, value) in self._entries(node, what).items():
                before = len(self.problems)
                with suppress(InvalidValue):
                    made = self.convert(value, get_args(kind)[1], _inside(name, what))
                    if len(self.problems) == before:
                        values[name] = made
            return values
        return self._value(node, kind, what)

    def _find(self, path: tuple[str, ...]) -> tuple[yaml.Node, yaml.Node] | None:
        """Return the key and the value under a path of keys; None when there is none."""
        key = value = self.root
        for name in path:
            entries = value.value if isinstance(value, yaml.MappingNode) else ()
            found = next((entry for entry in entries if entry[0].value == name), None)
            if found is None:
                return None
            key, value = found
        return key, value

    def _add(self, node: yaml.Node, message: str, hint: str = "") -> None:
        self.problems.append(problem_at(node, message, hint))

    def _struct(self, node: yaml.Node, cls: type[msgspec.Struct], what: str) -> Any:
        before = len(self.problems)
        fields = {field.encode_name: field for field in _fields(cls)}
        required = [name for name, field in fields.items() if field.required]
        required += getattr(cls, "REQUIRED", ())
        values: dict[str, Any] = {}
        for name, (_, value) in self._entries(node, what, tuple(fields), required).items():
            with suppress(InvalidValue):
                values[name] = self.convert(value, fields[name].type, _inside(name, what))
        try:
            return msgspec.convert(values, cls)
        except (msgspec.ValidationError, ValueError) as error:
            # Values that fit one by one can still be refused together.
            if len(self.problems) == before:
                self._add(node, f"{what}: {_lower_first(error)}")
            raise InvalidValue from error

    def _entries(
        self,
        node: yaml.Node,
        what: str,
        allowed: tuple[str, ...] | None = None,
        required: list[str] | None = None,
    ) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """Return key and value nodes of a mapping by name; wrong ones are reported and left out."""
        if not isinstance(node, yaml.MappingNode):
            self._add(node, f"{what} must be a mapping, not {describe_node(node)}")
            raise InvalidValue
        found: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key, value in node.value:
            name = parse_scalar(key) if isinstance(key, yaml.ScalarNode) else None
            if not isinstance(name, str) or not name:
                self._add(key, f"a key of {what} must be a word, not {describe_node(key)}")
            elif name in found:
                first = found[name][0].start_mark.line + 1
                self._add(
                    key,
                    f"two writers of {name!r} in {what}: it has a value in line {first} already",
                    "keep one of the two",
                )
            elif allowed is not None and name not in allowed:
                self._add(
                    key,
                    f"unknown key {name!r} in {what}{did_you_mean(name, allowed)}",
                    f"its keys: {', '.join(allowed) or 'none'}",
                )
            else:
                found[name] = key, value
        for name in required or ():
            if name not in found:
                self._add(node, f"{what} lacks the key {name!r}")
        return found

    def _value(self, node: yaml.Node, kind: Any, what: str) -> Any:
        value, parameter = self._resolve(node, what)
        reason = type_fault(value, kind)
        if reason:
            source = f" (from parameter {parameter.name!r})" if parameter else ""
            self._add(node, f"{what} is {value!r}{source}: {reason}")
            raise InvalidValue
        if parameter:
            # A parameter must not promise what the processor refuses.
            for limit in (parameter.minimum, parameter.maximum, *(parameter.choices or ())):
                reason = "" if limit is None else type_fault(limit, kind)
                if reason:
                    self._add(
                        node,
                        f"parameter {parameter.name!r} may be {limit!r}, but {what} not: {reason}",
                    )
                    raise InvalidValue
        return msgspec.convert(value, kind)

    def _resolve(self, node: yaml.Node, what: str) -> tuple[Any, ParameterDefinition | None]:
        """Return the value of a node and the parameter that it refers to, if any.

        A value is a literal or one `${name}`; several references in one value would be several writers of it.
        """
        value = to_builtins(node, self.source)
        if self.parameters is None:
            return value, None
        for inner in _scalars(node):
            names = _REFERENCE.findall(inner.value)
            if len(names) > 1:
                writers = " and ".join(f"{name!r}" for name in names)
                self._add(node, f"two writers of {what}: {writers}", "keep one of the two")
                raise InvalidValue
            if names and value != f"${{{names[0]}}}":
                self._add(inner, f"{what}: ${{{names[0]}}} must stand alone, as the whole value")
                raise InvalidValue
            if names:
                parameter = self.parameters.get(names[0])
                if parameter is None:
                    self._report_unknown(node, names[0], sorted(self.parameters), what)
                    raise InvalidValue
                return parameter.value, parameter
        return value, None

    def _report_unknown(self, node: yaml.Node, name: str, known: list[str], what: str) -> None:
        # A reference to a parameter whose declaration is wrong is not a second problem.
        if not self.has(("parameters", name)):
            self._add(
                node,
                f"{what} refers to the unknown parameter {name!r}{did_you_mean(name, known)}",
                f"the flow's parameters: {', '.join(known) or 'none'}",
            )


def type_fault(value: Any, kind: Any) -> str:
    """Return the reason why a value is not of a type, or an empty text when it is."""
    try:
        msgspec.convert(value, kind)
    except (msgspec.ValidationError, ValueError) as error:
        choices = [str(one) for one in get_args(kind)] if get_origin(kind) is Literal else []
        if isinstance(value, str) and choices:
            return f"must be one of {', '.join(choices)}{did_you_mean(value, choices)}"
        return _lower_first(error)
    return ""


@cache
def _fields(cls: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Return the fields of a struct; msgspec evaluates its annotations at each call."""
    return msgspec.structs.fields(cls)


def _inside(name: str, what: str) -> str:
    return repr(name) if what == THE_FLOW else f"{name!r} in {what}"


def _scalars(node: yaml.Node) -> Iterator[yaml.ScalarNode]:
    if isinstance(node, yaml.ScalarNode):
        yield node
        return
    for item in node.value:
        for part in item if isinstance(item, tuple) else (item,):
            yield from _scalars(part)


def _lower_first(error: Exception) -> str:
    text = str(error)
    return text[:1].lower() + text[1:]

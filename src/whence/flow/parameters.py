"""The typed parameters of a flow: their declarations, their values, and where `${name}` refers to them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from whence.flow.definition import ParameterDefinition, nearest
from whence.flow.yaml_nodes import Entry, Node, Problems
from whence.schema.errors import ConfigError

__all__ = ("Knobs", "read_knobs")

_KEYS = ("type", "default", "minimum", "maximum", "choices", "description")
_TYPES: Mapping[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "choice": str,
}
_NUMERIC = ("integer", "number")
_REFERENCE = re.compile(r"\$\{([^{}]*)\}")


class Knobs:
    """The parameters of a flow by name, as processors refer to them."""

    def __init__(self, definitions: Mapping[str, ParameterDefinition], problems: Problems) -> None:
        self.definitions = definitions
        self._problems = problems
        #: Declared names whose declaration is wrong; referring to one is no second problem.
        self.broken: set[str] = set()

    def resolve(self, node: Node, what: str) -> tuple[bool, Any, ParameterDefinition | None]:
        """Return whether a node has a value, the value, and the parameter that it came from.

        A value is a literal, or one `${name}` alone; several references in one value would be several
        writers of it.
        """
        if node.kind != "scalar" or not isinstance(node.value, str):
            return self._check_inside(node, what), node.plain(), None
        names = _REFERENCE.findall(node.value)
        if not names:
            return True, node.value, None
        if len(names) > 1:
            writers = " and ".join(f"{name!r}" for name in names)
            self._problems.at(node, f"two writers of {what}: {writers}", "keep one of the two")
            return False, None, None
        if node.value != f"${{{names[0]}}}":
            self._problems.at(node, f"{what}: ${{{names[0]}}} must stand alone, without other text")
            return False, None, None
        return self._refer(node, names[0], what)

    def _refer(
        self, node: Node, name: str, what: str
    ) -> tuple[bool, Any, ParameterDefinition | None]:
        definition = self.definitions.get(name)
        if definition is None:
            if name not in self.broken:
                known = sorted(self.definitions)
                self._problems.at(
                    node,
                    f"{what} refers to the unknown parameter {name!r}{nearest(name, known)}",
                    f"the flow's parameters: {', '.join(known) or 'none'}",
                )
            return False, None, None
        return True, definition.value, definition

    def _check_inside(self, node: Node, what: str) -> bool:
        children = (*node.items, *(entry.node for entry in node.entries))
        if node.kind == "scalar":
            return True
        for child in children:
            if isinstance(child.value, str) and _REFERENCE.search(child.value):
                self._problems.at(child, f"{what}: a parameter can only be the whole value")
                return False
        return all(self._check_inside(child, what) for child in children)


def read_knobs(entry: Entry | None, problems: Problems, values: Mapping[str, Any]) -> Knobs:
    """Read the `parameters` of a flow.

    Args:
        entry: The entry of the file, when there is one.
        problems: Takes what is wrong with the file.
        values: Values given by the caller.

    Raises:
        ConfigError: A value is given for an unknown parameter, or is out of its range.
    """
    definitions: dict[str, ParameterDefinition] = {}
    broken: set[str] = set()
    declared = problems.fields(entry.node, "parameters") if entry else {}
    for name, item in declared.items():
        definition = _read_one(name, item, problems)
        if definition is None:
            broken.add(name)
        else:
            definitions[name] = definition
    if not broken:
        definitions = _with_values(definitions, values)
    knobs = Knobs(definitions, problems)
    knobs.broken = broken
    return knobs


def _read_one(name: str, entry: Entry, problems: Problems) -> ParameterDefinition | None:
    before = len(problems.found)
    what = f"parameter {name!r}"
    fields = problems.fields(entry.node, what, _KEYS, required=("type", "default"))
    kind = problems.text(fields.get("type"), f"type of {what}")
    if kind and kind not in _TYPES:
        problems.at(
            fields["type"].node,
            f"unknown type {kind!r} of {what}{nearest(kind, tuple(_TYPES))}",
            f"the types are {', '.join(_TYPES)}",
        )
    if len(problems.found) > before:
        return None
    plain = {key: field.node.plain() for key, field in fields.items()}
    _check_bounds(kind, plain, fields, what, problems)
    if len(problems.found) > before:
        return None
    definition = ParameterDefinition(
        name=name,
        kind=kind,  # type: ignore[arg-type] # checked above
        value=plain["default"],
        default=plain["default"],
        minimum=plain.get("minimum"),
        maximum=plain.get("maximum"),
        choices=tuple(plain.get("choices", ())),
        description=problems.text(fields.get("description"), f"description of {what}"),
    )
    reason = _refusal(definition, definition.default)
    if reason:
        problems.at(fields["default"].node, f"the default of {what} {reason}")
    return None if len(problems.found) > before else definition


def _check_bounds(
    kind: str, plain: Mapping[str, Any], fields: Mapping[str, Entry], what: str, problems: Problems
) -> None:
    for key in ("minimum", "maximum"):
        if key in plain and kind not in _NUMERIC:
            problems.at(fields[key].key, f"{what} is a {kind}, which has no {key}")
        elif key in plain and not _is(plain[key], _TYPES[kind]):
            problems.at(fields[key].node, f"{key} of {what} must be of type {kind}")
    if {"minimum", "maximum"} <= plain.keys() and _above(plain["minimum"], plain["maximum"]):
        problems.at(fields["maximum"].node, f"maximum of {what} is below its minimum")
    choices = plain.get("choices")
    if (choices is not None) != (kind == "choice"):
        node = fields["choices"].key if choices is not None else fields["type"].node
        problems.at(node, f"{what}: `choices` and type `choice` belong together")
    elif choices is not None and not (_is(choices, list[str]) and choices):
        problems.at(fields["choices"].node, f"choices of {what} must be a list of texts")


def _above(low: Any, high: Any) -> bool:
    return _is(low, float) and _is(high, float) and low > high


def _is(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _refusal(definition: ParameterDefinition, value: Any) -> str:
    """Return the reason why a parameter cannot have a value, or "" when it can."""
    if not _is(value, _TYPES[definition.kind]):
        return f"must be of type {definition.kind}, not {value!r}"
    if definition.kind == "choice" and value not in definition.choices:
        near = nearest(value, definition.choices)
        return f"must be one of {', '.join(definition.choices)}, not {value!r}{near}"
    if definition.minimum is not None and value < definition.minimum:
        return f"must be at least {definition.minimum}, not {value!r}"
    if definition.maximum is not None and value > definition.maximum:
        return f"must be at most {definition.maximum}, not {value!r}"
    return ""


def _with_values(
    definitions: Mapping[str, ParameterDefinition], values: Mapping[str, Any]
) -> dict[str, ParameterDefinition]:
    found = dict(definitions)
    for name, given in values.items():
        if name not in found:
            raise ConfigError(
                f"the flow has no parameter {name!r}{nearest(name, sorted(found))}",
                hint=f"its parameters: {', '.join(sorted(found)) or 'none'}",
            )
        value = _from_words(given, found[name].kind)
        reason = _refusal(found[name], value)
        if reason:
            raise ConfigError(f"parameter {name!r} {reason}")
        found[name] = msgspec.structs.replace(found[name], value=value)
    return found


def _from_words(given: Any, kind: str) -> Any:
    """Read a value given as a string, as on a command line."""
    if not isinstance(given, str) or kind in ("string", "choice"):
        return given
    try:
        return msgspec.convert(given.strip(), _TYPES[kind], strict=False)
    except msgspec.ValidationError:
        return given

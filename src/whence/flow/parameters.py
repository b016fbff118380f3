"""The typed parameters of a flow: declarations from the file, values from the file or the caller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from whence.flow.definition import ParameterDefinition, ParameterFile, nearest
from whence.flow.typed_reader import TypedReader, refusal
from whence.schema.errors import ConfigError

_TYPES: Mapping[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "choice": str,
}
_NUMERIC = ("integer", "number")


def read_parameters(
    reader: TypedReader, declared: Mapping[str, ParameterFile], values: Mapping[str, Any]
) -> dict[str, ParameterDefinition]:
    """Check the declarations and apply the caller's values.

    Raises:
        ConfigError: A value is given for an unknown parameter, or is out of its range.
    """
    found: dict[str, ParameterDefinition] = {}
    for name, one in declared.items():
        problems = len(reader.problems)
        _check(reader, name, one)
        if len(reader.problems) == problems:
            fields = msgspec.structs.asdict(one)
            found[name] = ParameterDefinition(name=name, value=one.default, **fields)
    return found if reader.problems else _with_values(found, values)


def _check(reader: TypedReader, name: str, one: ParameterFile) -> None:
    what, path = f"parameter {name!r}", ("parameters", name)
    for key, bound in (("minimum", one.minimum), ("maximum", one.maximum)):
        if bound is None:
            continue
        if one.type not in _NUMERIC:
            message = f"{what} is a {one.type}, which has no {key}"
            reader.report((*path, key), message, at_key=True)
        elif refusal(bound, _TYPES[one.type]):
            reader.report((*path, key), f"{key} of {what} must be of type {one.type}")
    if one.minimum is not None and one.maximum is not None and one.minimum > one.maximum:
        reader.report((*path, "maximum"), f"maximum of {what} is below its minimum")
    if (one.choices is None) == (one.type == "choice"):
        key = "type" if one.choices is None else "choices"
        reader.report((*path, key), f"{what}: `choices` and type `choice` belong together")
        return
    reason = _refusal(one, one.default)
    if reason:
        reader.report((*path, "default"), f"the default of {what} {reason}")


def _refusal(one: ParameterFile, value: Any) -> str:
    """Return the reason why a parameter cannot have a value, or an empty text when it can."""
    if refusal(value, _TYPES[one.type]):
        return f"must be of type {one.type}, not {value!r}"
    if one.type == "choice" and value not in (choices := list(one.choices or ())):
        return f"must be one of {', '.join(choices)}, not {value!r}{nearest(value, choices)}"
    if one.minimum is not None and value < one.minimum:
        return f"must be at least {one.minimum}, not {value!r}"
    if one.maximum is not None and value > one.maximum:
        return f"must be at most {one.maximum}, not {value!r}"
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
        value = _parse_option(given, found[name].type)
        reason = _refusal(found[name], value)
        if reason:
            raise ConfigError(f"parameter {name!r} {reason}")
        found[name] = msgspec.structs.replace(found[name], value=value)
    return found


def _parse_option(given: Any, kind: str) -> Any:
    """Return a value given as a string, as on a command line, in the parameter's type where it fits."""
    if not isinstance(given, str) or kind in ("string", "choice"):
        return given
    try:
        return msgspec.convert(given.strip(), _TYPES[kind], strict=False)
    except msgspec.ValidationError:
        return given

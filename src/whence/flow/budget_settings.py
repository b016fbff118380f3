"""Reads a budget from a settings file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from whence.flow.definition import did_you_mean
from whence.flow.yaml_nodes import read_yaml
from whence.schema.errors import BadInput


def budget_from_file(path: Path, key: str) -> int:
    """Return a number of a YAML or JSON file.

    Args:
        path: The file; it holds a mapping.
        key: A key, or the keys of nested mappings joined by dots.

    Raises:
        BadInput: The file cannot be read or is not a mapping, the key is missing, or the value is not an
            integer of 1 or more.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise BadInput(
            f"cannot read {path}: {error.strerror}", hint="check the path and its permissions"
        ) from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 text", hint="save it in UTF-8") from error
    values = read_yaml(text, str(path))
    if not isinstance(values, dict):
        raise BadInput(f"{path} holds no settings", hint="write it as `key: value`")
    value = _find(values, key)
    if value is None:
        names = [name for name in values if isinstance(name, str)]
        raise BadInput(
            f"{path} has no key {key!r}{did_you_mean(key, names)}",
            hint=f"its keys: {', '.join(names) or 'none'}",
        )
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadInput(f"{key} in {path} must be an integer of 1 or more, not {value!r}")
    return value


def _find(values: dict[Any, Any], key: str) -> Any:
    """Return the value of a key, or of its parts in nested mappings."""
    if key in values:
        return values[key]
    found: Any = values
    for part in key.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found

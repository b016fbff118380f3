"""Reads a flow file: bytes in, a checked definition out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whence.flow.definition import FlowDefinition
from whence.flow.parser import build_flow
from whence.flow.registry import Registry
from whence.flow.yaml_nodes import MAX_BYTES, FlowError, Problem, compose
from whence.schema.errors import ConfigError


def load_flow(
    path: str | Path, *, values: Mapping[str, Any] | None = None, registry: Registry | None = None
) -> FlowDefinition:
    """Read and check a flow file.

    Args:
        path: The file.
        values: Values of flow parameters that replace their defaults; strings are read as on a command line.
        registry: Registry of processor types.

    Raises:
        FlowError: The file is wrong; the error holds every problem found, the first one in its message.
        ConfigError: The file cannot be read, or a value does not fit its parameter.
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
    """Check a flow given as bytes; otherwise as `load_flow`."""
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{source} is larger than {MAX_BYTES} bytes, too large for a flow file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        problem = Problem(line, column, "not UTF-8", "save the file as UTF-8")
        raise FlowError(source, [problem]) from error
    return build_flow(compose(text, source), source, registry or Registry(), values or {})

"""Reading files of evaluation: text, and JSON or YAML into strict structs."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from whence.flow.yaml_nodes import read_yaml
from whence.ingest.strict_json import parse_json
from whence.schema.errors import BadInput, ConfigError

_CONSTANT = re.compile(r'"([^"]*)"\s*:\s*(?:NaN|-?Infinity)')

S = TypeVar("S", bound=msgspec.Struct)


def read_struct(path: Path, cls: type[S], *, hint: str) -> S:
    """Read a JSON file, or a YAML file (`.yaml`, `.yml`), into a struct.

    Raises:
        ConfigError: The file does not hold such a struct; the key is named.
        BadInput: The file cannot be read.
    """
    return to_struct(parse_data(read_text(path), str(path), hint=hint), cls, str(path), hint=hint)


def parse_data(text: str, source: str, *, hint: str) -> Any:
    """Parse JSON, or YAML when the source is named so, strictly: no key twice, no NaN."""
    try:
        is_yaml = source.lower().endswith((".yaml", ".yml"))
        data = read_yaml(text, source) if is_yaml else parse_json(text)
        msgspec.json.encode(data)
    except UnicodeEncodeError as error:
        character = ascii(str(error.object)[error.start])
        raise ConfigError(
            f"{source}: holds {character}, which is no character", hint=hint
        ) from error
    except BadInput as error:
        message = (
            error.message if error.message.startswith(source) else f"{source}: {error.message}"
        )
        # The parser does not know at which key it met a NaN.
        constant = _CONSTANT.search(text)
        key = f", at the key {constant[1]!r}" if constant else ""
        raise ConfigError(message + key, hint=hint) from error
    return data


def to_struct(data: Any, cls: type[S], source: str, *, hint: str) -> S:
    """Convert parsed data into a struct."""
    try:
        return msgspec.convert(data, cls)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{source}: {error}", hint=hint) from error


def digest_of(struct: msgspec.Struct) -> str:
    """Return a digest of a struct's values; spaces and the order of keys in its file do not matter."""
    return hashlib.sha256(msgspec.json.encode(struct)).hexdigest()


def read_text(path: Path) -> str:
    """Read a file as UTF-8; a byte order mark is left out."""
    with _readable(path):
        return path.read_bytes().decode("utf-8-sig")


def read_lines(path: Path) -> Iterator[str]:
    r"""Yield the lines of a file as `read_text` reads it, one at a time; only `\n` ends a line."""
    with _readable(path), path.open(encoding="utf-8-sig", newline="\n") as file:
        yield from file


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadInput(
            f"cannot read {path}: {error.strerror}", hint="check the path and its permissions"
        ) from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 text", hint="save it in UTF-8") from error

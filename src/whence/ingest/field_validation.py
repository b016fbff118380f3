"""Checks of what documents say of themselves: ids, titles, addresses, metadata."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from whence.schema.errors import BadInput

__all__ = (
    "MAX_ID_BYTES",
    "check_text",
    "checked_id",
    "checked_metadata",
    "one_line",
    "take_source_url",
)

#: Longest document id in UTF-8. A PostgreSQL index entry holds about 2,700 bytes, the collection included.
MAX_ID_BYTES = 1024
_MAX_DEPTH = 32
#: Integers that JSON readers of all languages, and our codec, take.
_INTEGERS = range(-(2**63), 2**64)
#: Names that each chunk has for itself; a document cannot set them for all its chunks.
_OF_CHUNKS = ("source_file", "section_path", "header_path", "heading", "chunk_index")
#: Rights stand beside the metadata. Inside they would look like protection and be none.
_RIGHTS = ("acl", "clearance")


def checked_id(value: object, name: str = "id") -> str:
    """Return a document id; an integer is taken as its decimal digits.

    Raises:
        BadInput: It is neither text nor an integer, is blank, holds NUL, is no Unicode, or is too long.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise BadInput(f"{name} must be text, not {_kind(value)}")
    if not value.strip():
        raise BadInput(f"{name} is blank")
    check_text(value, name)
    if len(value.encode()) > MAX_ID_BYTES:
        raise BadInput(f"{name} is longer than {MAX_ID_BYTES:,} bytes")
    return value


def one_line(value: object, name: str) -> str:
    """Return a text as one line; None is empty, a number its digits.

    Raises:
        BadInput: It is anything else, holds NUL or is no Unicode.
    """
    if value is None:
        return ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise BadInput(f"{name} must be text, not {_kind(value)}")
    check_text(value, name)
    return " ".join(value.split())


def take_source_url(values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the address a document names (`source_url`, else `url`, else empty) and the other values.

    Raises:
        BadInput: The address is not text.
    """
    rest = dict(values)
    named = rest.pop("source_url", None)
    return one_line(rest.get("url") if named is None else named, "source_url"), rest


def checked_metadata(value: object) -> dict[str, Any]:
    """Return metadata that can be stored as JSON, less the names that each chunk has for itself.

    Raises:
        BadInput: It is no object; holds NUL, a number that JSON has not, or an integer beyond 64 bits;
            is nested deeper than 32; or holds `acl` or `clearance`, which belong beside it.
    """
    if not isinstance(value, Mapping):
        raise BadInput(f"metadata must be an object, not {_kind(value)}")
    for key in value:
        if isinstance(key, str) and key.casefold() in _RIGHTS:
            raise BadInput(f"{key!r} stands inside metadata, where it protects nothing")
    _check_json(value, "metadata", 0)
    return {key: item for key, item in value.items() if key not in _OF_CHUNKS}


def _check_json(value: object, name: str, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise BadInput(f"{name} is nested deeper than {_MAX_DEPTH}")
    if isinstance(value, str):
        check_text(value, name)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise BadInput(f"{name} has the key {key!r}, which is not text")
            check_text(key, name)
            _check_json(item, f"{name}.{key}", depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check_json(item, name, depth + 1)
    else:
        _check_scalar(value, name)


def _check_scalar(value: object, name: str) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, int):
        if value not in _INTEGERS:
            raise BadInput(f"{name} holds an integer beyond 64 bits")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise BadInput(f"{name} holds {value}, which JSON has not")
    else:
        raise BadInput(f"{name} holds {_kind(value)}, which JSON has not")


def check_text(value: str, name: str) -> None:
    """Refuse text that PostgreSQL or UTF-8 cannot hold.

    Raises:
        BadInput: It holds NUL, or half a surrogate pair.
    """
    if "\0" in value:
        raise BadInput(f"{name} holds a NUL character")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadInput(f"{name} holds half a surrogate pair, which is no character") from error


def _kind(value: object) -> str:
    """Name the type of a value in JSON's words."""
    names = {
        dict: "an object",
        list: "a list",
        bool: "a boolean",
        int: "a number",
        float: "a number",
    }
    return "nothing" if value is None else names.get(type(value), type(value).__name__)

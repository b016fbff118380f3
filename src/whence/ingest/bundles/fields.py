"""Read fields of records; a field may have several names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whence.ingest.field_validation import validate_text
from whence.schema.errors import BadInput


def first_text(record: Mapping[str, Any], *names: str, default: str = "") -> str:
    """Return the first of these fields that holds text, stripped."""
    texts = (_string(record, name).strip() for name in names)
    return next(filter(None, texts), default)


def whole_text(record: Mapping[str, Any], *names: str) -> str:
    """Return the first of these fields that is not empty, unchanged."""
    return next(filter(None, (_string(record, name) for name in names)), "")


def _string(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadInput(f"{name} must be a string, not {type(value).__name__}")
    if not value.isascii() or "\0" in value:
        validate_text(value, name)
    return value


def integer(record: Mapping[str, Any], name: str) -> int | None:
    """Return a field that is an integer of 0 or more; None if it is absent."""
    value = record.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise BadInput(f"{name} must be an integer from 0 to 2,147,483,647, not {value!r}")
    return value

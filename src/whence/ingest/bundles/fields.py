"""Fields of records, under any of the names they go by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whence.ingest.field_validation import check_text
from whence.schema.errors import BadInput

__all__ = ("first_text", "integer", "whole_text")


def first_text(record: Mapping[str, Any], *names: str, default: str = "") -> str:
    """Return the first of these fields that holds text, without space around it.

    Raises:
        BadInput: One before it holds something else, or characters that cannot be stored.
    """
    for name in names:
        value = record.get(name)
        if type(value) is str and value.isascii() and "\0" not in value:  # Nearly every one.
            text = value.strip()
        elif value is None or value == "":
            continue
        else:
            text = _text(value, name).strip()
        if text:
            return text
    return default


def whole_text(record: Mapping[str, Any], *names: str) -> str:
    """Return the first of these fields that is not empty, verbatim.

    Raises:
        BadInput: As for `first_text`.
    """
    for name in names:
        value = record.get(name)
        if value is not None and value != "":
            return _text(value, name)
    return ""


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise BadInput(f"{name} must be a string, not {type(value).__name__}")
    if not value.isascii() or "\0" in value:
        check_text(value, name)
    return value


def integer(record: Mapping[str, Any], name: str) -> int | None:
    """Return a field that is a whole number of 0 or more; None when it is absent.

    Raises:
        BadInput: It is anything else.
    """
    value = record.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise BadInput(f"{name} must be a whole number from 0 to 2,147,483,647, not {value!r}")
    return value

"""Validate the fields of documents: ids, titles, URLs, metadata, access tags."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from whence.schema.access import DocumentTags
from whence.schema.errors import BadInput

#: Longest document id, in bytes of UTF-8; a PostgreSQL index entry has about 2,700 bytes.
MAX_ID_BYTES = 1024
_MAX_DEPTH = 32
#: Integers that the codec supports.
_INTEGERS = range(-(2**63), 2**64)
#: Metadata that each chunk has of its own.
_CHUNK_FIELDS = ("source_file", "section_path", "header_path", "heading", "chunk_index")
#: Access tags, which have no effect inside metadata.
_TAG_FIELDS = ("acl", "clearance")


#: Names of types in error messages.
_KINDS: dict[type, str] = {
    dict: "an object", list: "a list", bool: "a boolean", int: "a number", float: "a number"
}  # fmt: skip


def validate_id(value: object, name: str = "id") -> str:
    """Return a document id; an integer becomes its decimal digits."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise BadInput(f"{name} must be text, not {_kind(value)}")
    if not value.strip():
        raise BadInput(f"{name} is blank")
    validate_text(value, name)
    if len(value.encode()) > MAX_ID_BYTES:
        raise BadInput(f"{name} is longer than {MAX_ID_BYTES:,} bytes")
    return value


def single_line(value: object, name: str) -> str:
    """Return a text as one line; None becomes empty, a number its digits."""
    if value is None:
        return ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise BadInput(f"{name} must be text, not {_kind(value)}")
    validate_text(value, name)
    return " ".join(value.split())


def split_source_url(values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the URL of a document (`source_url`, else `url`, else empty) and the other fields."""
    rest = dict(values)
    named = rest.pop("source_url", None)
    return single_line(rest.get("url") if named is None else named, "source_url"), rest


def validate_metadata(value: object) -> dict[str, Any]:
    """Return metadata that can be stored as JSON, without the fields that each chunk has of its own."""
    if not isinstance(value, Mapping):
        raise BadInput(f"metadata must be an object, not {_kind(value)}")
    for key in value:
        if isinstance(key, str) and key.casefold() in _TAG_FIELDS:
            raise BadInput(f"{key!r} is inside metadata, where it has no effect")
    _check_json(value, "metadata", 0)
    return {key: item for key, item in value.items() if key not in _CHUNK_FIELDS}


def _check_json(value: object, name: str, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise BadInput(f"{name} is nested deeper than {_MAX_DEPTH}")
    if isinstance(value, str):
        validate_text(value, name)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise BadInput(f"{name} has the key {key!r}, which is not text")
            validate_text(key, name)
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
            raise BadInput(f"{name} holds {value}, which JSON does not have")
    else:
        raise BadInput(f"{name} holds {_kind(value)}, which JSON does not have")


def validate_text(value: str, name: str) -> None:
    """Refuse text that PostgreSQL or UTF-8 cannot store."""
    if "\0" in value:
        raise BadInput(f"{name} holds a NUL character")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadInput(f"{name} holds an unpaired surrogate, which is not a character") from error


def _kind(value: object) -> str:
    return "nothing" if value is None else _KINDS.get(type(value), type(value).__name__)


#: Names of the access tags in front matter and records.
TAG_NAMES = ("acl", "labels", "clearance")


def parse_tags(values: Mapping[str, Any]) -> DocumentTags:
    """Read the access tags among the fields of a document; absent tags do not restrict it."""
    for name in values:
        if name not in TAG_NAMES and name.strip().casefold() in TAG_NAMES:
            raise BadInput(f"{name!r} is not the name of a tag, write {name.strip().casefold()!r}")
    for name in ("acl", "labels"):
        if name in values and not isinstance(values[name], list):
            raise BadInput(f"{name} must be a list of strings, e.g. [finance]")
    return DocumentTags(values.get("acl", ()), values.get("labels", ()), values.get("clearance", 0))


def merge_tags(own: DocumentTags, given: DocumentTags) -> DocumentTags:
    """Merge the tags of a document with those given for the run: a reader needs what both ask for.

    - ACL: the tags that both have; if only one has an ACL, that one.
    - Labels: the union, since a reader needs all of them.
    - Clearance: the higher one.

    >>> merge_tags(DocumentTags(("hr", "it"), ("pii",), 1), DocumentTags(("hr",), ("internal",), 2))
    DocumentTags(acl=('hr',), labels=('internal', 'pii'), clearance=2)

    Raises:
        BadInput: The ACLs have no tag in common: an empty list would make the document public.
    """
    acl = own.acl or given.acl
    if own.acl and given.acl:
        acl = tuple(sorted(set(own.acl) & set(given.acl)))
        if not acl:
            raise BadInput(
                f"its own acl {list(own.acl)} and the given acl {list(given.acl)} have no tag in common, so nobody"
                " could read it; state a common tag in both, or index it without --acl"
            )
    return DocumentTags(acl, own.labels + given.labels, max(own.clearance, given.clearance))

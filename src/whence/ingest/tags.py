"""Read the access tags of a document and merge them with those given for the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whence.schema.access import DocumentTags
from whence.schema.errors import BadInput

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
    """Merge the tags of a document with those given for the run; the result never permits more than either.

    - ACL: that of the document if it has one, else the given one. One tag of an ACL suffices to read, so a
      union would admit more readers.
    - Labels: the union, since a reader needs all of them.
    - Clearance: the higher one.

    >>> merge_tags(DocumentTags(("hr",), ("pii",), 1), DocumentTags(("all",), ("internal",), 2))
    DocumentTags(acl=('hr',), labels=('internal', 'pii'), clearance=2)
    """
    return DocumentTags(
        own.acl or given.acl,
        own.labels + given.labels,
        max(own.clearance, given.clearance),
    )

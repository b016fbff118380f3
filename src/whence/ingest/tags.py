"""The rights a document states for itself, and how they meet those given on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whence.schema.access import DocumentTags
from whence.schema.errors import BadInput

__all__ = ("TAG_NAMES", "combined", "own_tags")

#: Where a document states its rights: front matter or record, compared exactly.
TAG_NAMES = ("acl", "labels", "clearance")


def own_tags(values: Mapping[str, Any]) -> DocumentTags:
    """Read the tags among the values that a document states; absent ones ask for nothing.

    Raises:
        BadInput: A tag is malformed, or its name is written in another case. A document whose rights
            are not understood must not be stored, since it would be open.
    """
    for name in values:
        if name not in TAG_NAMES and name.strip().casefold() in TAG_NAMES:
            raise BadInput(f"{name!r} is not a name of a tag, write {name.strip().casefold()!r}")
    for name in ("acl", "labels"):
        if name in values and not isinstance(values[name], list):
            raise BadInput(f"{name} must be a list of strings, e.g. [finance]")
    return DocumentTags(values.get("acl", ()), values.get("labels", ()), values.get("clearance", 0))


def combined(own: DocumentTags, given: DocumentTags) -> DocumentTags:
    """Join a document's own tags with those given for the whole run; the result never opens more.

    - ACL: the document's own when it has one, else the given one. One tag of an ACL is enough to read,
      so a union would let in readers that the document itself keeps out.
    - Labels: the union, since a reader needs all of them.
    - Clearance: the higher one.

    >>> combined(DocumentTags(("hr",), ("pii",), 1), DocumentTags(("all",), ("internal",), 2))
    DocumentTags(acl=('hr',), labels=('internal', 'pii'), clearance=2)
    """
    return DocumentTags(
        own.acl or given.acl,
        own.labels + given.labels,
        max(own.clearance, given.clearance),
    )

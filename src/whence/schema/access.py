"""Access rights of a reader and access tags of a document.

A document is visible when its ACL is empty or shares a tag with the reader's, its labels are all among the
reader's, and its clearance is not above the reader's. Tags are compared exactly, case included.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from whence.schema.errors import BadInput

#: Largest clearance, the top of PostgreSQL's `integer`.
MAX_CLEARANCE = 2**31 - 1
_NO_TAGS: frozenset[str] = frozenset()


class Access(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rights of one reader; the default sees public documents only. There is no unrestricted access."""

    acl_tags: Set[str] = _NO_TAGS
    """A document with an ACL must have one of these; stored as a frozenset."""
    labels: Set[str] = _NO_TAGS
    """All labels of a document must be among these."""
    clearance: int = 0
    """Highest visible level, 0 to 2**31 - 1."""

    def __post_init__(self) -> None:
        # Every request has rights; the default needs no check.
        if self.acl_tags is not _NO_TAGS:
            force_setattr(self, "acl_tags", _checked_tags(self.acl_tags, "acl_tags"))
        if self.labels is not _NO_TAGS:
            force_setattr(self, "labels", _checked_tags(self.labels, "labels"))
        _check_clearance(self.clearance)

    @classmethod
    def public(cls) -> Access:
        """Return the rights of an unknown reader: untagged documents only."""
        return cls()

    def by_option(self) -> dict[str, Any]:
        """Return the rights as options name them: `{acl, labels, clearance}`, lists sorted."""
        return {
            "acl": sorted(self.acl_tags),
            "labels": sorted(self.labels),
            "clearance": self.clearance,
        }

    @lru_cache(maxsize=4096)  # noqa: B019 - values, small and few, asked for on every row
    def allows(self, tags: DocumentTags) -> bool:
        """Return whether a document with these tags is visible."""
        return (
            (not tags.acl or not self.acl_tags.isdisjoint(tags.acl))
            and self.labels >= set(tags.labels)
            and tags.clearance <= self.clearance
        )

    def covers(self, other: Access) -> bool:
        """Return whether these rights include the others."""
        return (
            self.acl_tags >= other.acl_tags
            and self.labels >= other.labels
            and self.clearance >= other.clearance
        )

    def intersect(self, other: Access) -> Access:
        """Return the rights that both have; an empty intersection of ACL tags sees no document with an ACL."""
        return Access(
            self.acl_tags & other.acl_tags,
            self.labels & other.labels,
            min(self.clearance, other.clearance),
        )


class DocumentTags(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rights that a document requires; sorted and without repeats, so that equal tags compare equal."""

    acl: tuple[str, ...] = ()
    """The reader must hold one of these; empty for public documents."""
    labels: tuple[str, ...] = ()
    """The reader must hold all of these."""
    clearance: int = 0
    """The reader's clearance must be at least this, 0 to 2**31 - 1."""

    def __post_init__(self) -> None:
        # Every document has tags; the default needs no check.
        if self.acl != ():
            force_setattr(self, "acl", tuple(sorted(_checked_tags(self.acl, "acl"))))
        if self.labels != ():
            force_setattr(self, "labels", tuple(sorted(_checked_tags(self.labels, "labels"))))
        _check_clearance(self.clearance)


def _checked_tags(value: object, field: str) -> frozenset[str]:
    """Return the tags of a field, each once."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise BadInput(f"{field} must be a list of strings, not {value!r}")
    tags = list(value)
    for tag in tags:
        if not isinstance(tag, str) or not tag or "\0" in tag:
            raise BadInput(f"{field} holds {tag!r}: a tag is a non-empty string without NUL")
    return frozenset(tags)


def _check_clearance(level: object) -> None:
    if isinstance(level, bool) or not isinstance(level, int) or not 0 <= level <= MAX_CLEARANCE:
        raise BadInput(f"clearance must be an integer from 0 to {MAX_CLEARANCE}, not {level!r}")


class TagChange(msgspec.Struct, frozen=True, kw_only=True):
    """New tags for documents; None leaves a tag as it is."""

    acl: tuple[str, ...] | None = None
    labels: tuple[str, ...] | None = None
    clearance: int | None = None

    def of(self, tags: DocumentTags) -> DocumentTags:
        """Return the tags after the change."""
        return DocumentTags(
            tags.acl if self.acl is None else self.acl,
            tags.labels if self.labels is None else self.labels,
            tags.clearance if self.clearance is None else self.clearance,
        )

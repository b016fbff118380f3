"""Access tags of a node, under the names that bundle formats use for them.

Every node must state its ACL, even if it is empty: without one it is unknown whether the node is public or the
exporter omitted the ACL. A field whose name resembles that of an access tag is refused for the same reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from whence.schema.access import DocumentTags
from whence.schema.errors import BadInput

T = TypeVar("T")

ACL_NAMES = ("acl_allow", "acl_tags_any", "AclTags")
LABEL_NAMES = ("classification_labels_all", "classification_labels")
CLEARANCE_NAMES = ("clearance_level", "doc_level")
_KNOWN = frozenset(ACL_NAMES + LABEL_NAMES + CLEARANCE_NAMES)
_SEPARATORS = re.compile(r"[\s_.-]+")
#: Names that resemble those of access tags, without separators and in lower case.
_LOOKALIKES = frozenset(
    {_SEPARATORS.sub("", name).lower() for name in _KNOWN}
    | {"acl", "acltags", "acltagsall", "labels", "clearance", "level", "securitylevel"}
    | {"classification", "classificationlabel", "classificationlevel"}
)


def read_tags(record: Mapping[str, Any]) -> DocumentTags:
    """Read the access tags of a node.

    ACL and labels are lists of strings, null or an empty list for none; the clearance is an integer of 0 or
    more, 0 if absent or null.
    """
    _check_names(tuple(record))
    acl = _single_value(record, ACL_NAMES, _tag_list)
    labels = _single_value(record, LABEL_NAMES, _tag_list)
    clearance = _single_value(record, CLEARANCE_NAMES, _clearance)
    return _tags(acl or (), labels or (), clearance or 0)


@lru_cache(maxsize=4096)
def _tags(acl: tuple[str, ...], labels: tuple[str, ...], clearance: int) -> DocumentTags:
    """Return the tags; nodes with equal tags share one object."""
    return DocumentTags(acl, labels, clearance)


@lru_cache(maxsize=256)
def _check_names(names: tuple[str, ...]) -> None:
    for name in names:
        if name not in _KNOWN and _SEPARATORS.sub("", name).lower() in _LOOKALIKES:
            raise BadInput(
                f"{name!r} is not a known name of an access tag",
                hint=f"write {ACL_NAMES[0]}, {LABEL_NAMES[0]} or {CLEARANCE_NAMES[0]}",
            )
    if not any(name in names for name in ACL_NAMES):
        raise BadInput(
            "has no ACL attribute", hint=f"give every node {ACL_NAMES[0]}, an empty list if public"
        )


def _single_value(
    record: Mapping[str, Any], names: tuple[str, ...], read: Callable[[object, str], T]
) -> T | None:
    """Return the value that all names of a tag have in common; None if the record has none of them."""
    values = [(name, read(record[name], name)) for name in names if name in record]
    for name, value in values:
        if value != values[0][1]:
            raise BadInput(f"{values[0][0]} and {name} have different values")
    return values[0][1] if values else None


def _tag_list(value: object, name: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise BadInput(f"{name} must be a list of strings, not {value!r}")
    for tag in value:
        if not isinstance(tag, str) or not tag.strip():
            raise BadInput(f"{name} holds {tag!r}: a tag is a string that is not blank")
        if any("\ud800" <= char <= "\udfff" for char in tag):
            raise BadInput(f"{name} holds {tag!r}: an unpaired surrogate is not a character")
    return _tags(tuple(value), (), 0).acl


def _clearance(value: object, name: str) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInput(f"{name} must be an integer, not {value!r}")
    return _tags((), (), value).clearance

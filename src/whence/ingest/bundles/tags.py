"""Rights of a node, under the names that bundles have used for them.

Every node states its ACL, be it empty. A node without one is refused: nobody could tell whether it is
public or the exporter forgot it. For the same reason a name that looks like a right and is none is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from whence.schema.access import DocumentTags
from whence.schema.errors import BadInput

__all__ = ("ACL_NAMES", "LABEL_NAMES", "LEVEL_NAMES", "read_tags")

ACL_NAMES = ("acl_allow", "acl_tags_any", "AclTags")
LABEL_NAMES = ("classification_labels_all", "classification_labels")
LEVEL_NAMES = ("clearance_level", "doc_level")
_KNOWN = frozenset(ACL_NAMES + LABEL_NAMES + LEVEL_NAMES)
_SEPARATORS = re.compile(r"[\s_.-]+")
#: Other things that people call rights, written without separators in lower case.
_LOOK_ALIKE = frozenset(
    {_SEPARATORS.sub("", name).lower() for name in _KNOWN}
    | {"acl", "acltags", "acltagsall", "labels", "clearance", "level"}
    | {"classification", "classificationlabel", "classificationlevel", "securitylevel"}
)


def read_tags(record: Mapping[str, Any]) -> DocumentTags:
    """Read the rights of a node.

    ACL and labels are lists of strings, null or an empty list for none; the level is an integer of 0 or
    more, 0 where it is absent or null.

    Raises:
        BadInput: The ACL is absent; a right has the wrong type; two names of one right have different
            values; or a name is almost that of a right.
    """
    for name in record:
        if _only_looks_like_a_right(name):
            raise BadInput(
                f"{name!r} is no name of a right that is known",
                hint=f"write {ACL_NAMES[0]}, {LABEL_NAMES[0]} or {LEVEL_NAMES[0]}",
            )
    if not any(name in record for name in ACL_NAMES):
        raise BadInput(
            "has no ACL attribute", hint=f"give every node {ACL_NAMES[0]}, an empty list if public"
        )
    acl = _agreed(record, ACL_NAMES, _tag_list)
    labels = _agreed(record, LABEL_NAMES, _tag_list)
    level = _agreed(record, LEVEL_NAMES, _level)
    return _tags(acl or (), labels or (), level or 0)


@lru_cache(maxsize=4096)
def _tags(acl: tuple[str, ...], labels: tuple[str, ...], level: int) -> DocumentTags:
    """Make the rights; the nodes of a bundle share a few."""
    return DocumentTags(acl, labels, level)


@lru_cache(maxsize=256)
def _only_looks_like_a_right(name: str) -> bool:
    """Tell for a field's name; all nodes of a bundle have the same few."""
    return name not in _KNOWN and _SEPARATORS.sub("", name).lower() in _LOOK_ALIKE


def _agreed(record: Mapping[str, Any], names: Sequence[str], read: Any) -> Any:
    """Give the value that all names present have in common; None when there is none."""
    found = [(name, read(record[name], name)) for name in names if name in record]
    for name, value in found[1:]:
        if value != found[0][1]:
            raise BadInput(f"{found[0][0]} and {name} have different values")
    return found[0][1] if found else None


def _tag_list(value: object, name: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise BadInput(f"{name} must be a list of strings, not {value!r}")
    for tag in value:
        if not isinstance(tag, str) or not tag.strip():
            raise BadInput(f"{name} holds {tag!r}: a tag is a string that is not blank")
        if any("\ud800" <= char <= "\udfff" for char in tag):
            raise BadInput(f"{name} holds {tag!r}: half a surrogate pair is no character")
    return _tags(tuple(value), (), 0).acl


def _level(value: object, name: str) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInput(f"{name} must be an integer, not {value!r}")
    return _tags((), (), value).clearance

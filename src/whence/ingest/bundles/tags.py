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
    acl_names, label_names, level_names = names = _names_of_rights(tuple(record))
    if len(acl_names) == len(label_names) == 1 and not level_names:
        acl, labels = record[acl_names[0]], record[label_names[0]]
        if type(acl) is type(labels) is list:
            try:
                return _tags_of_lists(acl_names[0], tuple(acl), label_names[0], tuple(labels))
            except TypeError:  # A tag that is no text may be no key either.
                return _agreed_tags(record, *names)
    return _agreed_tags(record, *names)


def _agreed_tags(
    record: Mapping[str, Any],
    acl_names: Sequence[str],
    label_names: Sequence[str],
    level_names: Sequence[str],
) -> DocumentTags:
    """Read rights whatever their names and types are."""
    acl = _agreed(record, acl_names, _tag_list)
    labels = _agreed(record, label_names, _tag_list)
    level = _agreed(record, level_names, _level)
    return _tags(acl or (), labels or (), level or 0)


@lru_cache(maxsize=4096)
def _tags(acl: tuple[str, ...], labels: tuple[str, ...], level: int) -> DocumentTags:
    """Make the rights; the nodes of a bundle share a few."""
    return DocumentTags(acl, labels, level)


@lru_cache(maxsize=4096)
def _tags_of_lists(
    acl_name: str, acl: tuple[object, ...], label_name: str, labels: tuple[object, ...]
) -> DocumentTags:
    """Read the rights that nearly all nodes have, and the same in most."""
    return _tags(_tag_list([*acl], acl_name), _tag_list([*labels], label_name), 0)


@lru_cache(maxsize=256)
def _names_of_rights(names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the names of ACL, labels and level among those of a record; most records have the same names.

    Raises:
        BadInput: There is no ACL, or a name is almost that of a right.
    """
    for name in names:
        if name not in _KNOWN and _SEPARATORS.sub("", name).lower() in _LOOK_ALIKE:
            raise BadInput(
                f"{name!r} is no name of a right that is known",
                hint=f"write {ACL_NAMES[0]}, {LABEL_NAMES[0]} or {LEVEL_NAMES[0]}",
            )
    if not any(name in names for name in ACL_NAMES):
        raise BadInput(
            "has no ACL attribute", hint=f"give every node {ACL_NAMES[0]}, an empty list if public"
        )
    return tuple(
        tuple(name for name in known if name in names)
        for known in (ACL_NAMES, LABEL_NAMES, LEVEL_NAMES)
    )


def _agreed(record: Mapping[str, Any], names: Sequence[str], read: Any) -> Any:
    """Return the value that all these names have in common; None when there are no names."""
    values = [read(record[name], name) for name in names]
    for name, value in zip(names, values, strict=True):
        if value != values[0]:
            raise BadInput(f"{names[0]} and {name} have different values")
    return values[0] if values else None


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

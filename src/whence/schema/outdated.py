"""What documents say of their own currency: an old version must not pass for the present one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ("outdated",)

#: Values of the metadata `status` that say so, lower case.
_STATUSES: Final = frozenset(
    {"archived", "deprecated", "expired", "obsolete", "outdated", "superseded", "withdrawn"}
)
#: Keys that name what took a document's place.
_SUCCESSORS: Final = ("replaced_by", "superseded_by")


def outdated(metadata: Mapping[str, Any]) -> str:
    """Give in what way a document says that it is out of date; empty when it does not.

    >>> outdated({"status": "superseded", "replaced_by": "Leave policy"})
    'replaced by Leave policy'
    >>> outdated({"status": "Archived"}), outdated({"status": "in force"})
    ('archived', '')
    """
    for key in _SUCCESSORS:
        successor = metadata.get(key)
        if isinstance(successor, str) and successor.strip():
            return f"replaced by {' '.join(successor.split())}"
    status = metadata.get("status")
    word = status.strip().lower() if isinstance(status, str) else ""
    return word if word in _STATUSES else ""

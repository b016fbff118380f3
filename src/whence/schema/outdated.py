"""Detect from its metadata that a document is out of date, so that it does not pass for the current version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

#: Values of the metadata `status` of an outdated document, in lower case.
_STATUSES: Final = frozenset(
    {"archived", "deprecated", "expired", "obsolete", "outdated", "superseded", "withdrawn"}
)
#: Keys that name the successor of a document.
_SUCCESSORS: Final = ("replaced_by", "superseded_by")


def outdated(metadata: Mapping[str, Any]) -> str:
    """Return why a document is out of date, by its metadata; empty when it is current.

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

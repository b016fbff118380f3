"""Ids of code nodes, `Repo::snapshot::kind::local`, and of snapshots.

`Fake::d4578e80-0513-581a-8e08-fcc69a9c50b0::cs::C0005` names one C# node of one snapshot. A bundle has only the
last part, the local id; its prefix distinguishes SQL objects from C# nodes.
"""

from __future__ import annotations

import re
import uuid
from functools import lru_cache
from typing import Literal

from whence.schema.errors import BadInput, NotFound

CodeKind = Literal["cs", "sql"]

#: Prefix of the local ids of SQL objects, and of no others.
SQL_PREFIX = "SQL:"
#: Longest canonical id in UTF-8; a PostgreSQL index entry holds about 2,700 bytes, other columns included.
MAX_ID_BYTES = 1024
_SEPARATOR = "::"
#: Unicode categories Cc (control), Cs (surrogate), Zl and Zp (line and paragraph separator).
_NOT_IN_A_LINE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")


def canonical_id(repo: str, snapshot: str, kind: CodeKind, local: str) -> str:
    """Return the canonical id of a node whose local id is valid."""
    text = _SEPARATOR.join((validate_repo(repo), _check_part(snapshot, "snapshot"), kind, local))
    if len(text) * 4 > MAX_ID_BYTES and len(text.encode()) > MAX_ID_BYTES:
        raise BadInput(f"the id of {local[:40]!r} is longer than {MAX_ID_BYTES:,} bytes")
    return text


def kind_from_local_id(local: str) -> CodeKind:
    """Return the kind of a node by the prefix of its local id.

    >>> kind_from_local_id("SQL:dbo.table_Payments"), kind_from_local_id("C0001")
    ('sql', 'cs')
    """
    return "sql" if local.startswith(SQL_PREFIX) else "cs"


def validate_local_id(value: object, kind: CodeKind) -> str:
    """Return a local id if it is valid in a canonical id.

    Raises:
        BadInput: The id is not a text, is blank, has space at an end, has a control character or a lone
            surrogate, or the prefix of the other kind.
    """
    local = _checked_line(value, "id")
    if kind == "sql" and (not local.startswith(SQL_PREFIX) or local == SQL_PREFIX):
        raise BadInput(
            f"{local!r} is not the id of an SQL object, which has the form SQL:schema.name"
        )
    if kind == "cs" and local.upper().startswith(SQL_PREFIX):
        raise BadInput(f"{local!r} is the id of an SQL object, not of a C# node")
    return local


def validate_repo(value: object) -> str:
    """Return the name of a repository if it is valid in an id; see `validate_local_id`."""
    return _check_part(value, "repository")


def make_snapshot_id(repo: str, revision: str) -> str:
    """Return the id of a snapshot: UUID version 5 of `repo:revision` in the DNS namespace.

    The revision is a commit hash, or the fingerprint of the folder where there is no commit.
    """
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{repo}:{revision}"))


def local_id_from_name(node: str, repo: str, snapshot_id: str) -> str | None:
    """Return the local id of a node that is named by its canonical or its local id.

    >>> local_id_from_name("Fake::s1::cs::C0001", "Fake", "s1"), local_id_from_name("C0001", "Fake", "s1")
    ('C0001', 'C0001')

    The node need not exist; None when no node can have that name. Everything after the kind is the local id.

    Raises:
        BadInput: The id is of another snapshot.
    """
    parts = node.split(_SEPARATOR, 3)
    if len(parts) < 4 or parts[2] not in ("cs", "sql"):
        return node or None
    its_repo, its_snapshot, kind, local = parts
    if its_snapshot != snapshot_id:
        raise BadInput(
            f"{node!r} is of another snapshot than {snapshot_id}",
            hint="ask about one snapshot at a time",
        )
    return local if its_repo == repo and kind == kind_from_local_id(local) and local else None


def node_not_found(node: str) -> NotFound:
    """Return the one error for a node that does not exist or is hidden."""
    return NotFound(
        f"there is no node {node!r} in this snapshot",
        hint="check the id, and the access options you give",
    )


@lru_cache(maxsize=256)
def _check_part(value: object, name: str) -> str:
    """Check a repository or snapshot; cached, because all ids of a bundle share them."""
    part = _checked_line(value, name)
    if _SEPARATOR in part or part.startswith(":") or part.endswith(":"):
        raise BadInput(f"{name} {part!r} has '::' or a colon at an end, which an id cannot contain")
    return part


def _checked_line(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise BadInput(f"{name} must be text, not {value!r}")
    if not value.strip():
        raise BadInput(f"{name} is missing or blank")
    if value != value.strip():
        raise BadInput(f"{name} {value!r} has space at an end")
    if _NOT_IN_A_LINE.search(value):
        raise BadInput(f"{name} {value!r} has a character that is not allowed in a line of text")
    return value

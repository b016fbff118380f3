"""What callers call a node of a snapshot, and the one way in which a node that is not there is told of."""

from __future__ import annotations

from whence.schema.code_ids import kind_of_local
from whence.schema.errors import BadInput, NotFound

__all__ = ("local_id_of", "missing_node")


def local_id_of(node: str, repo: str, snapshot_id: str) -> str | None:
    """Give the local id of a node that is named by its canonical or its local id.

    >>> local_id_of("Fake::s1::cs::C0001", "Fake", "s1"), local_id_of("C0001", "Fake", "s1")
    ('C0001', 'C0001')

    Args:
        node: The name as given.
        repo: Repository of the snapshot.
        snapshot_id: Its id.

    Returns:
        The local id, whether or not there is such a node; None when none can have that name.

    Raises:
        BadInput: It is the id of a node of another snapshot.
    """
    parts = node.split("::", 3)
    if len(parts) < 4 or parts[2] not in ("cs", "sql"):
        return node or None
    its_repo, its_snapshot, kind, local = parts
    if its_snapshot != snapshot_id:
        raise BadInput(
            f"{node!r} is of another snapshot than {snapshot_id}",
            hint="ask about one snapshot at a time",
        )
    return local if its_repo == repo and kind == kind_of_local(local) and local else None


def missing_node(node: str) -> NotFound:
    """Give the error for a node that does not exist or is hidden; the words tell nothing of which."""
    return NotFound(
        f"there is no node {node!r} in this snapshot",
        hint="check the id, and the access options you give",
    )

"""Options that select the snapshot of code to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from whence.engine.snapshot_reading import SnapshotChoice

__all__ = ("SetName", "Snapshot", "SnapshotOrigin", "chosen_snapshot", "required_snapshot")

Snapshot = Annotated[
    str | None,
    typer.Option("--snapshot", metavar="ID|REF", help="Snapshot: id, head sha, branch or tag."),
]
SetName = Annotated[str | None, typer.Option("--set", metavar="NAME", help="Set of snapshots.")]
SnapshotOrigin = Annotated[
    str | None,
    typer.Option("--snapshot-source", metavar="WHICH", help="primary or secondary of the set."),
]


def chosen_snapshot(
    snapshot: str | None, set_name: str | None, source: str | None
) -> SnapshotChoice | None:
    """Return the snapshot that the options choose; None when none of them is given.

    Raises:
        BadInput: The options contradict each other.
    """
    if (snapshot, set_name, source) == (None, None, None):
        return None
    return required_snapshot(snapshot, set_name, source)


def required_snapshot(
    snapshot: str | None, set_name: str | None, source: str | None
) -> SnapshotChoice:
    """Return the snapshot that the options choose.

    Raises:
        BadInput: None is given, or the options contradict each other.
    """
    from whence.engine.snapshot_reading import SnapshotChoice

    return SnapshotChoice(snapshot=snapshot or "", set_name=set_name or "", source=source or "")

"""Options that say which snapshot of code a command reads."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ("SetName", "Snapshot", "SnapshotOrigin", "chosen_snapshot")

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
) -> dict[str, str]:
    """Give the engine's arguments for a snapshot.

    Raises:
        BadInput: No snapshot is named, or the options do not go together.
    """
    from whence.engine.snapshot_reading import SnapshotChoice

    choice = SnapshotChoice(snapshot=snapshot or "", set_name=set_name or "", source=source or "")
    return {
        "snapshot": choice.snapshot,
        "set_name": choice.set_name,
        "snapshot_source": choice.source,
    }

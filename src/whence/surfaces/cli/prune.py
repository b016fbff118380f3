"""`whence traces prune`: remove old traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from msgspec.structs import replace

from whence.operations.owner import PruneTraces
from whence.surfaces.cli.output import console, note, print_json, progress
from whence.surfaces.cli.session import as_json, run_operation

if TYPE_CHECKING:
    from whence.operations.owner import PrunedTraces


def prune(context: typer.Context, asked: PruneTraces) -> int:
    """Remove traces by age, with the bytes that they leave in files; the chain keeps an entry of each.

    Old entries of the change log go too, once no answer and no former version needs them.
    The tables of the embedded database are rewritten, as for `whence erase`. Traces that are not as they were
    recorded stay; `whence verify` names them. Exit 1 when there are some.
    """
    with progress("removing traces") as moved:
        done = run_operation(context, replace(asked, progress=moved), reads="traces")
    print_json(done) if as_json(context) else _print(done)
    return 1 if done.faulty else 0


def _print(done: PrunedTraces) -> None:
    verb = "would be removed" if done.dry_run else "removed"
    console().print(f"{done.removed:,} traces from before {done.before[:16]} UTC {verb}")
    if done.changes:
        console().print(f"{done.changes:,} entries of the change log that no answer needs {verb}")
    if done.faulty:
        note(f"{done.faulty:,} kept: they are not as they were recorded; run whence verify")
    if done.physical is not None and done.physical.hint:
        note(f"not gone yet: {done.physical.hint}")

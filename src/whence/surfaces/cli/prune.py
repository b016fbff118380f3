"""`whence traces prune`: remove old traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from whence.schema.errors import BadInput
from whence.surfaces.cli.output import console, note, print_json, progress
from whence.surfaces.cli.session import as_json, run_with_engine, settings_of

if TYPE_CHECKING:
    from whence.operations.owner import PrunedTraces


def prune(
    context: typer.Context,
    *,
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="AGE", help="Age such as 90d, 12h or 52w; the setting `keep` by default."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count what would be removed; change nothing.")
    ] = False,
) -> int:
    """Remove traces by age, with the bytes that they leave in files; the chain keeps an entry of each.

    Old entries of the change log go too, once no answer and no former version needs them.
    The tables of the embedded database are rewritten, as for `whence erase`. Traces that are not as they were
    recorded stay; `whence verify` names them. Exit 1 when there are some.
    """
    from whence.flow.setting_values import parse_duration

    age = parse_duration("--older-than", older_than) if older_than else settings_of(context).keep
    if age is None:
        raise BadInput("no age is given", hint="use --older-than 90d, or set WHENCE_KEEP")
    with progress("removing traces") as moved:
        done = run_with_engine(
            context,
            lambda engine, _: engine.owner.prune_traces(age, dry_run=dry_run, progress=moved),
            reads="traces",
        )
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

"""`whence import`: bundles of code become snapshots that can be searched."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whence.cli.output import console, note, one_line, print_json, progress
from whence.cli.session import as_json, run_with_engine

if TYPE_CHECKING:
    from whence.engine.results import ImportResult

__all__ = ("import_bundles",)

#: Warnings shown to people; JSON has them all.
_WARNINGS_SHOWN = 10


def import_bundles(
    context: typer.Context,
    bundles: Annotated[
        list[Path], typer.Argument(metavar="BUNDLE...", help="Zip archives or unpacked folders.")
    ],
    set_name: Annotated[
        str | None,
        typer.Option(
            "--set", metavar="NAME", help="Make a set of them, the first primary, in this order."
        ),
    ] = None,
    repo: Annotated[
        str | None, typer.Option(help="Name of the repository, not the bundle's own.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace other content at the same commit.")
    ] = False,
    tag: Annotated[
        list[str] | None,
        typer.Option(help="Another name for the snapshot; once for each bundle, in their order."),
    ] = None,
) -> int:
    """Import bundles of code: all of them can be searched afterwards, or nothing has changed."""
    from whence.store.snapshot_documents import check_set_name

    if set_name is not None:
        check_set_name(set_name)
    with progress("importing") as moved:
        result = run_with_engine(
            context,
            lambda engine, _settings: engine.code.import_bundles(
                bundles,
                set_name=set_name or "",
                repo=repo,
                replace=replace,
                tags=tag or (),
                progress=moved,
            ),
        )
    print_json(result) if as_json(context) else _tell(result)
    return 0


def _tell(result: ImportResult) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("repository", "branch"):
        table.add_column(name, overflow="fold")
    # An id is there to be copied.
    table.add_column("snapshot", no_wrap=True, min_width=36)
    for name in ("nodes", "edges", "embedded"):
        table.add_column(name, justify="right")
    for one in result.imports:
        table.add_row(
            escape(one.repo),
            escape(one.branch),
            one.snapshot_id,
            str(sum(one.nodes.values())),
            str(sum(one.edges.values())),
            "unchanged" if one.unchanged else str(one.embedded),
        )
    out = console()
    out.print(table)
    if result.set:
        refs = ", ".join(member.ref for member in result.set.members)
        out.print(f"set [bold]{escape(result.set.name)}[/]: {escape(refs)}")
    out.print(f"{result.seconds:.1f} s")
    warnings = [warning.message for one in result.imports for warning in one.warnings]
    for message in warnings[:_WARNINGS_SHOWN]:
        note(f"warning: {one_line(message)}")
    if len(warnings) > _WARNINGS_SHOWN:
        note(f"and {len(warnings) - _WARNINGS_SHOWN} more warnings; --json lists them")

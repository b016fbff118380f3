"""`whence import`: import bundles of code as searchable snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whence.cli.output import console, id_table, note_some, print_json, progress
from whence.cli.session import as_json, run_with_engine

if TYPE_CHECKING:
    from whence.engine.results import ImportResult

#: Warnings printed as text; JSON lists all.
_MAX_WARNINGS = 10


def import_bundles(
    context: typer.Context,
    bundles: Annotated[
        list[Path], typer.Argument(metavar="BUNDLE...", help="Zip archives or folders.")
    ],
    set_name: Annotated[
        str | None,
        typer.Option(
            "--set", metavar="NAME", help="Set to make of the snapshots; the first is primary."
        ),
    ] = None,
    repo: Annotated[
        str | None, typer.Option(help="Name of the repository; the bundle's own by default.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace other content at the same commit.")
    ] = False,
    tag: Annotated[
        list[str] | None,
        typer.Option(help="Additional name of a snapshot; once for each bundle, in their order."),
    ] = None,
) -> int:
    """Import bundles of code in one transaction: all of them or none."""
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
    print_json(result) if as_json(context) else _print_result(result)
    return 0


def _print_result(result: ImportResult) -> None:
    from rich.markup import escape

    table = id_table("repository", "branch", "snapshot", ">nodes", ">edges", ">embedded")
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
    note_some("warning", warnings, _MAX_WARNINGS)

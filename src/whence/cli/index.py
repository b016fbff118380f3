"""`whence index`: put documents into a collection, again and again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whence.cli.output import console, note, one_line, print_json, progress
from whence.cli.session import as_json, run_with_engine
from whence.schema.access import DocumentTags

if TYPE_CHECKING:
    from whence.engine.results import IndexReport

__all__ = ("index",)


def index(
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(help="Files and folders.", show_default=False)],
    acl: Annotated[
        list[str] | None,
        typer.Option("--acl", metavar="TAG", help="Readers need one of these tags."),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="L", help="Readers need all of these labels."),
    ] = None,
    clearance: Annotated[int, typer.Option(help="Readers need at least this level.")] = 0,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove documents that are no longer in PATHS.")
    ] = False,
) -> int:
    """Index files and folders; what has not changed costs nothing."""
    tags = DocumentTags(tuple(acl or ()), tuple(label or ()), clearance)
    with progress("indexing") as moved:
        report = run_with_engine(
            context,
            lambda engine, settings: engine.index(
                paths, collection=settings.collection, tags=tags, prune=prune, progress=moved
            ),
        )
    print_json(report) if as_json(context) else _tell(report)
    return 1 if report.documents.failed else 0


def _tell(report: IndexReport) -> None:
    from rich.table import Table

    counts = report.documents
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    names = ("added", "updated", "unchanged", "removed", "skipped", "failed")
    for name in names:
        table.add_column(name, justify="right")
    table.add_row(*(str(getattr(counts, name)) for name in names))
    out = console()
    out.print(f"collection [bold]{report.collection}[/]", markup=True)
    out.print(table)
    out.print(f"{report.chunks} chunks written, {report.embedded} embedded, {report.seconds:.1f} s")
    for failure in report.failures:
        note(f"failed: {one_line(failure.path)}: {one_line(failure.reason)}")

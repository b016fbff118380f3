"""`whence bundle`: a checkout becomes a bundle that `whence import` takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whence.cli.output import console, note, one_line, print_json
from whence.cli.session import as_json
from whence.schema.access import DocumentTags

if TYPE_CHECKING:
    from whence.bundler.builder import BundleReport, SkippedFile

__all__ = ("bundle",)

#: Files named on a terminal; JSON has them all.
_FILES_SHOWN = 10


def bundle(
    context: typer.Context,
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="Folder of a checkout.", show_default=False)
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE.zip", help="The bundle to write.", show_default=False
        ),
    ],
    repo: Annotated[
        str | None, typer.Option(help="Name of the repository, not that of the folder.")
    ] = None,
    acl: Annotated[
        list[str] | None,
        typer.Option("--acl", metavar="TAG", help="Readers need one of these tags."),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="L", help="Readers need all of these labels."),
    ] = None,
    clearance: Annotated[int, typer.Option(help="Readers need at least this level.")] = 0,
) -> int:
    """Make a bundle of the C#, Python and SQL in a checkout, for `whence import`.

    Types, members, SQL objects and statements become nodes; calls, uses, inheritance and what SQL reads, writes
    and runs become edges. A call that cannot be told for certain makes no edge and is counted.
    """
    from whence.bundler.builder import bundle_folder

    tags = DocumentTags(tuple(acl or ()), tuple(label or ()), clearance)
    report = bundle_folder(path, output, repo=repo, tags=tags)
    print_json(report) if as_json(context) else _tell(report)
    return 0


def _tell(report: BundleReport) -> None:
    from rich.markup import escape
    from rich.table import Table

    calls, references = report.calls, report.references
    state = f"commit {report.head_sha}" if report.is_commit else f"folder {report.head_sha[:16]}"
    edges = _listed(report.edges)
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="bold")
    found = (
        f"resolved {calls.resolved:,}; of libraries {calls.external:,};"
        f" ambiguous {calls.ambiguous:,}; unresolved {calls.unresolved:,}"
    )
    named = (
        f"resolved {references.resolved:,}; ambiguous {references.ambiguous:,};"
        f" not of this folder {references.unresolved:,}"
    )
    for name, value in (
        ("bundle", f"{report.bundle}, {report.bytes:,} bytes, {report.seconds:.1f} s"),
        ("state", f"{state} {report.branch}".strip()),
        ("read", _listed(report.files)),
        ("nodes", _listed(report.types)),
        ("edges", f"{edges}; {report.inferred:,} of them inferred" if report.inferred else edges),
        ("calls", found),
        ("names in SQL", named if report.files["sql"] else ""),
    ):
        if value:
            facts.add_row(name, escape(value))
    console().print(facts)
    _tell_files("skipped", report.skipped)
    _tell_files("not understood", report.failures)


def _tell_files(what: str, files: tuple[SkippedFile, ...]) -> None:
    for file in files[:_FILES_SHOWN]:
        note(f"{what}: {one_line(file.path)}: {one_line(file.reason)}")
    if len(files) > _FILES_SHOWN:
        note(f"{what}: {len(files) - _FILES_SHOWN:,} more; --json names all")


def _listed(parts: dict[str, int]) -> str:
    """Name parts with their numbers, the most frequent first."""
    ordered = sorted(parts.items(), key=lambda item: (-item[1], item[0]))
    return "; ".join(f"{name} {count:,}" for name, count in ordered if count)

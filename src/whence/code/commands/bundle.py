"""`whence bundle`: make a bundle for `whence import` from a checkout."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whence.surfaces.cli.options import OwnTags
from whence.surfaces.cli.output import console, counts_text, facts_table, note_some, print_json
from whence.surfaces.cli.session import as_json, settings_of

if TYPE_CHECKING:
    from whence.code.bundler.builder import BundleReport

#: Files printed as text; JSON lists all.
_MAX_FILES = 10


def bundle(
    context: typer.Context,
    path: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder of the checkout.", show_default=False)
    ],
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE.zip", help="Bundle to write.", show_default=False
        ),
    ],
    repo: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Name of the repository; the name of the folder by default."
        ),
    ] = None,
    tags: OwnTags,
) -> int:
    """Make a bundle of the C#, Python and SQL in a checkout, for `whence import`.

    Nodes are types, members, SQL objects and statements. Edges are calls, uses, inheritance, and the reads,
    writes and executions of SQL. Ambiguous calls make no edge and are counted.
    """
    from whence.code.bundler.limited import bundle_within_limits

    limits = settings_of(context).document_limits
    report = bundle_within_limits(path, output, limits=limits, repo=repo, tags=tags)
    print_json(report) if as_json(context) else _print_report(report)
    return 0


def _print_report(report: BundleReport) -> None:
    calls, references = report.calls, report.references
    state = f"commit {report.head_sha}" if report.is_commit else f"folder {report.head_sha[:16]}"
    edges = counts_text(report.edges)
    found = (
        f"resolved {calls.resolved:,}; external {calls.external:,};"
        f" ambiguous {calls.ambiguous:,}; unresolved {calls.unresolved:,}"
    )
    named = (
        f"resolved {references.resolved:,}; ambiguous {references.ambiguous:,};"
        f" external {references.unresolved:,}"
    )
    facts = {
        "bundle": f"{report.bundle}, {report.bytes:,} bytes, {report.seconds:.1f} s",
        "state": f"{state} {report.branch}".strip(),
        "read": counts_text(report.files),
        "nodes": counts_text(report.types),
        "edges": f"{edges}; {report.inferred:,} of them inferred" if report.inferred else edges,
        "calls": found,
        "names in SQL": named if report.files["sql"] else "",
    }
    console().print(facts_table(facts))
    for what, files in (("skipped", report.skipped), ("not parsed", report.failures)):
        note_some(what, [f"{file.path}: {file.reason}" for file in files], _MAX_FILES)

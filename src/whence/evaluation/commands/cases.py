"""`whence eval cases export`: what readers said of answers, as cases of an evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from whence.operations.history import ExportCases
from whence.surfaces.cli.output import json_text, note, print_json
from whence.surfaces.cli.session import as_json, run_operation, settings_of

#: Version of the suite: its cases change with every verdict.
_VERSION = "feedback"


def cases(
    context: typer.Context,
    *,
    action: Annotated[Literal["export"], typer.Argument(help="What to do.")],
    out: Annotated[Path | None, typer.Option(help="Write the suite to this file.")] = None,
) -> int:
    """Export what readers of the page said of answers: `right`, `wrong` or `missing`, with their notes.

    All collections are exported unless `--collection` names one.
    The result is a suite of `whence eval gate`. A `right` answer names the documents that it cites as
    `expected_targets`; for other cases you fill in what their questions should find.
    """
    from whence.operations.output_files import check_folder, write_text

    del action
    check_folder(out)
    settings = settings_of(context)
    is_named = settings.origin("collection") != "default"
    collection = settings.collection if is_named else None
    found = run_operation(context, ExportCases(collection), reads="feedback of readers")
    suite: dict[str, Any] = {"version": _VERSION, "queries": found}
    if out is not None:
        write_text(out, json_text(suite))
        note(f"{len(found)} case{'' if len(found) == 1 else 's'} written to {out}")
    if out is None or as_json(context):
        print_json(suite)
    return 0

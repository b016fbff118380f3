"""`whence stale`: the documents on which the answers of the last days stand."""

from __future__ import annotations

import typer

from whence.operations.stale import ListStale
from whence.surfaces.cli.output import console, plain_table, print_json
from whence.surfaces.cli.session import as_json, run_operation


def stale(context: typer.Context, asked: ListStale) -> int:
    """List the documents on which most answers of the last days stand, with their age.

    Documents with as many answers are listed with the oldest first. `changed` is a document whose file is
    another one now: `whence index` reads it again.
    """
    rows = run_operation(context, asked, reads=f"collection {asked.collection!r}")
    if as_json(context):
        print_json({"collection": asked.collection, "since": asked.since, "documents": rows})
        return 0
    if not rows:
        console().print(f"no answer since {asked.since} cites a document", markup=False)
        return 0
    table = plain_table("document", ">answers", "date", "indexed", "last asked", "note")
    for one in rows:
        times = ((at or "")[:16].replace("T", " ") for at in (one.indexed_at, one.last_asked))
        note = "changed since" if one.changed else ""
        name = one.document_id
        table.add_values(name, one.answers, (one.document_date or "")[:10], *times, note)
    console().print(table)
    return 0

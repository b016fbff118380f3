"""`whence documents`: the documents of a collection, and the files that were not read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from whence.operations.documents import ListDocuments
from whence.surfaces.cli.output import console, counts_text, note, plain_table, print_json
from whence.surfaces.cli.session import as_json, run_operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from whence.operations.documents import DocumentEntry


def documents(context: typer.Context, asked: ListDocuments) -> int:
    """List the documents of a collection, and the files of its folders that were not read, with the reason.

    `changed` is a document whose file is another one now: `whence index` reads it again.
    """
    rows = run_operation(context, asked, reads=f"collection {asked.collection!r}")
    more = rows[-1].key if len(rows) == asked.limit else None
    if as_json(context):
        print_json({"collection": asked.collection, "documents": rows, "next": more})
        return 0
    if not rows:
        console().print("no documents")
        return 0
    _print(rows)
    if more is not None:
        note(f"there may be more: --limit N, or --after {more!r}")
    return 0


def _print(rows: Sequence[DocumentEntry]) -> None:
    table = plain_table("document", "state", ">passages", "date", "indexed", "note")
    for one in rows:
        changed = "changed since" if one.changed else ""
        left_out = f"without {counts_text(one.left_out)}" if one.left_out else ""
        encoding = f"read as {one.encoding}" if one.encoding else ""
        # The id of a record is its own.
        is_record = one.line and one.document_id not in (one.path, f"{one.root}/{one.path}")
        line = f"line {one.line} of {one.path}" if is_record else ""
        notes = "; ".join(filter(None, (line, one.reason, changed, encoding, left_out)))
        name = one.document_id or f"{one.root}/{one.path}"
        indexed = (one.indexed_at or "")[:16].replace("T", " ")
        chunks = one.chunks or ""
        date = (one.document_date or "")[:10]
        table.add_values(name, one.state, chunks, date, indexed, notes)
    console().print(table)

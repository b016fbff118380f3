"""`whence collections`: what is indexed, and by which model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from whence.cli.output import console, plain_table, print_json, size
from whence.cli.session import as_json, run_with_engine

if TYPE_CHECKING:
    from rich.table import Table

    from whence.store.protocols import CollectionInfo

__all__ = ("collections", "table_of")


def collections(context: typer.Context) -> int:
    """List the collections with their counts, sizes, models and last changes."""
    found = run_with_engine(context, lambda engine, _: engine.collections())
    print_json({"collections": found}) if as_json(context) else _tell(found)
    return 0


def _tell(found: list[CollectionInfo]) -> None:
    if found:
        console().print(table_of(found))
    else:
        console().print("no collections yet: `whence index FOLDER` makes the first")


def table_of(found: list[CollectionInfo]) -> Table:
    """Give collections as a table for people."""
    table = plain_table("collection", ">documents", ">chunks", ">size", "model", "changed")
    for one in found:
        model = f"{one.model.name} {one.model.precision}".strip()
        changed = one.changed_at[:16].replace("T", " ")
        taken = f"~{size(one.bytes)}" if one.bytes else ""
        table.add_row(one.name, str(one.documents), str(one.chunks), taken, model, changed)
    return table

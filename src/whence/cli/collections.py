"""`whence collections` and `whence erase`: what is indexed, and the erasure of a document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from whence.cli.output import console, plain_table, print_json, size
from whence.cli.session import as_json, run_with_engine

if TYPE_CHECKING:
    from rich.table import Table

    from whence.engine.erasure import Erasure
    from whence.store.protocols import CollectionInfo


def collections(context: typer.Context) -> int:
    """List the collections with their counts, sizes, models and last changes."""
    found = run_with_engine(context, lambda engine, _: engine.collections())
    if as_json(context):
        print_json({"collections": found})
    elif found:
        console().print(collections_table(found))
    else:
        console().print("no collections yet: `whence index FOLDER` creates the first")
    return 0


def collections_table(found: list[CollectionInfo]) -> Table:
    """Return collections as a table."""
    table = plain_table("collection", ">documents", ">chunks", ">size", "model", "changed")
    for one in found:
        model = f"{one.model.name} {one.model.precision}".strip()
        changed = one.changed_at[:16].replace("T", " ")
        taken = f"~{size(one.bytes)}" if one.bytes else ""
        table.add_row(one.name, str(one.documents), str(one.chunks), taken, model, changed)
    return table


def erase(
    context: typer.Context,
    document: Annotated[str, typer.Argument(help="Id of the document.")],
) -> int:
    """Erase a document: its chunks, vectors and postings, and its words in the traces of answers.

    Traces keep a tombstone. The command prints what was stored before and after.
    """
    done = run_with_engine(
        context,
        lambda engine, settings: engine.erase(document, collection=settings.collection),
        reads=f"document {document!r}",
    )
    print_json(done) if as_json(context) else _print_erasure(done)
    return 0


def _print_erasure(done: Erasure) -> None:
    table = plain_table("stored", "before", "after")
    for name in done.before.__struct_fields__:
        counts = (getattr(side, name) for side in (done.before, done.after))
        table.add_row(name.replace("_", " "), *(str(count) for count in counts))
    out = console()
    out.print(f"erased {done.document_id} from {done.collection}", markup=False, soft_wrap=True)
    out.print(table)

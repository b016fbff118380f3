"""`whence erase`: remove a document for good, and prove it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from whence.cli.output import console, print_json
from whence.cli.session import as_json, run_with_engine

if TYPE_CHECKING:
    from whence.engine.erasure import Erasure

__all__ = ("erase",)


def erase(
    context: typer.Context,
    document: Annotated[str, typer.Argument(help="Id of the document.")],
) -> int:
    """Erase a document: its chunks, vectors and postings, and its words in the traces of answers.

    Traces keep a tombstone. The counts before and after are printed.
    """
    done = run_with_engine(
        context,
        lambda engine, settings: engine.erase(document, collection=settings.collection),
        reads=f"document {document!r}",
    )
    print_json(done) if as_json(context) else _tell(done)
    return 0


def _tell(done: Erasure) -> None:
    from rich.table import Table

    table = Table(
        "kept of it", "before", "after", box=None, header_style="bold", padding=(0, 2, 0, 0)
    )
    for name in done.before.__struct_fields__:
        counts = (getattr(side, name) for side in (done.before, done.after))
        table.add_row(name.replace("_", " "), *(str(count) for count in counts))
    out = console()
    out.print(f"erased {done.document_id} from {done.collection}", markup=False, soft_wrap=True)
    out.print(table)

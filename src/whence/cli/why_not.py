"""`whence why-not`: why a passage is not in an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from whence.cli.options import Acl, Clearance, Label
from whence.cli.output import console, print_json
from whence.cli.session import access_of, as_json, run_with_engine

if TYPE_CHECKING:
    from whence.provenance.why_not import WhyNot

__all__ = ("why_not",)


def why_not(
    context: typer.Context,
    item: Annotated[
        str, typer.Argument(metavar="CHUNK_OR_DOCUMENT", help="Id of a chunk or document.")
    ],
    answer: Annotated[str, typer.Option("--answer", help="Id that `whence ask` printed.")],
    acl: Acl = None,
    label: Label = None,
    clearance: Clearance = 0,
) -> int:
    """Say at which stage a passage was dropped on the way to an answer, with the numbers."""
    access = access_of(acl, label, clearance)
    told = run_with_engine(
        context,
        lambda engine, _: engine.why_not(item, answer, access),
        reads=f"answer {answer!r}",
    )
    print_json(told) if as_json(context) else _tell(told)
    return 0


def _tell(told: WhyNot) -> None:
    from rich.table import Table

    out = console()
    out.print(told.chunk_id, style="bold", markup=False, soft_wrap=True)
    out.print(f"{told.stage}: {told.code} - {told.reason}", markup=False, soft_wrap=True)
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in told.numbers.items():
        table.add_row(
            name.replace("_", " "), f"{value:.4g}" if isinstance(value, float) else str(value)
        )
    out.print(table)

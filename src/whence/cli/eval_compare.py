"""`whence eval compare`: two runs of one suite side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whence.cli.output import console, plain_table, print_json, say
from whence.cli.session import as_json

if TYPE_CHECKING:
    from whence.evaluation.gate.comparison import Comparison

_SHOWN = 20


def compare(
    context: typer.Context,
    a: Annotated[Path, typer.Argument(help="Report of a gate, or a baseline.")],
    b: Annotated[Path, typer.Argument(help="Another report or baseline of the same suite.")],
    measure: Annotated[
        str,
        typer.Option(help="Measure of the differences by query: ndcg_at_k, mrr or recall_at_k."),
    ] = "ndcg_at_k",
    svg: Annotated[
        Path | None, typer.Option(help="Write a chart of the differences by query to this file.")
    ] = None,
) -> int:
    """Compare two runs of one suite, with significance tests."""
    from whence.evaluation.files import check_folder, write_text
    from whence.evaluation.gate.comparison import compare_runs, differences_svg, load_run

    check_folder(svg)
    comparison = compare_runs(load_run(a), load_run(b), measure)
    if svg is not None:
        write_text(svg, differences_svg(comparison))
    print_json(comparison) if as_json(context) else _print_comparison(comparison)
    return 0


def _print_comparison(comparison: Comparison) -> None:
    from rich.text import Text

    out = console()
    compared = f"{comparison.queries} queries, k {comparison.k}"
    numbers = ("A", "B", "B - A", "95 %", "p", "better", "worse", "equal")
    table = plain_table(compared, *(f">{name}" for name in numbers))
    for name, one in comparison.measures.items():
        span = f"{one.interval.low:+.4f} {one.interval.high:+.4f}"
        counts = (str(one.better), str(one.worse), str(one.equal))
        star = " *" if one.significant else ""
        values = (f"{one.a:.4f}", f"{one.b:.4f}", f"{one.delta:+.4f}", span)
        table.add_row(name, *values, f"{one.p_value:.4f}{star}", *counts)
    out.print(table)
    for query in comparison.differences[:_SHOWN]:
        ranks = f"first hit {query.hit_rank_a or '-'} -> {query.hit_rank_b or '-'}"
        out.print(Text(f"{query.delta:+.3f} {query.id} {ranks}"))
    more = len(comparison.differences) - _SHOWN
    if more > 0:
        say(f"and {more} more")

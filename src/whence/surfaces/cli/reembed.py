"""`whence reembed`: change the encoder of a collection while searches go on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import typer
from msgspec.structs import replace

from whence.operations.reembedding import Reembed
from whence.surfaces.cli.output import console, facts_table, note, plain_table, print_json, progress
from whence.surfaces.cli.session import as_json, run_with_engine

if TYPE_CHECKING:
    from whence.operations.reembedding import Comparison, ReembedReport
    from whence.surfaces.python.engine import Engine

#: Added to the niceness of this process. On two busy cores p95 of searches beside it was 1.4 to 1.9 times that
#: without, and with 0 it was 1.9 to 2.8 times; see benchmarks/bench_reembed.py.
_NICENESS: Final = 10


def reembed(context: typer.Context, asked: Reembed) -> int:
    """Make vectors of another encoder, that of --embedder, and switch when all are there.

    Searches go on with the former vectors meanwhile, and these are kept for --back until the next `reembed`
    begins. An interrupted command is continued by the same one. Ids of documents and answers stay.
    """
    asked.check()
    with progress("vectors") as moved:
        report = run_with_engine(
            context, lambda engine, _: _run_behind(engine, replace(asked, progress=moved))
        )
    print_json(report) if as_json(context) else _print_report(report)
    return 0


async def _run_behind(engine: Engine, asked: Reembed) -> ReembedReport:
    """Run it with less claim to the processors than searches of other processes have."""
    # The database that this opens may serve those, so it starts before.
    await engine.visible_collections(names=(asked.collection,))
    os.nice(_NICENESS)
    return await engine.run(asked)


def _print_report(report: ReembedReport) -> None:
    facts = {
        "collection": report.collection,
        "encoder": report.encoder,
        "beside it": report.other,
        "passages": f"{report.passages:,}, {report.embedded:,} texts embedded",
        "time": f"{report.seconds:.1f} s",
    }
    console().print(facts_table(facts))
    if report.comparison is not None:
        _print_comparison(report.comparison)
    if report.waiting:
        note(f"{report.waiting:,} passages wait for vectors: the next `whence index` makes them")
    if report.comparison is not None and not report.switched:
        note("searches use the former vectors; `whence reembed --promote` switches")


def _print_comparison(found: Comparison) -> None:
    table = plain_table("encoder", ">among the first 10", ">mean of 1/rank")
    for one in (found.used, found.new):
        if one is not None:
            table.add_values(one.encoder, f"{one.found:.3f}", f"{one.reciprocal_rank:.3f}")
    console().print()
    console().print(table)
    note(f"{found.questions} headings and first sentences of the collection, each for its passage")

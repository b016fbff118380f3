"""`whence eval gate`, `baseline` and `compare`: run a suite, record its results, compare two runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from whence.evaluation.commands.beir import working_reranker
from whence.schema.errors import BadInput, ModelMissing
from whence.surfaces.cli.options import ReaderAccess
from whence.surfaces.cli.output import (
    console,
    json_text,
    note,
    plain_table,
    print_json,
    progress,
    say,
)
from whence.surfaces.cli.session import as_json, run_with_engine

if TYPE_CHECKING:
    from rich.console import Console

    from whence.evaluation.engine_searcher import EngineSearcher
    from whence.evaluation.gate.comparison import Comparison
    from whence.evaluation.gate.files import Baseline, RetrieverScores
    from whence.evaluation.gate.query_reports import SuiteRun
    from whence.evaluation.suite import Suite
    from whence.flow.resources import Resources
    from whence.flow.settings import Settings
    from whence.schema.access import Access
    from whence.surfaces.python.engine import Engine

#: Most runs of a suite whose latencies are above their limits, each with a new engine; the last one counts.
_MEASUREMENTS = 3
_MODES = ("bm25", "dense", "hybrid")
_SuiteFile = Annotated[Path, typer.Option("--suite", help="Queries with expected results.")]
_K = Annotated[int, typer.Option("--k", help="Number of results scored for each query.")]
_Legs = Annotated[
    bool, typer.Option("--legs/--no-legs", help="Also measure each retriever separately.")
]


def gate(
    context: typer.Context,
    *,
    suite: _SuiteFile,
    baseline: Annotated[Path, typer.Option(help="Recorded results to compare with.")],
    policy: Annotated[Path, typer.Option(help="Thresholds of the checks.")],
    report: Annotated[Path | None, typer.Option(help="Write the report to this file.")] = None,
    k: _K = 10,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the result, but always exit with 0.")
    ] = False,
    legs: _Legs = True,
    access: ReaderAccess,
) -> int:
    """Run a suite; exit 1 when retrieval is worse than the baseline by more than the policy allows."""
    from whence.evaluation.gate.files import load_baseline, load_policy, load_suite
    from whence.evaluation.gate.report import check_comparable, gate_document
    from whence.operations.output_files import check_folder, write_text

    cases, before, limits = load_suite(suite), load_baseline(baseline), load_policy(policy)
    _check_k(k)
    check_comparable(before, cases, k)
    check_folder(report)

    run = run_with_engine(context, partial(_run_suite, cases, before.mode, k, access, legs))
    document = gate_document(run, cases, before, limits, dry_run=dry_run)
    for number in range(2, _MEASUREMENTS + 1):
        if "latency_regression" not in document["gate"].taxonomy:
            break
        # A regression stays; what delayed the searches of one run does not delay those of each.
        note(f"latencies are above their limits: measuring again, {number} of {_MEASUREMENTS}")
        again = run_with_engine(context, partial(_run_suite, cases, before.mode, k, access, False))
        run = again._replace(legs=run.legs)
        document = gate_document(run, cases, before, limits, dry_run=dry_run, measurements=number)
    if report is not None:
        write_text(report, json_text(document))
    print_json(document) if as_json(context) else _print_gate(document)
    return 0 if dry_run or document["gate"].verdict == "pass" else 1


def baseline(
    context: typer.Context,
    *,
    suite: _SuiteFile,
    out: Annotated[Path, typer.Option(help="File to write.")],
    mode: Annotated[str, typer.Option(help="hybrid, dense or bm25.")] = "hybrid",
    policy: Annotated[
        Path | None, typer.Option(help="Thresholds that the results must meet.")
    ] = None,
    k: _K = 10,
    legs: _Legs = True,
    access: ReaderAccess,
) -> int:
    """Record the current results of a suite as the baseline of later gates. Refused in CI."""
    from whence.evaluation.gate.checks import check_run
    from whence.evaluation.gate.files import load_policy, load_suite
    from whence.evaluation.gate.report import make_baseline
    from whence.operations.output_files import check_folder, write_text
    from whence.schema.version import VERSION

    if os.environ.get("CI", "").casefold() in ("true", "1", "yes"):
        raise BadInput(
            "a baseline is not recorded in CI",
            hint="record it outside of CI (CI unset), review it, and commit the file",
        )
    if mode not in _MODES:
        raise BadInput(f"unknown mode {mode!r}", hint=f"use one of {', '.join(_MODES)}")
    cases = load_suite(suite)
    limits = None if policy is None else load_policy(policy)
    _check_k(k)
    check_folder(out)
    run = run_with_engine(context, partial(_run_suite, cases, mode, k, access, legs))
    recorded = make_baseline(run, cases, k=k, mode=mode, version=VERSION)
    # Compared with itself, a run can fail only the absolute thresholds of the policy.
    checks = [] if limits is None else check_run(run.queries, recorded, limits).checks
    failed = [f"{one.metric} {one.current:.4g}" for one in checks if not one.passed]
    if failed:
        note(f"not recorded, the policy fails: {', '.join(failed)}")
    else:
        _print_changes(out, recorded)
        write_text(out, json_text(recorded))
    if as_json(context):
        print_json(recorded)
    return 1 if failed else 0


def _print_changes(out: Path, recorded: Baseline) -> None:
    from whence.evaluation.gate.files import load_baseline
    from whence.evaluation.gate.report import baseline_changes

    if not out.is_file():
        recall = recorded.metrics.recall_at_k
        note(f"new {out}: recall@{recorded.k} {recall:.3f}; review it")
        return
    try:
        before = load_baseline(out)
    except BadInput as error:
        note(f"replacing {out}, which is not a baseline: {error.message}")
        return
    changes = baseline_changes(before, recorded)
    for change in changes:
        sides = (change.before, change.after)
        numbers = (f"{one:.4g}" if isinstance(one, float) else str(one) for one in sides)
        note(f"{change.what}: {' -> '.join(numbers)}")
    if not changes:
        note(f"{out}: only latencies changed")


def _check_k(k: int) -> None:
    if k < 1:
        raise BadInput(f"k must be positive, not {k}")


async def _run_suite(
    suite: Suite,
    mode: str,
    k: int,
    access: Access,
    with_legs: bool,
    engine: Engine,
    settings: Settings,
) -> SuiteRun:
    from whence.evaluation.engine_searcher import EngineSearcher
    from whence.evaluation.gate.query_reports import SuiteRun, run_suite
    from whence.evaluation.gate.reference_work import ReferenceWork
    from whence.evaluation.gate.report import collection_digest
    from whence.flow.resources import Resources
    from whence.store.protocols import SupportsReference

    async with Resources(settings) as resources:
        store = await resources.get("store")
        digest = await collection_digest(store, settings.collection)
        document_ids = await store.document_ids(settings.collection)
        search = EngineSearcher(engine, settings.collection, access)
        statement = store.reference if isinstance(store, SupportsReference) else None
        work = ReferenceWork(statement) if settings.embedder in ("auto", "local") else None
        with progress("suite") as moved:
            queries = await run_suite(search, suite, mode=mode, k=k, reference=work, progress=moved)
        # In a degraded run the retrievers would only repeat what the run reports.
        complete = not any(query.semantic_degraded for query in queries)
        legs = await _legs(search, resources, suite, k) if with_legs and complete else {}
    return SuiteRun(
        queries, settings.collection, digest, document_ids, legs, work.name if work else ""
    )


async def _legs(
    search: EngineSearcher, resources: Resources, suite: Suite, k: int
) -> dict[str, RetrieverScores]:
    from whence.evaluation.gate.retrievers import measure_retrievers

    try:
        reranker = await working_reranker(resources)
    except ModelMissing as error:
        note(f"note: the reranker is not measured: {error.message}")
        reranker = None
    with progress("retrievers") as moved:
        return await measure_retrievers(search, suite, k=k, reranker=reranker, progress=moved)


def _print_gate(document: dict[str, Any]) -> None:
    verdict, report = document["gate"], document["report"]
    table = plain_table("check", "current", "baseline", "delta", "threshold", "")
    for check in verdict.checks:
        limit = f"{'≥' if check.direction == 'min' else '≤'} {check.threshold:.4g}"
        passed = Text("ok") if check.passed else Text("fail", "red")
        delta = None if check.delta is None else f"{check.delta:+.4g}"
        table.add_values(check.metric, check.current, check.baseline, delta, limit, passed)
    out = console()
    out.print(table)
    _print_legs(report["legs"], out)
    _print_movers(report["movers"], out)
    _print_machine(report["machine_factors"])
    for name in report["loose_checks"]:
        note(f"note: {name} is far above its threshold: record a new baseline")
    out.print(f"verdict [bold]{verdict.verdict}[/] {' '.join(verdict.taxonomy)}")


def _print_machine(factors: Mapping[str, float]) -> None:
    factor = factors.get("latency_p50_ms")
    if factor is None:
        note(
            "note: latencies are compared in milliseconds, since the run or the baseline has no floor of"
            " its machine; with the local model, record a new baseline"
        )
    else:
        say(f"machine: the fixed work takes {factor:.2f} times as long as for the baseline")


def _print_legs(legs: dict[str, Any], out: Console) -> None:
    if not legs:
        return
    table = plain_table("retriever", "recall", "mrr", "ndcg", "worse")
    for name, leg in legs.items():
        now = leg.current
        shares = ("-",) * 3 if now is None else (now.recall_at_k, now.mrr, now.ndcg_at_k)
        cells = (one if isinstance(one, str) else f"{one:.4f}" for one in shares)
        table.add_values(name, *cells, " ".join(leg.worse))
    out.print(table)


def _print_movers(movers: list[Any], out: Console) -> None:
    for mover in movers:
        before, now = mover.hit_rank_before or "-", mover.hit_rank or "-"
        lost = f" lost {', '.join(mover.lost_hints)}" if mover.lost_hints else ""
        gained = f" gained {', '.join(mover.gained_hints)}" if mover.gained_hints else ""
        out.print(Text(f"moved: {mover.id} first hit {before} -> {now}{lost}{gained}"))


_MAX_DIFFERENCES = 20


def compare(
    context: typer.Context,
    a: Annotated[Path, typer.Argument(metavar="A", help="Report of a gate, or a baseline.")],
    b: Annotated[
        Path, typer.Argument(metavar="B", help="Another report or baseline of the same suite.")
    ],
    measure: Annotated[
        str,
        typer.Option(help="Measure of the differences by query: ndcg_at_k, mrr or recall_at_k."),
    ] = "ndcg_at_k",
    svg: Annotated[
        Path | None, typer.Option(help="Write a chart of the differences by query to this file.")
    ] = None,
) -> int:
    """Compare two runs of one suite, with significance tests."""
    from whence.evaluation.charts import differences_svg
    from whence.evaluation.gate.comparison import compare_runs, load_run
    from whence.operations.output_files import check_folder, write_text

    check_folder(svg)
    comparison = compare_runs(load_run(a), load_run(b), measure)
    if svg is not None:
        write_text(svg, differences_svg(comparison))
    print_json(comparison) if as_json(context) else _print_comparison(comparison)
    return 0


def _print_comparison(comparison: Comparison) -> None:
    out = console()
    compared = f"{comparison.queries:,} queries, k {comparison.k}"
    numbers = ("A", "B", "B - A", "95 %", "p", "better", "worse", "equal")
    table = plain_table(compared, *(f">{name}" for name in numbers))
    for name, one in comparison.measures.items():
        span = f"{one.interval.low:+.4f} {one.interval.high:+.4f}"
        counts = (one.better, one.worse, one.equal)
        star = " *" if one.significant else ""
        values = (f"{one.a:.4f}", f"{one.b:.4f}", f"{one.delta:+.4f}", span)
        table.add_values(name, *values, f"{one.p_value:.4f}{star}", *counts)
    out.print(table)
    for query in comparison.differences[:_MAX_DIFFERENCES]:
        ranks = f"first hit {query.hit_rank_a or '-'} -> {query.hit_rank_b or '-'}"
        out.print(Text(f"{query.delta:+.3f} {query.id} {ranks}"))
    more = len(comparison.differences) - _MAX_DIFFERENCES
    if more > 0:
        say(f"and {more} more")

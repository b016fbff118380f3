"""`whence validate`: check the results and latencies of a collection with known queries."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from whence.cli.options import Option, OptionGroup, ReaderAccess, option
from whence.cli.output import (
    console,
    json_text,
    note,
    one_line,
    plain_table,
    print_json,
    progress,
    say,
)
from whence.cli.session import as_json, settings_of, start_logging
from whence.schema.access import Access
from whence.schema.errors import BadInput

if TYPE_CHECKING:
    from whence.evaluation.validation.report import QueryResult, Thresholds, ValidationReport
    from whence.evaluation.validation.run import Limits, ValidationRun
    from whence.evaluation.validation.source_texts import Page
    from whence.evaluation.validation.suite import ValidationSuite
    from whence.evaluation.validation.target import Target
    from whence.flow.settings import Settings

_SECTIONS = 40
_SUGGESTED = 10


class _Task(NamedTuple):
    """Suite and limits of one call."""

    suite: ValidationSuite | None
    origin: str
    limits: Limits
    thresholds: Thresholds
    sources: list[Path]
    check_urls: bool


def _number(flag: str, text: str, default: float, low: float, high: float) -> Option:
    kind = type(default)

    def check(value: Any) -> Any:
        # The comparison also refuses NaN.
        if not low <= value <= high:
            raise BadInput(f"{flag} must be {low:g} to {high:g}, not {value}")
        return value

    return option(flag, text, kind, default, callback=check)


def _limits(**values: Any) -> Limits:
    from whence.evaluation.validation.run import Limits

    return Limits(**values)


def _thresholds(**values: Any) -> Thresholds:
    from whence.evaluation.validation.report import Thresholds

    return Thresholds(**values)


_LimitOptions = Annotated[
    Any,
    OptionGroup(
        {
            "top_k": _number("--top-k", "Results of each query, 3 or more.", 5, 1, 1000),
            "clients": _number(
                "--clients", "Concurrent readers of the load test; 0 skips it.", 4, 0, 64
            ),
            "repeats": _number(
                "--repeats", "Repeated queries, 10 or more; 0 skips them.", 10, 0, 10_000
            ),
            "timeout_s": _number(
                "--timeout", "Time limit of one query in seconds.", 10.0, 0.001, 3600
            ),
            "time_limit_s": _number(
                "--time-limit", "Time limit of the whole run in seconds.", 50.0, 0.001, 3600
            ),
        },
        _limits,
    ),
]
_ThresholdOptions = Annotated[
    Any,
    OptionGroup(
        {
            "threshold": _number(
                "--threshold", "Minimum score of the best result, 0 to 1.", 0.5, 0, 1
            ),
            "min_pass": _number(
                "--min-pass", "Minimum share of queries that pass, 0 to 1.", 0.8, 0, 1
            ),
            "max_p95_ms": _number(
                "--max-p95-ms", "Maximum 95th percentile of the latency.", 3000.0, 0, 1e9
            ),
        },
        _thresholds,
    ),
]


def validate(
    context: typer.Context,
    *,
    suite: Annotated[
        Path | None, typer.Option(help="Queries with expected results, YAML or JSON.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write the report to this file.")] = None,
    svg: Annotated[
        Path | None, typer.Option(help="Write a chart of the latencies to this file.")
    ] = None,
    suggest: Annotated[
        bool, typer.Option("--suggest", help="Print a suite generated from the collection.")
    ] = False,
    store: Annotated[
        str | None, typer.Option(help="External store: qdrant://HOST:PORT/COLLECTION.")
    ] = None,
    mode: Annotated[str, typer.Option(help="hybrid, dense or bm25.")] = "hybrid",
    limits: _LimitOptions,
    thresholds: _ThresholdOptions,
    source: Annotated[
        list[Path] | None,
        typer.Option(help="Indexed file or folder to compare texts with; repeatable."),
    ] = None,
    check_urls: Annotated[
        bool, typer.Option("--check-urls", help="Download result pages and compare texts.")
    ] = False,
    access: ReaderAccess,
) -> int:
    """Check a collection with queries of known results, and measure its latency. Changes nothing."""
    from whence.evaluation.files import check_folder
    from whence.evaluation.validation.suite import load_suite
    from whence.retrieval.pipeline import search_mode

    cases = None if suite is None else load_suite(suite)
    task = _Task(cases, str(suite or ""), limits, thresholds, source or [], check_urls)
    known = search_mode(mode)
    if store is not None:
        _check_external(mode, access)
    for path in task.sources:
        if not path.exists():
            raise BadInput(f"{path} does not exist", hint="name an indexed file or folder")
    check_folder(report)
    check_folder(svg)

    async def work(target: Target) -> ValidationReport | ValidationSuite:
        chosen, origin = await _suite(target, task)
        return chosen if suggest else await _validated(target, chosen, origin, task)

    done: Any = _with_target(context, store, known, access, work)
    if suggest:
        print_json(done)
        return 0
    _write_files(done, report, svg)
    print_json(done) if as_json(context) else _print_report(done)
    return 0 if done.passed else 1


def _write_files(found: ValidationReport, report: Path | None, svg: Path | None) -> None:
    from whence.evaluation.files import write_text
    from whence.evaluation.validation.report import latency_svg

    if report is not None:
        write_text(report, json_text(found))
    if svg is not None:
        write_text(svg, latency_svg(f"Latency of {found.about.collection}", _series(found)))


def _check_external(mode: str, access: Access) -> None:
    if mode not in ("hybrid", "dense", "semantic"):
        raise BadInput("an external store has vectors only", hint="use --mode dense")
    if access != Access.public():
        raise BadInput(
            "access rights do not apply to an external store",
            hint="omit --acl, --label and --clearance",
        )


def _with_target(
    context: typer.Context,
    store: str | None,
    mode: str,
    access: Access,
    work: Callable[[Target], Coroutine[Any, Any, Any]],
) -> Any:
    import asyncio

    start_logging()
    settings = settings_of(context)

    async def session() -> Any:
        async with AsyncExitStack() as stack:
            if store is None:
                target = await _own_target(stack, settings, mode, access)
            else:
                target = await _external_target(stack, settings, store)
            return await work(target)

    return asyncio.run(session())


async def _own_target(
    stack: AsyncExitStack, settings: Settings, mode: str, access: Access
) -> Target:
    from whence.engine.engine import Engine
    from whence.engine.evaluation_targets import EngineTarget
    from whence.flow.read_only import read_only_store
    from whence.flow.settings import mask_url

    store = await stack.enter_async_context(read_only_store(settings))
    engine = await stack.enter_async_context(
        Engine(settings=settings, store=store, warm_up=mode != "bm25")
    )
    where = mask_url(settings.database_url) if settings.database_url else "embedded"
    return EngineTarget(
        engine,
        store,
        collection=settings.collection,
        access=access,
        mode=mode,
        where=f"postgresql ({where})",
    )


async def _external_target(stack: AsyncExitStack, settings: Settings, store: str) -> Target:
    from whence.evaluation.validation.qdrant import QdrantTarget
    from whence.flow.resources import Resources
    from whence.store.qdrant import QdrantCollection

    collection = await stack.enter_async_context(QdrantCollection.open(store))
    resources = await stack.enter_async_context(Resources(settings))
    return QdrantTarget(collection, await resources.get("embedder"))


async def _suite(target: Target, task: _Task) -> tuple[ValidationSuite, str]:
    from whence.evaluation.validation.suite import SHIPPED_DOCUMENTS, generate_suite, shipped_suite

    await target.describe()
    if task.suite is not None:
        return task.suite, task.origin
    if await target.contains(SHIPPED_DOCUMENTS):
        return shipped_suite(), "shipped"
    return generate_suite(await target.sections(_SECTIONS), _SUGGESTED), "generated"


async def _validated(
    target: Target, suite: ValidationSuite, origin: str, task: _Task
) -> ValidationReport:
    from whence.evaluation.validation.report import build_report, load_documents
    from whence.evaluation.validation.run import run_validation
    from whence.evaluation.validation.source_texts import read_source_texts

    with progress("validating") as moved:
        run = await run_validation(target, suite, task.limits, progress=moved)
    passages = [passage for asked in run.first for passage in asked.passages]
    pages = await _web_pages(run) if task.check_urls else {}
    return build_report(
        run,
        suite,
        origin=origin,
        about=await target.describe(),
        thresholds=task.thresholds,
        stored=await load_documents(target, run),
        sources=read_source_texts(passages, task.sources, pages),
    )


async def _web_pages(run: ValidationRun) -> dict[str, Page]:
    from whence.evaluation.validation.source_texts import fetch_pages

    found = (passage.source_url for asked in run.first for passage in asked.passages)
    return await fetch_pages(list(dict.fromkeys(address for address in found if address)))


def _series(report: ValidationReport) -> list[tuple[str, list[float]]]:
    whole = [result for result in report.results if result.latency_ms]
    return [
        ("whole query", [result.latency_ms for result in whole]),
        ("embedding", [result.embedding_ms for result in whole]),
        ("search", [result.search_ms for result in whole]),
    ]


def _print_report(report: ValidationReport) -> None:
    from rich.text import Text

    out = console()
    table = plain_table("", "query", ">results", ">best", ">ms")
    table.columns[1].max_width = 60
    for result in report.results:
        mark = Text("ok", "green") if result.passed else Text("fail", "red")
        table.add_row(mark, Text(one_line(result.query_text)), *_numbers(result))
    out.print(table)
    for result in report.results:
        if not result.passed:
            out.print(Text(f"{one_line(result.query_text)}: {one_line(result.reason)}", "red"))
    for warning in report.warnings:
        note(f"note: {warning}")
    _print_summary(report)


def _numbers(result: QueryResult) -> tuple[str, str, str]:
    best = max((row.score for row in result.results), default=None)
    score = "-" if best is None else f"{best:.3f}"
    return str(len(result.results)), score, f"{result.latency_ms:.1f}"


def _print_summary(report: ValidationReport) -> None:
    say(
        f"{report.passed_queries} of {report.total_queries} queries pass,"
        f" {report.demands.min_pass:.0%} are required"
    )
    for name, times in report.latency.items():
        say(
            f"{name:<10} p50 {times.p50_ms:8.1f} ms   p95 {times.p95_ms:8.1f} ms"
            f"   p99 {times.p99_ms:8.1f} ms   mean {times.avg_ms:8.1f} ms"
        )
    if report.load is not None:
        times = report.load.latency
        say(f"{report.load.clients} readers: p50 {times.p50_ms:.1f} ms, p95 {times.p95_ms:.1f} ms")
    say("passed" if report.passed else "failed")

"""`whence validate`: check the results and latencies of a collection with known queries."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.text import Text

from whence.schema.access import Access
from whence.schema.errors import BadInput
from whence.surfaces.cli.options import OptionGroup, ReaderAccess, option
from whence.surfaces.cli.output import (
    console,
    json_text,
    note,
    one_line,
    plain_table,
    print_json,
    progress,
    say,
)
from whence.surfaces.cli.session import as_json, settings_of, start_logging

if TYPE_CHECKING:
    from whence.evaluation.run import Run
    from whence.evaluation.validation.latencies import Latencies
    from whence.evaluation.validation.report import ValidationReport
    from whence.evaluation.validation.source_texts import SourceTexts
    from whence.evaluation.validation.suite_file import ValidationSuite
    from whence.evaluation.validation.target import Target
    from whence.flow.settings import Settings

_SECTIONS = 40
_SUGGESTED = 10


def _number(
    flag: str, text: str, default: float | None, low: float, high: float, name: str = ""
) -> Parameter:
    def check(value: Any) -> Any:
        # The comparison also refuses NaN.
        if value is not None and not low <= value <= high:
            raise BadInput(f"{flag} must be {low:g} to {high:g}, not {value}")
        return value

    name = name or flag.removeprefix("--").replace("-", "_")
    kind = float | None if default is None else type(default)
    return option(name, text, kind, default, flag=flag, callback=check)


_LIMITS = (
    _number("--top-k", "Results of each query, 3 or more.", 5, 1, 1000),
    _number("--clients", "Concurrent readers of the load test; 0 skips it.", 4, 0, 64),
    _number(
        "--repeats",
        "Searches in a sequence, 10 or more; 0 skips them. p95 needs 20, p99 100.",
        20,
        0,
        10_000,
    ),
    _number("--timeout", "Time limit of one query in seconds.", 10.0, 0.001, 3600, "timeout_s"),
    _number(
        "--time-limit", "Time limit of the whole run in seconds.", 50.0, 0.001, 3600, "time_limit_s"
    ),
)
#: Without an option, the limit of the suite.
_THRESHOLDS = (
    _number("--threshold", "Minimum score of the best result, 0 to 1; 0.5 by default.", None, 0, 1),
    _number(
        "--min-pass", "Minimum share of queries that pass, 0 to 1; 0.8 by default.", None, 0, 1
    ),
    _number(
        "--max-p95-ms", "Maximum 95th percentile of the latency; 3000 by default.", None, 0, 86.4e6
    ),
)

_SOURCE_HELP = (
    "Indexed file or folder to compare texts with, in place of those on disk; repeatable."
)
_STORE_HELP = "External store: qdrant://HOST:PORT/COLLECTION."
_Sources = Annotated[list[Path] | None, typer.Option(metavar="PATH", help=_SOURCE_HELP)]
_Store = Annotated[str | None, typer.Option(metavar="URL", help=_STORE_HELP)]


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
    store: _Store = None,
    mode: Annotated[str, typer.Option(help="hybrid, dense or bm25.")] = "hybrid",
    limits: Annotated[Any, OptionGroup(_LIMITS, dict)],
    thresholds: Annotated[Any, OptionGroup(_THRESHOLDS, dict)],
    source: _Sources = None,
    check_urls: Annotated[
        bool,
        typer.Option(
            "--check-urls", help="Read the page or file of each result, and compare texts."
        ),
    ] = False,
    access: ReaderAccess,
) -> int:
    """Check a collection with queries of known results, and measure its latency. Changes nothing."""
    import asyncio

    from whence.evaluation.validation.suite_file import load_suite
    from whence.retrieval.pipeline import search_mode

    cases, known = load_suite(suite) if suite else None, search_mode(mode)
    _check(store, mode, access, source or (), (report, svg))
    start_logging()
    settings = settings_of(context)

    async def work() -> Any:
        async with _open_target(settings, store, known, access) as target:
            chosen, origin = await _choose_suite(target, cases, str(suite))
            if suggest:
                return chosen
            run = await _run(target, chosen, known, limits)
            folders = source or await target.folders()
            texts = await _source_texts(
                run, folders, None if store else settings, check_urls, bool(source)
            )
            return await _report(target, run, chosen, origin, thresholds, texts)

    done = asyncio.run(work())
    if suggest:
        print_json(done)
        return 0
    _write_files(done, report, svg)
    print_json(done) if as_json(context) else _print_report(done)
    return 0 if done.passed else 1


def _check(
    store: str | None,
    mode: str,
    access: Access,
    sources: Iterable[Path],
    outputs: Iterable[Path | None],
) -> None:
    """Refuse options that cannot be met, before anything starts."""
    from whence.operations.output_files import check_folder

    if store is not None and mode not in ("hybrid", "dense", "semantic"):
        raise BadInput("an external store has vectors only", hint="use --mode dense")
    if store is not None and access != Access.public():
        raise BadInput(
            "access rights do not apply to an external store",
            hint="omit --acl, --label and --clearance",
        )
    for path in sources:
        if not path.exists():
            raise BadInput(f"{path} does not exist", hint="name an indexed file or folder")
    for output in outputs:
        check_folder(output)


@asynccontextmanager
async def _open_target(
    settings: Settings, store: str | None, mode: str, access: Access
) -> AsyncIterator[Target]:
    """Open the external store, or the configured one when none is named."""
    if store is not None:
        from whence.evaluation.qdrant_searcher import QdrantTarget
        from whence.flow.resources import Resources
        from whence.store.qdrant import QdrantCollection

        async with QdrantCollection.open(store) as collection, Resources(settings) as resources:
            yield QdrantTarget(collection, await resources.get("embedder"))
        return
    from whence.evaluation.engine_searcher import EngineTarget
    from whence.flow.read_only import read_only_store
    from whence.flow.setting_values import mask_url
    from whence.surfaces.python.engine import Engine

    where = mask_url(settings.database_url) if settings.database_url else "embedded"
    async with (
        read_only_store(settings) as opened,
        Engine(settings=settings, store=opened, warm_up=mode != "bm25") as engine,
    ):
        yield EngineTarget(
            engine,
            settings.collection,
            access,
            store=opened,
            where=f"postgresql ({where})",
        )


async def _choose_suite(
    target: Target, given: ValidationSuite | None, origin: str
) -> tuple[ValidationSuite, str]:
    from whence.evaluation.validation.suite_file import (
        SHIPPED_DOCUMENTS,
        generate_suite,
        shipped_suite,
    )

    await target.describe()
    if given is not None:
        return given, origin
    if await target.contains(SHIPPED_DOCUMENTS):
        return shipped_suite(), "shipped"
    return generate_suite(await target.sections(_SECTIONS), _SUGGESTED), "generated"


async def _run(target: Target, suite: ValidationSuite, mode: str, limits: dict[str, Any]) -> Run:
    from whence.evaluation.validation.run import Limits, run_validation

    with progress("validating") as moved:
        return await run_validation(target, suite, Limits(**limits), mode=mode, progress=moved)


async def _source_texts(
    run: Run,
    folders: Sequence[Path],
    settings: Settings | None,
    check_urls: bool,
    required: bool,
) -> SourceTexts:
    """Read files below some paths, and the pages of results if asked for."""
    from whence.evaluation.validation.source_texts import (
        fetch_pages,
        is_web_address,
        read_source_texts,
    )

    passages = [passage for asked in run.first for passage in asked.passages]
    addresses = dict.fromkeys(passage.source_url or "" for passage in passages)
    pages = await fetch_pages(list(filter(is_web_address, addresses))) if check_urls else {}
    limits = {"limits": settings.document_limits} if settings else {}
    return read_source_texts(
        passages, folders, pages, required=required, check_files=check_urls, **limits
    )


async def _report(
    target: Target,
    run: Run,
    suite: ValidationSuite,
    origin: str,
    thresholds: dict[str, Any],
    sources: SourceTexts,
) -> ValidationReport:
    from whence.evaluation.validation.report import build_report, load_documents

    given = {name: value for name, value in thresholds.items() if value is not None}
    return build_report(
        run,
        suite,
        origin=origin,
        about=await target.describe(),
        thresholds=msgspec.structs.replace(suite.limits, **given),
        stored=await load_documents(target, run),
        sources=sources,
    )


def _write_files(found: ValidationReport, report: Path | None, svg: Path | None) -> None:
    from whence.evaluation.charts import latency_svg
    from whence.operations.output_files import write_text

    if report is not None:
        write_text(report, json_text(found))
    if svg is not None:
        whole = [result for result in found.results if result.latency_ms]
        series = [
            ("whole query", [result.latency_ms for result in whole]),
            ("embedding", [result.embedding_ms for result in whole]),
            ("search", [result.search_ms for result in whole]),
        ]
        write_text(svg, latency_svg(f"Latency of {found.about.collection}", series))


def _print_report(report: ValidationReport) -> None:
    out = console()
    table = plain_table("", "query", ">results", ">best", ">ms")
    table.columns[1].max_width = 60
    for result in report.results:
        mark = Text("ok", "green") if result.passed else Text("fail", "red")
        best = f"{max(row.score for row in result.results):.3f}" if result.results else None
        count, latency = len(result.results), f"{result.latency_ms:.1f}"
        table.add_values(mark, one_line(result.query_text), count, best, latency)
    out.print(table)
    for result in report.results:
        if not result.passed:
            out.print(Text(f"{one_line(result.query_text)}: {one_line(result.reason)}", "red"))
    for warning in report.warnings:
        note(f"note: {warning}")
    say(
        f"{report.passed_queries:,} of {report.total_queries:,} queries pass,"
        f" {report.demands.min_pass:.0%} are required"
    )
    rows = sum(len(result.results) for result in report.results)
    say(f"{report.sources_compared:,} of {rows:,} results compared with their sources")
    for name, times in report.latency.items():
        say(f"{name:<10} {_spread(times)}")
    if report.sequence is not None:
        say(f"{'sequence':<10} {_spread(report.sequence.latency)}")
    if report.load is not None:
        say(f"{f'{report.load.clients} readers':<10} {_spread(report.load.latency)}")
    for fault in report.checks.values():
        if fault:
            out.print(Text(f"failed: {fault}", "red"))
    say("passed" if report.passed else "failed")


def _spread(times: Latencies) -> str:
    """Return mean and percentiles of latencies; a percentile that is the maximum is called so."""
    words = [f"mean {times.avg_ms:8.1f} ms"]
    for name, value in (("p50", times.p50_ms), ("p95", times.p95_ms), ("p99", times.p99_ms)):
        if name in times.percentiles:
            return "   ".join([*words, f"max {times.max_ms:8.1f} ms (of {times.samples})"])
        words.append(f"{name} {value:8.1f} ms")
    return "   ".join(words)

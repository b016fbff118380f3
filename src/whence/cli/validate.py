"""`whence validate`: does a collection give what its readers need, and how fast."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from whence.cli.options import Acl, Clearance, Label
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
from whence.cli.session import access_of, as_json, settings_of, start_logging
from whence.schema.access import Access
from whence.schema.errors import BadInput

if TYPE_CHECKING:
    from whence.evaluation.validation.report import QueryResult, ValidationReport
    from whence.evaluation.validation.run import Limits, ValidationRun
    from whence.evaluation.validation.source_texts import Page
    from whence.evaluation.validation.suite import ValidationSuite
    from whence.evaluation.validation.target import Target
    from whence.flow.settings import Settings

__all__ = ("validate",)

_SECTIONS = 40
_SUGGESTED = 10


class _Order(NamedTuple):
    """What one call is to do."""

    suite: ValidationSuite | None
    origin: str
    limits: Limits
    demands: Any
    sources: list[Path]
    check_urls: bool


def validate(
    context: typer.Context,
    suite: Annotated[
        Path | None, typer.Option(help="Queries and what they should find, YAML or JSON.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write the report into this file.")] = None,
    svg: Annotated[
        Path | None, typer.Option(help="Draw the distribution of latencies into this file.")
    ] = None,
    suggest: Annotated[
        bool, typer.Option("--suggest", help="Print a starter suite from the collection and leave.")
    ] = False,
    store: Annotated[
        str | None,
        typer.Option(help="Another store, qdrant://host:port/collection, not Whence's own."),
    ] = None,
    mode: Annotated[str, typer.Option(help="hybrid, dense or bm25.")] = "hybrid",
    top_k: Annotated[int, typer.Option("--top-k", help="Results of each query, 3 or more.")] = 5,
    threshold: Annotated[float, typer.Option(help="Least score of the best result.")] = 0.5,
    min_pass: Annotated[float, typer.Option(help="Least share of queries that pass.")] = 0.8,
    max_p95_ms: Annotated[
        float, typer.Option(help="What the 95th percentile of latency must be below.")
    ] = 3000.0,
    clients: Annotated[int, typer.Option(help="Readers at once; 0 leaves this part out.")] = 4,
    repeats: Annotated[
        int, typer.Option(help="Queries in a row, 10 or more; 0 leaves this part out.")
    ] = 10,
    timeout: Annotated[float, typer.Option(help="Longest of one query, in seconds.")] = 10.0,
    time_limit: Annotated[float, typer.Option(help="Longest of all, in seconds.")] = 50.0,
    source: Annotated[
        list[Path] | None,
        typer.Option(help="What was indexed, to compare texts with; repeat for more."),
    ] = None,
    check_urls: Annotated[
        bool,
        typer.Option("--check-urls", help="Fetch the pages found and compare texts with them."),
    ] = False,
    acl: Acl = None,
    label: Label = None,
    clearance: Clearance = 0,
) -> int:
    """Ask a collection questions with known answers, and time it. Changes nothing."""
    from whence.evaluation.files import check_folder, write_text
    from whence.evaluation.validation.latency_chart import latency_svg
    from whence.evaluation.validation.report import Thresholds
    from whence.evaluation.validation.run import Limits
    from whence.evaluation.validation.suite import load_suite
    from whence.retrieval.pipeline import search_mode

    order = _Order(
        suite=None if suite is None else load_suite(suite),
        origin=str(suite or ""),
        limits=Limits(
            top_k=_number("--top-k", top_k, 1, 1000),
            timeout_s=_number("--timeout", timeout, 0.001, 3600),
            time_limit_s=_number("--time-limit", time_limit, 0.001, 3600),
            clients=_number("--clients", clients, 0, 64),
            repeats=_number("--repeats", repeats, 0, 10_000),
        ),
        demands=Thresholds(
            threshold=_number("--threshold", threshold, 0, 1),
            min_pass=_number("--min-pass", min_pass, 0, 1),
            max_p95_ms=_number("--max-p95-ms", max_p95_ms, 0, 1e9),
        ),
        sources=source or [],
        check_urls=check_urls,
    )
    known = search_mode(mode)
    if store is not None and mode != "hybrid" and known != "dense":
        raise BadInput("another store is searched by vectors only", hint="use --mode dense")
    for path in order.sources:
        if not path.exists():
            raise BadInput(f"{path} does not exist", hint="give what was indexed")
    check_folder(report)
    check_folder(svg)
    access = access_of(acl, label, clearance)
    _refuse_rights_elsewhere(store, access)

    async def work(target: Target) -> ValidationReport | ValidationSuite:
        chosen, origin = await _suite(target, order)
        return chosen if suggest else await _validated(target, chosen, origin, order)

    done = _with_target(context, store, known, access, work)
    if suggest:
        print_json(done)
        return 0
    found: Any = done
    if report is not None:
        write_text(report, json_text(found))
    if svg is not None:
        write_text(svg, latency_svg(f"Latency of {found.about.collection}", _series(found)))
    print_json(found) if as_json(context) else _tell(found)
    return 0 if found.passed else 1


def _number(name: str, value: Any, least: float, most: float) -> Any:
    # Also refuses NaN, which is in no range.
    if not least <= value <= most:
        raise BadInput(f"{name} must be {least:g} to {most:g}, not {value}")
    return value


def _refuse_rights_elsewhere(store: str | None, access: Access) -> None:
    if store is not None and access != Access.public():
        raise BadInput(
            "rights are Whence's own and mean nothing in another store",
            hint="leave --acl, --label and --clearance out",
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
                target = await _own(stack, settings, mode, access)
            else:
                target = await _other(stack, settings, store)
            return await work(target)

    return asyncio.run(session())


async def _own(stack: AsyncExitStack, settings: Settings, mode: str, access: Access) -> Target:
    """Open Whence's own store, read-only, and a flow that reads it."""
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


async def _other(stack: AsyncExitStack, settings: Settings, store: str) -> Target:
    """Open another store's collection, to be searched with the configured embedder."""
    from whence.evaluation.validation.qdrant import QdrantTarget
    from whence.flow.resources import Resources
    from whence.store.qdrant import QdrantCollection

    collection = await stack.enter_async_context(QdrantCollection.open(store))
    resources = await stack.enter_async_context(Resources(settings))
    return QdrantTarget(collection, await resources.get("embedder"))


async def _suite(target: Target, order: _Order) -> tuple[ValidationSuite, str]:
    """Give the suite of the call: its file, else the shipped one where it fits, else a generated one."""
    from whence.evaluation.validation.suite import SHIPPED_DOCUMENTS, shipped_suite
    from whence.evaluation.validation.suite_generation import generate_suite

    await target.about()
    if order.suite is not None:
        return order.suite, order.origin
    if await target.holds(SHIPPED_DOCUMENTS):
        return shipped_suite(), "shipped"
    return generate_suite(await target.sections(_SECTIONS), _SUGGESTED), "generated"


async def _validated(
    target: Target, suite: ValidationSuite, origin: str, order: _Order
) -> ValidationReport:
    from whence.evaluation.validation.report import build_report, load_documents
    from whence.evaluation.validation.run import run_validation
    from whence.evaluation.validation.source_texts import read_source_texts

    with progress("validating") as moved:
        run = await run_validation(target, suite, order.limits, progress=moved)
    passages = [passage for asked in run.first for passage in asked.passages]
    pages = await _web_pages(run) if order.check_urls else {}
    return build_report(
        run,
        suite,
        origin=origin,
        about=await target.about(),
        demands=order.demands,
        pages=await load_documents(target, run),
        originals=read_source_texts(passages, order.sources, pages),
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


def _tell(report: ValidationReport) -> None:
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
    _tell_sums(report)


def _numbers(result: QueryResult) -> tuple[str, str, str]:
    best = max((row.score for row in result.results), default=None)
    score = "-" if best is None else f"{best:.3f}"
    return str(len(result.results)), score, f"{result.latency_ms:.1f}"


def _tell_sums(report: ValidationReport) -> None:
    say(
        f"{report.passed_queries} of {report.total_queries} queries pass,"
        f" {report.demands.min_pass:.0%} are demanded"
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

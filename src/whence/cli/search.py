"""`whence search`: the best passages for a query."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from whence.cli.options import ChosenSnapshot, Exact, Filter, ReaderAccess, TraceFile
from whence.cli.output import console, note, note_corrections, print_json
from whence.cli.session import as_json, run_with_engine, settings_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from whence.engine.search import SearchQuery
    from whence.retrieval.results import SearchReport

_PREVIEW_CHARACTERS = 300

_Match = Annotated[
    str, typer.Option(metavar="any|all", help="Whether a passage must contain any or all words.")
]
_Rerank = Annotated[
    bool, typer.Option("--rerank/--no-rerank", help="Reorder the best hits with the reranker.")
]
_RerankBudget = Annotated[float, typer.Option(metavar="SECONDS", help="Time limit of reranking.")]


def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="Words or a question.")],
    *,
    mode: Annotated[str, typer.Option(help="hybrid, dense (or semantic) or bm25.")] = "hybrid",
    top_k: Annotated[int, typer.Option("--top-k", help="Maximum number of hits.")] = 5,
    threshold: Annotated[float, typer.Option(help="Minimum score, 0 to 1.")] = 0.0,
    filters: Filter = None,
    match: _Match = "any",
    exact: Exact = False,
    rerank: _Rerank = False,
    rerank_budget: _RerankBudget = 10.0,
    trace: TraceFile = None,
    snapshot: ChosenSnapshot,
    access: ReaderAccess,
) -> int:
    """Find the passages that match a query best, among those you may see."""
    from whence.engine.search import SearchQuery
    from whence.retrieval.pipeline import check_search, search_match, search_mode
    from whence.schema.filters import parse_filter_options, parse_filters

    # Checked before anything starts, and also for an empty query.
    search_mode(mode)
    search_match(match)
    conditions = parse_filter_options(filters or ())
    parse_filters(conditions)
    request = SearchQuery(
        query=query,
        top_k=top_k,
        threshold=threshold,
        mode=mode,
        access=access,
        collection=settings_of(context).collection,
        filters=conditions,
        match=match,
        exact=exact,
        rerank=rerank,
        rerank_budget_s=rerank_budget,
        snapshot=snapshot,
    )
    if not query.strip():
        _report_blank(context, request, trace)
        return 0
    check_search(query, top_k, threshold)
    started = time.perf_counter()
    report = run_with_engine(
        context,
        lambda engine, _: engine.search_report(request),
        reads=f"collection {request.collection!r}",
        flow="search",
        warm_up=mode != "bm25",
        trace=trace,
    )
    latency = {**report.latency_ms, "process": round((time.perf_counter() - started) * 1e3, 3)}
    report = msgspec.structs.replace(report, latency_ms=latency)
    _print(context, query, mode, report, threshold)
    return 0


def _report_blank(context: typer.Context, request: SearchQuery, trace: Path | None) -> None:
    """Print, and write to the trace, that nothing is searched for."""
    from whence.retrieval.results import SearchReport

    message, folder = (
        "the query is empty: enter a word or a question",
        settings_of(context).trace_dir,
    )
    if trace or folder:
        import asyncio

        from whence.engine.pipeline_trace import PipelineTracer

        asyncio.run(PipelineTracer(trace, folder).write_unasked("search", request, message))
    report = SearchReport(results=[], latency_ms={"total": 0.0})
    _print(context, request.query, request.mode, report, request.threshold, message)


def _print(
    context: typer.Context,
    query: str,
    mode: str,
    report: SearchReport,
    threshold: float,
    message: str = "",
) -> None:
    from whence.engine.json_documents import result_message, search_document

    if as_json(context):
        print_json(search_document(query, mode, report, message=message))
        return
    note_corrections(report.question_used, report.corrections)
    if report.results:
        _print_hits(report)
    else:
        note(message or result_message(report))
    best = report.best_score
    if not report.results and best is not None and best < threshold:
        lower = math.floor(best * 10) / 10
        note(
            f"note: the best passage scores {best:.3f}, below the threshold {threshold:g};"
            f" --threshold {lower:g} shows it"
        )
    for fault in report.degraded:
        note(f"note: {fault.label}: {fault.reason}")


def _print_hits(report: SearchReport) -> None:
    from rich.markup import escape
    from rich.padding import Padding
    from rich.text import Text

    from whence.retrieval.editions import outdated
    from whence.retrieval.results import WEAK_SCORE

    out = console()
    weak = False
    for hit in report.results:
        if hit.weak and not weak:
            weak = True
            out.print(f"[yellow]Weak matches, with scores below {WEAK_SCORE:g}:[/]", end="\n\n")
        place = escape(str(hit.chunk.metadata["section_path"]))
        former = f" [dim]was {hit.reranking.rank_before}.[/]" if hit.reranking else ""
        head = f"[bold]{hit.rank}. {escape(hit.document_id)}[/] [dim]{place}[/]"
        reason = outdated(hit.chunk.metadata)
        old = f" [yellow](out of date: {escape(reason)})[/]" if reason else ""
        out.print(f"{head} [cyan]{hit.similarity_score:.3f}[/]{former}{old}")
        text = " ".join(_without_heading(hit.chunk.content, hit.chunk.metadata).split())
        rest = "…" if len(text) > _PREVIEW_CHARACTERS else ""
        preview = Text(text[:_PREVIEW_CHARACTERS] + rest)
        out.print(Padding(preview, (0, 0, 0, 3), expand=False))
        if others := dict.fromkeys(one.document_id for one in hit.duplicates):
            same = Text(f"The same in {', '.join(others)}", style="dim")
            out.print(Padding(same, (0, 0, 0, 3), expand=False))
        out.print()


def _without_heading(content: str, metadata: Mapping[str, Any]) -> str:
    first, _, body = content.lstrip().partition("\n")
    heading = metadata.get("heading")
    same = bool(heading) and first.strip("#= ") == heading
    return body if same and body.strip() else content

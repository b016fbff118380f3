"""`whence search`: the best passages for a query."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import msgspec
import typer

from whence.operations.search import Search
from whence.surfaces.cli.options import TraceFile
from whence.surfaces.cli.output import console, note, note_corrections, print_json
from whence.surfaces.cli.session import as_json, run_with_engine, settings_of
from whence.text.normalization import is_blank

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from whence.retrieval.results import RetrievedChunk, SearchReport

_PREVIEW_CHARACTERS = 300


def search(context: typer.Context, asked: Search, *, trace: TraceFile = None) -> int:
    """Find the passages that match a query best, among those you may see."""
    if is_blank(asked.query):
        # Of a blank query only names are checked.
        Search("-", mode=asked.mode, match=asked.match, filters=asked.filters).check()
        _report_blank(context, asked, trace)
        return 0
    asked.check()
    started = time.perf_counter()
    report = run_with_engine(
        context,
        lambda engine, _: engine.run(asked),
        reads=f"collection {asked.collection!r}",
        flow="search",
        warm_up=asked.mode != "bm25",
        trace=trace,
    )
    latency = {**report.latency_ms, "process": round((time.perf_counter() - started) * 1e3, 3)}
    report = msgspec.structs.replace(report, latency_ms=latency)
    _print(context, asked.query, asked.mode, report, asked.threshold)
    return 0


def _report_blank(context: typer.Context, request: Search, trace: Path | None) -> None:
    """Print, and write to the trace, that nothing is searched for."""
    from whence.retrieval.results import SearchReport

    message, folder = (
        "the query is empty: enter a word or a question",
        settings_of(context).trace_dir,
    )
    if trace or folder:
        import asyncio

        from whence.operations.pipeline_trace import PipelineTracer

        asyncio.run(PipelineTracer(trace, folder).write_unasked(request, message))
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
    from whence.operations.json_documents import result_message, search_document

    if as_json(context):
        print_json(search_document(query, mode, report, message=message))
        return
    note_corrections(report.question_used, report.corrections)
    if report.results:
        _print_hits(query, report)
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


def _print_hits(query: str, report: SearchReport) -> None:
    from rich.markup import escape
    from rich.padding import Padding
    from rich.text import Text

    from whence.retrieval.editions import outdated
    from whence.retrieval.results import WEAK_SCORE
    from whence.surfaces.cli.markdown_tables import Indented, with_tables

    out = console()
    weak = False
    for hit in report.results:
        if hit.weak and not weak:
            weak = True
            out.print(f"[yellow]Weak matches, with scores below {WEAK_SCORE:g}:[/]", end="\n\n")
        place = escape(str(hit.chunk.metadata["section_path"]))
        former = f" [dim]was {hit.reranking.rank_before}.[/]" if hit.reranking else ""
        name = f"{hit.collection}: {hit.document_id}" if hit.collection else hit.document_id
        head = f"[bold]{hit.rank}. {escape(name)}[/] [dim]{place}[/]"
        reason = outdated(hit.chunk.metadata)
        old = f" [yellow](out of date: {escape(reason)})[/]" if reason else ""
        out.print(f"{head} [cyan]{hit.similarity_score:.3f}[/]{former}{old}")
        for part in with_tables(Text(_preview(query, hit.chunk))):
            out.print(Indented(part, 3), end="")
        if others := dict.fromkeys(one.document_id for one in hit.duplicates):
            same = Text(f"The same in {', '.join(others)}", style="dim")
            out.print(Padding(same, (0, 0, 0, 3), expand=False))
        out.print()


def _preview(query: str, chunk: RetrievedChunk) -> str:
    """Return the beginning of a passage, or the rows of its table that fit best below their header."""
    from whence.quoting.tables import rows_for

    text = _without_heading(chunk.content, chunk.metadata)
    if table := rows_for(query, chunk.lead, text, most=_PREVIEW_CHARACTERS):
        return table
    lines = "\n".join(line.rstrip() for line in text.split("\n") if line.strip())
    if len(lines) <= _PREVIEW_CHARACTERS:
        return lines
    begun, _, last = lines[:_PREVIEW_CHARACTERS].rpartition("\n")
    # Half of a row says nothing.
    return (
        f"{begun}\n\u2026" if last.lstrip().startswith("|") else f"{begun}\n{last}\u2026".lstrip()
    )


def _without_heading(content: str, metadata: Mapping[str, Any]) -> str:
    first, _, body = content.lstrip().partition("\n")
    heading = metadata.get("heading")
    same = bool(heading) and first.strip("#= ") == heading
    return body if same and body.strip() else content

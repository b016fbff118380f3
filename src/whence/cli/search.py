"""`whence search`: the passages that fit a query best."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whence.cli.options import Acl, Clearance, Filter, Label
from whence.cli.output import console, note, print_json
from whence.cli.session import access_of, as_json, run_with_engine, settings_of
from whence.cli.snapshot_options import SetName, Snapshot, SnapshotOrigin, chosen_snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from whence.retrieval.results import SearchReport

__all__ = ("search",)


def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="What to look for.")],
    mode: Annotated[str, typer.Option(help="hybrid, dense (or semantic) or bm25.")] = "hybrid",
    top_k: Annotated[int, typer.Option("--top-k", help="Most hits.")] = 5,
    threshold: Annotated[float, typer.Option(help="Lowest score, 0 to 1.")] = 0.5,
    filters: Filter = None,
    match: Annotated[
        str,
        typer.Option(metavar="any|all", help="Words count where one is, or only where all are."),
    ] = "any",
    rerank: Annotated[
        bool,
        typer.Option("--rerank/--no-rerank", help="Read the best hits together with the query."),
    ] = False,
    rerank_budget: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time for that; then hits stay as they are.")
    ] = 10.0,
    snapshot: Snapshot = None,
    set_name: SetName = None,
    snapshot_source: SnapshotOrigin = None,
    acl: Acl = None,
    label: Label = None,
    clearance: Clearance = 0,
) -> int:
    """Find the passages that fit best, among those you may see."""
    from whence.engine.search import SearchQuery
    from whence.retrieval.pipeline import check_query, search_match, search_mode
    from whence.schema.filters import parse_filter_options, parse_filters

    # Refused before anything starts, and before an empty query is let pass.
    search_mode(mode)
    search_match(match)
    conditions = parse_filter_options(filters or ())
    parse_filters(conditions)
    chosen = chosen_snapshot(snapshot, set_name, snapshot_source)
    access = access_of(acl, label, clearance)
    if not query.strip():
        empty = "the query is empty: give a word or a question"
        _tell(context, query, mode, None, {}, threshold, empty)
        return 0
    check_query(query, top_k, threshold)
    started = time.perf_counter()
    report = run_with_engine(
        context,
        lambda engine, settings: engine.search_report(
            SearchQuery(
                query=query,
                top_k=top_k,
                threshold=threshold,
                mode=mode,
                access=access,
                collection=settings.collection,
                filters=conditions,
                match=match,
                rerank=rerank,
                rerank_budget_s=rerank_budget,
                snapshot=chosen,
            )
        ),
        reads=f"collection {settings_of(context).collection!r}",
        flow="search",
        warm_up=mode != "bm25",
    )
    latency = {**report.latency_ms, "process": round((time.perf_counter() - started) * 1e3, 3)}
    _tell(context, query, mode, report, latency, threshold)
    return 0


def _tell(
    context: typer.Context,
    query: str,
    mode: str,
    report: SearchReport | None,
    latency: dict[str, float],
    threshold: float,
    message: str = "",
) -> None:
    from whence.engine.json_documents import result_message, search_document

    if as_json(context):
        document = search_document(query, mode, report, latency_ms=latency, message=message)
        print_json(document)
        return
    if report is None or not report.results:
        note(message or result_message(report))
        _tell_best(report, threshold)
    else:
        _tell_hits(report)
    for fault in report.degraded if report else ():
        note(f"note: {fault.stage}: {fault.reason}")


def _tell_best(report: SearchReport | None, threshold: float) -> None:
    """Say by how much the best passage missed the threshold, when it did, and how to see it."""
    best = report.best_score if report else None
    if best is None or best >= threshold:
        return
    lower = math.floor(best * 10) / 10
    note(
        f"note: the best passage scores {best:.3f}, below the threshold {threshold:g};"
        f" --threshold {lower:g} shows it"
    )


def _tell_hits(report: SearchReport) -> None:
    from rich.markup import escape
    from rich.padding import Padding
    from rich.text import Text

    from whence.schema.outdated import outdated

    out = console()
    for hit in report.results:
        place = escape(str(hit.chunk.metadata["section_path"]))
        moved = f" [dim]was {hit.reranking.rank_before}.[/]" if hit.reranking else ""
        head = f"[bold]{hit.rank}. {escape(hit.document_id)}[/] [dim]{place}[/]"
        said = outdated(hit.chunk.metadata)
        old = f" [yellow](out of date: {escape(said)})[/]" if said else ""
        out.print(f"{head} [cyan]{hit.similarity_score:.3f}[/]{moved}{old}")
        text = " ".join(_without_heading(hit.chunk.content, hit.chunk.metadata).split())
        told = Text(text[:300] + ("…" if len(text) > 300 else ""))
        out.print(Padding(told, (0, 0, 0, 3), expand=False), end="\n\n")


def _without_heading(content: str, metadata: Mapping[str, Any]) -> str:
    """Give a passage without the heading it begins with: its place names that already."""
    first, _, rest = content.lstrip().partition("\n")
    heading = metadata.get("heading")
    same = bool(heading) and first.strip("#= ") == heading
    return rest if same and rest.strip() else content

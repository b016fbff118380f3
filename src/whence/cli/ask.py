"""`whence ask`: an answer with citations, and the id under which its provenance is kept."""

from __future__ import annotations

import sys
from collections.abc import Container
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whence.cli.options import Acl, Clearance, Filter, Label
from whence.cli.output import console, note, print_json
from whence.cli.session import access_of, as_json, run_with_engine, settings_of
from whence.cli.snapshot_options import (
    SetName,
    Snapshot,
    SnapshotOrigin,
    chosen_snapshot,
    required_snapshot,
)
from whence.cli.wrapping import Wrapping
from whence.schema.errors import BadInput

if TYPE_CHECKING:
    from rich.console import Console

    from whence.schema.document_rag import Answer

__all__ = ("ask", "tell_answer")


def ask(
    context: typer.Context,
    question: Annotated[str, typer.Argument(help="What you want to know.")],
    doc_limit: Annotated[int, typer.Option(help="Passages the writer reads.")] = 20,
    fetch_limit: Annotated[
        int,
        typer.Option(
            help="Candidates before reranking; 0 for three times --doc-limit. The best third is reread."
        ),
    ] = 0,
    no_rerank: Annotated[bool, typer.Option("--no-rerank", help="Leave the reranker out.")] = False,
    stream: Annotated[bool, typer.Option("--stream", help="Print as it is written.")] = False,
    mode: Annotated[str | None, typer.Option(help="hybrid, dense or bm25.")] = None,
    filters: Filter = None,
    timeout: Annotated[float, typer.Option(help="Seconds for the whole question.")] = 120.0,
    flow: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Flow that answers: document-rag, code-rag or a file."),
    ] = None,
    snapshot: Snapshot = None,
    set_name: SetName = None,
    snapshot_source: SnapshotOrigin = None,
    acl: Acl = None,
    label: Label = None,
    clearance: Clearance = 0,
) -> int:
    """Answer a question from the documents or the code you may see, with citations."""
    from whence.answering.state import check_limits, check_question, check_timeout
    from whence.retrieval.pipeline import search_mode
    from whence.schema.filters import parse_filter_options, parse_filters

    # Refused before anything starts.
    check_question(question)
    check_limits(doc_limit, fetch_limit)
    check_timeout(timeout)
    if mode is not None:
        search_mode(mode)
    conditions = parse_filter_options(filters or ())
    parse_filters(conditions)
    access = access_of(acl, label, clearance)
    live = stream and not as_json(context)

    shown: list[str] = []
    wrapping = Wrapping(console().width if live and sys.stdout.isatty() else None)

    async def show(text: str, end: bool) -> None:
        shown.append(text)
        sys.stdout.write(wrapping.add(text, end=end) + ("\n" if end else ""))
        sys.stdout.flush()

    common: dict[str, Any] = {
        "access": access,
        "doc_limit": doc_limit,
        "mode": mode,
        "timeout_s": timeout,
        "chunk_callback": show if live else None,
    }
    chosen = chosen_snapshot(snapshot, set_name, snapshot_source)
    if flow == "code-rag" or chosen is not None:
        if conditions:
            raise BadInput("questions about code take no filters", hint="leave --filter out")
        code = chosen or required_snapshot(snapshot, set_name, snapshot_source)
        answer = run_with_engine(
            context,
            lambda engine, _settings: engine.code.ask(question, snapshot=code, **common),
            reads=f"collection {settings_of(context).collection!r}",
            warm_up=mode != "bm25",
            flow=flow or "code-rag",
        )
    else:
        answer = run_with_engine(
            context,
            lambda engine, settings: engine.ask(
                question,
                collection=settings.collection,
                fetch_limit=fetch_limit,
                rerank=not no_rerank,
                filters=conditions,
                **common,
            ),
            reads=f"collection {settings_of(context).collection!r}",
            warm_up=mode != "bm25" and (True if no_rerank else "questions"),
            flow=flow or "all-in-one",
        )
    if as_json(context):
        from whence.engine.json_documents import answer_document

        print_json(answer_document(answer))
    else:
        # A writer that died on the way was followed by another, who may have found other words.
        whole = "".join(shown).strip() == answer.text.strip()
        if live and shown and not whole:
            note("note: the answer was begun anew while it was written; this is the whole of it")
        tell_answer(answer, console(), text_shown=live and whole)
    return 0


def tell_answer(
    answer: Answer,
    out: Console,
    *,
    text_shown: bool = False,
    unsaid: Container[str] = (),
) -> None:
    """Print an answer for people.

    Args:
        answer: What to print.
        out: Where to.
        text_shown: True when the text was printed already, as it was written.
        unsaid: Codes of degradations that were told before.
    """
    from rich.markup import escape

    if not text_shown:
        out.print(answer.text, markup=False, soft_wrap=False)
    if answer.citations:
        out.print()
    # Several quotes may stand behind one marker; people look for the place once.
    for citation in {one.marker: one for one in answer.citations}.values():
        where = escape(citation.document_id)
        heading = f" [dim]{escape(citation.heading)}[/]" if citation.heading else ""
        old = f" [yellow](out of date: {escape(citation.outdated)})[/]" if citation.outdated else ""
        out.print(f"  [cyan]\\[{citation.marker}][/] {where}{heading}{old}")
    for fault in answer.degraded:
        if fault.code not in unsaid:
            note(f"note: {fault.stage}: {fault.reason}")
    note(f"answer {answer.answer_id}")
    note(f"why    whence explain {answer.answer_id}")

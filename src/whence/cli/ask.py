"""`whence ask`: an answer with citations, and the id of its trace."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whence.cli.options import ChosenSnapshot, Exact, Filter, ReaderAccess, TraceFile
from whence.cli.output import Wrapping, console, note, note_corrections, print_json
from whence.cli.session import as_json, run_with_engine, settings_of
from whence.engine.source_roots import find_source
from whence.schema.code import SnapshotChoice
from whence.schema.errors import BadInput
from whence.text.controls import printable

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console
    from rich.text import Text

    from whence.engine.engine import Engine
    from whence.flow.settings import Settings
    from whence.schema.document_rag import Answer, Citation

_FETCH_LIMIT_HELP = "Candidates before reranking; 0 for three times --doc-limit."
_RERANK_LIMIT_HELP = "Candidates that the reranker reads; 0 for all."
_DIVERSITY_HELP = "mmr chooses passages that say different things; none goes by relevance alone."
_LAMBDA_HELP = "Weight of relevance against diversity, 0 to 1; 0.7 by default."

_AS_OF_HELP = (
    "Answer from the documents as they were: at the end of a date, at a time (ISO 8601, UTC), or when an answer was"
    " given. Rights are those of today."
)
_DOC_LIMIT_HELP = "Passages given to the writer, 20 by default; of code, nodes, by default as many as the flow says."

_Stream = Annotated[bool, typer.Option("--stream", help="Print the answer while it is written.")]
_AsOf = Annotated[str | None, typer.Option("--as-of", metavar="DATE|ANSWER_ID", help=_AS_OF_HELP)]
_Flow = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Flow to use: document-rag, code-rag or a flow file."),
]


def ask(
    context: typer.Context,
    question: Annotated[str, typer.Argument(help="The question.")],
    *,
    doc_limit: Annotated[int | None, typer.Option(help=_DOC_LIMIT_HELP)] = None,
    fetch_limit: Annotated[int, typer.Option(help=_FETCH_LIMIT_HELP)] = 0,
    rerank_limit: Annotated[int, typer.Option(help=_RERANK_LIMIT_HELP)] = 0,
    no_rerank: Annotated[bool, typer.Option("--no-rerank", help="Do not rerank.")] = False,
    diversity: Annotated[str | None, typer.Option(metavar="mmr|none", help=_DIVERSITY_HELP)] = None,
    diversity_lambda: Annotated[float | None, typer.Option(help=_LAMBDA_HELP)] = None,
    stream: _Stream = False,
    mode: Annotated[str | None, typer.Option(help="hybrid, dense or bm25.")] = None,
    filters: Filter = None,
    exact: Exact = False,
    as_of: _AsOf = None,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="Time limit.")] = 120.0,
    flow: _Flow = None,
    trace: TraceFile = None,
    snapshot: ChosenSnapshot,
    access: ReaderAccess,
) -> int:
    """Answer a question from the documents or code that you may see, with citations."""
    from whence.answering.state import check_question, check_timeout
    from whence.retrieval.diversity import check_diversity
    from whence.retrieval.pipeline import search_mode
    from whence.schema.filters import parse_filter_options, parse_filters

    # Checked before anything starts.
    check_question(question, 1 if doc_limit is None else doc_limit, fetch_limit, rerank_limit)
    check_timeout(timeout)
    check_diversity(diversity, diversity_lambda)
    if mode is not None:
        search_mode(mode)
    conditions = parse_filter_options(filters or ())
    parse_filters(conditions)
    about_code = flow == "code-rag" or snapshot is not None
    if about_code and conditions:
        raise BadInput("questions about code take no filters", hint="omit --filter")
    if about_code and as_of is not None:
        raise BadInput("questions about code take no moment", hint="name a --snapshot instead")
    if about_code and diversity is not None:
        raise BadInput("questions about code take no diversity", hint="omit --diversity")
    choice = (snapshot or SnapshotChoice()) if about_code else None
    printer = _StreamPrinter()
    live = stream and not as_json(context)
    options: dict[str, Any] = {
        "access": access,
        "mode": mode,
        "timeout_s": timeout,
        "chunk_callback": printer.print_piece if live else None,
    }
    if doc_limit is not None:
        options["doc_limit"] = doc_limit
    if choice is None:
        options |= {"fetch_limit": fetch_limit, "filters": conditions, "exact": exact}
        options |= {"rerank": not no_rerank, "rerank_limit": rerank_limit, "as_of": as_of}
        options |= {"diversity": diversity, "diversity_lambda": diversity_lambda}
    answer = _ask(context, question, flow, choice, options, trace)
    _print(context, answer, printer, live)
    return 0


def _print(context: typer.Context, answer: Answer, printer: _StreamPrinter, live: bool) -> None:
    if as_json(context):
        from whence.engine.json_documents import answer_document

        print_json(answer_document(answer))
        return
    complete = live and printer.text.strip() == answer.text.strip()
    if printer.text and not complete:
        # A writer failed while streaming, and another one wrote the answer with other words.
        note("note: the answer was restarted while it was written; this is the complete answer")
    settings = settings_of(context)
    find = partial(find_source, settings, settings.collection)
    print_answer(answer, console(), text_printed=complete, find=find)


def _ask(
    context: typer.Context,
    question: str,
    flow: str | None,
    snapshot: SnapshotChoice | None,
    options: dict[str, Any],
    trace: Path | None,
) -> Answer:
    """Ask about a snapshot of code, or about the documents when none is given."""

    def work(engine: Engine, settings: Settings) -> Coroutine[Any, Any, Answer]:
        if snapshot is not None:
            return engine.code.ask(question, snapshot=snapshot, **options)
        return engine.ask(question, collection=settings.collection, **options)

    models = "questions" if options.get("rerank") else True
    return run_with_engine(
        context,
        work,
        reads=f"collection {settings_of(context).collection!r}",
        warm_up=options["mode"] != "bm25" and models,
        flow=flow or ("all-in-one" if snapshot is None else "code-rag"),
        trace=trace,
    )


class _StreamPrinter:
    """Prints an answer while it is written, wrapped on a terminal."""

    def __init__(self) -> None:
        self.text = ""
        self._wrapping = Wrapping(console().width if sys.stdout.isatty() else None)

    async def print_piece(self, text: str, end: bool) -> None:
        self.text += text
        sys.stdout.write(self._wrapping.add(printable(text), end=end) + ("\n" if end else ""))
        sys.stdout.flush()


def _styled(answer: Answer) -> Text:
    """Return the text with the words that answer in bold, and sentences without support in yellow."""
    from rich.text import Text

    from whence.engine.json_documents import answer_highlights

    text = Text(answer.text)
    for start, end in answer_highlights(answer):
        text.stylize("bold", start, end)
    for start, end in answer.unsupported:
        text.stylize("yellow", start, end)
    return text


def print_answer(
    answer: Answer,
    out: Console,
    *,
    text_printed: bool = False,
    hidden_codes: Container[str] = (),
    find: Callable[[str], Path | None] = lambda _: None,
) -> None:
    """Print an answer as text; `find` returns the path of a source file, for a link."""
    from rich.text import Text

    from whence.cli.safe_console import source_link

    note_corrections(answer.question_used, answer.corrections)
    if not text_printed:
        out.print(_styled(answer), soft_wrap=False)
    if answer.refusal is not None:
        out.print(answer.refusal.reason, markup=False, style="dim")
    if answer.citations:
        out.print()
    # One line a marker, in the order of the text, also when a marker has several quotes.
    firsts: dict[int, Citation] = {}
    for citation in answer.citations:
        firsts.setdefault(citation.marker, citation)
    for citation in firsts.values():
        line = Text.assemble((f"  [{citation.marker}] ", "cyan"))
        name, source = citation.document_id, citation.source_file
        line.append_text(source_link(name, citation.source_url, citation.location, find(source)))
        if citation.heading:
            line.append(f" {citation.heading}", "dim")
        if citation.outdated:
            line.append(f" (out of date: {citation.outdated})", "yellow")
        out.print(line)
    for fault in answer.degraded:
        if fault.code not in hidden_codes:
            note(f"note: {fault.label}: {fault.reason}")
    note(f"answer {answer.answer_id}")
    note(f"why    whence explain {answer.answer_id}")

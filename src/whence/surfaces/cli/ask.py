"""`whence ask`: an answer with citations, and the id of its trace."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whence.operations.ask import Ask, AskLive
from whence.operations.source_roots import ListRoots, source_path
from whence.schema.code import SnapshotChoice
from whence.schema.errors import BadInput
from whence.surfaces.cli.options import ChosenSnapshot, TraceFile, state_of
from whence.surfaces.cli.output import (
    Wrapping,
    console,
    note,
    note_corrections,
    one_line,
    print_json,
)
from whence.surfaces.cli.session import as_json, run_with_engine
from whence.text.controls import printable

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console
    from rich.text import Text

    from whence.flow.settings import Settings
    from whence.schema.document_rag import Answer, Citation
    from whence.store.source_states import SourceRoot
    from whence.surfaces.python.engine import Engine

_Stream = Annotated[bool, typer.Option("--stream", help="Print the answer while it is written.")]
_Flow = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Flow to use: document-rag, code-rag or a flow file."),
]


def ask(
    context: typer.Context,
    asked: Ask,
    *,
    stream: _Stream = False,
    flow: _Flow = None,
    trace: TraceFile = None,
    snapshot: ChosenSnapshot,
) -> int:
    """Answer a question from the documents or code that you may see, with citations.

    Ends with 1 when the documents do not answer; the nearest passages are printed.
    """
    asked.check()  # before anything starts
    printer = _StreamPrinter()
    live = stream and not as_json(context)
    on_text = printer.print_piece if live else None
    about_code = flow == "code-rag" or snapshot is not None
    given = _options_of_code(asked, state_of(context).named) if about_code else {}
    roots: list[SourceRoot] = []

    async def answered(engine: Engine, _: Settings) -> Answer:
        nonlocal roots
        if about_code:
            choice = snapshot or SnapshotChoice()
            return await engine.code.ask(snapshot=choice, chunk_callback=on_text, **given)
        found = await engine.run(AskLive.of(asked, on_text))
        if found.citations and not as_json(context):
            roots = await engine.run(ListRoots(asked.collection))
        return found

    models = "questions" if asked.rerank and not about_code else True
    answer = run_with_engine(
        context,
        answered,
        reads=f"collection {asked.collection!r}",
        warm_up=asked.mode != "bm25" and models,
        flow=flow or ("code-rag" if about_code else "all-in-one"),
        trace=trace,
    )
    _print(context, answer, printer, live, partial(source_path, roots))
    return 0 if answer.found else 1


#: Options that a question about code has, and why it has no others that may be expected.
_OF_CODE = ("question", "access", "doc_limit", "mode", "timeout_s")
_NOT_OF_CODE = {
    "filters": ("filters", "omit --filter"),
    "as_of": ("moment", "name a --snapshot instead"),
    "diversity": ("diversity", "omit --diversity"),
}


def _options_of_code(asked: Ask, named: Container[str]) -> dict[str, Any]:
    """Return the options of a question about a snapshot; `BadInput` for one that it does not have."""
    for name, (what, hint) in _NOT_OF_CODE.items():
        if name in named:
            raise BadInput(f"questions about code take no {what}", hint=hint)
    return {name: getattr(asked, name) for name in _OF_CODE if name in named}


def _print(
    context: typer.Context,
    answer: Answer,
    printer: _StreamPrinter,
    live: bool,
    find: Callable[[str, str], Path | None],
) -> None:
    if as_json(context):
        from whence.operations.json_documents import answer_document

        print_json(answer_document(answer))
        return
    complete = live and printer.text.strip() == answer.text.strip()
    if printer.text and not complete:
        # A writer failed while streaming, and another one wrote the answer with other words.
        note("note: the answer was restarted while it was written; this is the complete answer")
    print_answer(answer, console(), text_printed=complete, find=find)


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

    from whence.operations.json_documents import answer_highlights

    text = Text(answer.text)
    for start, end in answer_highlights(answer):
        text.stylize("bold", start, end)
    parts, reached = [], 0
    for start, end in answer.unsupported:
        text.stylize("yellow", start, end)
    # The mark is text: colours do not reach a file.
    for _, end in answer.unsupported:
        parts += [text[reached:end], Text(" (not supported)", "yellow")]
        reached = end
    return Text.assemble(*parts, text[reached:])


def _print_nearest(answer: Answer, out: Console) -> None:
    """Print the passages beside a refusal, headed as what they are."""
    from rich.text import Text

    from whence.surfaces.cli.markdown_tables import Indented, with_tables

    if answer.nearest:
        out.print("\nNearest passages", style="bold")
    for one in answer.nearest:
        name = " > ".join(filter(None, (one.document_id, one.heading)))
        out.print(name, markup=False, style="dim")
        for part in with_tables(Text("\n".join(filter(None, (one.lead, one.text.strip()))))):
            out.print(Indented(part, 2), end="")


def print_answer(
    answer: Answer,
    out: Console,
    *,
    text_printed: bool = False,
    hidden_codes: Container[str] = (),
    find: Callable[[str, str], Path | None] = lambda *_: None,
) -> None:
    """Print an answer as text; `find` returns the path of a file by root and path, for a link."""
    from whence.operations.json_documents import unsupported_note
    from whence.surfaces.cli.markdown_tables import with_tables

    note_corrections(answer.question_used, answer.corrections)
    if not text_printed:
        out.print(*with_tables(_styled(answer)), sep="\n", soft_wrap=False)
    elif note_of_support := unsupported_note(answer.text, answer.unsupported):
        out.print(note_of_support.strip("\n"), markup=False, style="yellow")
    if answer.refusal is not None and answer.refusal.reason != answer.text:
        out.print(answer.refusal.reason, markup=False, style="dim")
    _print_nearest(answer, out)
    _print_citations(answer, out, find)
    for fault in answer.degraded:
        if fault.code not in hidden_codes:
            note(f"note: {fault.label}: {fault.reason}")
    if answer.cached:
        note("note: given from the answer cache; no model was asked")
    note(f"answer {answer.answer_id}")
    note(f"why    whence explain {answer.answer_id}")


def _print_citations(answer: Answer, out: Console, find: Callable[[str, str], Path | None]) -> None:
    """Print a line for each source, with a link to it, and one for each contradiction of two."""
    from rich.text import Text

    from whence.surfaces.cli.safe_console import source_link

    if answer.citations:
        out.print()
    # One line a marker, in the order of the text, also when a marker has several quotes.
    firsts: dict[int, Citation] = {}
    for citation in answer.citations:
        firsts.setdefault(citation.marker, citation)
    for citation in firsts.values():
        line = Text.assemble((f"  [{citation.marker}] ", "cyan"))
        path = find(citation.root, citation.source_file)
        name, place = (
            ": ".join(filter(None, (citation.collection, citation.document_id))),
            citation.location,
        )
        line.append_text(source_link(name, citation.source_url, place, path))
        if citation.heading:
            line.append(f" {citation.heading}", "dim")
        if citation.document_date:
            line.append(f" {citation.document_date[:10]}", "dim")
        if citation.added:
            line.append(" (added by Whence)", "dim")
        if citation.outdated:
            line.append(f" (out of date: {citation.outdated})", "yellow")
        if citation.changed:
            line.append(" (changed since)", "yellow")
        out.print(line)
    for conflict in answer.conflicts:
        says = " and ".join(
            f"[{marker}] says {value}"
            for marker, value in zip(conflict.citations, conflict.values, strict=True)
        )
        out.print(Text(f"  the documents differ: {one_line(says)}", "yellow"))

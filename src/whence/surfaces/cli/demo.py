"""`whence demo`: index the example handbook and ask four questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape

from whence.schema.access import Access
from whence.schema.errors import NotFound
from whence.surfaces.cli.ask import print_answer
from whence.surfaces.cli.output import console, headline, note, print_json, progress
from whence.surfaces.cli.session import as_json, run_with_engine

if TYPE_CHECKING:
    from whence.provenance.trace import Trace
    from whence.schema.document_rag import Answer
    from whence.surfaces.python.engine import Engine

#: A collection of its own keeps the demo apart from the user's documents.
_COLLECTION = "handbook"
_NEXT_STEPS = """\
  whence index FOLDER                     index your own documents
  whence ask "..."                        ask your own question
  whence explain ANSWER_ID --format svg   draw the trace of an answer
  whence doctor                           check the installation"""


def demo(context: typer.Context) -> int:
    """Index the example handbook, ask four questions and show the trace of an answer."""
    folder = _examples()
    questions = json.loads((folder / "demo_questions.json").read_text("utf-8"))["questions"]
    quiet = as_json(context)
    from whence.operations.json_documents import answer_document

    async def work(engine: Engine, _settings: object) -> list[dict[str, Any]]:
        with progress("indexing the handbook") as moved:
            report = await engine.index(
                [folder / "handbook"], collection=_COLLECTION, prune=True, progress=moved
            )
        counts = report.documents
        note(
            f"{counts.added} documents added, {counts.updated} updated, {counts.unchanged} unchanged"
            f" in {report.seconds:.1f} s"
        )
        shown = []
        printed_codes: set[str] = set()
        last: Answer | None = None
        for question in questions:
            access = Access(frozenset(question.get("acl", ())))
            answer = await engine.ask(question["question"], collection=_COLLECTION, access=access)
            shown.append(answer_document(answer) | {"asked_as": sorted(access.acl_tags)})
            if not quiet:
                _print_question(question, answer, printed_codes)
                printed_codes |= {fault.code for fault in answer.degraded}
            last = answer if answer.citations and not access.acl_tags else last
        if last is not None and not quiet:
            _print_trace(await engine.explain(last.answer_id))
        return shown

    answers = run_with_engine(context, work)
    if quiet:
        print_json({"collection": _COLLECTION, "answers": answers})
    else:
        out = console()
        headline(out, "next steps")
        out.print(_NEXT_STEPS, markup=False)
    return 0


def _examples() -> Path:
    from whence.operations.overview import example_folder

    handbook = example_folder()
    if handbook is None:
        raise NotFound("the example documents are not installed", hint="install Whence again")
    return handbook.parent


def _print_question(question: dict[str, Any], answer: Answer, printed_codes: set[str]) -> None:
    out = console()
    options = " ".join(f"--acl {tag}" for tag in question.get("acl", ()))
    reader = f"with {options}" if options else "without access options"
    out.print(f"[bold]{escape(question['question'])}[/]  [dim]({escape(reader)})[/]")
    print_answer(answer, out, hidden_codes=printed_codes)
    out.print()


def _print_trace(trace: Trace) -> None:
    from whence.provenance.render.tree import to_tree

    out = console()
    headline(out, "trace of the last public answer")
    out.print(to_tree(trace))
    out.print()

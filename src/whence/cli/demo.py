"""`whence demo`: index the example handbook and ask it four questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from whence.cli.ask import tell_answer
from whence.cli.output import console, headline, note, print_json, progress
from whence.cli.session import as_json, run_with_engine
from whence.schema.access import Access
from whence.schema.errors import NotFound

if TYPE_CHECKING:
    from whence.engine.engine import Engine
    from whence.schema.document_rag import Answer

__all__ = ("demo",)

#: The demo keeps to a collection of its own, so that it never mixes with somebody's documents.
_COLLECTION = "handbook"


def demo(context: typer.Context) -> int:
    """Index the example handbook, ask four questions and show where an answer came from."""
    folder = _examples()
    questions = json.loads((folder / "demo_questions.json").read_text("utf-8"))["questions"]
    quiet = as_json(context)
    from whence.engine.json_documents import answer_document

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
        told: set[str] = set()
        last: Answer | None = None
        for question in questions:
            access = Access(frozenset(question.get("acl", ())))
            answer = await engine.ask(question["question"], collection=_COLLECTION, access=access)
            shown.append(answer_document(answer) | {"asked_as": sorted(access.acl_tags)})
            if not quiet:
                _tell(question, answer, told)
                told |= {fault.code for fault in answer.degraded}
            last = answer if answer.citations and not access.acl_tags else last
        if last is not None and not quiet:
            await _tell_trace(engine, last)
        return shown

    answers = run_with_engine(context, work)
    if quiet:
        print_json({"collection": _COLLECTION, "answers": answers})
    else:
        _tell_next()
    return 0


def _examples() -> Path:
    """Find the example documents: inside the wheel, else in the repository."""
    here = Path(__file__).resolve()
    for folder in (here.parents[1] / "examples", here.parents[3] / "examples"):
        if (folder / "demo_questions.json").is_file():
            return folder
    raise NotFound("the example documents are not installed", hint="run the demo from a checkout")


def _tell(question: dict[str, Any], answer: Answer, told: set[str]) -> None:
    from rich.markup import escape

    out = console()
    reader = (
        "with --acl " + " --acl ".join(question["acl"]) if question.get("acl") else "as anybody"
    )
    out.print(f"[bold]{escape(question['question'])}[/]  [dim]({escape(reader)})[/]")
    tell_answer(answer, out, unsaid=told)
    out.print()


async def _tell_trace(engine: Engine, answer: Answer) -> None:
    from whence.provenance.render.tree import to_tree

    out = console()
    headline(out, "where that last public answer came from")
    out.print(to_tree(await engine.explain(answer.answer_id)))
    out.print()


def _tell_next() -> None:
    out = console()
    headline(out, "now try")
    for line in (
        "whence index FOLDER                     your own documents",
        'whence ask "..."                        a question of yours',
        "whence explain ANSWER_ID --format svg   the trace as a picture",
        "whence doctor                           what this runs on",
    ):
        out.print(f"  {line}", markup=False)

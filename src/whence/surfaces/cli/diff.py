"""`whence replay`, `diff` and `changes`: what differs between two runs of a question, and why."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

import typer

from whence.operations.operation import Operation
from whence.operations.replay import Diff, ListChanges, Replay
from whence.schema.document_rag import stage_label
from whence.surfaces.cli.output import console, plain_table, print_json
from whence.surfaces.cli.session import as_json, run_operation

if TYPE_CHECKING:
    from rich.console import Console

    from whence.operations.comparison import Cause, Comparison, Difference

#: Lines printed of each side of a difference, and documents of a cause; JSON has all.
_MAX_LINES = 8
_CAUSES = {
    "documents": "documents changed",
    "settings": "other settings",
    "models": "another model or version of Whence, or a model that does not repeat itself",
    "rights": "other rights of the reader, or other tags of documents",
    "erased": "a document was erased",
    "statistics": "the statistics of the collection, which scores depend on",
}


def replay(context: typer.Context, asked: Replay) -> int:
    """Ask a recorded question again; show the first stage whose result differs, and why.

    Exit 1 when the result differs. Scores that drifted because documents came or went are told, and are no
    difference as long as the answer is the same.
    """
    return _compare(context, asked, asked.answer_id, warm_up=True)


def diff(context: typer.Context, asked: Diff) -> int:
    """Compare two recorded answers stage by stage; each difference has its cause.

    Exit 1 when they differ, as for `whence replay`. You must be allowed to see both.
    """
    return _compare(context, asked, asked.answer_a)


def changes(context: typer.Context, asked: ListChanges) -> int:
    """List which documents of a collection came, changed and went, oldest first."""
    found = run_operation(context, asked, reads=f"collection {asked.collection!r}")
    if as_json(context):
        print_json({"collection": asked.collection, "changes": found})
        return 0
    table = plain_table("when (UTC)", "what", "document")
    for one in found:
        when = one.changed_at[:19].replace("T", " ")
        table.add_values(when, one.kind, one.document_id or None)
    console().print(table)
    return 0


def _compare(context: typer.Context, asked: Operation[Any], answer_id: str, **options: Any) -> int:
    report: Comparison = run_operation(context, asked, reads=f"answer {answer_id!r}", **options)
    print_json(report) if as_json(context) else _print_comparison(report)
    return 0 if report.drifted else 1


def _print_comparison(report: Comparison) -> None:
    out = console()
    if report.identical:
        out.print("identical: the same candidates, scores, order, citations and answer")
        return
    out.print("the answer changed" if report.answer_changed else "the answer is the same")
    first = report.differs[0].stage
    out.print(f"first difference at stage [bold]{_label(first)}[/]")
    if any(one.what == "question" for one in report.differs):
        # Whatever else differs follows from it, or cannot be told from it.
        out.print("cause: the questions differ")
    else:
        for cause in dict.fromkeys(one.cause for one in report.differs):
            _print_cause(out, cause)
    for difference in report.differs:
        if difference.stage == first:
            _print_difference(out, difference)
    later = dict.fromkeys(_label(one.stage) for one in report.differs if one.stage != first)
    if later:
        out.print(f"later stages differ too: {', '.join(later)}; --json lists all differences")


def _label(stage: str) -> str:
    return stage_label(stage)


def _print_cause(out: Console, cause: Cause) -> None:
    documents = cause.documents
    parts = [f"cause: {_CAUSES[cause.kind]}"]
    for what in ("added", "changed", "removed"):
        names = list(getattr(documents, what))
        more = f" and {len(names) - _MAX_LINES:,} more" if len(names) > _MAX_LINES else ""
        if names:
            parts.append(f"{what} {', '.join(names[:_MAX_LINES])}{more}")
    out.print("; ".join(parts), markup=False, soft_wrap=True)


def _print_difference(out: Console, difference: Difference) -> None:
    out.print(difference.what, style="bold", markup=False)
    before, after = difference.before, difference.after
    if isinstance(before, list) and isinstance(after, list):
        pairs = zip(before, after, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if same:
            out.print(f"  {'':7}the first {same} are the same")
        before, after = before[same:], after[same:]
    for name, value in (("before", before), ("now", after)):
        lines = _lines(value)
        for number, line in enumerate(lines[:_MAX_LINES]):
            out.print(f"  {name if number == 0 else '':7}{line}", markup=False, soft_wrap=True)
        if len(lines) > _MAX_LINES:
            out.print(f"  {'':7}and {len(lines) - _MAX_LINES:,} more")


def _lines(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [f"{key}: {part}" for key, part in value.items()] or ["-"]
    if isinstance(value, list):
        return [str(part) for part in value] or ["-"]
    return [str(value)]

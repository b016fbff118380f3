"""`whence replay`: ask a recorded question again and compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from whence.cli.options import Acl, Clearance, Label
from whence.cli.output import console, print_json
from whence.cli.session import access_of, as_json, run_with_engine

if TYPE_CHECKING:
    from rich.console import Console

    from whence.engine.replay import Difference, ReplayReport

__all__ = ("replay",)

_STAGES = ("question", "grounding", "exploration", "focus", "synthesis")
#: Parts of a difference that are shown; JSON has all.
_MOST_LINES = 8


def replay(
    context: typer.Context,
    answer_id: Annotated[str, typer.Argument(help="Id that `whence ask` printed.")],
    acl: Acl = None,
    label: Label = None,
    clearance: Clearance = 0,
) -> int:
    """Run all stages of an answer again; exit 1 with the first stage that differs, and why."""
    access = access_of(acl, label, clearance)
    report = run_with_engine(
        context,
        lambda engine, _: engine.replay(answer_id, access),
        reads=f"answer {answer_id!r}",
        warm_up=True,
    )
    print_json(report) if as_json(context) else _tell(report)
    return 0 if report.identical else 1


def _tell(report: ReplayReport) -> None:
    out = console()
    if report.identical:
        out.print("identical: the same candidates, scores, order, citations and answer")
        return
    first = report.differs[0].stage
    out.print(f"it parts at [bold]{first}[/]")
    for difference in report.differs:
        if difference.stage == first:
            _tell_difference(out, difference)
    later = sorted({d.stage for d in report.differs if d.stage != first}, key=_STAGES.index)
    if later:
        out.print(f"and so do {', '.join(later)}; --json has all of it")


def _tell_difference(out: Console, difference: Difference) -> None:
    out.print(difference.what, style="bold", markup=False)
    for name, value in (("before", difference.before), ("now", difference.after)):
        lines = _lines(value)
        for number, line in enumerate(lines[:_MOST_LINES]):
            out.print(f"  {name if number == 0 else '':7}{line}", markup=False, soft_wrap=True)
        if len(lines) > _MOST_LINES:
            out.print(f"  {'':7}and {len(lines) - _MOST_LINES} more")


def _lines(value: Any) -> list[str]:
    """Give one line for each part of a value."""
    if isinstance(value, dict):
        return [f"{key}: {part}" for key, part in value.items()] or ["-"]
    if isinstance(value, list):
        return [str(part) for part in value] or ["-"]
    return [str(value)]

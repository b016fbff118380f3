"""`whence expand` and `whence fetch`: dependencies of code nodes, and their texts within a budget."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace
from rich.markup import escape

from whence.code.operations import Expand, Fetch
from whence.operations.json_documents import expand_document, select_fields
from whence.surfaces.cli.options import TraceFile
from whence.surfaces.cli.output import console, note, print_json
from whence.surfaces.cli.session import as_json, run_operation

if TYPE_CHECKING:
    from whence.code.node_texts import FetchReport
    from whence.schema.graph import ExpandResponse
    from whence.schema.texts import TextBudget

_REPORT_FIELDS = ("snapshot_id", "node_texts", "used")
_DECISION_FIELDS = ("id", "action", "reason")


def expand(context: typer.Context, asked: Expand, *, trace: TraceFile = None) -> int:
    """Show the dependencies around nodes of code, among those you may see."""
    reply = run_operation(context, asked, trace=trace)
    if as_json(context):
        print_json(expand_document(reply))
    else:
        _print_graph(reply)
    return 0


def _print_graph(reply: ExpandResponse) -> None:
    out = console()
    local = {node.id: node.local_id for node in reply.nodes}
    by_depth: dict[int, list[str]] = {}
    for node in reply.nodes:
        by_depth.setdefault(node.depth, []).append(node.local_id)
    for depth, names in by_depth.items():
        out.print(f"[bold]depth {depth}[/]  {escape(', '.join(names))}", soft_wrap=True)
    for edge in reply.edges:
        line = f"{local[edge.from_id]} --{edge.relation}--> {local[edge.to_id]}"
        out.print(line, markup=False, soft_wrap=True)
    if reply.truncated:
        note(f"note: truncated at {len(reply.nodes)} nodes; --max-nodes sets the limit")


def fetch(
    context: typer.Context,
    asked: Fetch,
    *,
    max_chars: Annotated[int | None, typer.Option(help="Budget in characters.")] = None,
    budget_tokens: Annotated[
        int | None, typer.Option(help="Budget in tokens of the embedding model.")
    ] = None,
    budget_from_settings: Annotated[
        str | None, typer.Option(metavar="KEY", help="Key in --settings of a budget in tokens.")
    ] = None,
    settings: Annotated[
        Path | None, typer.Option(metavar="FILE", help="YAML or JSON file with settings.")
    ] = None,
    trace: TraceFile = None,
) -> int:
    """Print the texts of code nodes that fit into a budget, and why others were skipped."""
    budget = _budget(max_chars, budget_tokens, budget_from_settings, settings)
    report = run_operation(context, replace(asked, budget=budget), trace=trace)
    if as_json(context):
        parts = {
            "decisions": [select_fields(one, _DECISION_FIELDS) for one in report.decisions],
            "budget": select_fields(report.budget, ("kind", "limit")),
        }
        print_json(select_fields(report, _REPORT_FIELDS) | parts)
    else:
        _print_texts(report)
    return 0


def _budget(
    max_chars: int | None, tokens: int | None, key: str | None, settings: Path | None
) -> TextBudget:
    from whence.flow.budget_settings import budget_from_file
    from whence.schema.errors import BadInput
    from whence.schema.texts import TextBudget

    given = [one for one in (max_chars, tokens, key) if one is not None]
    if len(given) != 1:
        raise BadInput(
            f"{'several budgets are' if given else 'no budget is'} given",
            hint="use one of --max-chars, --budget-tokens and --budget-from-settings",
        )
    if settings is not None and key is None:
        raise BadInput("--settings requires --budget-from-settings", hint="name a key of the file")
    if max_chars is not None:
        return TextBudget(kind="chars", limit=max_chars)
    if tokens is not None:
        return TextBudget(kind="tokens", limit=tokens)
    if settings is None:
        raise BadInput("--budget-from-settings requires a file", hint="add --settings FILE")
    key = key or ""
    return TextBudget(kind="tokens", limit=budget_from_file(settings, key), setting=key)


def _print_texts(report: FetchReport) -> None:
    out = console()
    for node in report.node_texts:
        size = f"{node.chars} characters" + (f", {node.tokens} tokens" if node.tokens else "")
        out.print(f"[bold]{escape(node.local_id)}[/] [dim]{size}[/]")
        out.print(node.text, markup=False, soft_wrap=True)
    for one in report.decisions:
        if one.action == "skip":
            note(f"skipped {one.id}: {one.reason}")
    kind = report.budget.kind
    note(f"used {report.used[kind]} of {report.budget.limit} {kind}")

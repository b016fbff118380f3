"""`whence fetch`: the texts of pieces of code, whole ones only, as many as a budget has room for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whence.cli.options import Acl, Clearance, Label
from whence.cli.output import console, note, print_json
from whence.cli.session import access_of, as_json, run_with_engine
from whence.cli.snapshot_options import SetName, Snapshot, SnapshotOrigin, required_snapshot

if TYPE_CHECKING:
    from whence.engine.node_texts import FetchReport
    from whence.schema.texts import TextBudget

__all__ = ("fetch", "fetch_document")


def fetch(
    context: typer.Context,
    snapshot: Snapshot = None,
    set_name: SetName = None,
    snapshot_source: SnapshotOrigin = None,
    seed: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Node that was found, best first; repeat for more."),
    ] = None,
    graph: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Node around the seeds; repeat for more."),
    ] = None,
    prioritize: Annotated[
        str,
        typer.Option(
            help="seed_first, graph_first, balanced (in turn) or clustered (each seed, then its own)."
        ),
    ] = "balanced",
    max_chars: Annotated[int | None, typer.Option(help="Budget in characters.")] = None,
    budget_tokens: Annotated[
        int | None, typer.Option(help="Budget in tokens of the embedding model.")
    ] = None,
    budget_from_settings: Annotated[
        str | None, typer.Option(metavar="KEY", help="Key of --settings with a budget in tokens.")
    ] = None,
    settings: Annotated[
        Path | None, typer.Option(metavar="FILE", help="YAML or JSON file with settings.")
    ] = None,
    acl: Acl = None,
    label: Label = None,
    clearance: Clearance = 0,
) -> int:
    """Print the texts of nodes of code that fit into a budget, and what became of the others."""
    chosen = required_snapshot(snapshot, set_name, snapshot_source)
    budget = _budget(max_chars, budget_tokens, budget_from_settings, settings)
    access = access_of(acl, label, clearance)
    report = run_with_engine(
        context,
        lambda engine, _settings: engine.code.fetch(
            seed or (),
            graph or (),
            budget=budget,
            snapshot=chosen,
            prioritize=prioritize,
            access=access,
        ),
    )
    if as_json(context):
        print_json(fetch_document(report))
    else:
        _tell(report)
    return 0


def _budget(
    max_chars: int | None, tokens: int | None, key: str | None, settings: Path | None
) -> TextBudget:
    """Give the one budget of the options.

    Raises:
        BadInput: There is none, or more than one; or the settings cannot be read or have no such key.
    """
    from whence.flow.budget_settings import budget_from_file
    from whence.schema.errors import BadInput
    from whence.schema.texts import TextBudget

    given = [one for one in (max_chars, tokens, key) if one is not None]
    if len(given) != 1:
        raise BadInput(
            f"{'several budgets are' if given else 'no budget is'} given",
            hint="give one of --max-chars, --budget-tokens and --budget-from-settings",
        )
    if settings is not None and key is None:
        raise BadInput("--settings goes with --budget-from-settings", hint="name a key of it")
    if max_chars is not None:
        return TextBudget(kind="chars", limit=max_chars)
    if tokens is not None:
        return TextBudget(kind="tokens", limit=tokens)
    if settings is None:
        raise BadInput("--budget-from-settings needs a file", hint="give it with --settings FILE")
    return TextBudget(kind="tokens", limit=budget_from_file(settings, key or ""))


def fetch_document(report: FetchReport) -> dict[str, Any]:
    """Give the JSON form of fetched texts."""
    return {
        "snapshot_id": report.snapshot_id,
        "node_texts": report.node_texts,
        "decisions": [
            {"id": one.id, "action": one.action, "reason": one.reason} for one in report.decisions
        ],
        "used": report.used,
        "budget": {"kind": report.budget.kind, "limit": report.budget.limit},
    }


def _tell(report: FetchReport) -> None:
    from rich.markup import escape

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

"""`whence run`: start the processors of a flow and keep them running."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from whence.cli.output import console, note, print_json
from whence.cli.session import as_json, settings_of, start_logging

if TYPE_CHECKING:
    from whence.flow.definition import FlowDefinition

__all__ = ("run",)


def run(
    context: typer.Context,
    flow: Annotated[str, typer.Argument(help="A flow file, or the name of a shipped flow.")],
    only: Annotated[
        str, typer.Option(help="Processors to start here, separated by commas; all when empty.")
    ] = "",
    check: Annotated[
        bool, typer.Option("--check", help="Check the file, show what it wires, start nothing.")
    ] = False,
    metrics: Annotated[
        str,
        typer.Option(
            metavar="[HOST:]PORT",
            help="Serve /metrics, /live and /ready there.",
            envvar="WHENCE_METRICS",
        ),
    ] = "",
) -> int:
    """Run a flow until it is asked to stop; several copies share the work."""
    import asyncio

    from whence.flow.builtin_flows import find_flow
    from whence.flow.loader import load_flow
    from whence.flow.service import serve_flow

    # A running flow is a server: whoever watches it wants to hear of trouble.
    start_logging("WARNING")
    settings = settings_of(context)
    definition = load_flow(find_flow(flow))
    names = tuple(name.strip() for name in only.split(",") if name.strip())
    definition.only(names)
    if check:
        _tell(definition, in_json=as_json(context))
        return 0
    asyncio.run(
        serve_flow(
            definition,
            settings,
            only=names,
            on_ready=lambda: note("ready"),
            metrics_address=metrics,
        )
    )
    return 0


def _tell(definition: FlowDefinition, *, in_json: bool) -> None:
    from whence.flow.definition import check_report

    report = check_report(definition)
    if in_json:
        print_json(report)
        return
    from rich.table import Table

    out = console()
    table = Table("processor", "type", "replicas", "concurrency", box=None, header_style="bold")
    for one in definition.processors:
        table.add_row(one.name, one.type, str(one.replicas), str(one.concurrency))
    out.print(f"flow [bold]{definition.name}[/]: {definition.description}", soft_wrap=True)
    out.print(table)
    for interface in definition.interfaces:
        out.print(f"  {interface.name}: {interface.request or interface.topic}", soft_wrap=True)

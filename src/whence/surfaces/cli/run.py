"""`whence run`: run the processors of a flow until SIGTERM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from whence.surfaces.cli.options import KeepTraces
from whence.surfaces.cli.output import INTERRUPTED, console, note, plain_table, print_json
from whence.surfaces.cli.session import as_json, settings_of, start_logging

if TYPE_CHECKING:
    from whence.flow.definition import FlowDefinition


def run(
    context: typer.Context,
    flow: Annotated[str, typer.Argument(help="Flow file, or name of a shipped flow.")],
    only: Annotated[
        str, typer.Option(metavar="NAME,NAME", help="Processors to start; all by default.")
    ] = "",
    check: Annotated[
        bool, typer.Option("--check", help="Only check the flow file and print its interfaces.")
    ] = False,
    metrics: Annotated[
        str,
        typer.Option(
            metavar="[HOST:]PORT",
            help="Address that serves /metrics, /live and /ready.",
            envvar="WHENCE_METRICS",
        ),
    ] = "",
    keep: KeepTraces = None,
) -> int:
    """Run a flow until it is stopped; several copies share the work.

    Messages in work are completed first. Exit 0 after SIGTERM, 130 after Ctrl-C.
    """
    import asyncio

    from whence.flow.definition import check_report
    from whence.flow.loader import load_flow
    from whence.flow.service import serve_flow

    # A running flow is a server: warnings are logged.
    start_logging("WARNING")
    settings = settings_of(context, keep=keep)
    definition = load_flow(flow)
    names = tuple(name.strip() for name in only.split(",") if name.strip())
    definition.only(names)
    if not check:
        serving = serve_flow(
            definition,
            settings,
            only=names,
            on_ready=lambda: note("ready"),
            metrics_address=metrics,
        )
        return INTERRUPTED if asyncio.run(serving) else 0
    report = check_report(definition)
    print_json(report) if as_json(context) else _print_flow(definition)
    return 0


def _print_flow(definition: FlowDefinition) -> None:
    out = console()
    table = plain_table("processor", "type", "replicas", "concurrency")
    for one in definition.processors:
        table.add_values(one.name, one.type, one.replicas, one.concurrency)
    out.print(f"flow [bold]{definition.name}[/]: {definition.description}", soft_wrap=True)
    out.print(table)
    for interface in definition.interfaces:
        out.print(f"  {interface.name}: {interface.request or interface.topic}", soft_wrap=True)

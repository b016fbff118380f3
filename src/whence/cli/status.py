"""`whence status`: what is stored, what waits on the broker, and who is at work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from whence.broker.connect import in_process
from whence.cli.collections import table_of
from whence.cli.output import console, note, plain_table, print_json, size
from whence.cli.session import as_json, settings_of, start_logging

if TYPE_CHECKING:
    from whence.flow.settings import Settings
    from whence.flow.status import FlowStatus, TopicStatus
    from whence.store.protocols import CollectionInfo, Store, StoreOverview

__all__ = ("status",)

_NO_BROKER = (
    "without a broker (memory://) a flow runs inside the command that uses it: no other can see it, and what it"
    " gives up is that command's error, not a dead letter"
)


def status(
    context: typer.Context,
    flow: Annotated[str, typer.Option(help="The flow to look at.")] = "all-in-one",
) -> int:
    """Show what is stored; with a broker also its backlog and the processors at work."""
    import asyncio

    start_logging()
    settings = settings_of(context)
    document, store, fleet = asyncio.run(_look(settings, flow))
    if as_json(context):
        print_json(document)
        return 0
    _tell_store(*store)
    if fleet is None:
        _tell_no_fleet()
    else:
        _tell_fleet(fleet)
    return 0


async def _look(
    settings: Settings, flow: str
) -> tuple[dict[str, Any], tuple[StoreOverview, list[CollectionInfo]], FlowStatus | None]:
    """Give everything as one document, and its parts for people."""
    fleet = None if in_process(settings.broker) else await _fleet(settings, flow)
    overview, collections = await _store(settings)
    document: dict[str, Any] = {
        "store": {
            "collections": len(collections),
            "documents": sum(one.documents for one in collections),
            "chunks": sum(one.chunks for one in collections),
            **{name: getattr(overview, name) for name in overview.__struct_fields__},
        },
        "broker": {"url": "memory://" if fleet is None else fleet.broker},
        "flow": flow if fleet is None else fleet.flow,
        "topics": [] if fleet is None else fleet.topics,
        "processors": [] if fleet is None else fleet.processors,
        "notes": [_NO_BROKER] if fleet is None else fleet.notes,
    }
    return document, (overview, collections), fleet


async def _fleet(settings: Settings, flow: str) -> FlowStatus:
    from whence.broker.connect import connect
    from whence.flow.builtin_flows import find_flow
    from whence.flow.loader import load_flow
    from whence.flow.status import flow_status

    definition = load_flow(find_flow(flow))
    transport = await connect(settings.broker)
    try:
        return await flow_status(definition, transport)
    finally:
        await transport.aclose()


async def _store(settings: Settings) -> tuple[StoreOverview, list[CollectionInfo]]:
    from whence.flow.resources import Resources

    async with Resources(settings) as resources:
        store: Store = await resources.get("store")
        return await store.overview(), await store.collections()


def _tell_store(overview: StoreOverview, collections: list[CollectionInfo]) -> None:
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    pgvector = f", pgvector {overview.pgvector}" if overview.pgvector else ""
    table.add_row("database", f"{overview.server}{pgvector}, {size(overview.bytes)}")
    parts = sorted(overview.parts.items(), key=lambda part: -part[1])
    # A name and its size stay on one line.
    sizes = (f"{name} {size(count)}".replace(" ", "\N{NO-BREAK SPACE}") for name, count in parts)
    table.add_row("of that", ", ".join(sizes))
    table.add_row(
        "documents", f"{sum(c.documents for c in collections)}{_when(overview.stored_at)}"
    )
    table.add_row("questions", f"{overview.questions}{_when(overview.asked_at)}")
    table.add_row("snapshots", str(overview.snapshots))
    console().print(table)
    if collections:
        console().print()
        console().print(table_of(collections))
    else:
        note("nothing is indexed yet: whence index PATH")


def _when(moment: str) -> str:
    return f", the last {moment[:16].replace('T', ' ')} UTC" if moment else ""


def _tell_no_fleet() -> None:
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_row(
        "running flows", "not known here: without a broker a flow runs inside its command"
    )
    table.add_row("dead letters", "none kept: what is given up is the error of its command")
    table.add_row("", "with a fleet: whence status --broker pulsar://HOST:PORT")
    console().print()
    console().print(table)


def _tell_fleet(fleet: FlowStatus) -> None:
    out = console()
    out.print()
    out.print(f"flow [bold]{fleet.flow}[/] on {fleet.broker}", soft_wrap=True)
    numbers = ("workers", "handled", "failed", "backlog", "held", "oldest", "dead")
    table = plain_table("processor", *(f">{name}" for name in numbers))
    for one in fleet.topics:
        table.add_row(*_row(one, fleet))
    out.print(table)
    for line in fleet.notes:
        note(f"note: {line}")


def _row(one: TopicStatus, fleet: FlowStatus) -> tuple[str, ...]:
    mine = [report for report in fleet.processors if report.group == one.group]
    age = "-" if one.oldest_age_s is None else f"{one.oldest_age_s:.1f} s"
    counts = (one.backlog, one.in_flight)
    return (
        one.group,
        str(one.workers),
        str(sum(report.handled for report in mine)),
        str(sum(report.failed for report in mine)),
        *("-" if count is None else str(count) for count in counts),
        age,
        "-" if one.dead_letters is None else str(one.dead_letters),
    )

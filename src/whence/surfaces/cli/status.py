"""`whence status` and `collections`: what is stored, backlog and processors."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
import typer
from msgspec.structs import replace

from whence.broker.connect import in_process
from whence.operations.collection_removal import PreviewCollectionRemoval, RemoveCollection
from whence.operations.collection_renaming import RenameCollection
from whence.operations.watch import WatchState, watch_states
from whence.schema.errors import BadInput
from whence.surfaces.cli.options import ChosenBy, ReaderAccess
from whence.surfaces.cli.output import (
    console,
    counted,
    facts_table,
    note,
    plain_table,
    print_json,
    progress,
    size,
)
from whence.surfaces.cli.session import (
    as_json,
    run_operation,
    run_with_engine,
    settings_of,
    start_logging,
)

if TYPE_CHECKING:
    from whence.flow.settings import Settings
    from whence.flow.status import FlowStatus
    from whence.schema.access import Access
    from whence.schema.search import Calibration
    from whence.store.protocols import CollectionInfo, Store, StoreOverview
    from whence.store.trace_body import AnswerSources
    from whence.surfaces.cli.tables import PlainTable

_NO_BROKER = (
    "without a broker (memory://) each command runs its own flow: its processors are not visible here, and a"
    " failed message is an error of the command, not a dead letter"
)
_NO_FLEET = {
    "running flows": "not shown: without a broker each command runs its own flow",
    "dead letters": "none: a failed message is an error of its command",
    "with a fleet": "whence status --broker pulsar://HOST:PORT",
}


def status(
    context: typer.Context,
    access: ReaderAccess,
    flow: Annotated[str, typer.Option(help="Flow whose processors to show.")] = "all-in-one",
) -> int:
    """Show what is stored, what scores mean there, and with a broker its backlog and running processors."""
    import asyncio

    start_logging()
    settings = settings_of(context)

    async def collect() -> tuple[FlowStatus | None, _Stored]:
        fleet = None if in_process(settings.broker) else await _fleet(settings, flow)
        return fleet, await _store(settings, access)

    fleet, (overview, collections, calibrations, use) = asyncio.run(collect())
    watches = watch_states(Path(settings.home).expanduser())
    if as_json(context):
        stored = {
            "collections": len(collections),
            "documents": sum(one.documents for one in collections),
            "chunks": sum(one.chunks for one in collections),
            "waiting": sum(one.pending for one in collections),
        }
        running = {
            "broker": {"url": "memory://" if fleet is None else fleet.broker},
            "flow": flow if fleet is None else fleet.flow,
            "topics": [] if fleet is None else fleet.topics,
            "processors": [] if fleet is None else fleet.processors,
            "notes": [_NO_BROKER] if fleet is None else fleet.notes,
        }
        stored |= msgspec.structs.asdict(overview)
        known = {"store": stored, "calibration": calibrations, "language_models": use}
        print_json({**known, "watches": watches, **running})
        return 0
    _print_store(overview, collections, calibrations, use)
    _print_watches(watches)
    _print_fleet(fleet)
    return 0


def _print_watches(watches: Sequence[WatchState]) -> None:
    if not watches:
        return
    table = plain_table("watched for", "folder", "state", "last equal", ">changes")
    for one in watches:
        state = one.fault or ("watching" if one.is_running else "ended")
        synced = (one.synced_at or "never")[:16].replace("T", " ")
        table.add_values(one.collection, ", ".join(one.paths), state, synced, one.changes)
    console().print(table)


async def _fleet(settings: Settings, flow: str) -> FlowStatus:
    from whence.broker.connect import connect
    from whence.flow.loader import load_flow
    from whence.flow.status import flow_status

    definition = load_flow(flow)
    transport = await connect(settings.broker)
    try:
        return await flow_status(definition, transport)
    finally:
        await transport.aclose()


class LanguageModelUse(msgspec.Struct, frozen=True, kw_only=True):
    """What language models did in the last 24 hours, for answers that the reader may see."""

    answers: int
    in_token: int
    out_token: int
    costs: dict[str, float]
    """By currency, of the answers whose cost is known."""


class _Stored(NamedTuple):
    overview: StoreOverview
    collections: list[CollectionInfo]
    calibrations: dict[str, Calibration]
    """By collection, as far as the reader sees it."""
    use: LanguageModelUse


async def _store(settings: Settings, access: Access) -> _Stored:
    from whence.flow.resources import Resources
    from whence.retrieval.calibration import calibrate

    async with Resources(settings) as resources:
        store: Store = await resources.get("store")
        calibrations = {
            one.name: calibrate(one.model, await store.vector_statistics(one.name, access))
            for one in await store.visible_collections(access)
        }
        since = datetime.now(UTC) - timedelta(days=1)
        # An answer over several collections is one of each.
        answers = {
            one.answer_id: one
            for name in calibrations
            for one in await store.answer_sources(name, access, since)
        }
        use = _use(answers.values())
        return _Stored(await store.overview(), await store.collections(), calibrations, use)


def _use(answers: Iterable[AnswerSources]) -> LanguageModelUse:
    """Return what language models did for answers; one without a price adds no cost."""
    written = [one for one in answers if one.in_token is not None or one.out_token is not None]
    costs: dict[str, float] = {}
    for one in written:
        if one.cost is not None:
            costs[one.currency] = costs.get(one.currency, 0.0) + one.cost
    return LanguageModelUse(
        answers=len(written),
        in_token=sum(one.in_token or 0 for one in written),
        out_token=sum(one.out_token or 0 for one in written),
        costs=costs,
    )


def _print_store(
    overview: StoreOverview,
    collections: list[CollectionInfo],
    calibrations: dict[str, Calibration],
    use: LanguageModelUse,
) -> None:
    pgvector = f", pgvector {overview.pgvector}" if overview.pgvector else ""
    parts = sorted(overview.parts.items(), key=lambda part: -part[1])
    # No line break between a name and its size.
    sizes = (f"{name} {size(count)}".replace(" ", "\N{NO-BREAK SPACE}") for name, count in parts)
    documents = sum(one.documents for one in collections)
    facts = {
        "database": f"{overview.server}{pgvector}, {size(overview.bytes)}",
        "by part": ", ".join(sizes),
        "documents": f"{documents:,}{_when(overview.stored_at)}",
        "without vectors": _waiting(collections),
        "questions": f"{overview.questions:,}{_when(overview.asked_at)}",
        "snapshots": overview.snapshots,
        "language models": _use_text(use),
    }
    console().print(facts_table(facts))
    if collections:
        console().print()
        console().print(collections_table(collections))
        console().print()
        console().print(_calibration_table(calibrations))
    else:
        note("nothing is indexed yet: run whence index PATH")


def _use_text(use: LanguageModelUse) -> str:
    """Return tokens and cost of the last day on one line; empty without any."""
    if not use.answers:
        return ""
    read = f"{use.in_token:,} tokens read, {use.out_token:,} written"
    costs = [f"{cost:.4f} {currency}".rstrip() for currency, cost in sorted(use.costs.items())]
    return ", ".join([f"{read} for {use.answers:,} answers in 24 hours", *costs])


def _calibration_table(calibrations: dict[str, Calibration]) -> PlainTable:
    columns = ("encoder", "language", ">passages", ">unrelated", ">related", ">weight")
    table = plain_table("cosines of", *columns)
    for name, one in calibrations.items():
        cosines = (
            "" if value is None else f"{value:.2f}" for value in (one.unrelated, one.related)
        )
        weight = f"{one.dense_weight:.2f}"
        table.add_values(name, one.encoder, one.language, one.passages, *cosines, weight)
    return table


def _waiting(collections: list[CollectionInfo]) -> str:
    """Return how many passages wait for vectors; empty for none."""
    waiting = sum(one.pending for one in collections)
    passages = sum(one.chunks for one in collections)
    return f"{waiting:,} of {passages:,} passages" if waiting else ""


def _when(moment: str) -> str:
    return f", the last {moment[:16].replace('T', ' ')} UTC" if moment else ""


def _print_fleet(fleet: FlowStatus | None) -> None:
    out = console()
    out.print()
    if fleet is None:
        out.print(facts_table(_NO_FLEET))
        return
    out.print(f"flow [bold]{fleet.flow}[/] on {fleet.broker}", soft_wrap=True)
    numbers = ("workers", "handled", "failed", "backlog", "in flight", "oldest", "dead")
    table = plain_table("processor", *(f">{name}" for name in numbers))
    for one in fleet.topics:
        mine = [report for report in fleet.processors if report.group == one.group]
        cells = (
            one.workers,
            sum(report.handled for report in mine),
            sum(report.failed for report in mine),
            one.backlog,
            one.in_flight,
            None if one.oldest_age_s is None else f"{one.oldest_age_s:.1f} s",
            one.dead_letters,
        )
        table.add_values(one.group, *cells)
    out.print(table)
    for line in fleet.notes:
        note(f"note: {line}")


def collections(
    context: typer.Context,
    *,
    rename: Annotated[RenameCollection | None, ChosenBy("--rename")] = None,
    remove: Annotated[RemoveCollection | None, ChosenBy("--remove")] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove without asking.", show_default=False)
    ] = False,
) -> int:
    """List the collections with their counts, sizes, models and last changes.

    `--remove` erases all documents of a collection, as `whence erase` does, and forgets its folders. It shows
    what stands on the collection and asks before; without a terminal it needs `--yes`. Exit 1 when words of it
    are left, such as in the files of a database of your own. `--rename` changes the name alone, everywhere at
    once; stop a `whence watch` of the collection before.
    """
    if rename is not None and remove is not None:
        raise BadInput("--rename and --remove are given", hint="give one of the two")
    if rename is not None:
        done = run_operation(context, rename, reads=f"collection {rename.name!r}")
        if as_json(context):
            print_json(done)
        else:
            what = f"{counted(done.documents, 'document')}, {counted(done.traces, 'answer')}"
            console().print(
                f"collection {done.former} is {done.collection} now: {what}", markup=False
            )
        return 0
    if remove is not None:
        return _remove(context, remove, agreed=yes)
    found = run_with_engine(context, lambda engine, _: engine.collections())
    if as_json(context):
        print_json({"collections": found})
    elif found:
        console().print(collections_table(found))
    else:
        console().print("no collections yet: `whence index FOLDER` creates the first")
    return 0


def _remove(context: typer.Context, asked: RemoveCollection, *, agreed: bool) -> int:
    name = asked.name
    reads = f"collection {name!r}"
    if not agreed:
        found = run_operation(context, PreviewCollectionRemoval(name), reads=reads)
        note(
            f"collection {name!r}: {counted(found.documents, 'document')},"
            f" {counted(found.chunks, 'passage')}; words of it are in {counted(found.answers, 'answer')}"
        )
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise BadInput(f"collection {name!r} was not removed", hint="add --yes to remove it")
        if not typer.confirm("Remove it?", err=True):
            return 1
    with progress("erasing") as moved:
        done = run_operation(context, replace(asked, progress=moved), reads=reads)
    if as_json(context):
        print_json(done)
    else:
        what = f"{counted(done.documents, 'document')} and {counted(done.chunks, 'passage')}"
        console().print(f"removed collection {name}: {what}", markup=False, soft_wrap=True)
        if done.physical.hint:
            note(f"hint: {done.physical.hint}")
    return 0 if done.physical.done else 1


def collections_table(found: list[CollectionInfo]) -> PlainTable:
    """Return collections as a table."""
    table = plain_table("collection", ">documents", ">chunks", ">size", "model", "changed")
    for one in found:
        model = f"{one.model.name} {one.model.precision}".strip()
        changed = one.changed_at[:16].replace("T", " ")
        taken = f"~{size(one.bytes)}" if one.bytes else ""
        table.add_values(one.name, one.documents, one.chunks, taken, model, changed)
    return table

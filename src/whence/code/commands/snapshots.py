"""`whence import` and `whence snapshots`: import bundles of code; list and change snapshots and sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from msgspec.structs import replace
from rich.markup import escape

from whence.code.operations import (
    ImportBundles,
    ListSnapshots,
    MakeSet,
    PurgeSnapshot,
    RemoveSet,
    SetActive,
)
from whence.operations.json_documents import select_fields
from whence.surfaces.cli.output import console, note, note_some, plain_table, print_json, progress
from whence.surfaces.cli.session import as_json, run_operation, run_with_engine

if TYPE_CHECKING:
    from whence.code.snapshots.protocols import ImportResult, SnapshotList, SnapshotRecord
    from whence.flow.settings import Settings
    from whence.operations.operation import Operation
    from whence.schema.code import KindCounts
    from whence.surfaces.python.engine import Engine


def snapshots(context: typer.Context) -> int:
    """List snapshots of code, newest first, and sets; subcommands change them."""
    if context.invoked_subcommand is not None:
        return 0
    return _show(context, None)


def activate(context: typer.Context, asked: SetActive) -> int:
    """Make a deactivated set or snapshot readable again."""
    return _show(context, asked)


def deactivate(context: typer.Context, asked: SetActive) -> int:
    """Make a set or a snapshot unreadable without deleting it."""
    return _show(context, replace(asked, active=False))


def remove(context: typer.Context, asked: RemoveSet) -> int:
    """Remove a set; its snapshots stay."""
    return _show(context, asked)


def purge(context: typer.Context, asked: PurgeSnapshot) -> int:
    """Delete a snapshot: its nodes, texts and edges, and its memberships in sets."""
    return _show(context, asked)


def make_set(context: typer.Context, asked: MakeSet) -> int:
    """Make a set of imported snapshots."""
    return _show(context, asked)


def _show(context: typer.Context, change: Operation[Any] | None) -> int:
    """Print all snapshots and sets, after a change if there is one."""

    async def session(engine: Engine, _: Settings) -> SnapshotList:
        if change is not None:
            await engine.run(change)
        return await engine.run(ListSnapshots())

    overview = run_with_engine(context, session)
    if not as_json(context):
        _print_overview(overview)
        return 0
    snapshots = [
        select_fields(one, ("refs", "published_at", "digest"))
        | select_fields(one.info, ("snapshot_id", "repo", "branch", "head_sha"))
        | {"status": _status(one), "nodes": _counts(one.nodes), "edges": _counts(one.edges)}
        for one in overview.snapshots
    ]
    print_json({"snapshots": snapshots, "sets": overview.sets})
    return 0


def _status(record: SnapshotRecord) -> str:
    return "published" if record.active else "inactive"


def _counts(counts: KindCounts) -> dict[str, int]:
    return select_fields(counts, ("cs", "sql"))


def _print_overview(overview: SnapshotList) -> None:
    if not overview.snapshots:
        note("no snapshots: whence import BUNDLE creates one")
        return
    table = plain_table("repository", "refs", "snapshot", "status", ">nodes", ">edges")
    for one in overview.snapshots:
        table.add_values(
            one.info.repo,
            ", ".join(one.refs),
            one.info.snapshot_id,
            _status(one),
            one.nodes.total,
            one.edges.total,
        )
    out = console()
    out.print(table)
    for made in overview.sets:
        refs = escape(", ".join(member.ref for member in made.members))
        state = "" if made.active else " [dim](inactive)[/]"
        out.print(f"set [bold]{escape(made.name)}[/]{state}: {refs}")


#: Warnings printed as text; JSON lists all.
_MAX_WARNINGS = 10


def import_bundles(context: typer.Context, asked: ImportBundles) -> int:
    """Import bundles of code in one transaction: all of them or none."""
    with progress("importing") as moved:
        result = run_operation(context, replace(asked, progress=moved))
    print_json(result) if as_json(context) else _print_import(result)
    return 0


def _print_import(result: ImportResult) -> None:
    table = plain_table("repository", "branch", "snapshot", ">nodes", ">edges", ">embedded")
    for one in result.imports:
        table.add_values(
            one.repo,
            one.branch,
            one.snapshot_id,
            sum(one.nodes.values()),
            sum(one.edges.values()),
            "unchanged" if one.unchanged else one.embedded,
        )
    out = console()
    out.print(table)
    if result.set:
        refs = ", ".join(member.ref for member in result.set.members)
        out.print(f"set [bold]{escape(result.set.name)}[/]: {escape(refs)}")
    out.print(f"{result.seconds:.1f} s")
    warnings = [warning.message for one in result.imports for warning in one.warnings]
    note_some("warning", warnings, _MAX_WARNINGS)

"""`whence snapshots`: imported snapshots of code, and sets of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from whence.cli.output import console, id_table, note, print_json
from whence.cli.session import as_json, run_with_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from whence.engine.engine import Engine
    from whence.engine.results import SnapshotOverview
    from whence.schema.code import KindCounts
    from whence.store.snapshot_protocols import SnapshotRecord

_EITHER = Annotated[
    str, typer.Argument(help="Name of a set; or id, head sha, branch or tag of a snapshot.")
]


def snapshots(context: typer.Context) -> int:
    """List snapshots of code, newest first, and sets; subcommands change them."""
    if context.invoked_subcommand is not None:
        return 0
    overview = run_with_engine(context, lambda engine, _settings: engine.code.overview())
    print_json(_document(overview)) if as_json(context) else _print_overview(overview)
    return 0


def activate(context: typer.Context, name: _EITHER) -> int:
    """Make a deactivated set or snapshot readable again."""
    return _change(context, lambda engine: engine.code.set_active(name, True))


def deactivate(context: typer.Context, name: _EITHER) -> int:
    """Make a set or a snapshot unreadable without deleting it."""
    return _change(context, lambda engine: engine.code.set_active(name, False))


def remove(
    context: typer.Context, name: Annotated[str, typer.Argument(help="Name of the set.")]
) -> int:
    """Remove a set; its snapshots stay."""
    return _change(context, lambda engine: engine.code.remove_set(name))


def purge(
    context: typer.Context,
    snapshot: Annotated[str, typer.Argument(help="Id, head sha, branch or tag of the snapshot.")],
) -> int:
    """Delete a snapshot: its nodes, texts and edges, and its memberships in sets."""
    return _change(context, lambda engine: engine.code.purge(snapshot))


def make_set(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the set.")],
    snapshot: Annotated[
        list[str], typer.Argument(help="Ids, head shas, branches or tags; the first is primary.")
    ],
) -> int:
    """Make a set of imported snapshots."""
    return _change(context, lambda engine: engine.code.make_set(name, snapshot))


def _change(context: typer.Context, work: Callable[[Engine], Coroutine[Any, Any, Any]]) -> int:
    """Make a change and print the new overview."""

    async def session(engine: Engine) -> SnapshotOverview:
        await work(engine)
        return await engine.code.overview()

    overview = run_with_engine(context, lambda engine, _settings: session(engine))
    print_json(_document(overview)) if as_json(context) else _print_overview(overview)
    return 0


def _document(overview: SnapshotOverview) -> dict[str, Any]:
    return {
        "snapshots": [
            {
                "snapshot_id": one.info.snapshot_id,
                "repo": one.info.repo,
                "branch": one.info.branch,
                "head_sha": one.info.head_sha,
                "refs": one.refs,
                "status": _status(one),
                "nodes": _counts(one.nodes),
                "edges": _counts(one.edges),
                "published_at": one.published_at,
                "digest": one.digest,
            }
            for one in overview.snapshots
        ],
        "sets": overview.sets,
    }


def _status(record: SnapshotRecord) -> str:
    return "published" if record.active else "inactive"


def _counts(counts: KindCounts) -> dict[str, int]:
    return {"cs": counts.cs, "sql": counts.sql}


def _print_overview(overview: SnapshotOverview) -> None:
    from rich.markup import escape

    if not overview.snapshots:
        note("no snapshots: whence import BUNDLE creates one")
        return
    table = id_table("repository", "refs", "snapshot", "status", ">nodes", ">edges")
    for one in overview.snapshots:
        table.add_row(
            escape(one.info.repo),
            escape(", ".join(one.refs)),
            one.info.snapshot_id,
            _status(one),
            str(one.nodes.total),
            str(one.edges.total),
        )
    out = console()
    out.print(table)
    for made in overview.sets:
        refs = escape(", ".join(member.ref for member in made.members))
        state = "" if made.active else " [dim](inactive)[/]"
        out.print(f"set [bold]{escape(made.name)}[/]{state}: {refs}")

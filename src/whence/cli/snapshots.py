"""`whence snapshots`: what was imported of code, and the sets it is in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from whence.cli.output import console, note, print_json
from whence.cli.session import as_json, run_with_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from whence.engine.engine import Engine
    from whence.engine.results import SnapshotOverview
    from whence.schema.code import KindCounts
    from whence.store.snapshot_protocols import SnapshotRecord

__all__ = ("activate", "deactivate", "make_set", "purge", "remove", "snapshots")

_EITHER = Annotated[
    str, typer.Argument(help="A set, or a snapshot by id, head sha, branch or tag.")
]


def snapshots(context: typer.Context) -> int:
    """List snapshots and sets of code, newest first; subcommands change them."""
    if context.invoked_subcommand is not None:
        return 0
    overview = run_with_engine(context, lambda engine, _settings: engine.code.overview())
    if as_json(context):
        print_json(_document(overview))
    else:
        _tell(overview)
    return 0


def activate(context: typer.Context, name: _EITHER) -> int:
    """Switch a set or a snapshot on again."""
    return _change(context, lambda engine: engine.code.set_active(name, True))


def deactivate(context: typer.Context, name: _EITHER) -> int:
    """Switch a set or a snapshot off: it stays, and nothing can be read through it."""
    return _change(context, lambda engine: engine.code.set_active(name, False))


def remove(
    context: typer.Context, name: Annotated[str, typer.Argument(help="Name of the set.")]
) -> int:
    """Forget a set; its snapshots stay."""
    return _change(context, lambda engine: engine.code.remove_set(name))


def purge(
    context: typer.Context,
    snapshot: Annotated[str, typer.Argument(help="Id, head sha, branch or tag of the snapshot.")],
) -> int:
    """Delete a snapshot for good: nodes, texts, edges, and its place in sets."""
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
    """Do something and show what there is after it."""

    async def session(engine: Engine) -> SnapshotOverview:
        await work(engine)
        return await engine.code.overview()

    overview = run_with_engine(context, lambda engine, _settings: session(engine))
    if as_json(context):
        print_json(_document(overview))
    else:
        _tell(overview)
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


def _tell(overview: SnapshotOverview) -> None:
    from rich.markup import escape
    from rich.table import Table

    if not overview.snapshots:
        note("no snapshots: import a bundle with whence import")
        return
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("repository", "refs"):
        table.add_column(name, overflow="fold")
    # An id is there to be copied.
    table.add_column("snapshot", no_wrap=True, min_width=36)
    table.add_column("status")
    for name in ("nodes", "edges"):
        table.add_column(name, justify="right")
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

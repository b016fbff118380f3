"""`whence expand`: what pieces of code depend on, and what depends on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from whence.cli.options import Acl, Clearance, Label
from whence.cli.output import console, note, print_json
from whence.cli.session import access_of, as_json, run_with_engine
from whence.cli.snapshot_options import SetName, Snapshot, SnapshotOrigin, required_snapshot

if TYPE_CHECKING:
    from whence.schema.graph import ExpandResponse

__all__ = ("expand", "expand_document")


def expand(
    context: typer.Context,
    nodes: Annotated[
        list[str], typer.Argument(metavar="NODE...", help="Canonical or local ids to start from.")
    ],
    snapshot: Snapshot = None,
    set_name: SetName = None,
    snapshot_source: SnapshotOrigin = None,
    max_depth: Annotated[int, typer.Option(help="Most steps from a seed.")] = 2,
    max_nodes: Annotated[int, typer.Option(help="Most nodes, seeds included.")] = 120,
    relation: Annotated[
        list[str] | None,
        typer.Option(metavar="R", help="Relation to follow, e.g. ReadsFrom; repeat for more."),
    ] = None,
    direction: Annotated[str, typer.Option(help="out, in or both.")] = "out",
    seed_only: Annotated[
        bool, typer.Option("--seed-only", help="Expand nothing but the seeds.")
    ] = False,
    acl: Acl = None,
    label: Label = None,
    clearance: Clearance = 0,
) -> int:
    """Show the dependencies around nodes of code, among those you may see."""
    chosen = required_snapshot(snapshot, set_name, snapshot_source)
    access = access_of(acl, label, clearance)
    reply = run_with_engine(
        context,
        lambda engine, _settings: engine.code.expand(
            nodes,
            snapshot=chosen,
            max_depth=max_depth,
            max_nodes=max_nodes,
            relations=relation or (),
            direction=direction,
            seed_only=seed_only,
            access=access,
        ),
    )
    if as_json(context):
        print_json(expand_document(reply))
    else:
        _tell(reply)
    return 0


def expand_document(reply: ExpandResponse) -> dict[str, Any]:
    """Give the JSON form of an expansion."""
    return {
        "snapshot_id": reply.snapshot_id,
        "seeds": reply.seeds,
        "nodes": [
            {
                "id": node.id,
                "local_id": node.local_id,
                "depth": node.depth,
                "parent_id": node.parent_id,
            }
            for node in reply.nodes
        ],
        "edges": [
            {
                "from_id": edge.from_id,
                "to_id": edge.to_id,
                "relation": edge.relation,
                "stored_relation": edge.stored_relation,
            }
            for edge in reply.edges
        ],
        "truncated": reply.truncated,
        "reason": reply.reason,
    }


def _tell(reply: ExpandResponse) -> None:
    from rich.markup import escape

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
        note(f"note: cut at {len(reply.nodes)} nodes; there are more (--max-nodes)")

"""Snapshots and sets in PostgreSQL: found by any of their names, switched on and off, removed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from whence.schema.code import KindCounts, SnapshotInfo
from whence.schema.errors import BadInput, NotFound
from whence.store.postgres.driver import Connection
from whence.store.postgres.snapshots.removal import discard
from whence.store.snapshot_documents import check_set_name, missing_set, missing_snapshot
from whence.store.snapshot_protocols import SetMember, SnapshotRecord, SnapshotSet, SnapshotSource
from whence.store.validation import is_text

__all__ = (
    "find_published",
    "hide",
    "list_sets",
    "list_snapshots",
    "make_set",
    "purge_snapshot",
    "remove_set",
    "resolve_set",
    "resolve_snapshot",
    "set_active",
    "write_set",
)

_RECORD = (
    "SELECT s.snapshot_id, s.repo, s.branch, s.head_sha, s.generated_at, s.digest, s.nodes_cs,"
    " s.nodes_sql, s.edges_cs, s.edges_sql, s.active, s.published_at, c.name AS collection,"
    " ARRAY(SELECT r.ref FROM code_ref r WHERE r.snapshot_id = s.snapshot_id ORDER BY r.ref) AS refs"
    " FROM code_snapshot s JOIN collection c ON c.id = s.collection_id"
)
_NAMED = (
    "s.snapshot_id IN (SELECT x.snapshot_id FROM code_snapshot x"
    " WHERE x.snapshot_id = $1 OR x.head_sha = $1"
    " UNION ALL SELECT r.snapshot_id FROM code_ref r WHERE r.ref = $1)"
)
_SET = (
    "SELECT t.name, t.repo, t.active, m.ref, m.snapshot_id FROM code_set t"
    " LEFT JOIN code_set_member m ON m.set_name = t.name"
)


def _record(row: Any) -> SnapshotRecord:
    return SnapshotRecord(
        info=SnapshotInfo(
            snapshot_id=row["snapshot_id"],
            repo=row["repo"],
            branch=row["branch"],
            head_sha=row["head_sha"],
            generated_at=row["generated_at"],
        ),
        collection=row["collection"],
        digest=row["digest"],
        nodes=KindCounts(cs=row["nodes_cs"], sql=row["nodes_sql"]),
        edges=KindCounts(cs=row["edges_cs"], sql=row["edges_sql"]),
        refs=tuple(row["refs"]),
        active=row["active"],
        published_at=row["published_at"].astimezone(UTC).isoformat(),
    )


async def list_snapshots(connection: Connection) -> list[SnapshotRecord]:
    """Return all published snapshots, newest first."""
    rows = await connection.fetch(f"{_RECORD} ORDER BY s.published DESC")
    return [_record(row) for row in rows]


async def find_published(
    connection: Connection, snapshot_ids: Sequence[str]
) -> dict[str, SnapshotRecord]:
    """Return those of these snapshots that are published, active or not, by id."""
    rows = await connection.fetch(
        f"{_RECORD} WHERE s.snapshot_id = ANY($1::text[])", list(snapshot_ids)
    )
    return {row["snapshot_id"]: _record(row) for row in rows}


async def list_sets(connection: Connection) -> list[SnapshotSet]:
    """Return all sets by name."""
    return _sets(await connection.fetch(f"{_SET} ORDER BY t.name, m.place"))


def _sets(rows: Sequence[Any]) -> list[SnapshotSet]:
    members: dict[tuple[str, str, bool], list[SetMember]] = {}
    for row in rows:
        found = members.setdefault((row["name"], row["repo"], row["active"]), [])
        if row["snapshot_id"] is not None:
            found.append(SetMember(ref=row["ref"], snapshot_id=row["snapshot_id"]))
    return [
        SnapshotSet(name=name, repo=repo, active=active, members=tuple(found))
        for (name, repo, active), found in members.items()
    ]


async def resolve_snapshot(connection: Connection, reference: str, within: str) -> SnapshotRecord:
    """Return the newest active snapshot of that name.

    Raises:
        NotFound: There is none, or no such set that is active.
    """
    if not is_text(reference):
        raise missing_snapshot(reference)
    members: list[str] | None = None
    if within:
        members = [one.snapshot_id for one in await _active_members(connection, within)]
    row = await connection.fetchrow(
        f"{_RECORD} WHERE s.active AND {_NAMED} AND ($2::text[] IS NULL OR s.snapshot_id = ANY($2))"
        " ORDER BY s.published DESC LIMIT 1",
        reference,
        members,
    )
    if row is None:
        raise missing_snapshot(reference)
    return _record(row)


async def resolve_set(connection: Connection, name: str, source: SnapshotSource) -> SnapshotRecord:
    """Return the first or the second snapshot of a set.

    Raises:
        NotFound: There is no such set, it or the snapshot is not active, or it has no second one.
    """
    members = await _active_members(connection, name)
    place = 0 if source == "primary" else 1
    if place >= len(members):
        raise NotFound(
            f"set {name!r} has no {source} snapshot", hint="import two bundles with --set"
        )
    snapshot_id = members[place].snapshot_id
    found = (await find_published(connection, [snapshot_id])).get(snapshot_id)
    if found is None or not found.active:
        raise missing_snapshot(snapshot_id)
    return found


async def _active_members(connection: Connection, name: str) -> tuple[SetMember, ...]:
    if not is_text(name):
        raise missing_set(name)
    found = _sets(await connection.fetch(f"{_SET} WHERE t.name = $1 ORDER BY m.place", name))
    if not found or not found[0].active:
        raise missing_set(name)
    return found[0].members


async def make_set(
    connection: Connection, name: str, references: Sequence[str], now: datetime
) -> SnapshotSet:
    """Make a set of published snapshots.

    Raises:
        NotFound: A reference stands for no active snapshot.
        BadInput: The name cannot be, or the snapshots are none or not of one repository.
    """
    async with connection.transaction():
        found = [await resolve_snapshot(connection, one, "") for one in references]
        members = [
            SetMember(ref=reference, snapshot_id=one.info.snapshot_id)
            for reference, one in zip(references, found, strict=True)
        ]
        return await write_set(connection, name, [one.info.repo for one in found], members, now)


async def write_set(
    connection: Connection,
    name: str,
    repos: Sequence[str],
    members: Sequence[SetMember],
    now: datetime,
) -> SnapshotSet:
    """Write a set in the place of any of that name, inside the caller's transaction; it is active.

    Args:
        connection: Inside a transaction.
        name: Its name.
        repos: Repository of each member.
        members: In their order.
        now: When.

    Raises:
        BadInput: The name cannot be, or the snapshots are none, given twice or not of one repository.
    """
    check_set_name(name)
    if not members or len(set(repos)) != 1:
        shown = ", ".join(sorted(set(repos))) or "none"
        raise BadInput(f"a set holds snapshots of one repository, not of {shown}")
    if len({one.snapshot_id for one in members}) < len(members):
        raise BadInput(f"set {name!r} would hold one snapshot twice")
    await connection.execute(
        "INSERT INTO code_set (name, repo, updated_at) VALUES ($1, $2, $3)"
        " ON CONFLICT (name) DO UPDATE SET repo = $2, updated_at = $3, active = true",
        name,
        repos[0],
        now,
    )
    await connection.execute("DELETE FROM code_set_member WHERE set_name = $1", name)
    await connection.executemany(
        "INSERT INTO code_set_member (set_name, place, ref, snapshot_id) VALUES ($1, $2, $3, $4)",
        [(name, place, one.ref, one.snapshot_id) for place, one in enumerate(members)],
    )
    return SnapshotSet(name=name, repo=repos[0], members=tuple(members), active=True)


async def set_active(connection: Connection, name: str, active: bool) -> None:
    """Switch a set, or else a snapshot by its id, on or off.

    Raises:
        NotFound: There is neither.
    """
    if is_text(name):
        for statement in (
            "UPDATE code_set SET active = $2 WHERE name = $1",
            "UPDATE code_snapshot SET active = $2 WHERE snapshot_id = $1",
        ):
            if await connection.execute(statement, name, active) != "UPDATE 0":
                return
    raise NotFound(f"there is no set or snapshot {name!r}", hint="see whence snapshots")


async def remove_set(connection: Connection, name: str) -> None:
    """Forget a set; its snapshots stay.

    Raises:
        NotFound: There is none.
    """
    gone = await connection.execute("DELETE FROM code_set WHERE name = $1", name)
    if gone == "DELETE 0":
        raise NotFound(f"there is no set {name!r}", hint="see whence snapshots")


async def purge_snapshot(connection: Connection, snapshot_id: str, timeout_s: float) -> None:
    """Delete a snapshot with everything of it; a set left empty goes with it.

    It is out of reach as soon as the first, short transaction ends; the rows are deleted after that.

    Raises:
        NotFound: There is none.
    """
    if not is_text(snapshot_id):
        raise missing_snapshot(snapshot_id)
    async with connection.transaction():
        collection_id = await connection.fetchval(
            "DELETE FROM code_snapshot WHERE snapshot_id = $1 RETURNING collection_id", snapshot_id
        )
        if collection_id is None:
            raise missing_snapshot(snapshot_id)
        await connection.execute(
            "DELETE FROM code_set t WHERE NOT EXISTS"
            " (SELECT FROM code_set_member m WHERE m.set_name = t.name)"
        )
        await connection.execute(
            "DELETE FROM code_import WHERE snapshot_id = $1 AND status <> 'running'", snapshot_id
        )
        await hide(connection, [collection_id])
    await discard(connection, [collection_id], timeout_s)


async def hide(connection: Connection, collection_ids: Sequence[int]) -> None:
    """Take the names off collections that are no snapshot's any more: nothing of them can be read."""
    await connection.execute(
        "UPDATE collection SET name = 'gone.' || id WHERE id = ANY($1::int[]) AND internal",
        list(collection_ids),
    )

"""The catalogue of snapshots and sets: published, found by any of their names, switched on and off, removed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from whence.schema.code import ImportReport, KindCounts, SnapshotInfo
from whence.schema.errors import BadInput, NotFound
from whence.store.postgres.driver import Connection
from whence.store.postgres.snapshots.removal import discard
from whence.store.snapshot_documents import check_set_name, missing_set, missing_snapshot
from whence.store.snapshot_protocols import SetMember, SnapshotRecord, SnapshotSet, SnapshotSource
from whence.store.validation import is_text, json_text

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
    "write_snapshot",
)

_SNAPSHOTS = """
    SELECT s.snapshot_id, s.repo, s.branch, s.head_sha, s.generated_at, s.digest, s.nodes_cs,
        s.nodes_sql, s.edges_cs, s.edges_sql, s.active, s.published_at, c.name AS collection,
        ARRAY(SELECT r.ref FROM code_ref r WHERE r.snapshot_id = s.snapshot_id ORDER BY r.ref) AS refs
    FROM code_snapshot s JOIN collection c ON c.id = s.collection_id"""
_NEWEST_FIRST = f"{_SNAPSHOTS} ORDER BY s.published DESC"
_BY_ID = f"{_SNAPSHOTS} WHERE s.snapshot_id = ANY($1::text[])"
_RESOLVE = f"""{_SNAPSHOTS}
    WHERE s.active
    AND s.snapshot_id IN (
        SELECT x.snapshot_id FROM code_snapshot x WHERE x.snapshot_id = $1 OR x.head_sha = $1
        UNION ALL SELECT r.snapshot_id FROM code_ref r WHERE r.ref = $1)
    AND ($2::text[] IS NULL OR s.snapshot_id = ANY($2))
    ORDER BY s.published DESC LIMIT 1"""  # noqa: S608 - only constants
_FORMER_COLLECTION = "SELECT collection_id FROM code_snapshot WHERE snapshot_id = $1"
_WRITE_SNAPSHOT = """
    INSERT INTO code_snapshot (snapshot_id, repo, branch, head_sha, generated_at, collection_id, digest,
        nodes_cs, nodes_sql, edges_cs, edges_sql, published_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
    ON CONFLICT (snapshot_id) DO UPDATE SET branch = $3, generated_at = $5, collection_id = $6,
        digest = $7, nodes_cs = $8, nodes_sql = $9, edges_cs = $10, edges_sql = $11, published_at = $12,
        published = DEFAULT"""
_WRITE_REF = "INSERT INTO code_ref (ref, snapshot_id) VALUES ($1, $2) ON CONFLICT DO NOTHING"
_COMPLETE_IMPORT = """
    UPDATE code_import SET status = 'completed', finished_at = $2, report = $3, collection_id = NULL
    WHERE id = $1"""
_SETS = """
    SELECT t.name, t.repo, t.active, m.ref, m.snapshot_id FROM code_set t
    LEFT JOIN code_set_member m ON m.set_name = t.name"""
_SETS_BY_NAME = f"{_SETS} ORDER BY t.name, m.place"
_ONE_SET = f"{_SETS} WHERE t.name = $1 ORDER BY m.place"
_WRITE_SET = """
    INSERT INTO code_set (name, repo, updated_at) VALUES ($1, $2, $3)
    ON CONFLICT (name) DO UPDATE SET repo = $2, updated_at = $3, active = true"""
_DELETE_MEMBERS = "DELETE FROM code_set_member WHERE set_name = $1"
_WRITE_MEMBER = """
    INSERT INTO code_set_member (set_name, place, ref, snapshot_id) VALUES ($1, $2, $3, $4)"""
_SWITCH_SET = "UPDATE code_set SET active = $2 WHERE name = $1"
_SWITCH_SNAPSHOT = "UPDATE code_snapshot SET active = $2 WHERE snapshot_id = $1"
_DELETE_SET = "DELETE FROM code_set WHERE name = $1"
_DELETE_SNAPSHOT = "DELETE FROM code_snapshot WHERE snapshot_id = $1 RETURNING collection_id"
_DELETE_EMPTY_SETS = """
    DELETE FROM code_set t
    WHERE NOT EXISTS (SELECT FROM code_set_member m WHERE m.set_name = t.name)"""
_DELETE_RUNS = "DELETE FROM code_import WHERE snapshot_id = $1 AND status <> 'running'"
_HIDE = "UPDATE collection SET name = 'gone.' || id WHERE id = ANY($1::int[]) AND internal"


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
    rows = await connection.fetch(_NEWEST_FIRST)
    return [_record(row) for row in rows]


async def find_published(
    connection: Connection, snapshot_ids: Sequence[str]
) -> dict[str, SnapshotRecord]:
    """Return the published ones of these snapshots, active or not, by id."""
    rows = await connection.fetch(_BY_ID, list(snapshot_ids))
    return {row["snapshot_id"]: _record(row) for row in rows}


async def write_snapshot(
    connection: Connection,
    snapshot: SnapshotInfo,
    refs: Sequence[str],
    report: ImportReport,
    now: datetime,
    *,
    number: int,
    collection_id: int | None,
) -> int | None:
    """Publish a snapshot and complete its import, inside the caller's transaction.

    Args:
        connection: In a transaction.
        snapshot: Which state of which repository.
        refs: Names that it is found by.
        report: Of the import.
        now: Time of publication.
        number: Number of the import.
        collection_id: Its content; None to keep the published one.

    Returns:
        The collection that the snapshot had before, if it is replaced.
    """
    former: int | None = None
    if collection_id is not None:
        former = await connection.fetchval(_FORMER_COLLECTION, snapshot.snapshot_id)
        await connection.execute(
            _WRITE_SNAPSHOT,
            snapshot.snapshot_id,
            snapshot.repo,
            snapshot.branch,
            snapshot.head_sha,
            snapshot.generated_at,
            collection_id,
            report.digest,
            report.nodes.cs,
            report.nodes.sql,
            report.edges.cs,
            report.edges.sql,
            now,
        )
    await connection.executemany(_WRITE_REF, [(ref, snapshot.snapshot_id) for ref in refs])
    content = json_text(msgspec.to_builtins(report))
    await connection.execute(_COMPLETE_IMPORT, number, now, content)
    return former


async def list_sets(connection: Connection) -> list[SnapshotSet]:
    """Return all sets by name."""
    return _sets(await connection.fetch(_SETS_BY_NAME))


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
    row = await connection.fetchrow(_RESOLVE, reference, members)
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
    found = _sets(await connection.fetch(_ONE_SET, name))
    if not found or not found[0].active:
        raise missing_set(name)
    return found[0].members


async def make_set(
    connection: Connection, name: str, references: Sequence[str], now: datetime
) -> SnapshotSet:
    """Make a set of published snapshots.

    Raises:
        NotFound: A reference names no active snapshot.
        BadInput: The name is not valid, or the snapshots are none or not of one repository.
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
    """Write an active set, replacing any of that name, inside the caller's transaction.

    Args:
        connection: Inside a transaction.
        name: Its name.
        repos: Repository of each member.
        members: In their order.
        now: When.

    Raises:
        BadInput: The name is not valid, or the snapshots are none, given twice or not of one repository.
    """
    check_set_name(name)
    if not members or len(set(repos)) != 1:
        shown = ", ".join(sorted(set(repos))) or "none"
        raise BadInput(f"a set holds snapshots of one repository, not of {shown}")
    if len({one.snapshot_id for one in members}) < len(members):
        raise BadInput(f"set {name!r} would hold one snapshot twice")
    await connection.execute(_WRITE_SET, name, repos[0], now)
    await connection.execute(_DELETE_MEMBERS, name)
    await connection.executemany(
        _WRITE_MEMBER,
        [(name, place, one.ref, one.snapshot_id) for place, one in enumerate(members)],
    )
    return SnapshotSet(name=name, repo=repos[0], members=tuple(members), active=True)


async def set_active(connection: Connection, name: str, active: bool) -> None:
    """Switch a set, or else a snapshot by its id, on or off.

    Raises:
        NotFound: There is neither.
    """
    if is_text(name):
        for statement in (_SWITCH_SET, _SWITCH_SNAPSHOT):
            if await connection.execute(statement, name, active) != "UPDATE 0":
                return
    raise NotFound(f"there is no set or snapshot {name!r}", hint="see whence snapshots")


async def remove_set(connection: Connection, name: str) -> None:
    """Delete a set; its snapshots stay.

    Raises:
        NotFound: There is none.
    """
    gone = await connection.execute(_DELETE_SET, name)
    if gone == "DELETE 0":
        raise NotFound(f"there is no set {name!r}", hint="see whence snapshots")


async def purge_snapshot(connection: Connection, snapshot_id: str, timeout_s: float) -> None:
    """Delete a snapshot, and sets that become empty.

    A first, short transaction makes it unreachable; the rows are deleted after that.

    Raises:
        NotFound: There is none.
    """
    if not is_text(snapshot_id):
        raise missing_snapshot(snapshot_id)
    async with connection.transaction():
        collection_id = await connection.fetchval(_DELETE_SNAPSHOT, snapshot_id)
        if collection_id is None:
            raise missing_snapshot(snapshot_id)
        await connection.execute(_DELETE_EMPTY_SETS)
        await connection.execute(_DELETE_RUNS, snapshot_id)
        await hide(connection, [collection_id])
    await discard(connection, [collection_id], timeout_s)


async def hide(connection: Connection, collection_ids: Sequence[int]) -> None:
    """Rename collections without a snapshot, so that they cannot be read."""
    await connection.execute(_HIDE, list(collection_ids))

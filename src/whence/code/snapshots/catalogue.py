"""Rows of published snapshots and sets, read and written in transactions of the caller."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from whence.code.snapshots.documents import check_display_name
from whence.code.snapshots.protocols import SetMember, SnapshotRecord, SnapshotSet
from whence.schema.code import ImportReport, KindCounts, SnapshotInfo
from whence.schema.errors import BadInput
from whence.store.postgres.driver import Connection, iso_utc
from whence.store.validation import json_text

SNAPSHOTS = """
    SELECT s.snapshot_id, s.repo, s.branch, s.head_sha, s.generated_at, s.digest, s.nodes_cs,
        s.nodes_sql, s.edges_cs, s.edges_sql, s.active, s.published_at, c.name AS collection,
        ARRAY(SELECT r.ref FROM code_ref r WHERE r.snapshot_id = s.snapshot_id ORDER BY r.ref) AS refs
    FROM code_snapshot s JOIN collection c ON c.id = s.collection_id"""
_BY_ID = f"{SNAPSHOTS} WHERE s.snapshot_id = ANY($1::text[])"
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
SETS = """
    SELECT t.name, t.repo, t.active, m.ref, m.snapshot_id FROM code_set t
    LEFT JOIN code_set_member m ON m.set_name = t.name"""
_WRITE_SET = """
    INSERT INTO code_set (name, repo, updated_at) VALUES ($1, $2, $3)
    ON CONFLICT (name) DO UPDATE SET repo = $2, updated_at = $3, active = true"""
_DELETE_MEMBERS = "DELETE FROM code_set_member WHERE set_name = $1"
_WRITE_MEMBER = """
    INSERT INTO code_set_member (set_name, place, ref, snapshot_id) VALUES ($1, $2, $3, $4)"""
_HIDE = "UPDATE collection SET name = 'gone.' || id WHERE id = ANY($1::int[]) AND internal"


def snapshot_record(row: Any) -> SnapshotRecord:
    """Read a row of `SNAPSHOTS`."""
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
        published_at=iso_utc(row["published_at"]),
    )


async def find_published(
    connection: Connection, snapshot_ids: Sequence[str]
) -> dict[str, SnapshotRecord]:
    """Return the published ones of these snapshots, active or not, by id."""
    rows = await connection.fetch(_BY_ID, list(snapshot_ids))
    return {row["snapshot_id"]: snapshot_record(row) for row in rows}


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


def snapshot_sets(rows: Sequence[Any]) -> list[SnapshotSet]:
    """Read rows of `SETS`, one for each member, in the order of the members."""
    members: dict[tuple[str, str, bool], list[SetMember]] = {}
    for row in rows:
        found = members.setdefault((row["name"], row["repo"], row["active"]), [])
        if row["snapshot_id"] is not None:
            found.append(SetMember(ref=row["ref"], snapshot_id=row["snapshot_id"]))
    return [
        SnapshotSet(name=name, repo=repo, active=active, members=tuple(found))
        for (name, repo, active), found in members.items()
    ]


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
    """
    check_display_name(name, "a set")
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


async def hide_collections(connection: Connection, collection_ids: Sequence[int]) -> None:
    """Rename collections without a snapshot, so that they cannot be read."""
    await connection.execute(_HIDE, list(collection_ids))

"""Open a bundle: its snapshot and the members to read, without reading any node; several layouts are in use."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path, PureWindowsPath
from typing import Any

import msgspec

from whence.code.bundles.archive import Archive, BundleLimits, Location, open_archive
from whence.code.bundles.tables import first_text
from whence.ingest.strict_json import parse_object
from whence.schema.code import SnapshotInfo
from whence.schema.code_ids import make_snapshot_id, validate_repo
from whence.schema.errors import BadInput

_REPO_META = "repo_meta.json"
_CHUNKS = ("regular_code_bundle/chunks.json", "code/chunks.json")
_DEPENDENCIES = ("regular_code_bundle/dependencies.json", "code/dependencies.json")
_CS_EDGES = ("regular_code_bundle/edges.csv", "code/edges.csv")
_SQL_BODIES = (
    "sql_bundle/docs/sql_bodies.jsonl",
    "sql_code_bundle/docs/sql_bodies.jsonl",
    "docs/sql_bodies.jsonl",
)
_SQL_NODES = ("sql_code_bundle/graph/nodes.csv", "sql_bundle/graph/nodes.csv", "graph/nodes.csv")
_SQL_EDGES = ("sql_bundle/graph/edges.csv", "sql_code_bundle/graph/edges.csv", "graph/edges.csv")
#: Folders that the path of an SQL body may be relative to.
_BODY_FOLDERS = ("", "sql_code_bundle/", "sql_bundle/")


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """Full names of the members of one bundle; None for an absent optional member."""

    root: str
    """Top folder of all members, ending in `/`; empty if there is none."""
    repo_meta: str
    chunks: str
    dependencies: str | None = None
    cs_edges: str | None = None
    """Dependencies with their relations, in bundles that Whence writes."""
    sql_bodies: str | None = None
    sql_nodes: str | None = None
    """SQL nodes in the older form; None if `sql_bodies` exists, which takes precedence."""
    sql_edges: str | None = None

    def body_names(self, path: str) -> tuple[str, ...]:
        """Return the candidate members for the path of an SQL body, in order of precedence."""
        return tuple(f"{self.root}{folder}{path}" for folder in _BODY_FOLDERS)


def find_layout(archive: Archive) -> Layout:
    """Find the members of a bundle; of several names for one member the first in a fixed order is used."""
    root = _root(archive.sizes)

    def first(names: Iterable[str]) -> str | None:
        return next((root + name for name in names if root + name in archive.sizes), None)

    repo_meta, chunks = first((_REPO_META,)), first(_CHUNKS)
    if repo_meta is None:
        raise archive.location(root + _REPO_META).error(
            "is missing", "a bundle has repo_meta.json at its root; name one bundle at a time"
        )
    if chunks is None:
        raise archive.location(root + _CHUNKS[0]).error(
            "is missing", f"{_CHUNKS[1]} is accepted as well"
        )
    sql_bodies = first(_SQL_BODIES)
    return Layout(
        root=root,
        repo_meta=repo_meta,
        chunks=chunks,
        dependencies=first(_DEPENDENCIES),
        cs_edges=first(_CS_EDGES),
        sql_bodies=sql_bodies,
        sql_nodes=first(_SQL_NODES) if sql_bodies is None else None,
        sql_edges=first(_SQL_EDGES),
    )


def _root(names: Iterable[str]) -> str:
    """Return the common top folder of all members, with `/`; empty if there is none."""
    tops = {name.split("/", 1)[0] if "/" in name else "" for name in names}
    return f"{tops.pop()}/" if len(tops) == 1 and "" not in tops else ""


_REPO_NAMES = ("RepoName", "Repo", "Repository", "RepositoryName", "repo", "repository")
#: In order of preference: a commit, a fingerprint of the content, the bundle's own snapshot id.
_REVISION_NAMES = (
    "HeadSha",
    "HeadSHA",
    "head_sha",
    "FolderFingerprint",
    "folder_fingerprint",
    "SnapshotId",
    "snapshot_id",
    "snapshotId",
)


def read_snapshot(text: str, location: Location, repo: str | None = None) -> SnapshotInfo:
    """Parse `repo_meta.json`."""
    with location.prefix_errors():
        meta = parse_object(text)
        name = validate_repo(_repo(meta) if repo is None else repo)
        revision = first_text(meta, *_REVISION_NAMES)
        if not revision:
            raise BadInput("names no revision", hint="give it a HeadSha or a FolderFingerprint")
        return SnapshotInfo(
            snapshot_id=make_snapshot_id(name, revision),
            repo=name,
            branch=first_text(meta, "Branch", "branch", default="(unknown)"),
            head_sha=revision,
            generated_at=first_text(meta, "GeneratedAtUtc", "GeneratedAtUTC"),
        )


def _repo(meta: Mapping[str, Any]) -> str:
    """Return the name of the repository or of its folder; Windows rules split both kinds of path."""
    root = PureWindowsPath(first_text(meta, "RepositoryRoot"))
    return first_text(meta, *_REPO_NAMES, default=root.name or "unknown-repo")


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle whose directory and `repo_meta.json` were read; no file is kept open."""

    path: Path
    name: str
    """Its name without `.zip`, for display and as the default tag of the import."""
    snapshot: SnapshotInfo
    layout: Layout
    limits: BundleLimits


def open_bundle(
    path: str | os.PathLike[str],
    *,
    repo: str | None = None,
    limits: BundleLimits | None = None,
) -> Bundle:
    """Read the directory and `repo_meta.json` of a bundle.

    Raises:
        BadInput: The bundle does not exist, is damaged, unsafe or too large, lacks `repo_meta.json` or
            `chunks.json`, or `repo_meta.json` names no revision.
    """
    source = Path(path)
    bounds = limits or BundleLimits()
    with open_archive(source, bounds) as archive:
        layout = find_layout(archive)
        text = archive.read_text(layout.repo_meta)
        snapshot = read_snapshot(text, archive.location(layout.repo_meta), repo)
    return Bundle(
        path=source,
        name=source.name.removesuffix(".zip"),
        snapshot=snapshot,
        layout=layout,
        limits=bounds,
    )

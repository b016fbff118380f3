"""Open a bundle: its snapshot and the members to read, without reading any node."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PureWindowsPath
from typing import Any

import msgspec

from whence.ingest.bundles.archive import BundleLimits, open_archive
from whence.ingest.bundles.fields import first_text
from whence.ingest.bundles.layout import Layout, find_layout
from whence.ingest.bundles.locations import Location
from whence.ingest.strict_json import parse_object
from whence.schema.code import SnapshotInfo
from whence.schema.code_ids import make_snapshot_id, validate_repo
from whence.schema.errors import BadInput

_REPO_NAMES = ("RepoName", "Repo", "Repository", "RepositoryName", "repo", "repository")
_BRANCH_NAMES = ("Branch", "branch")
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
_GENERATED_NAMES = ("GeneratedAtUtc", "GeneratedAtUTC")


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
            branch=first_text(meta, *_BRANCH_NAMES, default="(unknown)"),
            head_sha=revision,
            generated_at=first_text(meta, *_GENERATED_NAMES),
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

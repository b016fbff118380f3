"""Read `repo_meta.json`: the repository and the revision that a bundle contains."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PureWindowsPath
from typing import Any

from whence.ingest.bundles.fields import first_text
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

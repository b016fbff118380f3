"""`repo_meta.json`: which state of which repository a bundle is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PureWindowsPath
from typing import Any

from whence.ingest.bundles.fields import first_text
from whence.ingest.bundles.json_stream import decoded
from whence.ingest.bundles.locations import Place
from whence.ingest.decoding import refuse_wide_encoding
from whence.ingest.strict_json import parse_object
from whence.schema.code import SnapshotInfo
from whence.schema.code_ids import checked_repo, snapshot_id_of
from whence.schema.errors import BadInput

__all__ = ("read_snapshot",)

_REPO = ("RepoName", "Repo", "Repository", "RepositoryName", "repo", "repository")
_BRANCH = ("Branch", "branch")
#: A commit first; without one what stands for the content, then the id the bundle gave itself.
_REVISION = (
    "HeadSha",
    "HeadSHA",
    "head_sha",
    "FolderFingerprint",
    "folder_fingerprint",
    "SnapshotId",
    "snapshot_id",
    "snapshotId",
)
_GENERATED = ("GeneratedAtUtc", "GeneratedAtUTC")


def read_snapshot(data: bytes, place: Place, repo: str | None = None) -> SnapshotInfo:
    """Read what `repo_meta.json` says.

    Args:
        data: Its bytes.
        place: The member, for errors.
        repo: Name of the repository in the place of the bundle's.

    Raises:
        BadInput: It is not UTF-8 or no JSON object, a field is not text, the name of the repository
            cannot be part of an id, or no revision is named, so that the state could not be told from
            others.
    """
    with place.blamed():
        refuse_wide_encoding(data)
    text = decoded(data, place.on_line(1)).removeprefix("\ufeff")
    with place.blamed():
        meta = parse_object(text)
        name = checked_repo(_repo(meta) if repo is None else repo)
        revision = first_text(meta, *_REVISION)
        if not revision:
            raise BadInput("names no revision", hint="give it a HeadSha or a FolderFingerprint")
        return SnapshotInfo(
            snapshot_id=snapshot_id_of(name, revision),
            repo=name,
            branch=first_text(meta, *_BRANCH, default="(unknown)"),
            head_sha=revision,
            generated_at=first_text(meta, *_GENERATED),
        )


def _repo(meta: Mapping[str, Any]) -> str:
    """Return the name of the repository, else of its folder; the Windows rules split both kinds of path."""
    root = PureWindowsPath(first_text(meta, "RepositoryRoot"))
    return first_text(meta, *_REPO, default=root.name or "unknown-repo")

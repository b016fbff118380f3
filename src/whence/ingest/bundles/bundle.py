"""Open a bundle: its snapshot and the members to read, without reading any node."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from whence.ingest.bundles.archive import open_archive
from whence.ingest.bundles.layout import Layout, find_layout
from whence.ingest.bundles.limits import BundleLimits
from whence.ingest.bundles.repo_meta import read_snapshot
from whence.schema.code import SnapshotInfo


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

"""What a bundle is before its nodes are read: which snapshot it makes, and where its parts are."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from whence.ingest.bundles.archive import open_archive
from whence.ingest.bundles.layout import Layout, find_layout
from whence.ingest.bundles.limits import BundleLimits
from whence.ingest.bundles.repo_meta import read_snapshot
from whence.schema.access import DocumentTags
from whence.schema.code import SnapshotInfo

__all__ = ("Bundle", "open_bundle")


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle whose directory and `repo_meta.json` were read; it holds nothing open."""

    path: Path
    """The zip archive or folder."""
    name: str
    """Its name without `.zip`, for people and as a tag of the import."""
    snapshot: SnapshotInfo
    """The state of a repository that it is."""
    layout: Layout
    """Where its parts are."""
    limits: BundleLimits
    """Bounds on what is read."""
    legacy_tags: DocumentTags | None
    """Rights of nodes from a table that has no columns for them; None refuses such a table."""


def open_bundle(
    path: str | os.PathLike[str],
    *,
    repo: str | None = None,
    legacy_tags: DocumentTags | None = None,
    limits: BundleLimits | None = None,
) -> Bundle:
    """Look at a bundle without reading its nodes.

    Args:
        path: A zip archive, or the folder it was unpacked to.
        repo: Name of the repository in the place of the bundle's own.
        legacy_tags: Rights for SQL nodes of the older form (`nodes.csv`) where it states none. Who gives
            them vouches for every such node, so nothing is assumed.
        limits: Bounds on sizes.

    Raises:
        BadInput: There is no such bundle, it is damaged, unsafe or too large, `repo_meta.json` or
            `chunks.json` is missing, or `repo_meta.json` does not tell which state it is.
    """
    source = Path(path)
    bounds = limits or BundleLimits()
    with open_archive(source, bounds) as archive:
        layout = find_layout(archive)
        data = archive.read(layout.repo_meta)
        snapshot = read_snapshot(data, archive.place(layout.repo_meta), repo)
    return Bundle(
        path=source,
        name=source.name.removesuffix(".zip"),
        snapshot=snapshot,
        layout=layout,
        limits=bounds,
        legacy_tags=legacy_tags,
    )

"""Roots of a collection and the ids of its files: a file keeps its id, and a new one gets one of its own.

A file on disk is one document of a collection, whichever of several overlapping folders it is found through.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from whence.schema.errors import BadInput
from whence.store.source_states import StoredSource

if TYPE_CHECKING:
    from whence.ingest.remote_sources import SourceEntry

_MAX_NAME_BYTES = 200


class SourcePlace(NamedTuple):
    """A folder or file to index, and where it stands in its root."""

    path: str
    """As it was given."""
    base: str = ""
    """Absolute path of the root; empty when there is none."""
    root: str = ""
    """Name of the root; empty when there is none."""
    prefix: str = ""
    """Path relative to the root: empty, or of a folder with `/` at the end, or of a single file."""


class Catalogue:
    """What is stored of the files below some roots.

    Args:
        roots: Absolute path of each root, by name; empty for uploads.
        stored: Documents and files of the collection.
        places: What is indexed, by the path as it was given.
    """

    def __init__(
        self,
        roots: Mapping[str, str] | None = None,
        stored: Iterable[StoredSource] = (),
        places: Mapping[str, SourcePlace] | None = None,
    ) -> None:
        self._roots = {name: path for name, path in (roots or {}).items() if path}
        self._places = places or {}
        self._ids: dict[tuple[str, str], str] = {}
        #: Files of the documents that former versions stored, which have no root, by id.
        self.unrooted: dict[str, str] = {}
        self._taken: set[str] = set()
        self.documents: dict[str, tuple[str, str]] = {}
        """Root and path of each stored document with a root."""
        self.files: dict[tuple[str, str], tuple[str, tuple[int, int, str]] | None] = {}
        """Files that are known, by root and path; of one that was read document id, size, time and digest."""
        self.entries: dict[tuple[str, str], SourceEntry] = {}
        """What a source says of a file, by root and path."""
        for one in stored:
            self._add(one)

    def _add(self, one: StoredSource) -> None:
        path = normal(one.path)
        if one.document_id:
            self._taken.add(normal(one.document_id))
        if one.root:
            known = None if one.read_as is None else (one.document_id, one.read_as)
            self.files[one.root, path] = known or self.files.get((one.root, path))
        if one.root and one.is_document:
            self.documents[one.document_id] = one.root, path
        if one.root and one.document_id:
            self._ids[one.root, path] = one.document_id
        elif one.root:
            # Its documents have ids of their own: none is that of the file.
            self._ids.pop((one.root, path), None)
        else:
            self.unrooted[one.document_id] = path

    def place(self, path: str) -> SourcePlace:
        """Return where a path that was given stands."""
        return self._places.get(path) or SourcePlace(path)

    def owner(self, root: str, path: str, base: str) -> tuple[str, str]:
        """Return root and path under which a file is known, those given when it is not.

        Args:
            root: Name of the root it is found in.
            path: Relative to it.
            base: Absolute path of the root.
        """
        if (root, path) in self._ids or not base:
            return root, path
        absolute = os.path.join(base, path)  # noqa: PTH118 - paths are strings here, see `sources`
        for name, other in self._roots.items():
            if name != root and absolute.startswith(f"{other.rstrip('/')}/"):
                relative = absolute[len(other.rstrip("/")) + 1 :]
                if (name, relative) in self._ids:
                    return name, relative
        return root, path

    def known_id(self, root: str, path: str) -> str:
        """Return the id of a file's document; empty when it has none."""
        return self._ids.get((root, path), "")

    def document_id(self, root: str, path: str, written: str) -> str:
        """Return the id of a file's document.

        Args:
            root: Name of its root; empty for none.
            path: Relative to it, in Unicode's form NFC.
            written: The path as it is on disk.
        """
        found = self._ids.get((root, path))
        if found is not None or not root:
            return found or path
        for former in (path, written):
            if self.unrooted.get(former) == path:
                found = former
                break
        else:
            found = path
            while found in self._taken:
                found = f"{root}/{found}"
        self._ids[root, path] = found
        self._taken.add(normal(found))
        return found


def normal(text: str) -> str:
    """Return a name in Unicode's form NFC, in which names are compared."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def check_root_name(name: str) -> str:
    """Return the name of a root; `BadInput` for one that cannot be a name."""
    name = normal(name.strip())
    if not name or "/" in name or not name.isprintable() or len(name.encode()) > _MAX_NAME_BYTES:
        raise BadInput(
            f"{name[:100]!r} is not a name of a root", hint="use a name such as handbook"
        )
    return name

"""Roots and files of a collection: where its documents come from, and what became of every file below.

A root is a folder that was indexed, or the uploads. The pair of a root's name and a path relative to it names a
file. Paths of roots are for the owner of the store alone; no reader sees them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, Protocol

import msgspec

from whence.schema.access import Access, DocumentTags

FileState = Literal["read", "skipped", "failed", "gone"]
"""What became of a file: its text is stored, its format is not read, it cannot be read, or it is not there."""
State = Literal["read", "waiting", "skipped", "failed", "gone"]
"""State of a document or file; `waiting` is a document whose vectors are not there yet."""
Order = Literal["key", "newest"]
"""Order of a list of documents: by key, or the newest first, those of one moment by key."""
UNREAD: tuple[FileState, ...] = ("skipped", "failed")
"""States of files that are there and were not read."""
#: Longest path of a file that is noted, in bytes: a row of a B-tree holds 2704.
_MAX_PATH_BYTES = 2000


class SourceRoot(msgspec.Struct, frozen=True):
    """A folder that was indexed, or the uploads."""

    name: str
    """Unique in its collection."""
    path: str
    """Absolute, without links; empty for uploads."""


class StoredSource(msgspec.Struct, frozen=True):
    """A document and the file that it came from, or what is known of a file."""

    document_id: str
    """Of a file empty when its documents have ids of their own."""
    root: str
    """Empty for a document that a former version stored."""
    path: str
    """Relative to the root."""
    is_document: bool = True
    """Whether it is a document; else a file and the id of its document, which may not be stored."""
    read_as: tuple[int, int, str] | None = None
    """Size, time of change and digest of a file that was read; see `SourceFileState`."""


class SourceFileState(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a file in a run of indexing."""

    root: str
    path: str
    """Relative to the root, with `/`."""
    state: FileState
    reason: str = ""
    """Why it was not read; empty for a file that was."""
    document_id: str = ""
    """Id of its document; empty when its documents have ids of their own."""
    tags: DocumentTags = DocumentTags()
    """Rights that the run gave it. The document that is stored under the id has precedence."""
    size: int = -1
    """Bytes when it was read; -1 when it was not."""
    modified: int = 0
    """When it was changed, in nanoseconds since 1970; 0 when that is not certain."""
    digest: str = ""
    """Digest of its bytes, see `whence.ingest.sources`; empty when it was not read."""

    @property
    def is_storable(self) -> bool:
        """Whether a store can note it."""
        return len(self.path.encode(errors="replace")) <= _MAX_PATH_BYTES


class SourceStore(Protocol):
    """Roots and files of collections, by the collection's name; it need not exist yet."""

    async def source_roots(self, collection: str) -> list[SourceRoot]:
        """Return the roots of a collection by name."""

    async def add_root(
        self, collection: str, name: str, path: str, *, moved: bool = False
    ) -> SourceRoot:
        """Return the root of a path, added when there is none.

        Args:
            collection: Its name.
            name: Its name; `NAME-2` and so on when another path has it.
            path: Absolute; empty for uploads.
            moved: Whether a root of that name lies at this path now.
        """

    async def forget_sources(self, collection: str) -> None:
        """Forget the roots of a collection and the states of their files; its documents stay."""

    async def stored_sources(self, collection: str) -> list[StoredSource]:
        """Return the documents with their files, then the files, hidden ones included."""

    async def note_files(
        self,
        collection: str,
        files: Sequence[SourceFileState],
        forgotten: Collection[tuple[str, str]] = (),
    ) -> None:
        """Note what became of files, and forget others, by root and path.

        A file whose document is stored has the rights of the document, so that nobody learns its name by its
        failure.
        """

    async def adopt_documents(
        self, collection: str, root: str, document_ids: Collection[str]
    ) -> None:
        """Let documents that have no root belong to one; others keep theirs."""

    async def unread_files(
        self, collection: str, access: Access, *, most: int = 1000
    ) -> tuple[int, list[SourceFileState]]:
        """Return the number of files that were not read and that a reader may see, and the first by path.

        Empty files do not count: nothing of them is missing.
        """

    async def documents_named(self, collection: str, name: str, access: Access | None) -> list[str]:
        """Return the ids of documents that a name means and that a reader may see; None for the owner.

        The id itself comes first, then `ROOT/PATH`, then the path alone: the first of these that has a document
        decides, and a path may have several. Names are compared in Unicode's form NFC.
        """


def numbered(name: str, taken: Collection[str]) -> str:
    """Return a name that is not taken: itself, or with the lowest number from 2.

    >>> numbered("docs", {"docs", "docs-2"})
    'docs-3'
    """
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}-{number}"
    return found

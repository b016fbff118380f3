"""Results of loading a file or record: a document, an unchanged one, a failure, or skipped."""

from __future__ import annotations

import msgspec

from whence.schema.access import DocumentTags
from whence.schema.ingest import DocumentDraft


class ReadSource(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The file that a document was read from, as it was then."""

    root: str
    """Name of its root; empty when unknown."""
    file: str
    """Path relative to the root, with `/`."""
    document_id: str = ""
    """Id of its document; empty for a file of records, whose ids are their own."""
    tags: DocumentTags = DocumentTags()
    """Rights that the run gives it."""
    size: int = -1
    """Bytes; -1 when it was not read whole."""
    modified: int = 0
    """As of `sources.time_of_change`; 0 when a later change could have the same time."""
    digest: str = ""
    """See `sources.file_digest`."""


class LoadedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document that can be stored."""

    draft: DocumentDraft
    text: str
    """The text that the offsets of the chunks refer to, with newlines as line ends."""
    kind: str = ""
    """Name of the file format, e.g. `PDF`."""
    size: int = 0
    """Bytes of the draft on the wire."""
    source: ReadSource | None = None
    is_again: bool = False
    """Whether its source is stored, and was read with other settings or by another version."""


class Unchanged(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A document whose source is stored unchanged; it was not parsed."""

    document_id: str
    kind: str = ""
    source: ReadSource | None = None


class LoadFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A document that could not be read."""

    path: str
    reason: str
    document_id: str | None = None
    """None if it is unknown: then no stored document of the file may be considered deleted."""
    root: str = ""
    """Root of its file; empty when unknown."""
    file: str = ""
    """Path of its file relative to the root; that of a folder ends with `/`, or is empty for the root."""
    tags: DocumentTags | None = DocumentTags()
    """Rights that the run gives its file; None when it has none, and nobody but the owner may know of it."""
    line: int = 0
    """Line of the record in its file; 0 for a whole file."""
    part: str = ""
    """Path inside the file, of a document inside it; empty for the whole file."""


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """A file or record that is not read: its format is unknown or needs an extra, or it has no text."""

    path: str
    reason: str
    document_id: str | None = None
    """Given if the document may be stored already and must not be considered deleted."""
    root: str = ""
    """Root of the file; empty when unknown."""
    file: str = ""
    """Path of the file relative to the root."""
    tags: DocumentTags | None = DocumentTags()
    """As of `LoadFailure`."""
    line: int = 0
    """As of `LoadFailure`."""
    size: int = -1
    """Bytes of the file when nothing of it is missing, which is 0; else -1."""
    part: str = ""
    """As of `LoadFailure`."""
    left_out: dict[str, int] = {}
    """What its loader saw and did not take, by kind, of a file without text."""
    is_wanted: bool = True
    """False for a file that the user excluded, and for a link to another document: it counts as not there."""


LoadResult = LoadedDocument | Unchanged | LoadFailure | Skipped

"""Results of loading a file or record: a document, an unchanged one, a failure, or skipped."""

from __future__ import annotations

import msgspec

from whence.schema.ingest import DocumentDraft


class LoadedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document that can be stored."""

    draft: DocumentDraft
    text: str
    """The text that the offsets of the chunks refer to, with newlines as line ends."""
    kind: str = ""
    """Name of the file format, e.g. `PDF`."""


class Unchanged(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A document whose source is stored unchanged; it was not parsed."""

    document_id: str
    kind: str = ""


class LoadFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A document that could not be read."""

    path: str
    reason: str
    document_id: str | None = None
    """None if it is unknown: then no stored document may be considered deleted."""


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """A file or record that is not read: its format is unknown or needs an extra, or it has no text."""

    path: str
    reason: str
    document_id: str | None = None
    """Given if the document may be stored already and must not be considered deleted."""


LoadResult = LoadedDocument | Unchanged | LoadFailure | Skipped

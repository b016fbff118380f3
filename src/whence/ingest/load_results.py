"""What becomes of a file or a record that is read: a document, a failure, or nothing."""

from __future__ import annotations

import msgspec

from whence.schema.ingest import DocumentDraft

__all__ = ("LoadFailure", "LoadedDocument", "Outcome", "Skipped", "Unchanged")


class LoadedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document ready to be stored."""

    draft: DocumentDraft
    text: str
    """What the offsets of the chunks count in: the text as read, line ends as a single newline."""
    kind: str = ""
    """What kind of file it was, for people, e.g. `PDF`."""


class Unchanged(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A document whose source is known: it is stored as it would be read, and was not parsed."""

    document_id: str
    kind: str = ""
    """As in `LoadedDocument`."""


class LoadFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A document that could not be read; the others are not concerned."""

    path: str
    """Path as the user gave it, of a record with `:LINE`."""
    reason: str
    """One line: what is wrong with it."""
    document_id: str | None = None
    """The id, when it is known. Of a failure without one nobody can tell which documents it stands for,
    so after it nothing may be taken for gone."""


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """A file or record that is no document: of an unknown kind, or without text."""

    path: str
    """Path as the user gave it, of a record with `:LINE`."""
    reason: str


Outcome = LoadedDocument | Unchanged | LoadFailure | Skipped

"""Reports of indexing."""

from __future__ import annotations

from typing import Literal

import msgspec


class DocumentCounts(msgspec.Struct, kw_only=True):
    """Outcomes of the documents of one `index` run; a document is counted once."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    skipped: int = 0
    """Files of unknown types and empty files."""
    failed: int = 0


class PathFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A document that could not be indexed, and why."""

    path: str
    reason: str


class FileReport(msgspec.Struct, kw_only=True):
    """What became of a file in a run."""

    path: str
    """Relative to its root; as it was given when there is none."""
    root: str = ""
    """Name of its root."""
    state: Literal["read", "unchanged", "skipped", "failed", "removed"]
    reason: str = ""
    """Why it was not read."""
    document_id: str | None = None
    """Id of its document; null for a file that has several, or none."""
    encoding: str = ""
    """Its encoding when that was guessed or set."""
    left_out: dict[str, int] = {}
    """What its loader saw and did not take, by kind."""


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """What indexing would take, from rates measured on this machine."""

    seconds: float
    bytes: int
    """Bytes of the database."""


class IndexReport(msgspec.Struct, kw_only=True):
    """Report of one `index` run."""

    collection: str
    documents: DocumentCounts
    chunks: int = 0
    """Chunks of the documents added or updated."""
    embedded: int = 0
    """Chunks that were embedded, those of equal texts once; 0 when nothing changed."""
    kinds: dict[str, int] = {}
    """Documents read, by kind of file, e.g. `{"Markdown": 3, "PDF": 1}`; unchanged ones among them."""
    not_served: dict[str, int] = {}
    """Documents added or updated whose language the encoder does not serve, by its ISO 639-1 code."""
    skipped: dict[str, int] = {}
    read_again: int = 0
    """Documents read again though the bytes did not change: their file has another name or other tags, or they
    were stored by another version or with other settings. What did not change of them is not stored again."""
    kept: int = 0
    """Documents not found any more that `prune` kept, because a file that failed may contain them."""
    kept_by: list[str] = []
    """Files that failed and may contain these."""
    kept_skipped: int = 0
    """Documents that `prune` kept although nothing here reads the format of their files."""
    gone: int = 0
    """Without `prune`: documents of these paths whose files are not there any more."""
    unrooted: int = 0
    """With `prune`: documents of a former version that were not found, and of which nobody knows the folder."""
    not_read: list[str] = []
    """Files named by themselves that were not read."""
    files: list[FileReport] = []
    """Every file below the paths, and those that were removed."""
    estimate: Estimate | None = None
    """What storing would take; null when it was done."""
    failures: list[PathFailure]
    encoder: str = ""
    """The encoder that was chosen for a new collection; empty when nothing was to be chosen."""
    encoder_reason: str = ""
    """Why it was chosen."""
    waiting: int = 0
    """Passages of the collection that wait for vectors; words find them."""
    waiting_reason: str = ""
    """Why they do: the encoder of the collection is not here. Empty when they were not to be made now."""
    seconds: float = 0.0
    seconds_to_first_search: float = 0.0
    """Seconds until the first documents could be searched by words; 0 when none was stored."""

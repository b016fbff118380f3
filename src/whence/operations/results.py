"""Reports of indexing."""

from __future__ import annotations

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
    kept: int = 0
    """Documents in no path that `prune` kept, because a failed file may contain them."""
    kept_skipped: int = 0
    """Documents that `prune` kept although nothing here reads the format of their files."""
    gone: int = 0
    """Without `prune`: documents that came from these folders earlier and are in no path now."""
    elsewhere: int = 0
    """Without `prune`: other documents in no path, which `prune` removes as well."""
    failures: list[PathFailure]
    waiting: int = 0
    """Passages of the collection that wait for vectors; words find them."""
    waiting_reason: str = ""
    """Why they do: the encoder of the collection is not here. Empty when they were not to be made now."""
    seconds: float = 0.0
    seconds_to_first_search: float = 0.0
    """Seconds until the first documents could be searched by words; 0 when none was stored."""

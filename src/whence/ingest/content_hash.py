"""Compute the content hash of a document, which shows whether it has changed."""

from __future__ import annotations

import hashlib

from msgspec.structs import replace

from whence.schema.access import DocumentTags
from whence.schema.codec import encode
from whence.schema.ingest import DocumentDraft

#: Changes when documents must be stored again, e.g. because their text is analysed in another way.
_VERSION = b"whence document 1\n"


def content_hash(draft: DocumentDraft) -> str:
    """Return the SHA-256, in hexadecimal, of a document without its tags and source digest.

    It covers the wire form with its chunks, so other chunker settings change it where chunk borders move.
    """
    stored = replace(draft, tags=DocumentTags(), digest="", source_digest="")
    return hashlib.sha256(_VERSION + encode(stored)).hexdigest()


def with_content_hash(draft: DocumentDraft) -> DocumentDraft:
    """Return the draft with its content hash as `digest`."""
    return replace(draft, digest=content_hash(draft))

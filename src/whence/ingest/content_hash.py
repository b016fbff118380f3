"""The fingerprint by which an unchanged document is known."""

from __future__ import annotations

import hashlib

from msgspec.structs import replace

from whence.schema.access import DocumentTags
from whence.schema.codec import encode
from whence.schema.ingest import DocumentDraft

__all__ = ("document_digest", "with_digest")

#: Changes when the same draft must be stored anew, e.g. because its text is analysed in another way.
_VERSION = b"whence document 1\n"


def document_digest(draft: DocumentDraft) -> str:
    """Return the SHA-256, in hexadecimal, of all that is stored of a document except tags and source digest.

    It is taken over the wire form, whose keys are sorted and whose defaults are left out. The chunks
    are part of it: other settings of the chunker are a change where they cut in another place.
    """
    stored = replace(draft, tags=DocumentTags(), digest="", source_digest="")
    return hashlib.sha256(_VERSION + encode(stored)).hexdigest()


def with_digest(draft: DocumentDraft) -> DocumentDraft:
    """Return the draft with its digest filled in."""
    return replace(draft, digest=document_digest(draft))

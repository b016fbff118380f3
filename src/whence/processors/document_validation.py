"""What a document must be before it is stored."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

from whence.schema.access import DocumentTags
from whence.schema.codec import encode, to_builtins
from whence.schema.errors import BadInput
from whence.schema.ingest import DocumentDraft

__all__ = ("document_fault", "draft_digest")

#: How JSON writes NUL; a backslash and the same letters look alike, so that finding it proves nothing yet.
_ESCAPED_NUL = b"\\u0000"


def document_fault(draft: DocumentDraft) -> str:
    """Say why a document cannot be stored; empty when it can.

    PostgreSQL stores no NUL and UTF-8 no lone surrogates, so both are refused wherever they stand. Cost: one
    pass over the document.
    """
    if not draft.document_id.strip():
        return "its id is blank"
    if not draft.chunks:
        return "it has no text"
    for index, chunk in enumerate(draft.chunks):
        if not chunk.content.strip():
            return f"chunk {index} is blank"
    return _fault_of_text(draft)


def _fault_of_text(draft: DocumentDraft) -> str:
    """Say what cannot be stored of a document's texts; one look at the wire form clears nearly all of them."""
    try:
        if _ESCAPED_NUL not in encode(draft):
            return ""
    except BadInput:
        return "it holds half of a character (a lone surrogate)"
    texts = _texts(to_builtins(draft))
    return "it holds a NUL character" if any("\0" in text for text in texts) else ""


def draft_digest(draft: DocumentDraft) -> str:
    """Give the SHA-256 over all that is stored of a document except its tags, hexadecimal."""
    bare = msgspec.structs.replace(draft, tags=DocumentTags(), digest="", source_digest="")
    return hashlib.sha256(encode(bare)).hexdigest()


def _texts(value: Any) -> Iterator[str]:
    """Give every string in nested dicts and lists, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(key)
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)

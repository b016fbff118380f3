"""Ids of chunks: `urn:chunk:<collection>:<document id, percent-encoded>:<index>`."""

from __future__ import annotations

from urllib.parse import quote, unquote

import msgspec

__all__ = ("ChunkKey", "chunk_key", "document_key", "parse_chunk_key")

_PREFIX = "urn:chunk:"
#: Indexes are PostgreSQL's `integer`.
_LARGEST_INDEX = 2**31 - 1


class ChunkKey(msgspec.Struct, frozen=True):
    """What the id of a chunk says."""

    collection: str
    document_id: str
    index: int


def chunk_key(collection: str, document_id: str, index: int) -> str:
    """Give the id of the chunk at a place of a document, 0 for the first.

    >>> chunk_key("default", "guides/first steps.md", 3)
    'urn:chunk:default:guides/first%20steps.md:3'
    """
    return f"{document_key(collection, document_id)}{index}"


def document_key(collection: str, document_id: str) -> str:
    """Give what the ids of all chunks of a document begin with, and no others.

    >>> document_key("default", "guides/first steps.md")
    'urn:chunk:default:guides/first%20steps.md:'
    """
    return f"{_PREFIX}{collection}:{quote(document_id, safe='/')}:"


def parse_chunk_key(key: str) -> ChunkKey | None:
    """Read the id of a chunk; None for anything that `chunk_key` would not have written.

    >>> parse_chunk_key("urn:chunk:default:guides/first%20steps.md:3").document_id
    'guides/first steps.md'
    >>> parse_chunk_key("urn:chunk:default:%61:3") is None
    True
    """
    parts = key.removeprefix(_PREFIX).split(":")
    if not key.startswith(_PREFIX) or len(parts) != 3:
        return None
    collection, escaped, number = parts
    if not (number.isascii() and number.isdecimal() and len(number) <= 10):
        return None
    document_id = unquote(escaped, errors="replace")
    if "\0" in document_id:
        return None
    read = ChunkKey(collection, document_id, int(number))
    # Two spellings of one id would be two names of one chunk: only the canonical one counts.
    try:
        canonical = chunk_key(read.collection, read.document_id, read.index)
    except UnicodeEncodeError:
        return None
    return read if canonical == key and read.index <= _LARGEST_INDEX else None

"""Ids of chunks: `urn:chunk:<collection>:<document id, percent-encoded>:<index>`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import quote, unquote

import msgspec

#: Escaped ids are ASCII.
_KEY = re.compile(r"urn:chunk:([^:]*):([!-9;-~]*):([0-9]{1,10})\Z")
#: Of an escaped id that is as it was: what `quote` keeps.
_PLAIN = re.compile(r"[A-Za-z0-9_.~/-]*\Z")
#: Indexes are PostgreSQL's `integer`.
_MAX_INDEX = 2**31 - 1


class ChunkKey(msgspec.Struct, frozen=True):
    """The parts of a chunk id."""

    collection: str
    document_id: str
    index: int


def chunk_key(collection: str, document_id: str, index: int) -> str:
    """Return the id of the chunk with an index, 0 for the first.

    >>> chunk_key("default", "guides/first steps.md", 3)
    'urn:chunk:default:guides/first%20steps.md:3'
    """
    return f"{document_key(collection, document_id)}{index}"


@lru_cache(maxsize=1024)
def document_key(collection: str, document_id: str) -> str:
    """Return the common prefix of the ids of a document's chunks, and of no others.

    >>> document_key("default", "guides/first steps.md")
    'urn:chunk:default:guides/first%20steps.md:'
    """
    return f"urn:chunk:{collection}:{quote(document_id, safe='/')}:"


def parse_chunk_key(key: str) -> ChunkKey | None:
    """Parse a chunk id; return None for anything that `chunk_key` does not return.

    >>> parse_chunk_key("urn:chunk:default:guides/first%20steps.md:3").document_id
    'guides/first steps.md'
    >>> parse_chunk_key("urn:chunk:default:%61:3") is None
    True
    """
    match = _KEY.match(key)
    if match is None:
        return None
    collection, escaped, index = match.groups()
    plain = _PLAIN.match(escaped) is not None
    read = ChunkKey(collection, escaped if plain else unquote(escaped), int(index))
    # Only the canonical spelling is valid, so that a chunk has one id.
    document = escaped if plain else quote(read.document_id, safe="/")
    if (document, str(read.index)) != (escaped, index):
        return None
    return read if "\0" not in read.document_id and read.index <= _MAX_INDEX else None


def split_collections(names: str) -> list[str]:
    """Return the collections that a question searched; the record has their names with commas between.

    >>> split_collections("handbook,minutes")
    ['handbook', 'minutes']
    """
    return names.split(",")


def collection_of(collection: str, chunk_id: str) -> str | None:
    """Return the collection of a chunk among those that a record names; None when it is of another one.

    >>> collection_of("handbook,minutes", "urn:chunk:minutes:june.md:0")
    'minutes'
    """
    return next((name for name, ids in by_collection(collection, [chunk_id]).items() if ids), None)


def by_collection(collection: str, chunk_ids: Iterable[str]) -> dict[str, list[str]]:
    """Return chunk ids by the collection of each, among those that a record names.

    Of one collection all ids are its own. Of several each id has its own; others are left out.
    """
    names = split_collections(collection)
    if len(names) == 1:
        return {collection: list(chunk_ids)}
    found: dict[str, list[str]] = {name: [] for name in names}
    for chunk_id in chunk_ids:
        key = parse_chunk_key(chunk_id)
        if key is not None and key.collection in found:
            found[key.collection].append(chunk_id)
    return found

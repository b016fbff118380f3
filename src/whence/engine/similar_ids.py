"""Ids that resemble a mistyped one. In: the id and those that the reader may see. Out: the most similar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rapidfuzz import fuzz, process

from whence.store.chunk_ids import chunk_key, parse_chunk_key

_MOST = 3
#: Least similarity, 0 to 100. Two ids of one folder about different things are about 55 alike.
_LEAST = 70.0


class SimilarIds(NamedTuple):
    """The most similar first; equally similar ones by id."""

    documents: list[str]
    chunks: list[str]
    """For the id of a chunk: the chunks of these documents with its index, which may not exist."""


def similar_ids(item: str, known: Sequence[str], collection: str) -> SimilarIds:
    """Return the documents whose ids resemble an id of a document or chunk.

    Deterministic in the id and the known ones, which are sorted. Cost: linear in the known ids.
    """
    key = parse_chunk_key(item)
    name = key.document_id if key else item
    found = process.extract(name, known, scorer=fuzz.WRatio, limit=_MOST, score_cutoff=_LEAST)
    documents = [one for one, _, _ in found]
    chunks = [chunk_key(collection, one, key.index) for one in documents] if key else []
    return SimilarIds(documents, chunks)

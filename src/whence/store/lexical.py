"""Ranking chunks by their words in PostgreSQL: hidden postings are left out before anything is added up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from whence.schema.access import Access
from whence.schema.filters import Filters
from whence.schema.search import Candidate
from whence.store.analysis import ANALYZER_VERSION
from whence.store.bm25 import (
    LexicalStatistics,
    coverage_per_share,
    impact,
    share,
    weights,
)
from whence.store.checks import check_limit, lexical_candidate, missing_collection
from whence.store.classes import ALLOWED, access_values
from whence.store.driver import Connection
from whence.store.facts import facts_are_kept, matching
from whence.store.postings import term_key
from whence.store.search import LARGEST_LIMIT, WANTED, places_of
from whence.store.words import query_counts

__all__ = ("lexical_scores", "lexical_statistics", "search_lexical")

_RESOLVE = (
    "SELECT c.id, l.analyzer, l.languages, l.chunks, l.mean_length,"  # noqa: S608 - only constants
    f" (SELECT coalesce(array_agg(s.id), '{{}}') FROM sec_class s WHERE {ALLOWED}) AS classes"
    " FROM collection c LEFT JOIN lexicon l ON l.collection_id = c.id WHERE c.name = $4"
)
_TERMS = "SELECT id, term, df FROM term WHERE collection_id = $1 AND term = ANY($2::text[])"
# Postings are filtered by class before they are added up. What is found is then looked at from the best
# down until there is enough: slots of chunks that are gone or have other tags now lead nowhere, and the chunk
# itself decides last. OFFSET 0 keeps the planner from taking the look-ups apart. The ranking may end in a
# tie: all that tie are given.
_RANKED = (
    "SELECT a.score, k.chunk_key, k.document_id FROM ("
    " SELECT u.slot, sum(q.weight * u.impact) AS score FROM segment s,"
    " unnest($3::int[], $4::float8[]) q(term, weight),"
    " LATERAL (SELECT p.slots, p.impacts, p.classes FROM posting p"
    "  WHERE p.segment = s.id AND p.term = q.term OFFSET 0) b,"
    " LATERAL unnest(b.slots, b.impacts, b.classes) u(slot, impact, class_id)"
    " WHERE s.collection_id = $1 AND u.class_id = ANY($2::int[])"
    " AND ($6::int[] IS NULL OR u.slot = ANY($6::int[]))"
    " GROUP BY u.slot ORDER BY score DESC) a,"
    " LATERAL (SELECT c.chunk_key, d.document_id FROM chunk_terms t JOIN chunk c ON c.ord = t.ord"
    "  JOIN document d ON d.id = c.document"
    "  WHERE t.collection_id = $1 AND t.slot = a.slot AND c.class_id = ANY($2::int[]) OFFSET 0) k"
    " ORDER BY a.score DESC FETCH FIRST ($5::bigint) ROWS WITH TIES"
)
_WORDS = (
    f"SELECT c.chunk_key, t.length, t.terms, t.counts{WANTED} JOIN chunk_terms t ON t.ord = c.ord"
)


class _Query(msgspec.Struct, frozen=True):
    """A query in the terms of a collection."""

    collection_id: int
    classes: list[int]
    mean: float
    weights: dict[int, float]
    """Part of the bound by id of the term, for terms that the collection has."""
    per_share: float
    """From the lexical share to the share of the query alone that is covered."""


async def _query(
    connection: Connection, collection: str, text: str, access: Access
) -> _Query | None:
    """Resolve rights and terms; None when the collection's words are not indexed by this analyzer."""
    row = await connection.fetchrow(_RESOLVE, *access_values(access), collection)
    if row is None:
        raise missing_collection(collection)
    if row["analyzer"] != ANALYZER_VERSION:
        return None
    counts = query_counts(text, row["languages"])
    found = await connection.fetch(_TERMS, row["id"], [term_key(term) for term in counts])
    ids = {one["term"]: one["id"] for one in found}
    df = {one["term"]: one["df"] for one in found}
    keys = {term_key(term): n for term, n in counts.items()}
    parts = weights(keys, df, row["chunks"])
    return _Query(
        collection_id=row["id"],
        classes=row["classes"],
        mean=row["mean_length"],
        weights={ids[term]: part for term, part in parts.items()},
        per_share=coverage_per_share(keys, df, row["chunks"]),
    )


async def search_lexical(
    connection: Connection,
    collection: str,
    query_text: str,
    *,
    limit: int,
    access: Access,
    filters: Filters = (),
) -> list[Candidate] | None:
    """Rank the visible chunks by the words of a query; None when words or facts are not indexed yet.

    Rights, filter, statistics and postings are read from one snapshot of the database. Cost: linear in the
    postings of the query's terms, hidden ones included; those are skipped, not added up.

    Raises:
        NotFound: There is no such collection.
        BadInput: The limit is below 1, or no visible document has a key of the filter.
    """
    check_limit(limit)
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        query = await _query(connection, collection, query_text, access)
        if query is None:
            return None
        kept = None
        if filters:
            if not await facts_are_kept(connection, query.collection_id):
                return None
            kept = await matching(connection, query.collection_id, query.classes, filters, "slot")
        if not query.weights:
            return []
        rows = await connection.fetch(
            _RANKED,
            query.collection_id,
            query.classes,
            list(query.weights),
            list(query.weights.values()),
            min(limit, LARGEST_LIMIT),
            kept,
        )
    rows.sort(key=lambda row: (-row["score"], row["chunk_key"]))
    return [
        lexical_candidate(row["chunk_key"], row["document_id"], row["score"], query.per_share, rank)
        for rank, row in enumerate(rows[:limit], 1)
    ]


async def lexical_scores(
    connection: Connection,
    collection: str,
    query_text: str,
    chunk_ids: Sequence[str],
    access: Access,
) -> dict[str, float] | None:
    """Give the share of chunks that exist and are visible; None when the words are not indexed yet.

    Computed from the forward index, equal to the last bit to what the postings give. Cost: linear in the words
    of the chunks asked for.

    Raises:
        NotFound: There is no such collection.
    """
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        query = await _query(connection, collection, query_text, access)
        if query is None:
            return None
        rows = await connection.fetch(
            _WORDS, *access_values(access), collection, *places_of(collection, chunk_ids)
        )
    return {row["chunk_key"]: _share(row, query.weights, query.mean) for row in rows}


def _share(row: Any, parts: Mapping[int, float], mean: float) -> float:
    terms = np.frombuffer(row["terms"], dtype="<i4").tolist()
    counts = np.frombuffer(row["counts"], dtype="<i4").tolist()
    return share(
        (parts[term], impact(float(count), float(row["length"]), mean))
        for term, count in zip(terms, counts, strict=True)
        if term in parts
    )


async def lexical_statistics(connection: Connection, collection: str) -> LexicalStatistics | None:
    """Give what scores depend on beside the words; None when the words are not indexed yet.

    Raises:
        NotFound: There is no such collection.
    """
    row = await connection.fetchrow(_RESOLVE, *access_values(Access.public()), collection)
    if row is None:
        raise missing_collection(collection)
    if row["analyzer"] != ANALYZER_VERSION:
        return None
    return LexicalStatistics(chunks=row["chunks"], mean_length=row["mean_length"])

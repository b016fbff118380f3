"""Both rankings of a query in one read of one version; each chunk has the scores of either retriever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from whence.schema.embedding import EmbeddingModel
from whence.schema.filters import Filters
from whence.schema.search import Candidate, Match
from whence.store.postgres.collection_version import ReaderView
from whence.store.postgres.dense.pending import read_vector_share
from whence.store.postgres.dense.search import read_nearest
from whence.store.postgres.driver import Connection
from whence.store.postgres.lexical.search import rank_places
from whence.store.postgres.metadata_index import filtered_chunks
from whence.store.protocols import HybridRankings
from whence.store.results import cosine, dense_candidates
from whence.store.validation import check_dense_query

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


async def search_both(
    connection: Connection,
    view: ReaderView,
    query_text: str,
    vector: NDArray[np.float32],
    *,
    limit: int,
    filters: Filters,
    match: Match,
    model: EmbeddingModel | None,
) -> HybridRankings | None:
    """See `SupportsHybrid`; None while words or metadata are not indexed by this version.

    Cost: that of both retrievers; one statement once the postings of the query's terms are cached.
    """
    query = check_dense_query(view.version.info, vector, limit, 0.0, model)
    kept = await filtered_chunks(connection, view, filters) if filters else None
    if filters and kept is None:
        return None
    words = await rank_places(connection, view, query_text, limit=limit, kept=kept, match=match)
    if words is None:
        return None
    rows = await read_nearest(connection, view, query, limit=limit, kept=kept, slots=words.take())
    complete = words.add(rows.every)
    lexical = words.candidates() if complete else await words.read(connection)
    shares = words.shares([row["slot"] for row in rows.nearest if row["slot"] is not None])
    dense = dense_candidates(
        (row["distance"], row["chunk_key"], row["document_id"]) for row in rows.nearest
    )
    rows_by_id = {row["chunk_key"]: row for row in rows.every}
    (share,) = await read_vector_share(connection, view, check=False)
    return HybridRankings(
        lexical=[_with_cosine(one, rows_by_id.get(one.chunk_id)) for one in lexical],
        dense=[
            replace(one, sparse_score=shares.get(row["slot"], 0.0))
            for one, row in zip(dense, rows.nearest, strict=True)
        ],
        share=share,
    )


def _with_cosine(one: Candidate, row: Any) -> Candidate:
    """Return a candidate with the cosine of its row, which may be missing or without a vector."""
    if row is None or row["distance"] is None:
        return one
    return replace(one, dense_score=cosine(-row["distance"]))

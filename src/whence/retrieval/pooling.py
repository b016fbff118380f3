"""Pool the rankings of several queries into one list of candidates, each chunk once."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import msgspec

from whence.provenance.reasons import DropCode
from whence.retrieval.fusion import RRF_K, reciprocal_ranks
from whence.schema.passages import Passage
from whence.schema.search import Candidate, SearchResponse


class _Pooled(msgspec.Struct):
    """One chunk in several rankings."""

    best_rank: int
    place: int
    """Place of the ranking that ranked it best."""
    match: Any
    """The `Candidate` with the best score; of a client of the caller one without a score, when none has one."""
    concepts: dict[str, None] = {}
    """Queries that found it, in order."""


def pool_candidates(
    rankings: Iterable[tuple[str, SearchResponse]],
    *,
    limit: int,
    threshold: float = 0.0,
    cut_code: DropCode = "over_fetch_limit",
) -> list[Passage]:
    """Merge the rankings of several queries into one, each chunk once.

    Rankings are interleaved: first the best of each, then the second best of each, and so on, so that no query
    crowds out another. Scores of different queries are not comparable enough to sort by; they break ties, then
    the order of the rankings does. A match without a chunk id is left out.

    Returns:
        All candidates in order, ranks from 1 without gaps, those that are dropped with their reason.

    Cost: n log n for n matches over all rankings.
    """
    return _cut(_pool(rankings), limit, threshold, cut_code)


def fuse_rankings(
    by_vectors: Iterable[tuple[str, SearchResponse]],
    by_words: Iterable[tuple[str, SearchResponse]],
    weights: tuple[float, float],
    *,
    limit: int,
    threshold: float = 0.0,
    cut_code: DropCode = "over_fetch_limit",
) -> list[Passage]:
    """Join what a search by vectors and a separate one by words found, whose scores do not compare.

    Each side is pooled as in `pool_candidates`. A candidate's score is the sum of `weight / (60 + rank)` over
    the sides, divided by the most that it can be: 1 is first on both. Ties go to the vectors' side, then to the
    rank.

    Args:
        by_vectors: Rankings by concept.
        by_words: Rankings by query.
        weights: Of the vectors' side and of the words', 0 or more, at least one above 0.
        limit: See `pool_candidates`.
        threshold: See `pool_candidates`.
        cut_code: See `pool_candidates`.

    Cost: n log n for n matches over all rankings.
    """
    dense, words = _pool(by_vectors), _pool(by_words)
    found = [[one.match.chunk_id for one in side] for side in (dense, words)]
    scores = reciprocal_ranks(found, weights)
    most = sum(weights) / (RRF_K + 1)
    joined: dict[str, _Pooled] = {}
    for side, items in (("dense_score", dense), ("sparse_score", words)):
        for item in items:
            given: Candidate = item.match
            own = getattr(given, side)
            known = {side: given.score if own is None else own}
            one = joined.setdefault(given.chunk_id, item)
            one.concepts |= item.concepts
            score = scores[given.chunk_id] / most
            one.match = msgspec.structs.replace(one.match, score=score, **known)
    order = sorted(joined.values(), key=lambda one: -scores[one.match.chunk_id])
    return _cut(order, limit, threshold, cut_code)


def _pool(rankings: Iterable[tuple[str, SearchResponse]]) -> list[_Pooled]:
    pool: dict[str, _Pooled] = {}
    for place, (concept, ranking) in enumerate(rankings):
        _add_ranking(pool, place, concept, ranking)
    return sorted(pool.values(), key=_order)


def _cut(
    pool: Iterable[_Pooled], limit: int, threshold: float, cut_code: DropCode
) -> list[Passage]:
    """Return the candidates in order, those below the threshold or after the limit with their reason."""
    candidates: list[Passage] = []
    places = limit
    for rank, item in enumerate(pool, start=1):
        match, code = item.match, ""
        if match.score is not None and match.score < threshold:
            code = "below_threshold"
        elif places <= 0:
            code = cut_code
        else:
            places -= 1
        candidates.append(
            Passage(
                chunk_id=match.chunk_id,
                rank=rank,
                document_id=match.document_id,
                score=match.score,
                dense_score=match.dense_score,
                sparse_score=match.sparse_score,
                graph_score=match.graph_score,
                name_score=match.name_score,
                concepts=tuple(item.concepts),
                reason_code=code,
            )
        )
    return candidates


def _order(item: _Pooled) -> tuple[int, float, int]:
    score = item.match.score
    return item.best_rank, -math.inf if score is None else -score, item.place


def _add_ranking(
    pool: dict[str, _Pooled], place: int, concept: str, ranking: SearchResponse
) -> None:
    """Add one ranking to the pool; of a chunk that occurs twice in it the first place counts."""
    seen: set[str] = set()
    match: Any
    for match in ranking.candidates:
        if not match.chunk_id or match.chunk_id in seen:
            continue
        seen.add(match.chunk_id)
        rank = len(seen)
        item = pool.setdefault(match.chunk_id, _Pooled(rank, place, match))
        item.concepts[concept] = None
        if rank < item.best_rank:
            item.best_rank, item.place = rank, place
        best = item.match.score
        if match.score is not None and (best is None or match.score > best):
            item.match = match

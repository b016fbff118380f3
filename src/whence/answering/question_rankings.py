"""The rank of a passage among everything that a recorded question could have retrieved.

In: the question as it was searched for, its limits, and a reader. Out: `QuestionRankings`: the ranking without
limits, the ranking within them, and the least limit that retrieves a passage.

Both rankings come from the search that answers questions. Cost: two searches for each query of the question,
one of them over all visible passages; linear in these, and in memory one candidate each.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from whence.answering.evidence import (
    ProcessedQuery,
    SearchPlan,
    embed_question,
    plan_searches,
    share_of_pool,
)
from whence.retrieval.fusion import UNCALIBRATED, evidence, score_of
from whence.retrieval.hybrid import RETRIEVER_DEPTH
from whence.retrieval.many_collections import ManyCollections
from whence.retrieval.pipeline import Found, find_candidates
from whence.retrieval.pooling import pool_candidates
from whence.retrieval.services import RetrievalClients
from whence.schema.errors import Unavailable
from whence.schema.passages import Passage
from whence.schema.search import Calibration, Candidate, SearchResponse
from whence.store.chunk_ids import split_collections


class AskedBefore(NamedTuple):
    """What a recorded question searched for, and its limits."""

    text: str
    """The question with its corrections."""
    written: str
    """The question before its words were corrected."""
    concepts: tuple[str, ...]
    pool: int
    """Candidates that its searches returned at most."""
    limit: int
    """Candidates of the pool that went on; less than the pool in a question about code."""
    threshold: float = 0.0
    search_question: bool = True
    """Whether the question was searched for beside its concepts."""
    without_vector: bool = False
    """Whether the question was searched for by its words alone, because it could not be embedded."""


class NearestQuery(NamedTuple):
    """The query of a question that ranks a passage best."""

    text: str
    rank: int
    limit: int
    """Candidates that the query returned at most."""


class WholeRanking:
    """What the queries of a question find without limits.

    Args:
        found: As the searches returned it.
    """

    def __init__(self, found: Found) -> None:
        self.found = found
        self.candidates = {one.chunk_id: one for one in found.candidates}
        """By rank."""
        self.depths = [_depths(ranking.candidates) for _, ranking in found.rankings]


@dataclass(frozen=True, slots=True)
class QuestionRankings:
    """The rankings of a recorded question for one reader, as its collection is now."""

    asked: AskedBefore
    retrieval: RetrievalClients | ManyCollections
    plan: SearchPlan
    """The queries with the limits of the question."""
    everything: WholeRanking
    within: Found
    """What the queries find within the limits of the question."""

    def candidate(self, chunk_id: str) -> Passage | None:
        """Return the passage in the ranking without limits; None when no query finds it."""
        return self.everything.candidates.get(chunk_id)

    def nearest_query(self, chunk_id: str) -> NearestQuery | None:
        """Return the query that ranks a passage best, the first of equal ones."""
        limits = self._limits(self.asked.pool)
        found = [
            NearestQuery(query.text, rank, limit)
            for (query, ranking), limit in zip(self.everything.found.rankings, limits, strict=True)
            if (rank := _rank(chunk_id, ranking))
        ]
        return min(found, key=lambda one: one.rank, default=None)

    async def enters_at(self, chunk_id: str) -> int | None:
        """Return the least number of candidates to retrieve that has this passage among them.

        Of several queries, and where the scores of a search depend on its limit, it is a number that retrieves
        the passage while one less does not.

        Returns:
            None when no number does: no query finds it, or its score is below the threshold.
        """
        one = self.candidate(chunk_id)
        if one is None or one.reason_code == "below_threshold":
            return None
        found = self.everything.found
        calibration = found.calibration or UNCALIBRATED
        # Each of several collections has a calibration and a depth of its own.
        many = len(split_collections(self.retrieval.collection)) > 1
        follows_alone = not many and not found.graphs and _has_own_score(one, calibration)
        if follows_alone and len(self.plan.queries) == 1:
            return _least_limit(self.everything.depths[0], one.rank)
        retrieves = self._simulated(chunk_id) if follows_alone else self._searched(chunk_id)
        return await _border(retrieves, one.rank, len(self.everything.candidates))

    def _limits(self, pool: int) -> list[int]:
        """Return the limit of each query in a pool of another size."""
        own = self.plan.own
        concepts = len(self.plan.queries) - own
        return [pool] * own + [share_of_pool(pool, concepts)] * concepts

    def _simulated(self, chunk_id: str) -> Callable[[int], Awaitable[bool]]:
        """Return whether a pool of a size has a passage, from the rankings without limits."""
        everything = self.everything
        rankings = [
            (query.text, ranking.candidates, depths)
            for (query, ranking), depths in zip(
                everything.found.rankings, everything.depths, strict=True
            )
        ]

        async def retrieves(pool: int) -> bool:
            named = []
            for (text, candidates, depths), limit in zip(rankings, self._limits(pool), strict=True):
                depth = max(limit, RETRIEVER_DEPTH)
                pairs = zip(candidates, depths, strict=True)
                found = [one for one, needed in pairs if needed <= depth]
                named.append((text, SearchResponse(candidates=tuple(found[:limit]))))
            pooled = pool_candidates(named, limit=pool, threshold=self.asked.threshold)
            return _keeps(pooled, chunk_id)

        return retrieves

    def _searched(self, chunk_id: str) -> Callable[[int], Awaitable[bool]]:
        """Return whether a pool of a size has a passage, from searches with these limits."""

        async def retrieves(pool: int) -> bool:
            limits = zip(self.plan.queries, self._limits(pool), strict=True)
            queries = [replace(query, limit=limit) for query, limit in limits]
            found = await find_candidates(
                self.retrieval, queries, limit=pool, threshold=self.asked.threshold
            )
            return _keeps(found.candidates, chunk_id)

        return retrieves


async def find_rankings(
    retrieval: RetrievalClients | ManyCollections,
    asked: AskedBefore,
    most: int,
    kept: dict[Hashable, WholeRanking],
) -> QuestionRankings:
    """Search as the question did, within its limits and without them.

    The search within the limits states the version of the collection that it saw. A ranking of that version,
    kept for the same question and reader, is used again; it has no passage that this reader may not see.

    Args:
        retrieval: Searches with the rights of the reader.
        asked: The question.
        most: Number that no search has more passages than, or the largest limit of a search.
        kept: Holds the last ranking without limits, for the next passage of the same answer and reader.

    Raises:
        WhenceError: The question cannot be embedded, or a search fails.
    """
    own = await embed_question(retrieval, asked.text, asked.written, searched=asked.search_question)
    if asked.without_vector and own is not None:
        own = Unavailable("the question was not embedded when it was asked")
    plan = await plan_searches(
        retrieval,
        asked.text,
        ProcessedQuery(asked.concepts, own),
        pool=asked.pool,
        degrade=lambda *_: None,
    )
    within = await find_candidates(
        retrieval, plan.queries, limit=asked.limit, threshold=asked.threshold
    )
    filters = msgspec.json.encode(retrieval.filters, order="deterministic")
    reader = (retrieval.collection, retrieval.access, retrieval.mode, filters)
    key = (asked, most, *reader, *sorted(retrieval.versions))
    everything = kept.get(key)
    if everything is None:
        unlimited = [replace(query, limit=most) for query in plan.queries]
        found = await find_candidates(retrieval, unlimited, limit=most, threshold=asked.threshold)
        if len(found.rankings) < len(plan.queries):
            raise Unavailable("a search of the question failed", hint="try again")
        everything = WholeRanking(found)
        if len(retrieval.versions) == 1 and 0 not in retrieval.versions:
            kept.clear()
            kept[key] = everything
    return QuestionRankings(asked, retrieval, plan, everything, within)


def _rank(chunk_id: str, ranking: SearchResponse) -> int:
    """Return the rank of a passage, 0 when it is not there."""
    places = enumerate(ranking.candidates, 1)
    return next((rank for rank, one in places if one.chunk_id == chunk_id), 0)


def _keeps(candidates: Sequence[Passage], chunk_id: str) -> bool:
    return any(one.chunk_id == chunk_id and not one.reason_code for one in candidates)


def _has_own_score(one: Passage, calibration: Calibration) -> bool:
    """Return whether a score follows from the passage alone, not from the others that were found."""
    if one.name_score is not None or one.dense_score is None or one.sparse_score is None:
        return True
    return one.score is not None and abs(one.score - score_of(evidence(one, calibration))) < 1e-9


def _depths(ranking: Sequence[Candidate]) -> list[int]:
    """Return for each candidate how deep the retrievers of a search must look to find it.

    Each retriever of a hybrid search returns its best `max(limit, RETRIEVER_DEPTH)`; a candidate is in the
    search when one of them has it. Where one retriever ranks alone, the depth is the rank.

    Cost: n log n in the candidates.
    """
    if any(one.dense_score is None or one.sparse_score is None for one in ranking):
        return list(range(1, len(ranking) + 1))
    depths = [len(ranking) + 1] * len(ranking)
    sides = (
        [(-(one.dense_score or 0.0), one.chunk_id, at) for at, one in enumerate(ranking)],
        # Words find no chunk that has none of them.
        [
            (-one.sparse_score, one.chunk_id, at)
            for at, one in enumerate(ranking)
            if one.sparse_score
        ],
    )
    for side in sides:
        for depth, (_, _, at) in enumerate(sorted(side), 1):
            depths[at] = min(depths[at], depth)
    # What defines the name that was asked for is found by it.
    return [
        1 if one.name_score is not None else depth
        for one, depth in zip(ranking, depths, strict=True)
    ]


def _least_limit(depths: Sequence[int], rank: int) -> int | None:
    """Return the least limit at which a search has the candidate with this rank among all."""
    needed, before = depths[rank - 1], sorted(depths[: rank - 1])
    for limit in range(1, len(depths) + 1):
        depth = max(limit, RETRIEVER_DEPTH)
        if needed <= depth and bisect_right(before, depth) < limit:
            return limit
    return None


async def _border(retrieves: Callable[[int], Awaitable[bool]], guess: int, most: int) -> int | None:
    """Return a number that `retrieves` while one less does not; the guess if it is one."""
    low, high = 0, most
    if await retrieves(guess):
        high = guess
        if guess == 1 or not await retrieves(guess - 1):
            return guess
    elif not await retrieves(most):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if await retrieves(middle):
            high = middle
        else:
            low = middle
    return high

"""Rank the visible chunks of a collection by words, by vectors, or by both.

In: two retrievers and how deep to look. Out: a ranking in which every chunk has the true score of both. A
retriever that fails or is late is named in `degraded`; the other ranks alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from whence.retrieval.fusion import FUSIONS, Fusion, Scores, lexical_score, rank_candidates
from whence.retrieval.links import PassageGraph
from whence.schema.errors import DeadlineExceeded, Unavailable, WhenceError
from whence.schema.search import Candidate, Degradation, GraphUse, SearchMode, SearchResponse
from whence.store.symbol_names import SymbolMatch

__all__ = ("RETRIEVER_DEPTH", "FindSymbols", "HybridSearch", "Retriever")

#: Candidates that each retriever of a hybrid search returns at least: one may rank high what the other ranks
#: low.
RETRIEVER_DEPTH: Final = 100
#: Errors that leave the other retriever usable; all others are faults of the request itself.
_RETRIEVER_ERRORS = (Unavailable, DeadlineExceeded)

RetrieverName = Literal["lexical", "dense"]
_Ranking = list[Candidate] | WhenceError


@dataclass(frozen=True, slots=True)
class Retriever:
    """One way of ranking chunks for one query, with the rights of one reader."""

    search: Callable[[int], Awaitable[list[Candidate]]]
    """Returns the best chunks, best first, at most so many. A dense retriever sets `dense_score`, the cosine; a
    lexical one sets `sparse_score`, the lexical share, and `score`, the part of the query that is covered."""
    scores: Callable[[Sequence[str]], Awaitable[Mapping[str, float]]]
    """Returns the `dense_score` or `sparse_score` of those of these chunks that exist and are visible."""


FindSymbols = Callable[[Mapping[str, str]], Awaitable[Sequence[SymbolMatch]]]
"""Takes the document of every chunk found so far, by chunk id; returns the chunks that define the query's
symbol."""


class _RetrieverLostError(Exception):
    """A retriever ranked, and then could not score what only the other one found."""

    def __init__(self, retriever: RetrieverName, error: WhenceError) -> None:
        super().__init__(error.message)
        self.retriever = retriever
        self.error = error


@dataclass(slots=True)
class _Pool:
    """Candidates of one search with what is known of them, by chunk id."""

    documents: dict[str, str]
    scores: dict[str, Scores] = field(default_factory=dict)
    fits: dict[str, int] = field(default_factory=dict)
    """How well definitions fit the symbol that the query names."""
    gains: dict[str, float] | None = None
    """What links added to each score; None when the passage graph was not used."""
    graph: GraphUse | None = None
    degraded: list[Degradation] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class HybridSearch:
    """One search over a lexical and a dense retriever.

    Args:
        lexical: Ranks by words.
        dense: Ranks by vectors; the error that rules it out when the query has no vector.
        limit: Most candidates, 1 or more.
        threshold: Lowest score, 0 to 1.
        fusion: How the scores of both are joined.
        timeout_s: Seconds that each retriever may take in mode `hybrid`; None for no limit.
        symbols: Finds definitions; None leaves them out.
        graph: Links between passages; None leaves them out.
    """

    lexical: Retriever
    dense: Retriever | WhenceError
    limit: int
    threshold: float = 0.0
    fusion: Fusion = "absolute"
    timeout_s: float | None = None
    symbols: FindSymbols | None = None
    graph: PassageGraph | None = None

    async def search(self, mode: SearchMode) -> SearchResponse:
        """Rank once.

        Raises:
            Unavailable: No retriever of the mode answers.
            WhenceError: A retriever refused the query.
        """
        if mode == "dense":
            if isinstance(self.dense, WhenceError):
                raise self.dense
            return SearchResponse(candidates=tuple(await self.dense.search(self.limit)))
        if mode == "bm25":
            return await self._rank_words(await self.lexical.search(self.limit), [])
        depth = max(self.limit, RETRIEVER_DEPTH)
        lexical, dense = await asyncio.gather(
            self._attempt(self.lexical, depth), self._attempt(self.dense, depth)
        )
        if isinstance(lexical, WhenceError) and isinstance(dense, WhenceError):
            raise lexical if dense is self.dense else dense
        try:
            return await self._join(lexical, dense)
        except _RetrieverLostError as lost:
            if lost.retriever == "lexical":
                return await self._join(lost.error, dense)
            return await self._join(lexical, lost.error)

    async def _attempt(self, retriever: Retriever | WhenceError, depth: int) -> _Ranking:
        if isinstance(retriever, WhenceError):
            return retriever
        try:
            async with asyncio.timeout(self.timeout_s):
                return await retriever.search(depth)
        except TimeoutError:
            return self._late()
        except _RETRIEVER_ERRORS as error:
            return error

    def _late(self) -> DeadlineExceeded:
        return DeadlineExceeded(f"it did not answer within {self.timeout_s:.3g} s")

    async def _join(self, lexical: _Ranking, dense: _Ranking) -> SearchResponse:
        """Join two rankings, at least one of which is there.

        Raises:
            _RetrieverLostError: Both ranked, and one cannot score what the other found.
        """
        degraded = [*_missing("lexical", lexical), *_missing("dense", dense)]
        if isinstance(dense, WhenceError):
            assert not isinstance(lexical, WhenceError)
            return await self._rank_words(lexical, degraded)
        cosines = {one.chunk_id: one.dense_score or 0.0 for one in dense}
        shares: dict[str, float] | None = None
        documents = {one.chunk_id: one.document_id for one in dense}
        if not isinstance(lexical, WhenceError):
            shares = {one.chunk_id: one.sparse_score or 0.0 for one in lexical}
            documents |= {one.chunk_id: one.document_id for one in lexical}
        pool = _Pool(documents, degraded=degraded)
        pool.scores = await self._score(list(documents), cosines, shares)
        await self._add_definitions(pool, cosines, shares)
        fused: Mapping[str, float] = FUSIONS[self.fusion](pool.scores)
        if self.graph is not None and documents:
            fused = await self._walk(self.graph, pool, cosines, shares, fused)
        return self._ranked(pool, fused)

    async def _score(
        self, chunk_ids: Sequence[str], cosines: dict[str, float], shares: dict[str, float] | None
    ) -> dict[str, Scores]:
        """Return both scores of every chunk and add what was asked for to `cosines` and `shares`.

        `shares` is None when no lexical retriever ranked. A chunk that was removed or hidden in the meantime
        scores 0.

        Raises:
            _RetrieverLostError: A retriever does not answer.
        """
        assert not isinstance(self.dense, WhenceError)
        known: tuple[tuple[RetrieverName, Retriever, dict[str, float] | None], ...] = (
            ("lexical", self.lexical, shares),
            ("dense", self.dense, cosines),
        )
        for name, retriever, scores in known:
            if scores is None or not (new := [key for key in chunk_ids if key not in scores]):
                continue
            try:
                found = await retriever.scores(new)
            except _RETRIEVER_ERRORS as error:
                raise _RetrieverLostError(name, error) from error
            scores.update({key: found.get(key, 0.0) for key in new})
        if shares is None:
            return {key: Scores(cosines[key], None) for key in chunk_ids}
        return {key: Scores(cosines[key], shares[key]) for key in chunk_ids}

    async def _add_definitions(
        self, pool: _Pool, cosines: dict[str, float], shares: dict[str, float] | None
    ) -> None:
        """Add the chunks that define the symbol of the query; on a failure go on without them."""
        found = await self._definitions(pool)
        new = {one.chunk_id: one.document_id for one in found if one.chunk_id not in pool.documents}
        if new:
            try:
                pool.scores |= await self._score(list(new), cosines, shares)
            except _RetrieverLostError as lost:
                pool.degraded.append(_no_definitions(lost.error))
            else:
                pool.documents |= new
        pool.fits = {one.chunk_id: one.fit for one in found if one.chunk_id in pool.documents}

    async def _definitions(self, pool: _Pool) -> Sequence[SymbolMatch]:
        if self.symbols is None:
            return ()
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self.symbols(pool.documents)
        except TimeoutError:
            pool.degraded.append(_no_definitions(self._late()))
        except _RETRIEVER_ERRORS as error:
            pool.degraded.append(_no_definitions(error))
        return ()

    async def _walk(
        self,
        graph: PassageGraph,
        pool: _Pool,
        cosines: dict[str, float],
        shares: dict[str, float] | None,
        fused: Mapping[str, float],
    ) -> Mapping[str, float]:
        """Return the scores after a walk over the passage graph; on a failure those before it."""
        try:
            around = await graph.neighbourhood(pool.scores)
            if around is None:
                return fused
            new = [key for key in around.documents if key not in pool.documents]
            added = await self._score(new, cosines, shares)
        except (*_RETRIEVER_ERRORS, _RetrieverLostError) as error:
            reason = f"the passage graph was not used: {error}"
            pool.degraded.append(
                Degradation(stage="search", code="passage_graph_missing", reason=reason)
            )
            return fused
        pool.scores |= added
        pool.documents |= {key: around.documents[key] for key in new}
        walked = graph.walk(around, pool.scores)
        pool.gains, pool.graph = walked.gains, walked.use
        return walked.scores

    async def _rank_words(
        self, found: Sequence[Candidate], degraded: list[Degradation]
    ) -> SearchResponse:
        """Rank by words alone, on the scale of words alone, definitions of the query's symbol first."""
        pool = _Pool({one.chunk_id: one.document_id for one in found}, degraded=degraded)
        matches = await self._definitions(pool)
        new = {
            one.chunk_id: one.document_id for one in matches if one.chunk_id not in pool.documents
        }
        shares: Mapping[str, float] = {}
        if new:
            try:
                shares = dict.fromkeys(new, 0.0) | dict(await self.lexical.scores(list(new)))
            except _RETRIEVER_ERRORS as error:
                degraded.append(_no_definitions(error))
        pool.documents |= {key: new[key] for key in shares}
        pool.fits = {one.chunk_id: one.fit for one in matches if one.chunk_id in pool.documents}
        if not pool.fits:
            # The order of the retriever stays: two shares may have one score.
            scored = (msgspec.structs.replace(one, score=lexical_score(one.score)) for one in found)
            kept = [one for one in scored if one.score >= self.threshold][: self.limit]
            return SearchResponse(candidates=tuple(kept), degraded=tuple(degraded))
        pool.scores = {one.chunk_id: Scores(None, one.sparse_score) for one in found}
        pool.scores |= {key: Scores(None, share) for key, share in shares.items()}
        fused = {one.chunk_id: lexical_score(one.score) for one in found}
        # One factor leads from every share to the part of the query that it covers.
        factor = next((one.score / one.sparse_score for one in found if one.sparse_score), 1.0)
        fused |= {key: lexical_score(min(1.0, factor * share)) for key, share in shares.items()}
        return self._ranked(pool, fused)

    def _ranked(self, pool: _Pool, fused: Mapping[str, float]) -> SearchResponse:
        candidates = rank_candidates(
            pool.documents,
            pool.scores,
            fused,
            limit=self.limit,
            threshold=self.threshold,
            gains=pool.gains,
            fits=pool.fits,
        )
        return SearchResponse(
            candidates=candidates, degraded=tuple(pool.degraded), graph=pool.graph
        )


def _missing(name: RetrieverName, ranking: _Ranking) -> tuple[Degradation, ...]:
    if not isinstance(ranking, WhenceError):
        return ()
    reason = f"the {name} retriever did not rank: {ranking.message}"
    return (Degradation(stage="search", code=f"{name}_leg_missing", reason=reason),)


def _no_definitions(error: WhenceError) -> Degradation:
    reason = f"definitions of the symbol were not searched for: {error.message}"
    return Degradation(stage="search", code="names_missing", reason=reason)

"""Rank the visible chunks of a collection by words, by vectors, or by both.

`HybridSearch` joins two retrievers: every chunk has the true score of both, and a retriever that fails or is
late is named in `degraded`. `SearchService` answers a `SearchRequest` with it from a store.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from whence.models.encoders import find_encoder
from whence.retrieval.calibration import calibrate, not_served
from whence.retrieval.fusion import (
    FUSIONS,
    SCORE_FIELDS,
    UNCALIBRATED,
    Fusion,
    RetrieverName,
    lexical_score,
    rank_candidates,
)
from whence.retrieval.links import PassageGraph, Walk, is_linked_enough
from whence.retrieval.spelling import check_spelling
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import (
    BadInput,
    DeadlineExceeded,
    ModelMismatch,
    NotFound,
    Unavailable,
    WhenceError,
)
from whence.schema.filters import Filters, parse_filters
from whence.schema.search import (
    MAX_QUERY_WORDS,
    Calibration,
    Candidate,
    Degradation,
    SearchRequest,
    SearchResponse,
    SearchResult,
    check_query_words,
    truncate_query,
)
from whence.store.protocols import SupportsHybrid
from whence.store.symbol_names import LONGEST_NAME, SymbolMatch
from whence.text.analysis import is_stop_term

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from whence.schema.access import Access
    from whence.store.protocols import ChunkStore, HybridRankings, VectorShare

T = TypeVar("T")

#: Candidates that each retriever of a hybrid search returns at least: one may rank high what the other ranks
#: low.
RETRIEVER_DEPTH: Final = 100
#: Errors that leave the other retriever usable; all others are faults of the request itself.
_RETRIEVER_ERRORS = (Unavailable, DeadlineExceeded, ModelMismatch)


@dataclass(frozen=True, slots=True)
class QueryRetriever:
    """One way of ranking chunks for one query, with the rights of one reader."""

    search: Callable[..., Awaitable[list[Candidate]]]
    """Takes `limit`; returns the best chunks, best first, at most so many. A dense retriever sets
    `dense_score`, the cosine; a lexical one sets `sparse_score`, the lexical share, and `score`, the part of
    the query that is covered."""
    scores: Callable[[Sequence[str]], Awaitable[Mapping[str, float]]]
    """Returns the `dense_score` or `sparse_score` of those of these chunks that exist and are visible."""


_Ranking = list[Candidate] | WhenceError
_Chunks = dict[str, Candidate]
"""By id, with the scores that are known so far."""


@dataclass(slots=True, kw_only=True)
class HybridSearch:
    """One search over a lexical and a dense retriever."""

    query_text: str
    lexical: QueryRetriever
    dense: QueryRetriever | None = None
    """None when the query could not be embedded."""
    no_dense: WhenceError | None = None
    """Why `dense` is None, when that is known."""
    vector_share: Callable[[], Awaitable[VectorShare]] | None = None
    """Returns how many of the visible passages have vectors."""
    both: Callable[..., Awaitable[HybridRankings]] | None = None
    """Returns the rankings of both retrievers, and that share, in one read; takes `limit`. Each is asked alone
    where it fails."""
    limit: int
    threshold: float = 0.0
    fusion: Fusion = "absolute"
    timeout_s: float | None = None
    """Seconds for each retriever."""
    find_symbols: Callable[[str], Awaitable[Sequence[SymbolMatch]]] | None = None
    """Returns the chunks that define the symbol of a name."""
    find_graph: Callable[[], Awaitable[PassageGraph | None]] | None = None
    """Returns the passage graph of the collection; None when it has too few links."""
    find_calibration: Callable[[], Awaitable[Calibration]] | None = None
    """Returns what cosines mean in the collection."""
    finds_all: bool = False
    """Whether a retriever that returns fewer candidates than it was asked for has no score for any other chunk;
    a client of the caller may return as few as it likes."""
    degraded: list[Degradation] = field(default_factory=list)
    """What was left out so far, and why."""
    _exhausted: set[RetrieverName] = field(default_factory=set, init=False)
    """Retrievers that have no score for any other chunk."""
    _calibration: Calibration = field(default=UNCALIBRATED, init=False)
    _pending: bool = field(default=False, init=False)
    """Whether visible passages wait for vectors."""

    @property
    def _depth(self) -> int:
        return max(self.limit, RETRIEVER_DEPTH)

    async def search(self) -> SearchResponse:
        """Rank by both retrievers, or by the one that answers.

        Raises:
            WhenceError: Neither answered.
        """
        depth = self._depth
        if self.both is not None:
            found = await self._attempt(self.both(limit=depth))
            if not isinstance(found, WhenceError):
                self._note_share(found.share)
                return await self._join({"lexical": found.lexical, "dense": found.dense})
        words = self._attempt(self.lexical.search(limit=depth))
        dense: _Ranking
        if self.dense is None:
            lexical = await words
            dense = self.no_dense or Unavailable("the query could not be embedded")
        else:
            vectors = self._attempt(self.dense.search(limit=depth))
            lexical, dense, _ = await asyncio.gather(words, vectors, self._find_share())
        if isinstance(lexical, WhenceError) and isinstance(dense, WhenceError):
            raise lexical if self.dense is None else dense
        return await self._join({"lexical": lexical, "dense": dense})

    async def _find_share(self) -> None:
        """Find out whether visible passages wait for vectors, and say so."""
        if self.vector_share is None:
            return
        found = await self._attempt(self.vector_share())
        if not isinstance(found, WhenceError):
            self._note_share(found)

    def _note_share(self, found: VectorShare) -> None:
        if found.pending:
            self._pending = True
            self.degraded.append(vectors_pending(found))

    async def rank_words(self, found: Sequence[Candidate]) -> SearchResponse:
        """Rank by words alone, on the scale of words alone, definitions of the query's symbol first."""
        chunks = {one.chunk_id: replace(one, sparse_score=one.sparse_score or 0.0) for one in found}
        fits = await self._add_definitions(chunks, ["lexical"])
        if not fits:
            # The order of the retriever stays: two shares may have one score.
            scored = (replace(one, score=lexical_score(one.score)) for one in found)
            kept = kept_candidates(scored, self.limit, self.threshold)
            return SearchResponse(candidates=kept, degraded=tuple(self.degraded))
        covered = {one.chunk_id: one.score for one in found}
        # One factor leads from every share to the part of the query that it covers.
        factor = next((one.score / one.sparse_score for one in found if one.sparse_score), 1.0)
        fused = {
            key: lexical_score(covered.get(key, min(1.0, factor * (one.sparse_score or 0.0))))
            for key, one in chunks.items()
        }
        return self._ranked(chunks, fused, fits)

    async def _attempt(self, answer: Awaitable[T]) -> T | WhenceError:
        """Return an answer of the store, or why there is none."""
        try:
            async with asyncio.timeout(self.timeout_s):
                return await answer
        except TimeoutError:
            return DeadlineExceeded(f"it did not answer within {self.timeout_s:.3g} s")
        except _RETRIEVER_ERRORS as error:
            return error

    async def _join(self, rankings: Mapping[RetrieverName, _Ranking]) -> SearchResponse:
        """Join two rankings, at least one of which is there."""
        chunks: _Chunks = {}
        ranked: list[RetrieverName] = []
        for name, ranking in rankings.items():
            if isinstance(ranking, ModelMismatch):
                self._degrade("encoder_differs", f"words alone ranked: {ranking.message}")
                continue
            if isinstance(ranking, WhenceError):
                reason = f"the {name} retriever did not rank: {ranking.message}"
                self._degrade(f"{name}_leg_missing", reason)
                continue
            ranked.append(name)
            score_field = SCORE_FIELDS[name]
            for one in ranking:
                known = chunks.setdefault(one.chunk_id, one)
                if getattr(known, score_field) is None:
                    score = getattr(one, score_field) or 0.0
                    chunks[one.chunk_id] = replace(known, **{score_field: score})
            if self.finds_all and len(ranking) < self._depth:
                self._exhausted.add(name)
        if "dense" not in ranked:
            lexical = rankings["lexical"]
            assert not isinstance(lexical, WhenceError)
            return await self.rank_words(lexical)
        scored = await asyncio.gather(*(self._try_score(chunks, name) for name in ranked))
        for name, failed in zip(ranked, scored, strict=True):
            if failed is not None:
                return await self._join({**rankings, name: failed})
        fits = await self._add_definitions(chunks, ranked)
        await self._calibrate()
        walk = await self._walk(chunks, ranked)
        joined = FUSIONS[self.fusion](chunks, self._calibration) if walk is None else walk.scores
        fused = self._with_words_alone(chunks, joined, rankings)
        response = self._ranked(chunks, fused, fits, walk)
        used = self._calibration if self.find_calibration is not None else None
        return msgspec.structs.replace(response, calibration=used)

    def _with_words_alone(
        self,
        chunks: _Chunks,
        fused: Mapping[str, float],
        rankings: Mapping[RetrieverName, _Ranking],
    ) -> Mapping[str, float]:
        """Score the passages that wait for their vector by words, on the scale of words alone."""
        waiting = [key for key, one in chunks.items() if one.dense_score is None]
        lexical = rankings["lexical"]
        if not waiting or isinstance(lexical, WhenceError) or self.fusion != "absolute":
            return fused
        factor = next((one.score / one.sparse_score for one in lexical if one.sparse_score), 1.0)
        own = {
            key: lexical_score(min(1.0, factor * (chunks[key].sparse_score or 0.0)))
            for key in waiting
        }
        return {key: max(score, own.get(key, 0.0)) for key, score in fused.items()}

    async def _calibrate(self) -> None:
        """Find out what the cosines mean; they count as they are when that cannot be known."""
        if self.find_calibration is None:
            return
        try:
            self._calibration = await self.find_calibration()
        except _RETRIEVER_ERRORS as error:
            reason = f"cosines counted as they are: {error.message}"
            self._degrade("calibration_missing", reason)
            return
        if reason := not_served(self._calibration):
            self._degrade("language_not_served", reason)

    async def _score(self, chunks: _Chunks, names: Iterable[RetrieverName]) -> None:
        """Ask retrievers for the scores that are missing.

        A chunk that was removed or hidden in the meantime scores 0.
        """
        for name in names:
            retriever = self.lexical if name == "lexical" else self.dense
            field_name = SCORE_FIELDS[name]
            new = [key for key, one in chunks.items() if getattr(one, field_name) is None]
            found: Mapping[str, float] = {}
            if name not in self._exhausted:
                if not new or retriever is None:
                    continue
                found = await retriever.scores(new)
            # Of a passage that waits for its vector the cosine is not known.
            unknown = None if name == "dense" and self._pending else 0.0
            for key in new:
                chunks[key] = replace(chunks[key], **{field_name: found.get(key, unknown)})

    async def _try_score(self, chunks: _Chunks, name: RetrieverName) -> WhenceError | None:
        """Ask a retriever for the scores that are missing; return why it has none."""
        try:
            await self._score(chunks, [name])
        except _RETRIEVER_ERRORS as error:
            return error
        return None

    async def _add_definitions(
        self, chunks: _Chunks, ranked: Sequence[RetrieverName]
    ) -> dict[str, int]:
        """Add the chunks that define the symbol of the query; return how well each of them fits.

        On a failure the search goes on without them.
        """
        name = parse_symbol_query(self.query_text)
        if name is None or self.find_symbols is None:
            return {}
        matches = await self._attempt(self.find_symbols(name))
        if isinstance(matches, WhenceError):
            self._degrade_definitions(matches)
            return {}
        added = {
            one.chunk_id: _candidate(one.chunk_id, one.document_id)
            for one in matches
            if one.chunk_id not in chunks
        }
        try:
            await self._score(added, ranked)
            chunks |= added
        except _RETRIEVER_ERRORS as error:
            self._degrade_definitions(error)
        return {one.chunk_id: one.fit for one in matches if one.chunk_id in chunks}

    async def _walk(self, chunks: _Chunks, ranked: Sequence[RetrieverName]) -> Walk | None:
        """Walk over the passage graph and add the passages it leads to; None when it was not used."""
        if self.find_graph is None or not chunks:
            return None
        try:
            graph = await self.find_graph()
            if graph is None:
                return None
            around = await graph.neighbourhood(chunks, self._calibration)
            added = {
                key: _candidate(key, document_id)
                for key, document_id in around.documents.items()
                if key not in chunks
            }
            await self._score(added, ranked)
        except _RETRIEVER_ERRORS as error:
            self._degrade(
                "passage_graph_missing", f"the passage graph was not used: {error.message}"
            )
            return None
        chunks |= added
        return graph.walk(around, chunks, self._calibration)

    def _ranked(
        self,
        chunks: _Chunks,
        fused: Mapping[str, float],
        fits: Mapping[str, int],
        walk: Walk | None = None,
    ) -> SearchResponse:
        candidates = rank_candidates(
            chunks,
            fused,
            limit=self.limit,
            threshold=self.threshold,
            gains=walk and walk.gains,
            fits=fits,
        )
        return SearchResponse(
            candidates=candidates, degraded=tuple(self.degraded), graph=walk and walk.use
        )

    def _degrade_definitions(self, error: WhenceError) -> None:
        reason = f"definitions of the symbol were not searched for: {error.message}"
        self._degrade("names_missing", reason)

    def _degrade(self, code: str, reason: str) -> None:
        self.degraded.append(Degradation(stage="search", code=code, reason=reason))


def _candidate(chunk_id: str, document_id: str) -> Candidate:
    return Candidate(chunk_id=chunk_id, document_id=document_id, score=0.0, rank=0)


def kept_candidates(
    ranking: Iterable[Candidate], limit: int, threshold: float
) -> tuple[Candidate, ...]:
    """Return the first `limit` candidates whose score reaches the threshold.

    A score below 0, that of a negative cosine, counts as 0.
    """
    scored = (one if one.score >= 0 else replace(one, score=0.0) for one in ranking)
    return tuple([one for one in scored if one.score >= threshold][:limit])


#: Most words of a query for a name; longer ones are questions.
_MAX_NAME_WORDS = 8
#: Characters that may surround a name: quotes, brackets of a call, punctuation.
_AROUND = "\"'`()[]{}<>,;!?.:#*&"
_SYMBOL = re.compile(r"[\w$@]+(?:(?:::|[.:#])[\w$@]+)*")


def parse_symbol_query(query_text: str) -> str | None:
    """Return the name that a query consists of, apart from stop words; None for any other query.

    >>> [parse_symbol_query(query) for query in ("the `Cart.total()`", "_private", "total of a cart")]
    ['Cart.total', '_private', None]
    """
    words = query_text.split(maxsplit=_MAX_NAME_WORDS)
    if not 0 < len(words) <= _MAX_NAME_WORDS:
        return None
    strong = [
        word for one in words if (word := one.strip(_AROUND)) and not is_stop_term(word.lower())
    ]
    if len(strong) != 1 or not _SYMBOL.fullmatch(strong[0]):
        return None
    return strong[0] if len(strong[0].encode()) <= LONGEST_NAME else None


#: Part of the caller's time that a retriever may take; the other one can still answer in the remaining time.
_RETRIEVER_SHARE = 0.5
#: Entries of each cache.
_CACHE_SIZE = 1000
#: Most queries of one request.
_MAX_QUERIES = 100


class SearchParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the search processor."""

    max_limit: Annotated[int, msgspec.Meta(ge=1)] = 100_000
    """Largest `limit` of a request; a larger one is refused."""
    model_memory_s: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 2.0
    """Seconds for which model, calibration and link statistics of a collection are cached. A collection that is
    removed and made again with another model of the same dimension is noticed after that time."""
    fusion: Fusion = "absolute"
    """How a hybrid search joins the scores of its retrievers. Only with `absolute` does a threshold mean the
    same for every query, and only then is the passage graph used."""
    leg_timeout_s: Annotated[float, msgspec.Meta(gt=0, le=600)] = 10.0
    """Seconds that each retriever of a hybrid search may take, at most half of the caller's time; after that
    the other one answers alone."""
    passage_graph: Literal["auto", "on", "off"] = "auto"
    """Whether a hybrid search follows links from the best passages. `auto` does so in collections where at
    least 0.4 of the passages have a link and documents have at most 1.5 passages on average."""


@dataclass(slots=True)
class SearchService:
    """Answers search requests from a store."""

    store: ChunkStore
    parameters: SearchParameters
    monotonic: Callable[[], float] = time.monotonic
    _cache: dict[Hashable, tuple[float, Any]] = field(default_factory=dict, init=False)

    async def search(
        self, request: SearchRequest, remaining_s: float | None = None
    ) -> SearchResponse:
        """Answer one query, or several at once; one of several that fails is left out.

        Raises:
            BadInput: Limit, threshold, vector or a filter is invalid, no visible document has a key of the
                filters, or there are more than 100 queries.
            NotFound: The collection does not exist.
            ModelMismatch: Mode is `dense`, and the vector comes from another model than the collection's.
            Unavailable: The store does not answer, or no retriever of a hybrid search does.
        """
        response = await self._answer(request, remaining_s)
        version, settings = 0, {}
        if request.with_version:
            version = await self.store.collection_version(request.collection)
        if request.mode == "hybrid":
            used = self.parameters
            settings = {"fusion": used.fusion, "passage_graph": used.passage_graph}
        return replace(response, collection_version=version, settings=settings)

    async def _answer(self, request: SearchRequest, remaining_s: float | None) -> SearchResponse:
        if not request.more:
            if request.spelling:
                return await self._search_spelled(request, remaining_s)
            return await self._search(request, remaining_s)
        if len(request.more) >= _MAX_QUERIES:
            raise BadInput(
                f"{1 + len(request.more)} queries in one search; at most {_MAX_QUERIES} are taken"
            )

        others = (
            replace(
                request,
                more=(),
                mode="bm25" if request.vector and not one.vector else request.mode,
                **msgspec.structs.asdict(one),
            )
            for one in request.more
        )
        found = await asyncio.gather(
            *(self._search(one, remaining_s) for one in (request, *others)), return_exceptions=True
        )
        errors = [one for one in found if isinstance(one, BaseException)]
        for error in errors:
            if len(errors) == len(found) or not isinstance(error, WhenceError):
                raise error
        results = (
            None
            if isinstance(one, BaseException)
            else SearchResult(
                candidates=one.candidates,
                degraded=one.degraded,
                graph=one.graph,
                calibration=one.calibration,
            )
            for one in found
        )
        return SearchResponse(candidates=(), results=tuple(results))

    async def _search_spelled(
        self, request: SearchRequest, remaining_s: float | None
    ) -> SearchResponse:
        """Answer one query with what is known of its words."""
        self._check(request)
        if request.model is not None:
            await self._other_model(request.collection, request.model)
        # Before the search, which then finds the postings of most words in the cache.
        found = await check_spelling(
            self.store, request.collection, request.query_text, request.access
        )
        response = SearchResponse(candidates=())
        if not (found.corrections and request.stop_when_misspelt):
            response = await self._search(request, remaining_s)
        return replace(response, corrections=found.corrections, absent=found.absent)

    async def _search(self, request: SearchRequest, remaining_s: float | None) -> SearchResponse:
        self._check(request)
        filters = parse_filters(request.filters) if request.filters else ()
        other = None
        if request.model is not None:
            other = await self._other_model(request.collection, request.model)
        if request.mode == "dense":
            if other is not None:
                raise other
            ranking = await self.store.search_dense(
                request.collection,
                _vector(request),
                limit=request.limit,
                access=request.access,
                threshold=request.threshold,
                filters=filters,
                model=request.model,
            )
            kept = kept_candidates(ranking, request.limit, request.threshold)
            share = await self.store.vector_share(request.collection, request.access)
            waits = (vectors_pending(share),) if share.pending else ()
            return SearchResponse(candidates=kept, degraded=waits)
        if other is not None:
            request = replace(request, vector=None, model=None)
        search = self._hybrid(request, filters, remaining_s)
        search.no_dense = other
        if request.mode == "hybrid":
            return await search.search()
        return await search.rank_words(await search.lexical.search(limit=request.limit))

    def _hybrid(
        self, request: SearchRequest, filters: Filters, remaining_s: float | None
    ) -> HybridSearch:
        """Return the search by words and, when the request has a vector, by vectors."""
        cut: tuple[Degradation, ...] = ()
        # A shorter query has no more words either.
        if len(request.query_text) > MAX_QUERY_WORDS:
            query_text, cut = truncate_query(request.query_text)
            cut += check_query_words(query_text)
            request = replace(request, query_text=query_text)
        timeout_s = self.parameters.leg_timeout_s
        if remaining_s is not None:
            timeout_s = min(timeout_s, _RETRIEVER_SHARE * remaining_s)
        store, collection, text = self.store, request.collection, request.query_text
        access, match = request.access, request.match
        search = HybridSearch(
            query_text=text,
            lexical=QueryRetriever(
                partial(
                    store.search_lexical,
                    collection,
                    text,
                    access=access,
                    filters=filters,
                    match=match,
                ),
                partial(store.lexical_scores, collection, text, access=access, match=match),
            ),
            limit=request.limit,
            threshold=request.threshold,
            fusion=self.parameters.fusion,
            timeout_s=timeout_s,
            finds_all=True,
            degraded=[*cut],
        )
        # With more definitions than that no other chunk is ranked.
        most = max(request.limit, RETRIEVER_DEPTH)
        search.find_symbols = partial(
            store.find_symbols, collection, limit=most, access=access, filters=filters
        )
        if request.mode == "hybrid":
            search.find_graph = partial(self._passage_graph, request)
            if request.vector:
                if self.parameters.fusion == "absolute":
                    search.find_calibration = partial(self.calibration, collection, access)
                vector = _vector(request)
                search.vector_share = partial(store.vector_share, collection, access)
                if isinstance(store, SupportsHybrid):
                    search.both = partial(
                        store.search_both,
                        collection,
                        text,
                        vector,
                        access=access,
                        filters=filters,
                        match=match,
                        model=request.model,
                    )
                search.dense = QueryRetriever(
                    partial(
                        store.search_dense,
                        collection,
                        vector,
                        access=access,
                        filters=filters,
                        model=request.model,
                    ),
                    partial(
                        store.dense_scores, collection, vector, access=access, model=request.model
                    ),
                )
        return search

    async def calibration(self, collection: str, access: Access) -> Calibration:
        """Return what the cosines of a collection mean to a reader, at most `model_memory_s` old."""

        async def read() -> Calibration:
            model = await self._model(collection)
            return calibrate(model, await self.store.vector_statistics(collection, access))

        found: Calibration = await self._cached((collection, access, "calibration"), read)
        return found

    async def _passage_graph(self, request: SearchRequest) -> PassageGraph | None:
        """Return the passage graph of a collection; None when it is off or too few passages are linked."""
        store, setting = self.store, self.parameters.passage_graph
        collection, access = request.collection, request.access
        if setting == "off" or self.parameters.fusion != "absolute":
            return None

        async def linked_share() -> float | None:
            statistics = await store.link_statistics(collection, access)
            if statistics is None or (setting == "auto" and not is_linked_enough(statistics)):
                return None
            return statistics.share

        share = await self._cached((collection, access), linked_share)
        if share is None:
            return None
        return PassageGraph(
            linked_share=share,
            find_titles=lambda chunk_ids, text: store.linked_titles(
                collection, chunk_ids, access, query_text=text
            ),
            query_text=request.query_text,
            candidates_only=bool(request.filters),
        )

    def _check(self, request: SearchRequest) -> None:
        if not 1 <= request.limit <= self.parameters.max_limit:
            raise BadInput(
                f"limit (the top_k of a search) must be 1 to {self.parameters.max_limit},"
                f" not {request.limit}",
                hint="ask for fewer results, or narrow the search with filters",
            )
        if not 0.0 <= request.threshold <= 1.0:
            raise BadInput(f"threshold must be 0 to 1, not {request.threshold}")
        if request.match == "all" and request.mode == "dense":
            raise BadInput(
                "mode dense knows no words that could all match",
                hint="use mode bm25 or hybrid, or match any",
            )

    async def _other_model(self, collection: str, model: EmbeddingModel) -> ModelMismatch | None:
        """Return why the vector of a query is of no use here; None when it is of the collection's model."""
        stored = await self._model(collection)
        if stored is None:
            self._cache.pop(collection, None)
            raise NotFound(
                f"there is no collection {collection!r}",
                hint="index something into it first; `whence collections` lists what there is",
            )
        if stored == model:
            return None
        known = find_encoder(stored.name)
        install = f"`whence models install {known.name}` brings it, " if known else ""
        return ModelMismatch(
            f"collection {collection!r} was made with {_model_name(stored)}, which is not here, and the query"
            f" with {_model_name(model)}; {install}`whence reembed` makes vectors of an encoder that is here",
        )

    async def _model(self, collection: str) -> EmbeddingModel | None:
        found: EmbeddingModel | None = await self._cached(
            collection, lambda: self.store.collection_model(collection)
        )
        return found

    async def _cached(self, key: Hashable, read: Callable[[], Awaitable[Any]]) -> Any:
        """Return what was read for a key within the last `model_memory_s` seconds, or read it."""
        now = self.monotonic()
        known = self._cache.get(key)
        if known is None or now >= known[0]:
            known = (now + self.parameters.model_memory_s, await read())
            if len(self._cache) >= _CACHE_SIZE:
                self._cache.clear()
            self._cache[key] = known
        return known[1]


def vectors_pending(found: VectorShare) -> Degradation:
    """Return the note that passages wait for vectors."""
    return Degradation(
        stage="search",
        code="vectors_pending",
        reason=f"{found.share:.0%} of the passages have vectors, the others are found by words alone",
        share=found.share,
    )


def _vector(request: SearchRequest) -> NDArray[np.float32]:
    """Read the query vector, float32 of shape (dimension,)."""
    import numpy as np

    if not request.vector:
        raise BadInput(f"mode {request.mode} needs a query vector")
    if len(request.vector) % 4:
        raise BadInput(f"a vector of {len(request.vector)} bytes is no list of float32")
    vector = np.frombuffer(request.vector, dtype="<f4").astype(np.float32, copy=False)
    if not np.isfinite(vector).all():
        raise BadInput("the query vector holds a number that is not finite")
    return vector


def _model_name(model: EmbeddingModel) -> str:
    parts = (model.name, model.revision[:12], model.precision, f"dimension {model.dimension}")
    return ", ".join(filter(None, parts))

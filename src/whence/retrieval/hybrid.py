"""Rank the visible chunks of a collection by words, by vectors, or by both.

`HybridSearch` joins two retrievers: every chunk has the true score of both, and a retriever that fails or is
late is named in `degraded`. `SearchService` answers a `SearchRequest` with it from a store.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec

from whence.retrieval.fusion import FUSIONS, Fusion, Scores, lexical_score, rank_candidates
from whence.retrieval.links import PassageGraph, is_linked_enough
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
    Candidate,
    Degradation,
    GraphUse,
    SearchMode,
    SearchRequest,
    SearchResponse,
    SearchResult,
    check_query_words,
    truncate_query,
)
from whence.store.linked_titles import SupportsLinks
from whence.store.symbol_names import SupportsSymbols, SymbolMatch, parse_symbol_query

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from whence.store.protocols import ChunkStore

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
    gains: dict[str, float] | None = None
    """What links added to each score; None when the passage graph was not used."""
    graph: GraphUse | None = None
    degraded: list[Degradation] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class HybridSearch:
    """One search over a lexical and a dense retriever."""

    lexical: Retriever
    dense: Retriever | WhenceError
    limit: int
    threshold: float = 0.0
    fusion: Fusion = "absolute"
    timeout_s: float | None = None
    symbols: FindSymbols | None = None
    graph: PassageGraph | None = None

    async def search(self, mode: SearchMode) -> SearchResponse:
        """Rank once."""
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
            return DeadlineExceeded(f"it did not answer within {self.timeout_s:.3g} s")
        except _RETRIEVER_ERRORS as error:
            return error

    async def _join(self, lexical: _Ranking, dense: _Ranking) -> SearchResponse:
        """Join two rankings, at least one of which is there."""
        degraded = [
            Degradation(
                stage="search",
                code=f"{name}_leg_missing",
                reason=f"the {name} retriever did not rank: {ranking.message}",
            )
            for name, ranking in (("lexical", lexical), ("dense", dense))
            if isinstance(ranking, WhenceError)
        ]
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
        if self.symbols is not None:
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
            late = DeadlineExceeded(f"it did not answer within {self.timeout_s:.3g} s")
            pool.degraded.append(_no_definitions(late))
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


def _no_definitions(error: WhenceError) -> Degradation:
    reason = f"definitions of the symbol were not searched for: {error.message}"
    return Degradation(stage="search", code="names_missing", reason=reason)


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
    """Seconds for which the model and the link statistics of a collection are cached. A collection that is
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


class SearchService:
    """Answers search requests from a store."""

    def __init__(
        self,
        store: ChunkStore,
        parameters: SearchParameters,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._parameters = parameters
        self._monotonic = monotonic
        self._cache: dict[Hashable, tuple[float, Any]] = {}

    async def search(
        self, request: SearchRequest, remaining_s: float | None = None
    ) -> SearchResponse:
        """Answer one query, or several at once; one of several that fails is left out.

        Raises:
            BadInput: Limit, threshold, vector or a filter is invalid, no visible document has a key of the
                filters, or there are more than 100 queries.
            NotFound: The collection does not exist.
            ModelMismatch: The vector comes from another model than the collection's.
            Unavailable: The store does not answer, or no retriever of a hybrid search does.
        """
        if not request.more:
            return await self._search(request, remaining_s)
        if len(request.more) >= _MAX_QUERIES:
            raise BadInput(
                f"{1 + len(request.more)} queries in one search; at most {_MAX_QUERIES} are taken"
            )

        async def search(**query: Any) -> SearchResponse | WhenceError:
            try:
                one = msgspec.structs.replace(request, more=(), **query)
                return await self._search(one, remaining_s)
            except WhenceError as error:
                return error

        found = await asyncio.gather(
            search(), *(search(**msgspec.structs.asdict(one)) for one in request.more)
        )
        errors = [one for one in found if isinstance(one, WhenceError)]
        if len(errors) == len(found):
            raise errors[0]
        results = (
            None
            if isinstance(one, WhenceError)
            else SearchResult(candidates=one.candidates, degraded=one.degraded, graph=one.graph)
            for one in found
        )
        return SearchResponse(candidates=(), results=tuple(results))

    async def _search(self, request: SearchRequest, remaining_s: float | None) -> SearchResponse:
        self._check(request)
        filters = parse_filters(request.filters)
        if request.model is not None:
            await self._check_model(request.collection, request.model)
        cut: tuple[Degradation, ...] = ()
        if request.mode != "dense":
            query_text, cut = truncate_query(request.query_text)
            cut += check_query_words(query_text)
            if query_text != request.query_text:
                request = msgspec.structs.replace(request, query_text=query_text)
        found = await self._hybrid(request, filters, remaining_s).search(request.mode)
        return msgspec.structs.replace(found, degraded=(*cut, *found.degraded)) if cut else found

    def _hybrid(
        self, request: SearchRequest, filters: Filters, remaining_s: float | None
    ) -> HybridSearch:
        timeout_s = self._parameters.leg_timeout_s
        if remaining_s is not None:
            timeout_s = min(timeout_s, _RETRIEVER_SHARE * remaining_s)
        store, collection, access = self._store, request.collection, request.access
        text, match = request.query_text, request.match
        search = HybridSearch(
            lexical=Retriever(
                lambda limit: store.search_lexical(
                    collection, text, limit=limit, access=access, filters=filters, match=match
                ),
                lambda ids: store.lexical_scores(collection, text, ids, access, match=match),
            ),
            dense=Unavailable("the query could not be embedded"),
            limit=request.limit,
            threshold=request.threshold,
            fusion=self._parameters.fusion,
            timeout_s=timeout_s,
        )
        if request.mode == "dense" or (request.mode == "hybrid" and request.vector):
            vector = _vector(request)
            lowest = request.threshold if request.mode == "dense" else 0.0
            search.dense = Retriever(
                lambda limit: store.search_dense(
                    collection,
                    vector,
                    limit=limit,
                    access=access,
                    threshold=lowest,
                    filters=filters,
                ),
                lambda ids: store.dense_scores(collection, vector, ids, access),
            )
        if request.mode == "dense":
            return search
        name = parse_symbol_query(text)
        if name is not None and isinstance(store, SupportsSymbols):
            find_symbols = store.find_symbols
            # With more definitions than that no other chunk is ranked.
            most = max(request.limit, RETRIEVER_DEPTH)
            search.symbols = lambda _: find_symbols(
                collection, name, limit=most, access=access, filters=filters
            )
        if request.mode == "hybrid" and isinstance(store, SupportsLinks):
            search.graph = self._graph(store, request)
        return search

    def _graph(self, store: SupportsLinks, request: SearchRequest) -> PassageGraph | None:
        setting = self._parameters.passage_graph
        if setting == "off" or self._parameters.fusion != "absolute":
            return None
        collection, access = request.collection, request.access

        async def linked_share() -> float | None:
            statistics = await self._cached(
                (collection, access), lambda: store.link_statistics(collection, access)
            )
            if statistics is None or (setting == "auto" and not is_linked_enough(statistics)):
                return None
            share: float = statistics.share
            return share

        return PassageGraph(
            linked_share=linked_share,
            find_titles=lambda chunk_ids, text: store.linked_titles(
                collection, chunk_ids, access, query_text=text
            ),
            query_text=request.query_text,
            candidates_only=bool(request.filters),
        )

    def _check(self, request: SearchRequest) -> None:
        if not 1 <= request.limit <= self._parameters.max_limit:
            raise BadInput(
                f"limit (the top_k of a search) must be 1 to {self._parameters.max_limit},"
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

    async def _check_model(self, collection: str, model: EmbeddingModel) -> None:
        stored = await self._cached(collection, lambda: self._store.collection_model(collection))
        if stored is None:
            self._cache.pop(collection, None)
            raise NotFound(
                f"there is no collection {collection!r}",
                hint="index something into it first; `whence collections` lists what there is",
            )
        if stored != model:
            raise ModelMismatch(
                f"collection {collection!r} was made with {_model_name(stored)},"
                f" the query with {_model_name(model)}"
            )

    async def _cached(self, key: Hashable, read: Callable[[], Awaitable[Any]]) -> Any:
        """Return what was read for a key within the last `model_memory_s` seconds, or read it."""
        now = self._monotonic()
        known = self._cache.get(key)
        if known is None or now >= known[0]:
            known = (now + self._parameters.model_memory_s, await read())
            if len(self._cache) >= _CACHE_SIZE:
                self._cache.clear()
            self._cache[key] = known
        return known[1]


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

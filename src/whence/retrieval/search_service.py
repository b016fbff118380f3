"""The search service over a store: a `SearchRequest` in, a `SearchResponse` out.

Filters and rights are the store's; this module checks the request, chooses the retrievers and answers several
queries at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from whence.retrieval.fusion import Fusion
from whence.retrieval.hybrid import RETRIEVER_DEPTH, HybridSearch, Retriever
from whence.retrieval.links import PassageGraph, is_linked_enough
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import BadInput, ModelMismatch, NotFound, Unavailable, WhenceError
from whence.schema.filters import Filters, parse_filters
from whence.schema.search import (
    Degradation,
    SearchRequest,
    SearchResponse,
    SearchResult,
    check_query_words,
    truncate_query,
)
from whence.store.linked_titles import SupportsLinks
from whence.store.symbol_names import SupportsSymbols, parse_symbol_query

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from whence.store.protocols import ChunkStore

__all__ = ("SearchParameters", "SearchService")

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
    """Answers search requests from a store.

    Args:
        store: Has the chunks.
        parameters: Settings.
        monotonic: Clock in seconds, for the caches.
    """

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

        Args:
            request: The queries.
            remaining_s: Seconds until the caller gives up; None for no limit.

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
        found = await asyncio.gather(
            *(_or_error(self._search(one, remaining_s)) for one in _queries(request))
        )
        errors = [one for one in found if isinstance(one, WhenceError)]
        if len(errors) == len(found):
            raise errors[0]
        return SearchResponse(candidates=(), results=tuple(map(_result, found)))

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


def _queries(request: SearchRequest) -> Iterator[SearchRequest]:
    """Yield each query of a request as a request of its own."""
    yield msgspec.structs.replace(request, more=())
    for one in request.more:
        yield msgspec.structs.replace(
            request, more=(), limit=one.limit, vector=one.vector, query_text=one.query_text
        )


async def _or_error(searching: Awaitable[SearchResponse]) -> SearchResponse | WhenceError:
    try:
        return await searching
    except WhenceError as error:
        return error


def _result(found: SearchResponse | WhenceError) -> SearchResult | None:
    if isinstance(found, WhenceError):
        return None
    return SearchResult(candidates=found.candidates, degraded=found.degraded, graph=found.graph)


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
    return ", ".join(part for part in parts if part)

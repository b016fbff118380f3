"""`Retriever`: a query in, ranked chunks out, over any embedder and any stores, or over an engine."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from msgspec.structs import replace

from whence.operations.search import Search
from whence.retrieval.fusion import Fusion
from whence.retrieval.hybrid import HybridSearch, QueryRetriever
from whence.retrieval.pipeline import check_search, to_results
from whence.retrieval.pooling import pool_candidates
from whence.retrieval.results import WEAK_SCORE
from whence.schema.access import Access
from whence.schema.errors import BadInput, ModelMissing, NotFound, WhenceError, error_text
from whence.schema.passages import Passage
from whence.schema.search import Candidate, SearchResponse, truncate_query
from whence.store.symbol_names import SymbolMatch, is_symbol_heading, symbol_fit
from whence.surfaces.python.loop_thread import LoopThread
from whence.surfaces.python.protocols import FoundChunk

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from whence.retrieval.results import RetrievalResult
    from whence.surfaces.python.engine import Engine
    from whence.surfaces.python.protocols import Embedder, SparseRetriever, VectorStore


#: Shortest query in characters; other searches take any that is not blank.
MIN_QUERY = 3


class RetrieverNotReady(WhenceError, RuntimeError):
    """A vector store or an embedder is missing, or does not answer."""

    code = "not_ready"
    default_hint = "give the retriever an embedder and a vector store, and index something first"


class Retriever:
    """Searches chunks that are similar to a query.

    With a vector store alone the score of a chunk is its cosine. With a sparse retriever both scores are joined
    on one scale that means the same for every query, see `whence.retrieval.fusion`; definitions of a symbol
    that the query names rank first, see `whence.retrieval.fusion`. Results are sorted by score, ties by chunk
    id.

    Nothing is checked or opened before the first search. `search` may be called from plain code, from any
    number of threads at once, and from within a running event loop; it works in an event loop of its own, in a
    thread that `close` ends. Stores that belong to one event loop can only be searched by `asearch`, in that
    loop.

    Args:
        embedder: Encodes queries, see `protocols.Embedder`.
        vector_store: Has the chunks, see `protocols.VectorStore`.
        sparse: Finds chunks by words, for hybrid retrieval; see `protocols.SparseRetriever`.
        access: Rights of the reader; the stores apply them before they cut a ranking.
        fusion: How both scores are joined. Only with `absolute` does a threshold mean the same for every query.
    """

    def __init__(
        self,
        embedder: Embedder | None = None,
        vector_store: VectorStore | None = None,
        *,
        sparse: SparseRetriever | None = None,
        access: Access = Access.public(),  # noqa: B008 - immutable
        fusion: Fusion = "absolute",
    ) -> None:
        self._embedder = embedder
        self._vector_store = vector_store
        self._sparse = sparse
        self._access = access
        self._fusion = fusion
        self._thread: LoopThread[Any] = LoopThread(nullcontext)

    def search(
        self, query_text: str, top_k: int = 5, similarity_threshold: float = WEAK_SCORE
    ) -> list[RetrievalResult]:
        """Find the chunks that fit best; waits for the result.

        Args:
            query_text: At least three characters besides spaces at its ends.
            top_k: Most results, 1 or more.
            similarity_threshold: Lowest score of a result, 0 to 1.

        Returns:
            Sorted by falling score; may be fewer than `top_k`, or none.

        Raises:
            ValueError: An argument is out of range.
            RuntimeError: The vector store is not initialized, or the embedder is not available.
        """
        check_search(query_text, top_k, similarity_threshold, min_characters=MIN_QUERY)
        self._check_ready()
        return self._thread.run(
            lambda resource: self._run(resource, query_text, top_k, similarity_threshold)
        )

    async def asearch(
        self, query_text: str, top_k: int = 5, similarity_threshold: float = WEAK_SCORE
    ) -> list[RetrievalResult]:
        """Find the chunks that fit best, in the event loop that is running.

        Arguments, result and errors are those of `search`.
        """
        check_search(query_text, top_k, similarity_threshold, min_characters=MIN_QUERY)
        self._check_ready()
        return await self._run(None, query_text, top_k, similarity_threshold)

    def close(self) -> None:
        """End the thread of `search`; a later search starts it again. Stores are left as they are."""
        self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _check_ready(self) -> None:
        if not isinstance(self._access, Access):
            raise BadInput(f"access must be an Access, not {type(self._access).__name__}")
        _check_methods("vector store", self._vector_store, ("search",))
        _check_methods("embedder", self._embedder, ("embed",))
        if self._sparse is not None:
            _check_methods("sparse retriever", self._sparse, ("search", "scores"))
            _check_methods("vector store", self._vector_store, ("scores",))

    async def _run(
        self, resource: Any, query_text: str, top_k: int, threshold: float
    ) -> list[RetrievalResult]:
        """Search once; `resource` is what the thread of `search` opened, None in the caller's loop."""
        search = _StoreSearch(
            self._embedder, self._vector_store, self._sparse, self._access, self._fusion
        )
        query, _ = truncate_query(query_text)
        found = SearchResponse(candidates=tuple(await search.rank(query, top_k)))
        pooled = pool_candidates([(query, found)], limit=top_k, threshold=threshold)
        return to_results([search.read(one) for one in pooled if not one.reason_code])


class EngineRetriever(Retriever):
    """Searches one collection of an engine with the rights of one reader; made by `Engine.retriever`.

    `asearch` uses the engine. `search` may block the engine's own event loop, so it opens a second engine of
    the same settings in its own thread; local models are shared.
    """

    def __init__(
        self, engine: Engine, *, collection: str, access: Access, options: Mapping[str, Any]
    ) -> None:
        super().__init__(access=access)
        self._engine = engine
        self._collection = collection
        self._options = dict(options)
        self._thread = LoopThread(engine.clone)

    def _check_ready(self) -> None:
        if not self._engine.is_open:
            raise RetrieverNotReady(
                "vector store not initialized: the engine is not open",
                hint="search inside `async with Engine(...) as engine:`",
            )

    async def _run(
        self, resource: Engine | None, query_text: str, top_k: int, threshold: float
    ) -> list[RetrievalResult]:
        if resource is None and not self._engine.is_on_own_loop:
            # The engine's connections belong to its own event loop.
            search = asyncio.to_thread(self.search, query_text, top_k, threshold)
            return await search
        engine = self._engine if resource is None else resource
        try:
            # Every passage has a place of its own, so that a shorter list is the beginning of a longer one.
            query = Search(
                query=query_text,
                top_k=top_k,
                threshold=threshold,
                collection=self._collection,
                access=self._access,
                distinct=False,
                **self._options,
            )
            return (await engine.run(query)).results
        except BadInput:
            raise
        except WhenceError as error:
            raise _not_ready(error) from error


def _not_ready(error: WhenceError) -> RetrieverNotReady:
    if isinstance(error, NotFound):
        what = "vector store not initialized"
    elif isinstance(error, ModelMissing):
        what = "embedder not available"
    else:
        what = "search not available"
    return RetrieverNotReady(f"{what}: {error.message}", hint=error.hint)


@dataclass
class _StoreSearch:
    """One search over plain objects."""

    _embedder: Embedder | None
    _vector_store: VectorStore | None
    _sparse: SparseRetriever | None
    _access: Access
    _fusion: Fusion
    _found: dict[str, FoundChunk] = field(default_factory=dict)

    async def rank(self, query: str, limit: int) -> Sequence[Candidate]:
        """Rank the chunks of both stores, or of the vector store alone."""
        vector = await self._embed(query)
        dense = self._retriever("vector store", self._vector_store, vector, dense=True)
        if self._sparse is None:
            return await dense.search(limit=limit)
        hybrid = HybridSearch(
            query_text=query,
            lexical=self._retriever("sparse retriever", self._sparse, query, dense=False),
            dense=dense,
            limit=limit,
            fusion=self._fusion,
            find_symbols=self._definitions,
        )
        return (await hybrid.search()).candidates

    def read(self, passage: Passage) -> Passage:
        """Return a passage with its text, which came with the search."""
        found = self._found[passage.chunk_id]
        return replace(passage, text=found.content, metadata=found.metadata)

    async def _embed(self, query: str) -> NDArray[np.float32]:
        """Return the query's vector, of shape (dimension,) and length 1."""
        import numpy as np

        assert self._embedder is not None
        given = await _call("embedder", self._embedder.embed, [query])
        try:
            vector = np.asarray(given, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise RetrieverNotReady("embedder not available: it gave no vector") from error
        vector = vector[0] if vector.ndim == 2 and len(vector) == 1 else vector
        length = float(np.linalg.norm(vector.astype(np.float64))) if vector.ndim == 1 else 0.0
        if not (math.isfinite(length) and length > 0):
            raise RetrieverNotReady("embedder not available: it gave no vector with a direction")
        return np.ascontiguousarray(vector / np.float32(length), dtype=np.float32)

    def _retriever(self, what: str, store: Any, query: Any, *, dense: bool) -> QueryRetriever:
        async def search(limit: int) -> list[Candidate]:
            hits = await _call(what, store.search, query, limit=limit, access=self._access)
            hits_by_id = _read(what, hits, -1.0 if dense else 0.0).values()
            best = sorted(hits_by_id, key=lambda one: (-max(0.0, one.score), one.id))[:limit]
            found = {one.id: one for one in best}
            # The content of the vector store goes before that of the sparse retriever.
            self._found = self._found | found if dense else found | self._found
            return [_candidate(one, rank, dense=dense) for rank, one in enumerate(best, 1)]

        async def scores(chunk_ids: Sequence[str]) -> dict[str, float]:
            given = await _call(what, store.scores, query, chunk_ids, access=self._access)
            return {key: _number(what, value) for key, value in dict(given).items()}

        return QueryRetriever(search, scores)

    async def _definitions(self, name: str) -> list[SymbolMatch]:
        fits = ((one, _fit(name, one)) for one in self._found.values())
        return [SymbolMatch(one.id, one.document_id, fit) for one, fit in fits if fit is not None]


def _check_methods(what: str, collaborator: object, methods: Iterable[str]) -> None:
    if collaborator is None:
        state = "not available: it is not initialized" if what == "embedder" else "not initialized"
        raise RetrieverNotReady(f"{what} {state}")
    for name in methods:
        if not callable(getattr(collaborator, name, None)):
            raise RetrieverNotReady(
                f"{what} not initialized: {type(collaborator).__name__} has no method {name!r}",
                hint="see whence.surfaces.python.protocols for what it must have",
            )


async def _call(what: str, method: Callable[..., Any], *args: Any, **options: Any) -> Any:
    try:
        given = method(*args, **options)
        return await given if inspect.isawaitable(given) else given
    except BadInput:
        raise
    except Exception as error:
        raise RetrieverNotReady(f"{what} not available: {error_text(error)}") from error


def _read(what: str, hits: Iterable[Any], least: float) -> dict[str, FoundChunk]:
    """Return what a store found by id; the first of two with the same id counts.

    Args:
        what: The store, for errors.
        hits: `FoundChunk`s, or objects or mappings with the same names.
        least: Lowest possible score; values beyond it and 1 are errors of rounding.
    """
    found: dict[str, FoundChunk] = {}
    for hit in hits or ():
        chunk_id = _field(what, hit, "id")
        found.setdefault(
            chunk_id,
            FoundChunk(
                id=chunk_id,
                content=_field(what, hit, "content"),
                score=min(1.0, max(least, _number(what, _field(what, hit, "score")))),
                metadata=dict(_field(what, hit, "metadata", {}) or {}),
                document_id=_field(what, hit, "document_id", ""),
            ),
        )
    return found


_REQUIRED: Any = object()


def _field(what: str, hit: Any, name: str, default: Any = _REQUIRED) -> Any:
    value = hit.get(name, default) if isinstance(hit, Mapping) else getattr(hit, name, default)
    if value is _REQUIRED:
        raise RetrieverNotReady(f"{what} not available: a hit has no {name!r}")
    return value


def _number(what: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise RetrieverNotReady(f"{what} not available: {value!r} is no score") from error
    if not math.isfinite(number):
        raise RetrieverNotReady(f"{what} not available: {number} is no score")
    return number


def _candidate(found: FoundChunk, rank: int, *, dense: bool) -> Candidate:
    return Candidate(
        chunk_id=found.id,
        document_id=found.document_id,
        score=max(0.0, found.score),
        rank=rank,
        dense_score=found.score if dense else None,
        sparse_score=None if dense else found.score,
    )


def _fit(name: str, one: FoundChunk) -> int | None:
    heading, title = one.metadata.get("heading"), one.metadata.get("title")
    if not isinstance(heading, str) or not isinstance(title, str):
        return None
    return symbol_fit(name, heading) if is_symbol_heading(heading, title, one.document_id) else None

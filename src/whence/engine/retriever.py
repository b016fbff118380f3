"""`Retriever`: a query in, ranked chunks out, over any embedder and any stores."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from whence.engine.loop_thread import LoopThread
from whence.engine.protocols import FoundChunk
from whence.retrieval.fusion import FUSIONS, Fusion, Scores, rank_candidates
from whence.retrieval.pipeline import check_query
from whence.retrieval.results import RetrievalResult, RetrievedChunk
from whence.schema.access import Access
from whence.schema.errors import BadInput, WhenceError
from whence.schema.search import Candidate
from whence.store.symbol_names import is_symbol_heading, parse_symbol_query, symbol_fit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from whence.engine.protocols import Embedder, SparseRetriever, VectorStore

__all__ = ("Retriever", "RetrieverNotReady")

#: Candidates that each side of a hybrid search gives at least: what one ranks low the other may lift.
_LEG_DEPTH = 100


class RetrieverNotReady(WhenceError, RuntimeError):
    """Something that a search needs is not there: no vector store, no embedder, or it does not answer."""

    code = "not_ready"
    default_hint = "give the retriever an embedder and a vector store, and index something first"


class Retriever:
    """Searches chunks that are similar to a query.

    With a vector store alone the score of a chunk is its cosine; with a sparse retriever too, both are joined
    on one scale that means the same for every query, see `whence.retrieval.fusion`; of what both found, what
    goes by the very name that the query is comes first, see `whence.retrieval.symbols`. Results are sorted by
    score, ties by chunk id.

    Nothing is checked or opened before the first search. `search` may be called from plain code, from any
    number of threads at once, and from within a running event loop; it works in an event loop of its own, in
    a thread that `close` ends. Stores that belong to one event loop can only be searched by `asearch`, in
    that loop.

    Args:
        embedder: Encodes queries, see `whence.engine.protocols.Embedder`.
        vector_store: Where the chunks are, see `whence.engine.protocols.VectorStore`.
        sparse: Finds chunks by words, for hybrid retrieval; see `whence.engine.protocols.SparseRetriever`.
        access: Rights of the reader; the stores apply them before anything is cut off.
        fusion: How both sides are joined. Only with `absolute` does a threshold mean the same for every query.
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
        self._thread: LoopThread[Any] = LoopThread(_nothing)

    def search(
        self, query_text: str, top_k: int = 5, similarity_threshold: float = 0.5
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
        check_query(query_text, top_k, similarity_threshold)
        self._check_ready()
        return self._thread.run(
            lambda thing: self._ranked(thing, query_text, top_k, similarity_threshold)
        )

    async def asearch(
        self, query_text: str, top_k: int = 5, similarity_threshold: float = 0.5
    ) -> list[RetrievalResult]:
        """Find the chunks that fit best, in the event loop that is running.

        Arguments, result and errors are those of `search`.
        """
        check_query(query_text, top_k, similarity_threshold)
        self._check_ready()
        return await self._ranked(None, query_text, top_k, similarity_threshold)

    def close(self) -> None:
        """End the thread of `search`; a later search starts it again. Stores are left as they are."""
        self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _check_ready(self) -> None:
        """Refuse to search with what is missing.

        Raises:
            RetrieverNotReady: There is no vector store or no embedder.
            BadInput: The access is none.
        """
        if not isinstance(self._access, Access):
            raise BadInput(f"access must be an Access, not {type(self._access).__name__}")
        _check_methods("vector store", self._vector_store, ("search",))
        _check_methods("embedder", self._embedder, ("embed",))
        if self._sparse is not None:
            _check_methods("sparse retriever", self._sparse, ("search", "scores"))
            _check_methods("vector store", self._vector_store, ("scores",))

    async def _ranked(
        self, thing: Any, query_text: str, top_k: int, threshold: float
    ) -> list[RetrievalResult]:
        """Search once; `thing` is what the thread of `search` opened, None in the caller's loop."""
        vector = await self._vector(query_text)
        if self._sparse is None:
            found = await self._by_vector(vector, top_k)
            scores = {key: Scores(one.score, None) for key, one in found.items()}
            order = sorted(found, key=lambda key: (-_similarity(found[key].score), key))
            ranking = [_dense_candidate(found[key]) for key in order]
            kept = [one for one in ranking if one.score >= threshold][:top_k]
            return [_result(rank, one, found, scores) for rank, one in enumerate(kept, 1)]
        found, scores = await self._by_both(query_text, vector, max(top_k, _LEG_DEPTH))
        documents = {key: one.document_id for key, one in found.items()}
        fits = _fits(query_text, found)
        ranked = rank_candidates(
            documents,
            scores,
            FUSIONS[self._fusion](scores),
            limit=top_k,
            threshold=threshold,
            fits=fits,
        )
        return [_result(one.rank, one, found, scores) for one in ranked]

    async def _vector(self, query_text: str) -> NDArray[np.float32]:
        """Encode a query; gives float32 of shape (dimension,), of length 1."""
        import numpy as np

        assert self._embedder is not None
        given = await _asked("embedder", self._embedder.embed, [query_text])
        try:
            vector = np.asarray(given, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise RetrieverNotReady("embedder not available: it gave no vector") from error
        vector = vector[0] if vector.ndim == 2 and len(vector) == 1 else vector
        length = float(np.linalg.norm(vector.astype(np.float64))) if vector.ndim == 1 else 0.0
        if not (math.isfinite(length) and length > 0):
            raise RetrieverNotReady("embedder not available: it gave no vector with a direction")
        return np.ascontiguousarray(vector / np.float32(length), dtype=np.float32)

    async def _by_vector(self, vector: NDArray[np.float32], limit: int) -> dict[str, FoundChunk]:
        assert self._vector_store is not None
        hits = await _asked(
            "vector store", self._vector_store.search, vector, limit=limit, access=self._access
        )
        return _read("vector store", hits, -1.0)

    async def _by_both(
        self, query_text: str, vector: NDArray[np.float32], depth: int
    ) -> tuple[dict[str, FoundChunk], dict[str, Scores]]:
        """Ask both sides at once, then each for the scores of what only the other found."""
        assert self._sparse is not None
        assert self._vector_store is not None
        sparse, access = self._sparse, self._access
        near, hits = await asyncio.gather(
            self._by_vector(vector, depth),
            _asked("sparse retriever", sparse.search, query_text, limit=depth, access=access),
        )
        worded = _read("sparse retriever", hits, 0.0)
        cosines, shares = await asyncio.gather(
            _asked_for(
                "vector store",
                lambda ids: self._vector_store.scores(vector, ids, access=access),  # type: ignore[union-attr]
                [key for key in worded if key not in near],
            ),
            _asked_for(
                "sparse retriever",
                lambda ids: sparse.scores(query_text, ids, access=access),
                [key for key in near if key not in worded],
            ),
        )
        cosines |= {key: one.score for key, one in near.items()}
        shares |= {key: one.score for key, one in worded.items()}
        found = worded | near
        return found, {key: Scores(cosines.get(key, 0.0), shares.get(key, 0.0)) for key in found}


@asynccontextmanager
async def _nothing() -> AsyncIterator[None]:
    yield None


def _check_methods(what: str, thing: object, methods: Iterable[str]) -> None:
    if thing is None:
        state = "not available: it is not initialized" if what == "embedder" else "not initialized"
        raise RetrieverNotReady(f"{what} {state}")
    for name in methods:
        if not callable(getattr(thing, name, None)):
            raise RetrieverNotReady(
                f"{what} not initialized: {type(thing).__name__} has no method {name!r}",
                hint="see whence.engine.protocols for what it must have",
            )


async def _asked(what: str, method: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call a method of a collaborator, coroutine or not; whatever goes wrong becomes one kind of error."""
    try:
        given = method(*args, **options)
        return await given if inspect.isawaitable(given) else given
    except BadInput:
        raise
    except Exception as error:
        words = str(error) or type(error).__name__
        raise RetrieverNotReady(f"{what} not available: {words}") from error


async def _asked_for(
    what: str, scores: Callable[[Sequence[str]], Any], chunk_ids: Sequence[str]
) -> dict[str, float]:
    """Give the scores of chunks by id; one that is gone meanwhile has none."""
    if not chunk_ids:
        return {}
    given = await _asked(what, scores, chunk_ids)
    return {key: _number(what, value) for key, value in dict(given).items()}


def _read(what: str, hits: Iterable[Any], least: float) -> dict[str, FoundChunk]:
    """Read what a store found, by id; the first of two with one id counts.

    Args:
        what: The store, for errors.
        hits: `FoundChunk`s, or objects or mappings with the same names.
        least: Lowest score there can be; beyond it and 1 lie errors of rounding.
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


def _similarity(cosine: float) -> float:
    return max(0.0, cosine)


def _dense_candidate(found: FoundChunk) -> Candidate:
    return Candidate(
        chunk_id=found.id,
        document_id=found.document_id,
        score=_similarity(found.score),
        rank=0,
        dense_score=found.score,
    )


def _result(
    rank: int, one: Candidate, found: Mapping[str, FoundChunk], scores: Mapping[str, Scores]
) -> RetrievalResult:
    chunk = found[one.chunk_id]
    both = scores[one.chunk_id]
    return RetrievalResult(
        rank=rank,
        similarity_score=one.score,
        document_id=one.document_id,
        chunk=RetrievedChunk(id=chunk.id, content=chunk.content, metadata=chunk.metadata),
        score_breakdown={
            "dense_score": both.dense,
            "sparse_score": both.sparse,
            "combined_score": one.score,
        }
        | ({} if one.name_score is None else {"name_score": one.name_score}),
    )


def _fits(query_text: str, found: Mapping[str, FoundChunk]) -> dict[str, int]:
    """Tell how well a query that is a name fits the headings of chunks, where it does."""
    name = parse_symbol_query(query_text)
    if name is None:
        return {}
    fits = {key: _fit(name, one) for key, one in found.items()}
    return {key: fit for key, fit in fits.items() if fit is not None}


def _fit(name: str, one: FoundChunk) -> int | None:
    heading, title = one.metadata.get("heading"), one.metadata.get("title")
    if not isinstance(heading, str) or not isinstance(title, str):
        return None
    return symbol_fit(name, heading) if is_symbol_heading(heading, title, one.document_id) else None

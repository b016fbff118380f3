"""The search service: a query vector in, the nearest visible chunks out.

A leg that cannot take part is named in `degraded`; what the reader may not see is never in a reply.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import msgspec

from whence.processors.base import Context, Processor
from whence.processors.services import SEARCH
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import BadInput, ModelMismatch, NotFound, Unavailable
from whence.schema.search import Degradation, SearchRequest, SearchResponse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from whence.store.base import ChunkStore

__all__ = ("SearchParameters", "SearchProcessor")


class SearchParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the search processor."""

    max_limit: Annotated[int, msgspec.Meta(ge=1)] = 100_000
    """Largest `limit` of a request; a larger one is refused."""
    model_memory_s: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 2.0
    """Seconds for which the model of a collection is remembered. A collection that is removed and made
    again with another model of the same dimension is noticed after that time."""


class SearchProcessor(Processor):
    """Ranks the visible chunks of a collection.

    Args:
        parameters: Settings.
        store: Where the vectors are.
        monotonic: Clock in seconds, for remembering the models of collections.
    """

    type_name = "search"
    summary = "a query to a ranking of visible chunks"
    serves = SEARCH
    Parameters = SearchParameters
    needs = ("store",)

    parameters: SearchParameters

    def __init__(
        self,
        parameters: SearchParameters | None = None,
        *,
        store: ChunkStore,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(parameters)
        self._store = store
        self._monotonic = monotonic
        self._models: dict[str, tuple[float, EmbeddingModel]] = {}

    async def handle(self, message: SearchRequest, context: Context) -> SearchResponse:
        """Search once.

        Raises:
            BadInput: Limit, threshold or vector is out of range, or a filter is given.
            NotFound: There is no such collection.
            ModelMismatch: The vector comes from another model than the collection's.
            Unavailable: The mode asks for the lexical leg alone and there is no vector to fall back to.
        """
        self._check(message)
        degraded = _missing_leg(message)
        vector = _vector(message)
        await self._check_model(message.collection, message.model)
        candidates = await self._store.search_dense(
            message.collection,
            vector,
            limit=message.limit,
            access=message.access,
            threshold=message.threshold,
        )
        return SearchResponse(candidates=tuple(candidates), degraded=degraded)

    def _check(self, message: SearchRequest) -> None:
        if not 1 <= message.limit <= self.parameters.max_limit:
            raise BadInput(f"limit must be 1 to {self.parameters.max_limit}, not {message.limit}")
        if not 0.0 <= message.threshold <= 1.0:
            raise BadInput(f"threshold must be 0 to 1, not {message.threshold}")
        if message.filters:
            # Answering without a condition that was asked for would show too much.
            names = ", ".join(sorted(message.filters))
            raise BadInput(
                f"cannot filter by {names}: this search has no filters on metadata",
                hint="leave the filter out",
            )

    async def _check_model(self, collection: str, model: EmbeddingModel | None) -> None:
        if model is None:
            return
        stored = await self._collection_model(collection)
        if stored != model:
            raise ModelMismatch(
                f"collection {collection!r} was made with {_name(stored)},"
                f" the query with {_name(model)}"
            )

    async def _collection_model(self, collection: str) -> EmbeddingModel:
        now = self._monotonic()
        known = self._models.get(collection)
        if known is not None and now < known[0]:
            return known[1]
        info = await self._store.collection(collection)
        if info is None:
            self._models.pop(collection, None)
            raise NotFound(
                f"there is no collection {collection!r}", hint="index something into it first"
            )
        self._models[collection] = (now + self.parameters.model_memory_s, info.model)
        return info.model


def _missing_leg(message: SearchRequest) -> tuple[Degradation, ...]:
    """Say that the lexical leg does not take part, when it was asked for."""
    if message.mode == "dense":
        return ()
    if message.vector is None:
        raise Unavailable(
            f"mode {message.mode} needs the lexical leg, which does not exist yet,"
            " and the request has no vector to search with instead",
            hint="search with mode dense",
        )
    return (
        Degradation(
            stage="search",
            code="lexical_leg_missing",
            reason=f"mode {message.mode}: the lexical leg does not exist yet, dense alone ranked",
        ),
    )


def _vector(message: SearchRequest) -> NDArray[np.float32]:
    """Read the query vector, float32 of shape (dimension,)."""
    import numpy as np

    if not message.vector:
        raise BadInput(f"mode {message.mode} needs a query vector")
    if len(message.vector) % 4:
        raise BadInput(f"a vector of {len(message.vector)} bytes is no list of float32")
    vector = np.frombuffer(message.vector, dtype="<f4").astype(np.float32, copy=False)
    if not np.isfinite(vector).all():
        raise BadInput("the query vector holds a number that is not finite")
    return vector


def _name(model: EmbeddingModel) -> str:
    parts = (model.name, model.revision[:12], model.precision, f"dimension {model.dimension}")
    return ", ".join(part for part in parts if part)

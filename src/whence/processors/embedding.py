"""The embedding service: texts in, unit vectors out; one checked vector per text, or an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import msgspec

from whence.processors.base import EMBEDDING, Context, Processor
from whence.schema.embedding import EmbeddingModel, EmbeddingRequest, EmbeddingResponse
from whence.schema.errors import BadInput, InternalError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from whence.models.library import ModelLibrary
    from whence.models.protocols import CodingEmbedder, Embedder

#: How far a vector's length may be from 1: wide enough for a provider that rounds to half precision
#: (relative error 2**-11 a component), narrow enough to notice one that does not normalise.
_LENGTH_TOLERANCE = 0.01


class EmbeddingParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the embedding processor."""

    max_texts: Annotated[int, msgspec.Meta(ge=1, le=65536)] = 4096
    """Most texts of one request; a larger one is refused."""


class EmbeddingProcessor(Processor):
    """Embeds texts with one model. Cost grows with the tokens of the request."""

    type_name = "embedding"
    summary = "texts to unit vectors"
    serves = EMBEDDING
    Parameters = EmbeddingParameters
    needs = ("embedder", "embedders")

    parameters: EmbeddingParameters

    def __init__(
        self,
        parameters: EmbeddingParameters | None = None,
        *,
        embedder: Embedder,
        embedders: ModelLibrary | None = None,
    ) -> None:
        super().__init__(parameters)
        self._embedder = embedder
        self._embedders = embedders

    async def handle(self, message: EmbeddingRequest, context: Context) -> EmbeddingResponse:
        """Embed the texts of one request."""
        if len(message.texts) > self.parameters.max_texts:
            raise BadInput(
                f"{len(message.texts)} texts in one embedding request;"
                f" at most {self.parameters.max_texts} are taken",
                hint="send several requests, or raise `max_texts` of the embedding processor",
            )
        embedder = await self._choose(message)
        if not message.texts:
            return EmbeddingResponse(vectors=b"", model=embedder.model)
        codes: list[bytes] = []
        if message.token_codes and hasattr(embedder, "embed_coded"):
            coding = cast("CodingEmbedder", embedder)
            vectors, codes = await coding.embed_coded(message.texts)
        else:
            vectors = await embedder.embed(message.texts, message.purpose)
        # Read last: the dimension of a remote model is known with its first vectors.
        model = embedder.model
        return EmbeddingResponse(
            vectors=_checked_bytes(vectors, len(message.texts), model),
            model=model,
            token_codes=tuple(codes),
            served_by=getattr(embedder, "served_by", ""),
        )

    async def _choose(self, message: EmbeddingRequest) -> Embedder:
        """Return the embedder of the model that is wanted, if it is here; else the one of this service."""
        wanted = message.model
        if self._embedders is None:
            return self._embedder
        if wanted is None and message.collection:
            wanted = await self._embedders.model_of(message.collection)
        if wanted is None or wanted == self._embedder.model:
            return self._embedder
        return self._embedders.find(wanted) or self._embedder


def _checked_bytes(vectors: NDArray[np.float32], count: int, model: EmbeddingModel) -> bytes:
    """Check vectors and return their wire form, float32 little endian row by row."""
    import numpy as np

    rows = np.asarray(vectors)
    if rows.shape != (count, model.dimension):
        raise InternalError(
            f"model {model.name} gave vectors of shape {rows.shape} for {count} texts;"
            f" expected {(count, model.dimension)}"
        )
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
    # A comparison with NaN is false, so this refuses NaN and infinity as well.
    if not (np.abs(lengths - 1.0) <= _LENGTH_TOLERANCE).all():
        raise InternalError(f"model {model.name} gave a vector that is not of length 1")
    return rows.astype("<f4").tobytes()

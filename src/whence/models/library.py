"""Embedders of this machine by the identity of their vectors: a collection is searched with its own model."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from whence.models.encoders import MINILM, find_encoder
from whence.models.factory import ModelSettings
from whence.models.installed import find_model
from whence.models.local_embedder import EncoderEmbedder, LocalEmbedder
from whence.models.protocols import Embedder
from whence.models.weights import DIMENSION
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import ModelMissing, Unavailable

#: Seconds for which the model of a collection is kept, and of how many collections.
_MEMORY_S = 2.0
_MOST_COLLECTIONS = 1000


class ModelLibrary:
    """Opens an installed encoder for the vectors of a collection, when one is asked for.

    Models of servers are not among them: texts are sent only where a setting says.

    Args:
        settings: Folders of models.
        model_of: Returns the model of a collection; None where there is no store.
        own: The embedder that the settings name: no second one is opened for its vectors, nor is it closed.
        monotonic: Seconds, for the memory of models.
    """

    def __init__(
        self,
        settings: ModelSettings,
        model_of: Callable[[str], Awaitable[EmbeddingModel | None]] | None = None,
        own: Embedder | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._model_of = model_of
        self._own = own
        self._monotonic = monotonic
        self._models: dict[str, tuple[float, EmbeddingModel | None]] = {}
        self._opened: dict[EmbeddingModel, EncoderEmbedder] = {}

    async def model_of(self, collection: str) -> EmbeddingModel | None:
        """Return the model of a collection, at most two seconds old; None when it is not known here.

        A store that does not answer is left to the search that follows.
        """
        if self._model_of is None:
            return None
        known = self._models.get(collection)
        if known is None or known[0] < self._monotonic():
            try:
                found = await self._model_of(collection)
            except Unavailable:
                return None
            if len(self._models) >= _MOST_COLLECTIONS:
                self._models.clear()
            known = self._models[collection] = (self._monotonic() + _MEMORY_S, found)
        return known[1]

    def installed(self, name: str) -> EncoderEmbedder | None:
        """Return an encoder of the table by its name, where it is installed."""
        encoder = find_encoder(name)
        if encoder is None:
            return None
        model = EmbeddingModel(
            name=name, revision=encoder.revision, precision="w8", dimension=DIMENSION
        )
        return self.find(model)

    def find(self, model: EmbeddingModel) -> EncoderEmbedder | None:
        """Return the installed encoder that makes the vectors of a model; nothing is loaded yet."""
        if model in self._opened:
            return self._opened[model]
        encoder = find_encoder(model.name)
        if encoder is None:
            return None
        settings = self._settings
        try:
            find_model(encoder.name, settings.home, settings.models)
        except ModelMissing:
            return None
        if isinstance(self._own, EncoderEmbedder) and self._own.model == model:
            return self._own
        embedder: EncoderEmbedder
        if encoder is MINILM:
            embedder = LocalEmbedder(
                home=settings.home,
                models=settings.models,
                precision="float32" if model.precision == "float32" else "w8",
                threads=settings.threads,
            )
        else:
            embedder = EncoderEmbedder(
                encoder, home=settings.home, models=settings.models, threads=settings.threads
            )
        if embedder.model != model:
            return None
        self._opened[model] = embedder
        return embedder

    async def aclose(self) -> None:
        """Free the models."""
        for one in self._opened.values():
            await one.aclose()

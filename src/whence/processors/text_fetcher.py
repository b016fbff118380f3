"""The text service: chunk ids in, the texts that exist and are visible out, in one batched read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from whence.processors.base import Context, Processor
from whence.processors.services import TEXTS
from whence.retrieval.texts import read_texts
from whence.schema.texts import TextRequest, TextResponse

if TYPE_CHECKING:
    from whence.models.protocols import Embedder
    from whence.store.protocols import ChunkStore


class TextFetcherParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the text fetcher."""

    max_ids: Annotated[int, msgspec.Meta(ge=1)] = 10_000
    """Most ids of one request; a larger one is refused."""


class TextFetcherProcessor(Processor):
    """Reads texts of chunks.

    Args:
        parameters: Settings.
        store: Has the texts.
        embedder: Counts tokens for plans; without it a plan can count characters only.
    """

    type_name = "text-fetcher"
    summary = "chunk ids to visible texts, within a budget when asked"
    serves = TEXTS
    Parameters = TextFetcherParameters
    needs = ("store", "embedder")

    parameters: TextFetcherParameters

    def __init__(
        self,
        parameters: TextFetcherParameters | None = None,
        *,
        store: ChunkStore,
        embedder: Embedder | None = None,
    ) -> None:
        super().__init__(parameters)
        self._store = store
        self._embedder = embedder

    async def handle(self, message: TextRequest, context: Context) -> TextResponse:
        """Read the texts of one request; errors as for `read_texts`."""
        return await read_texts(
            self._store, message, self._embedder, max_ids=self.parameters.max_ids
        )

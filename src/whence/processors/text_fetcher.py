"""The text service: chunk ids in, the texts that exist and are visible out, in one batched read.

A hidden chunk is answered like one that does not exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from whence.processors.base import Context, Processor
from whence.processors.services import TEXTS
from whence.schema.errors import BadInput
from whence.schema.texts import TextRequest, TextResponse

if TYPE_CHECKING:
    from whence.store.base import ChunkStore

__all__ = ("TextFetcherParameters", "TextFetcherProcessor")


class TextFetcherParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the text fetcher."""

    max_ids: Annotated[int, msgspec.Meta(ge=1)] = 10_000
    """Most ids of one request; a larger one is refused."""


class TextFetcherProcessor(Processor):
    """Reads texts of chunks. Cost: one statement, whatever the number of ids."""

    type_name = "text-fetcher"
    summary = "chunk ids to visible texts"
    serves = TEXTS
    Parameters = TextFetcherParameters
    needs = ("store",)

    parameters: TextFetcherParameters

    def __init__(
        self, parameters: TextFetcherParameters | None = None, *, store: ChunkStore
    ) -> None:
        super().__init__(parameters)
        self._store = store

    async def handle(self, message: TextRequest, context: Context) -> TextResponse:
        """Read the texts of one request, each id once.

        Raises:
            BadInput: There are more than `max_ids` ids.
        """
        wanted = tuple(dict.fromkeys(message.chunk_ids))
        if len(wanted) > self.parameters.max_ids:
            raise BadInput(
                f"{len(wanted)} chunk ids in one request;"
                f" at most {self.parameters.max_ids} are taken",
                hint="send several requests, or raise `max_ids` of the text fetcher",
            )
        if not wanted:
            return TextResponse(texts=())
        found = await self._store.chunk_texts(message.collection, wanted, message.access)
        by_id = {text.chunk_id: text for text in found}
        return TextResponse(
            texts=tuple(by_id[chunk_id] for chunk_id in wanted if chunk_id in by_id),
            missing=tuple(chunk_id for chunk_id in wanted if chunk_id not in by_id),
        )

"""The text service: chunk ids in, the texts that exist and are visible out, in one batched read.

A hidden chunk is answered like one that does not exist. With a plan, texts are given out within its budget, and
what became of each is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import msgspec

from whence.processors.base import Context, Processor
from whence.processors.services import TEXTS
from whence.retrieval.text_budget import decide, in_order
from whence.schema.errors import BadInput, ConfigError, ModelMissing
from whence.schema.texts import ChunkText, TextPlan, TextRequest, TextResponse

if TYPE_CHECKING:
    from whence.models.protocols import Embedder
    from whence.store.protocols import ChunkStore

__all__ = ("TextFetcherParameters", "TextFetcherProcessor")


class TextFetcherParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the text fetcher."""

    max_ids: Annotated[int, msgspec.Meta(ge=1)] = 10_000
    """Most ids of one request; a larger one is refused."""


class TextFetcherProcessor(Processor):
    """Reads texts of chunks. Cost: one statement, whatever the number of ids.

    Args:
        parameters: Settings.
        store: Where the texts are.
        embedder: Counts tokens for plans; without it, plans can be in characters only.
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
        """Read the texts of one request, each id once.

        Raises:
            BadInput: There are more than `max_ids` ids, ids are given beside a plan, or its budget is
                below 1.
            ConfigError: The plan counts tokens and there is nothing to count them with.
            ModelMissing: It counts tokens and the model's files are absent.
        """
        plan = message.plan
        if plan is not None and message.chunk_ids:
            raise BadInput("give chunk ids or a plan, not both")
        if plan is not None and plan.budget.limit < 1:
            raise BadInput(f"a budget must be at least 1, not {plan.budget.limit}")
        wanted = message.chunk_ids if plan is None else _planned(plan)
        wanted = tuple(dict.fromkeys(wanted))
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
        missing = tuple(chunk_id for chunk_id in wanted if chunk_id not in by_id)
        if plan is None:
            texts = tuple(by_id[chunk_id] for chunk_id in wanted if chunk_id in by_id)
            return TextResponse(texts=texts, missing=missing)
        return await self._within(plan, wanted, by_id, missing)

    async def _within(
        self,
        plan: TextPlan,
        wanted: Sequence[str],
        by_id: dict[str, ChunkText],
        missing: tuple[str, ...],
    ) -> TextResponse:
        """Give out the texts that fit, counted."""
        texts = by_id
        if plan.budget.kind == "tokens":
            texts = await self._counted(by_id)
            sizes = {key: text.tokens or 0 for key, text in texts.items()}
        else:
            sizes = {key: len(text.content) for key, text in texts.items()}
        decisions = tuple(decide(wanted, sizes, plan.budget))
        included = {one.id: texts[one.id] for one in decisions if one.action == "include"}
        if plan.budget.kind == "chars":
            # Told as well, but nothing hangs on it: without a model the texts are given uncounted.
            with suppress(ConfigError, ModelMissing):
                included = await self._counted(included)
        return TextResponse(texts=tuple(included.values()), missing=missing, decisions=decisions)

    async def _counted(self, texts: dict[str, ChunkText]) -> dict[str, ChunkText]:
        """Give texts with their numbers of tokens.

        Raises:
            ConfigError: There is nothing to count with.
            ModelMissing: The model's files are absent.
        """
        if not texts:
            return texts
        if self._embedder is None:
            raise ConfigError("this text fetcher has no model to count tokens with")
        contents = [text.content for text in texts.values()]
        tokens = await asyncio.to_thread(self._embedder.count_tokens, contents)
        return {
            key: msgspec.structs.replace(text, tokens=count)
            for (key, text), count in zip(texts.items(), tokens, strict=True)
        }


def _planned(plan: TextPlan) -> tuple[str, ...]:
    return tuple(in_order(plan.prioritize, plan.seeds, plan.graph))

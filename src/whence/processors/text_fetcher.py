"""The text service: chunk ids in, texts that exist and are visible out, within a budget when there is a plan.

A text is taken whole or skipped, and smaller ones after it may still fit. Every text of a plan gets exactly one
decision, and a budget is never exceeded.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated

import msgspec

from whence.processors.base import TEXTS, Context, Processor
from whence.schema.errors import BadInput, ConfigError, ModelMissing
from whence.schema.texts import (
    ChunkText,
    PlannedText,
    Prioritize,
    TextBudget,
    TextDecision,
    TextPlan,
    TextRequest,
    TextResponse,
)

if TYPE_CHECKING:
    from whence.models.protocols import Embedder
    from whence.store.protocols import ChunkStore

#: Reasons of decisions. A hidden text is answered like one that does not exist.
FETCHED = "fits"
MISSING = "not_found"
OVER = {"chars": "over_char_budget", "tokens": "over_token_budget"}

Sizes = Mapping[str, int]
"""Size of each text by id, in the unit of the budget; an id without a size has no text for this reader."""


def fetch_order(
    prioritize: Prioritize, seeds: Sequence[str], graph: Iterable[PlannedText]
) -> list[str]:
    """Return the ids in the order in which they are offered a place, each once.

    Seeds keep their order, the others are sorted by depth, then id. A graph node that is also a seed counts as
    a seed.

    Args:
        prioritize: `seed_first`: seeds, then the others. `graph_first`: the others, then seeds. `balanced`:
            one of each in turn, then what remains of the longer list. `clustered`: each seed followed by the
            nodes that were reached from it, then those that were reached from none.
        seeds: Ids.
        graph: Nodes around them.

    Cost: n log n for n nodes.
    """
    first = list(dict.fromkeys(seeds))
    known = set(first)
    others: dict[str, PlannedText] = {}
    for node in sorted(graph, key=lambda node: (node.depth, node.id, node.parent_id or "")):
        if node.id not in known:
            others.setdefault(node.id, node)
    ids = list(others)
    if prioritize == "seed_first":
        return first + ids
    if prioritize == "graph_first":
        return ids + first
    if prioritize == "balanced":
        turns = zip_longest(first, ids)
        return [one for turn in turns for one in turn if one is not None]
    return _clustered(first, others.values())


def _clustered(seeds: Sequence[str], others: Iterable[PlannedText]) -> list[str]:
    """Put each node after the seed that its parents lead to."""
    root = {seed: seed for seed in seeds}
    clusters: dict[str, list[str]] = defaultdict(list)
    alone = []
    for node in others:
        # A parent is one step nearer and was placed before.
        seed = root.get(node.parent_id or "")
        if seed is None:
            alone.append(node.id)
        else:
            root[node.id] = seed
            clusters[seed].append(node.id)
    return [one for seed in seeds for one in (seed, *clusters[seed])] + alone


def decide_texts(order: Iterable[str], sizes: Sizes, budget: TextBudget) -> list[TextDecision]:
    """Decide for each id, in this order, whether its text is taken.

    Cost: linear.
    """
    left = budget.limit
    decisions = []
    for one in order:
        size = sizes.get(one)
        if size is None:
            decisions.append(TextDecision(id=one, action="skip", reason=MISSING))
        elif size > left:
            decisions.append(TextDecision(id=one, action="skip", reason=OVER[budget.kind]))
        else:
            left -= size
            decisions.append(TextDecision(id=one, action="include", reason=FETCHED))
    return decisions


async def _within_budget(
    plan: TextPlan,
    wanted: Sequence[str],
    texts: dict[str, ChunkText],
    missing: tuple[str, ...],
    embedder: Embedder | None,
) -> TextResponse:
    """Return the texts that fit, with their numbers of tokens."""
    if plan.budget.kind == "tokens":
        texts = await _counted(texts, embedder)
        sizes = {key: text.tokens or 0 for key, text in texts.items()}
    else:
        sizes = {key: len(text.content) for key, text in texts.items()}
    decisions = tuple(decide_texts(wanted, sizes, plan.budget))
    included = {one.id: texts[one.id] for one in decisions if one.action == "include"}
    if plan.budget.kind == "chars":
        # Counted for information only: without a model the texts are returned uncounted.
        with suppress(ConfigError, ModelMissing):
            included = await _counted(included, embedder)
    return TextResponse(texts=tuple(included.values()), missing=missing, decisions=decisions)


async def _counted(texts: dict[str, ChunkText], embedder: Embedder | None) -> dict[str, ChunkText]:
    """Return texts with their numbers of tokens."""
    if not texts:
        return texts
    if embedder is None:
        raise ConfigError("this text fetcher has no model to count tokens with")
    contents = [text.content for text in texts.values()]
    tokens = await asyncio.to_thread(embedder.count_tokens, contents)
    return {
        key: msgspec.structs.replace(text, tokens=count)
        for (key, text), count in zip(texts.items(), tokens, strict=True)
    }


class TextFetcherParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the text fetcher."""

    max_ids: Annotated[int, msgspec.Meta(ge=1)] = 10_000
    """Most ids of one request; a larger one is refused."""


class TextFetcherProcessor(Processor):
    """Reads texts of chunks."""

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
        """Read the texts of one request, each id once. Cost: one statement, whatever the number of ids.

        Raises:
            BadInput: There are too many ids, ids are given beside a plan, or its budget is below 1.
            ConfigError: The plan counts tokens and there is no model to count them with.
            ModelMissing: It counts tokens and the model's files are absent.
        """
        plan, ids = message.plan, message.chunk_ids
        if plan is not None:
            if ids:
                raise BadInput("give chunk ids or a plan, not both")
            if plan.budget.limit < 1:
                raise BadInput(f"a budget must be at least 1, not {plan.budget.limit}")
            ids = tuple(fetch_order(plan.prioritize, plan.seeds, plan.graph))
        wanted = tuple(dict.fromkeys(ids))
        if len(wanted) > self.parameters.max_ids:
            raise BadInput(
                f"{len(wanted)} chunk ids in one request; at most {self.parameters.max_ids} are taken",
                hint="send several requests, or raise `max_ids` of the text fetcher",
            )
        if not wanted:
            return TextResponse(texts=())
        found = await self._store.chunk_texts(message.collection, wanted, message.access)
        by_id = {text.chunk_id: text for text in found}
        texts = {chunk_id: by_id[chunk_id] for chunk_id in wanted if chunk_id in by_id}
        missing = tuple(chunk_id for chunk_id in wanted if chunk_id not in texts)
        if plan is not None:
            return await _within_budget(plan, wanted, texts, missing, self._embedder)
        if message.token_codes:
            await self._add_codes(message, texts)
        if message.with_places:
            await self._add_places(message, texts)
        return TextResponse(texts=tuple(texts.values()), missing=missing)

    async def _add_codes(self, message: TextRequest, texts: dict[str, ChunkText]) -> None:
        """Add the token codes that the store keeps."""
        codes = await self._store.token_codes(message.collection, list(texts), message.access)
        for one, code in codes.items():
            texts[one] = msgspec.structs.replace(texts[one], token_codes=code)

    async def _add_places(self, message: TextRequest, texts: dict[str, ChunkText]) -> None:
        """Add the places of texts in their documents."""
        ids = list(texts)
        documents = await self._store.document_texts(message.collection, ids, message.access)
        for one, document in documents.items():
            start = next((each.char_start for each in document.chunks if each.id == one), None)
            texts[one] = msgspec.structs.replace(
                texts[one], char_start=start, places=document.places
            )

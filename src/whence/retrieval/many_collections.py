"""Retrieval from several collections: each by its own rights, encoder and calibration, on the one scale."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict, replace

from whence.retrieval.services import (
    Embedded,
    PlannedQuery,
    RetrievalClients,
    RetrievalServices,
)
from whence.retrieval.spelling import Spelling
from whence.schema.errors import NotFound, WhenceError
from whence.schema.passages import Passage
from whence.schema.rerank import RerankResponse
from whence.schema.search import CALIBRATIONS, Degradation, SearchMode, SearchResponse
from whence.schema.texts import ChunkText
from whence.store.chunk_ids import by_collection, split_collections

T = TypeVar("T")


class ManyCollections:
    """`RetrievalServices` of several collections; the vector of a query is one of each, by name.

    Args:
        parts: Those of each collection, with one reader and one mode; at least one.
    """

    def __init__(self, parts: Sequence[RetrievalClients]) -> None:
        self._parts = {one.collection: one for one in parts}
        self._first = parts[0]
        self.collection = ",".join(self._parts)
        self.access = self._first.access
        self.filters = self._first.filters
        #: Always empty: there is no one version of several collections.
        self.versions: set[int] = set()

    @property
    def mode(self) -> SearchMode:
        """See `RetrievalServices.mode`."""
        return self._first.mode

    def oldest_versions(self) -> dict[str, int]:
        """Return the oldest version of each collection that a search saw; 0 when not known."""
        return {
            name: one
            for part in self._parts.values()
            for name, one in part.oldest_versions().items()
        }

    async def embed(self, texts: Sequence[str], what: str) -> Embedded:
        """Embed texts for each collection; one whose encoder is missing has no vector."""
        found = await self._each(lambda part: part.embed(texts, what))
        made = {name: one for name, one in found.items() if isinstance(one, Embedded)}
        if not made:
            raise _first_error(found)
        vectors = [
            {name: one.vectors[place] for name, one in made.items()} for place in range(len(texts))
        ]
        return replace(next(iter(made.values())), vectors=vectors)

    async def check_spelling(self, text: str) -> Spelling:
        """Return what no collection has; the first collection that knows a word like it corrects it."""
        return _merge_spelling(await self._good(lambda part: part.check_spelling(text)))

    async def occurs(self, term: str) -> bool:
        """Return whether one of the collections may have a term."""
        return any(await self._good(lambda part: part.occurs(term)))

    async def search(self, queries: Sequence[PlannedQuery]) -> list[SearchResponse | WhenceError]:
        """Search all collections at once; one that does not exist fails all, another fault is named."""
        found = await self._each(lambda part: part.search(_queries_of(part.collection, queries)))
        spelling = _spelling_of(found) if queries[0].spelling else Spelling()
        if queries[0].spelling and not spelling.corrections:
            found |= await self._search_unchecked(found, queries)
        merged: list[SearchResponse | WhenceError] = []
        for place, query in enumerate(queries):
            replies = {
                name: one if isinstance(one, WhenceError) else one[place]
                for name, one in found.items()
            }
            merged.append(_merge(replies, query))
        if isinstance(first := merged[0], SearchResponse):
            merged[0] = replace(first, corrections=spelling.corrections, absent=spelling.absent)
        return merged

    async def _search_unchecked(
        self,
        found: Mapping[str, list[SearchResponse | WhenceError] | WhenceError],
        queries: Sequence[PlannedQuery],
    ) -> dict[str, list[SearchResponse | WhenceError] | WhenceError]:
        """Search where a word is absent that another collection has: there it was not searched for yet."""
        stopped = {name for name, one in found.items() if _spelling_of({name: one}).corrections}
        asked = [replace(one, spelling=False) for one in queries]
        return await self._each(
            lambda part: part.search(_queries_of(part.collection, asked)), among=stopped
        )

    async def fetch(
        self, chunk_ids: Sequence[str], *, with_places: bool = False
    ) -> dict[str, ChunkText]:
        """See `RetrievalServices.fetch`."""
        wanted = by_collection(self.collection, chunk_ids)
        found = await asyncio.gather(
            *(
                part.fetch(wanted[name], with_places=with_places)
                for name, part in self._parts.items()
                if wanted[name]
            )
        )
        return {key: text for one in found for key, text in one.items()}

    async def tagged(self, chunk_ids: Sequence[str], tags: frozenset[str]) -> frozenset[str]:
        """See `RetrievalServices.tagged`."""
        wanted = by_collection(self.collection, chunk_ids)
        found = await asyncio.gather(
            *(part.tagged(wanted[name], tags) for name, part in self._parts.items() if wanted[name])
        )
        return frozenset().union(*found)

    async def rerank(
        self, query: str, passages: Sequence[Passage], scores: Sequence[float], limit: int
    ) -> RerankResponse:
        """See `RetrievalServices.rerank`; the reranker reads passages of all collections together."""
        return await self._first.rerank(query, passages, scores, limit)

    async def _each(
        self,
        call: Callable[[RetrievalClients], Awaitable[T]],
        among: Collection[str] | None = None,
    ) -> dict[str, T | WhenceError]:
        """Return the result of each collection, or its error."""
        parts = [one for name, one in self._parts.items() if among is None or name in among]

        async def result(part: RetrievalClients) -> T | WhenceError:
            try:
                return await call(part)
            except WhenceError as error:
                return error

        found = await asyncio.gather(*map(result, parts))
        return {part.collection: one for part, one in zip(parts, found, strict=True)}

    async def _good(self, call: Callable[[RetrievalClients], Awaitable[T]]) -> list[T]:
        found = await self._each(call)
        return [one for one in found.values() if not isinstance(one, WhenceError)]


def retrieval_clients(
    caller: Any, *, collection: str, **options: Any
) -> RetrievalClients | ManyCollections:
    """Return the clients of a collection, or of several with commas between; options as for one."""
    parts = [
        RetrievalClients(caller, collection=name, **options)
        for name in split_collections(collection)
    ]
    return parts[0] if len(parts) == 1 else ManyCollections(parts)


def _spelling_of(
    found: Mapping[str, list[SearchResponse | WhenceError] | WhenceError],
) -> Spelling:
    """Return what the first query of all collections says of its words."""
    first = [one[0] for one in found.values() if not isinstance(one, WhenceError)]
    return _merge_spelling(
        [Spelling(one.corrections, one.absent) for one in first if isinstance(one, SearchResponse)]
    )


def _merge_spelling(found: Sequence[Spelling]) -> Spelling:
    """Return what no collection has; the first collection that knows a word like it corrects it."""
    missing = [{*one.absent, *(each.source for each in one.corrections)} for one in found]
    words = set.intersection(*missing) if missing else set()
    corrections = {
        each.source: each
        for one in reversed(found)
        for each in one.corrections
        if each.source in words
    }
    first = found[0] if found else Spelling()
    order = dict.fromkeys((*(each.source for each in first.corrections), *first.absent))
    return Spelling(
        tuple(corrections[word] for word in order if word in corrections),
        tuple(word for word in order if word in words and word not in corrections),
    )


def _first_error(found: Mapping[str, Any]) -> WhenceError:
    """Return that of a missing collection, else the first."""
    errors = [one for one in found.values() if isinstance(one, WhenceError)]
    return next((one for one in errors if isinstance(one, NotFound)), errors[0])


def _queries_of(name: str, queries: Sequence[PlannedQuery]) -> list[PlannedQuery]:
    return [
        replace(one, vector=one.vector.get(name) if isinstance(one.vector, dict) else None)
        for one in queries
    ]


def _merge(
    replies: Mapping[str, SearchResponse | WhenceError], query: PlannedQuery
) -> SearchResponse | WhenceError:
    """Return the best candidates of all, by score, then by id; scores mean the same in each collection."""
    good = {name: one for name, one in replies.items() if isinstance(one, SearchResponse)}
    faults = {name: one for name, one in replies.items() if isinstance(one, WhenceError)}
    if not good or any(isinstance(one, NotFound) for one in faults.values()):
        return _first_error(replies)
    found = [each for one in good.values() for each in one.candidates]
    found.sort(key=lambda one: (-one.score, one.chunk_id))
    degraded = [
        replace(each, reason=f"{each.reason} (collection {name})")
        for name, one in good.items()
        for each in one.degraded
    ]
    degraded += [
        Degradation(
            stage="search",
            code="search_failed",
            reason=f"collection {name} was not searched: {one.message}",
        )
        for name, one in faults.items()
    ]
    known = {
        name: {key: value for key, value in asdict(one.calibration).items() if value is not None}
        for name, one in good.items()
        if one.calibration
    }
    settings = dict(next(iter(good.values())).settings)
    if known:
        settings[CALIBRATIONS] = msgspec.json.encode(known, order="deterministic").decode()
    return SearchResponse(
        candidates=tuple(
            replace(one, rank=rank) for rank, one in enumerate(found[: query.limit], 1)
        ),
        degraded=tuple(degraded),
        settings=settings,
    )


#: For the type checker: it has all that retrieval asks for.
_SERVICES: type[RetrievalServices] = ManyCollections

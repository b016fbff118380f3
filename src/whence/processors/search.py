"""The search service: a query in, the best visible chunks out.

Three ways to rank: by vectors (`dense`), by words (`bm25`), by both (`hybrid`). In a hybrid search every chunk
that either leg found gets the true score of both. A leg that cannot take part is named in `degraded`; what
the reader may not see is never in a reply.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Container, Iterator
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import msgspec

from whence.processors.base import Context, Processor
from whence.processors.services import SEARCH
from whence.retrieval.fusion import (
    FUSIONS,
    Fusion,
    Scores,
    evidence,
    lexical_score,
    ranked,
    score_of,
    union,
)
from whence.retrieval.links import neighbourhood, used, walk_scores, worth_walking
from whence.schema.access import Access
from whence.schema.embedding import EmbeddingModel
from whence.schema.errors import (
    BadInput,
    DeadlineExceeded,
    ModelMismatch,
    NotFound,
    Unavailable,
    WhenceError,
)
from whence.schema.filters import parse_filters
from whence.schema.search import (
    Candidate,
    Degradation,
    GraphUse,
    SearchRequest,
    SearchResponse,
    SearchResult,
    counted_part,
    too_many_words,
)
from whence.store.linked_titles import LinkStatistics, SupportsLinks
from whence.store.symbol_names import SupportsSymbols, SymbolMatch, parse_symbol_query

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from whence.store.protocols import ChunkStore

__all__ = ("SearchParameters", "SearchProcessor")

#: Candidates that each leg of a hybrid search gives at least: what one leg ranks low the other may lift.
_LEG_DEPTH = 100
#: Part of the caller's time that a leg may take; the rest is the other's, to answer without it.
_LEG_SHARE = 0.5
#: Readers whose part of a collection is remembered to be linked or not.
_MOST_READERS = 1000
#: Most queries of one request.
_MAX_QUERIES = 100
T = TypeVar("T")
_Leg = list[Candidate] | WhenceError
_Named = list[SymbolMatch] | WhenceError
_NO_DENSE = Unavailable("words alone rank")
#: Errors that leave the other leg standing; all else is wrong with the request itself.
_LEG_ERRORS = (Unavailable, DeadlineExceeded)


class _LegLostError(Exception):
    """A leg ranked, and then could not score what only the other found."""

    def __init__(self, leg: Literal["lexical", "dense"], error: WhenceError) -> None:
        super().__init__(error.message)
        self.leg = leg
        self.error = error


class SearchParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the search processor."""

    max_limit: Annotated[int, msgspec.Meta(ge=1)] = 100_000
    """Largest `limit` of a request; a larger one is refused."""
    model_memory_s: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 2.0
    """Seconds for which the model of a collection is remembered. A collection that is removed and made
    again with another model of the same dimension is noticed after that time."""
    fusion: Fusion = "absolute"
    """How a hybrid search joins its legs. Only with `absolute` does a threshold mean the same for every
    query, and only then can the passage graph take part."""
    leg_timeout_s: Annotated[float, msgspec.Meta(gt=0, le=600)] = 10.0
    """Seconds that a leg of a hybrid search may take, at most half of the caller's time; then the other
    answers alone."""
    passage_graph: Literal["auto", "on", "off"] = "auto"
    """Whether a hybrid search walks from the best passages to those they name and are named by. `auto` does
    so in collections where at least 0.4 of the passages have a link and documents have at most 1.5 passages
    in the mean."""


class _Fused(msgspec.Struct, kw_only=True):
    """The candidates of a hybrid search."""

    documents: dict[str, str]
    """Document of each, by chunk id."""
    scores: dict[str, Scores]
    """What the legs say."""
    fused: dict[str, float]
    """Scores, 0 to 1."""
    gains: dict[str, float] | None = None
    """What the passage graph added to them."""
    graph: GraphUse | None = None
    degraded: tuple[Degradation, ...] = ()


class _Names(msgspec.Struct, frozen=True, kw_only=True):
    """What goes by the name that a query is."""

    fits: dict[str, int] = {}
    """How well the name fits, by chunk id."""
    documents: dict[str, str] = {}
    """Document of those that no leg found, by chunk id."""
    scores: dict[str, Scores] = {}
    """What the legs say of these."""
    degraded: tuple[Degradation, ...] = ()


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
        self._links: dict[tuple[str, Access], tuple[float, LinkStatistics | None]] = {}

    async def handle(self, message: SearchRequest, context: Context) -> SearchResponse:
        """Search once, or for several queries at once.

        Of several queries one that fails is left out as long as another succeeds.

        Raises:
            BadInput: Limit, threshold or vector is out of range, or a filter is none, or on a key that no
                visible document has; or there are more than 100 queries.
            NotFound: There is no such collection.
            ModelMismatch: The vector comes from another model than the collection's.
            Unavailable: The store does not answer, or no leg of a hybrid search can take part.
        """
        if not message.more:
            return await self._search(message, context)
        if len(message.more) >= _MAX_QUERIES:
            raise BadInput(
                f"{1 + len(message.more)} queries in one search; at most {_MAX_QUERIES} are taken"
            )
        found = await asyncio.gather(
            *(_or_error(self._search(one, context)) for one in _queries(message))
        )
        errors = [one for one in found if isinstance(one, WhenceError)]
        if len(errors) == len(found):
            raise errors[0]
        return SearchResponse(candidates=(), results=tuple(map(_result, found)))

    async def _search(self, message: SearchRequest, context: Context) -> SearchResponse:
        """Search for one query, by as much of its text as counts."""
        self._check(message)
        await self._check_model(message.collection, message.model)
        if message.mode == "dense":
            return await self._ranked(message, context)
        query_text, cut = counted_part(message.query_text)
        cut += too_many_words(query_text)
        if not cut:
            return await self._ranked(message, context)
        found = await self._ranked(msgspec.structs.replace(message, query_text=query_text), context)
        return msgspec.structs.replace(found, degraded=(*cut, *found.degraded))

    async def _ranked(self, message: SearchRequest, context: Context) -> SearchResponse:
        if message.mode == "dense":
            return SearchResponse(candidates=tuple(await self._dense(message, message.limit)))
        left_s = context.remaining_s()
        most_s = self.parameters.leg_timeout_s
        leg_s = most_s if left_s is None else min(most_s, _LEG_SHARE * left_s)
        if message.mode == "hybrid":
            return await self._hybrid(message, leg_s)
        found, named = await asyncio.gather(
            self._lexical(message, message.limit), self._named(message, leg_s)
        )
        return await self._words_alone(message, found, named, ())

    async def _dense(self, message: SearchRequest, limit: int) -> list[Candidate]:
        return await self._store.search_dense(
            message.collection,
            _vector(message),
            limit=limit,
            access=message.access,
            threshold=message.threshold if message.mode == "dense" else 0.0,
            filters=parse_filters(message.filters),
        )

    async def _lexical(self, message: SearchRequest, limit: int) -> list[Candidate]:
        return await self._store.search_lexical(
            message.collection,
            message.query_text,
            limit=limit,
            access=message.access,
            filters=parse_filters(message.filters),
            match=message.match,
        )

    async def _named(self, message: SearchRequest, most_s: float) -> _Named:
        """Give the chunks that go by the name that a query is; none when it is anything else.

        As many as are ranked at most: with more of one name no other chunk has a place in the ranking.
        """
        name, store = parse_symbol_query(message.query_text), self._store
        if name is None or not isinstance(store, SupportsSymbols):
            return []
        asked = store.find_symbols(
            message.collection,
            name,
            limit=max(message.limit, _LEG_DEPTH),
            access=message.access,
            filters=parse_filters(message.filters),
        )
        return await _leg(asked, most_s)

    async def _names(
        self,
        message: SearchRequest,
        lexical: _Leg,
        dense: _Leg,
        named: _Named,
        found: Container[str],
    ) -> _Names:
        """Give what goes by the name, with the scores of what is not found; without these where a leg fails."""
        if isinstance(named, WhenceError):
            return _Names(degraded=_no_names(named))
        new = {one.chunk_id: one.document_id for one in named if one.chunk_id not in found}
        scores: dict[str, Scores] = {}
        degraded: tuple[Degradation, ...] = ()
        try:
            scores = await self._scores(message, lexical, dense, list(new)) if new else {}
        except _LegLostError as lost:
            degraded = _no_names(lost.error)
        return _Names(
            fits={
                one.chunk_id: one.fit
                for one in named
                if one.chunk_id in scores or one.chunk_id in found
            },
            documents={key: new[key] for key in scores},
            scores=scores,
            degraded=degraded,
        )

    async def _words_alone(
        self,
        message: SearchRequest,
        found: list[Candidate],
        named: _Named,
        degraded: tuple[Degradation, ...],
    ) -> SearchResponse:
        """Give a lexical ranking, on the scale of words alone, with what goes by the name that is asked for."""
        documents = union(found)
        names = await self._names(message, found, _NO_DENSE, named, documents)
        degraded += names.degraded
        if not names.fits:
            return SearchResponse(candidates=_by_words(found, message), degraded=degraded)
        # One factor leads from every share to its coverage.
        per_share = next((one.score / one.sparse_score for one in found if one.sparse_score), 1.0)
        scores = {one.chunk_id: Scores(None, one.sparse_score) for one in found}
        fused = {one.chunk_id: lexical_score(one.score) for one in found}
        fused |= {
            key: lexical_score(min(1.0, per_share * (one.sparse or 0.0)))
            for key, one in names.scores.items()
        }
        candidates = ranked(
            documents | names.documents,
            scores | names.scores,
            fused,
            limit=message.limit,
            threshold=message.threshold,
            fits=names.fits,
        )
        return SearchResponse(candidates=candidates, degraded=degraded)

    async def _hybrid(self, message: SearchRequest, leg_s: float) -> SearchResponse:
        """Ask both legs at once, then each for the scores of what only the other found; join.

        A leg that has not ranked after `leg_s` seconds takes no part, like one that failed.
        """
        depth = max(message.limit, _LEG_DEPTH)
        lexical, dense, named = await asyncio.gather(
            _leg(self._lexical(message, depth), leg_s),
            _leg(self._dense(message, depth), leg_s),
            self._named(message, leg_s),
        )
        if isinstance(lexical, WhenceError) and isinstance(dense, WhenceError):
            raise dense if message.vector else lexical
        try:
            return await self._join(message, lexical, dense, named)
        except _LegLostError as lost:
            if lost.leg == "lexical":
                return await self._join(message, lost.error, dense, named)
            return await self._join(message, lexical, lost.error, named)

    async def _join(
        self, message: SearchRequest, lexical: _Leg, dense: _Leg, named: _Named
    ) -> SearchResponse:
        """Join two legs, at least one of which has ranked; a leg alone has nothing more to score.

        What goes by the name that is asked for comes first, whether or not a leg has found it.

        Raises:
            _LegLostError: Of two legs that ranked, one cannot score what the other found.
        """
        degraded = (*_left_out("lexical", lexical), *_left_out("dense", dense))
        if isinstance(dense, WhenceError) and not isinstance(lexical, WhenceError):
            return await self._words_alone(message, lexical, named, degraded)
        found = [leg for leg in (lexical, dense) if not isinstance(leg, WhenceError)]
        documents = union(*found)
        scores = await self._scores(message, lexical, dense, list(documents))
        names = await self._names(message, lexical, dense, named, documents)
        documents |= names.documents
        scores |= names.scores
        found_all = _Fused(
            documents=documents, scores=scores, fused=FUSIONS[self.parameters.fusion](scores)
        )
        await self._walk(message, lexical, dense, found_all)
        candidates = ranked(
            found_all.documents,
            found_all.scores,
            found_all.fused,
            limit=message.limit,
            threshold=message.threshold,
            gains=found_all.gains,
            fits=names.fits,
        )
        return SearchResponse(
            candidates=candidates,
            degraded=(*degraded, *names.degraded, *found_all.degraded),
            graph=found_all.graph,
        )

    async def _walk(self, message: SearchRequest, lexical: _Leg, dense: _Leg, all_: _Fused) -> None:
        """Score candidates anew over the passage graph, where the collection has enough links.

        With filters only candidates take part: what else is linked need not fulfil them.
        """
        store = self._store
        if not isinstance(store, SupportsLinks) or not all_.documents:
            return
        try:
            share = await self._linked_share(store, message.collection, message.access)
            if share is None:
                return
            own = {key: evidence(one) for key, one in all_.scores.items()}
            around = await neighbourhood(
                lambda chunk_ids, text: store.linked_titles(
                    message.collection, chunk_ids, message.access, query_text=text
                ),
                own,
                message.query_text,
            )
            if message.filters:
                around = around.within(all_.documents)
            new = [key for key in around.documents if key not in own]
            scores = await self._scores(message, lexical, dense, new) if new else {}
        except (*_LEG_ERRORS, _LegLostError) as error:
            reason = f"the passage graph took no part: {error}"
            all_.degraded = (
                Degradation(stage="search", code="passage_graph_missing", reason=reason),
            )
            return
        own |= {key: evidence(one) for key, one in scores.items()}
        shares = all_.scores | scores
        walked = walk_scores(own, around, {key for key in own if shares[key].sparse == 0.0})
        all_.documents |= {key: around.documents[key] for key in new}
        all_.scores |= scores
        all_.fused = {key: score_of(walked.get(key, own[key])) for key in all_.documents}
        all_.gains = {key: score - score_of(own[key]) for key, score in all_.fused.items()}
        all_.graph = used(around, share)

    async def _linked_share(
        self, store: SupportsLinks, collection: str, access: Access
    ) -> float | None:
        """Give the share of linked passages of a collection; None when the graph takes no part in it."""
        setting = self.parameters.passage_graph
        if setting == "off" or self.parameters.fusion != "absolute":
            return None
        now = self._monotonic()
        known = self._links.get((collection, access))
        if known is None or now >= known[0]:
            known = (
                now + self.parameters.model_memory_s,
                await store.link_statistics(collection, access),
            )
            if len(self._links) >= _MOST_READERS:
                self._links.clear()
            self._links[collection, access] = known
        statistics = known[1]
        if statistics is None or (setting == "auto" and not worth_walking(statistics)):
            return None
        return statistics.share

    async def _scores(
        self, message: SearchRequest, lexical: _Leg, dense: _Leg, chunk_ids: list[str]
    ) -> dict[str, Scores]:
        """Give both true scores of every chunk; None of the leg that does not take part.

        A chunk that was removed or hidden between the two questions counts 0 there: it falls behind, and
        its text is not given out any more.

        Raises:
            _LegLostError: A leg does not answer.
        """
        shares = _known(lexical, "sparse_score")
        cosines = _known(dense, "dense_score")
        collection, access = message.collection, message.access
        if shares is not None and (missing := [key for key in chunk_ids if key not in shares]):
            asked = self._store.lexical_scores(
                collection, message.query_text, missing, access, match=message.match
            )
            shares |= dict.fromkeys(missing, 0.0) | await _scored("lexical", asked)
        if cosines is not None and (missing := [key for key in chunk_ids if key not in cosines]):
            asked = self._store.dense_scores(collection, _vector(message), missing, access)
            cosines |= dict.fromkeys(missing, 0.0) | await _scored("dense", asked)
        return {
            key: Scores(
                None if cosines is None else cosines[key], None if shares is None else shares[key]
            )
            for key in chunk_ids
        }

    def _check(self, message: SearchRequest) -> None:
        if not 1 <= message.limit <= self.parameters.max_limit:
            raise BadInput(
                f"limit (the top_k of a search) must be 1 to {self.parameters.max_limit},"
                f" not {message.limit}",
                hint="ask for fewer results, or narrow the search with filters",
            )
        if not 0.0 <= message.threshold <= 1.0:
            raise BadInput(f"threshold must be 0 to 1, not {message.threshold}")
        if message.match == "all" and message.mode == "dense":
            raise BadInput(
                "mode dense knows no words that could all match",
                hint="use mode bm25 or hybrid, or match any",
            )
        # Refused before a leg could fail for another reason, and the other answer without it.
        parse_filters(message.filters)

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
                f"there is no collection {collection!r}",
                hint="index something into it first; `whence collections` lists what there is",
            )
        self._models[collection] = (now + self.parameters.model_memory_s, info.model)
        return info.model


def _queries(message: SearchRequest) -> Iterator[SearchRequest]:
    """Give each query of a request as a request of its own."""
    yield msgspec.structs.replace(message, more=())
    for one in message.more:
        yield msgspec.structs.replace(
            message, more=(), limit=one.limit, vector=one.vector, query_text=one.query_text
        )


async def _or_error(searching: Awaitable[SearchResponse]) -> SearchResponse | WhenceError:
    try:
        return await searching
    except WhenceError as error:
        return error


def _result(found: SearchResponse | WhenceError) -> SearchResult | None:
    if isinstance(found, WhenceError):
        return None
    return SearchResult(candidates=found.candidates, degraded=found.degraded, graph=found.graph)


def _by_words(found: list[Candidate], message: SearchRequest) -> tuple[Candidate, ...]:
    """Score a lexical ranking on the scale of words alone; limit and threshold are the request's."""
    scored = (msgspec.structs.replace(one, score=lexical_score(one.score)) for one in found)
    return tuple(one for one in scored if one.score >= message.threshold)[: message.limit]


async def _leg(ranking: Awaitable[list[T]], most_s: float) -> list[T] | WhenceError:
    """Give a leg's ranking, or the error that keeps it from taking part."""
    try:
        async with asyncio.timeout(most_s):
            return await ranking
    except TimeoutError:
        return DeadlineExceeded(f"it did not answer within {most_s:.3g} s")
    except _LEG_ERRORS as error:
        return error


async def _scored(
    leg: Literal["lexical", "dense"], asked: Awaitable[dict[str, float]]
) -> dict[str, float]:
    """Give the scores of a leg, or tell which one was lost."""
    try:
        return await asked
    except _LEG_ERRORS as error:
        raise _LegLostError(leg, error) from error


def _left_out(name: str, leg: _Leg) -> tuple[Degradation, ...]:
    if not isinstance(leg, WhenceError):
        return ()
    reason = f"the {name} leg took no part: {leg.message}"
    return (Degradation(stage="search", code=f"{name}_leg_missing", reason=reason),)


def _no_names(error: WhenceError) -> tuple[Degradation, ...]:
    reason = f"definitions of the name were not looked for: {error.message}"
    return (Degradation(stage="search", code="names_missing", reason=reason),)


def _known(leg: _Leg, field: str) -> dict[str, float] | None:
    """Give the scores of a leg by chunk id; None when it does not take part."""
    if isinstance(leg, WhenceError):
        return None
    return {one.chunk_id: getattr(one, field) or 0.0 for one in leg}


def _vector(message: SearchRequest) -> NDArray[np.float32]:
    """Read the query vector, float32 of shape (dimension,)."""
    import numpy as np

    if not message.vector:
        if message.mode == "hybrid":
            raise Unavailable("the query could not be embedded")
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

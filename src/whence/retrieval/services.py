"""The services that retrieval calls, their time limits, and typed clients of those on the bus."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeVar

import msgspec

from whence.retrieval.rerank import text_to_read
from whence.retrieval.spelling import Spelling
from whence.schema.access import Access
from whence.schema.embedding import EmbeddingModel, EmbeddingRequest, EmbeddingResponse, Purpose
from whence.schema.errors import DeadlineExceeded, InternalError, Unavailable, WhenceError
from whence.schema.filters import parse_filters
from whence.schema.message import Message
from whence.schema.passages import Passage
from whence.schema.rerank import RerankItem, RerankRequest, RerankResponse
from whence.schema.search import (
    Match,
    SearchMode,
    SearchQuery,
    SearchRequest,
    SearchResponse,
)
from whence.schema.texts import ChunkText, TextRequest, TextResponse

T = TypeVar("T")


class Deadline:
    """The end of the time for a piece of work."""

    def __init__(
        self, total_s: float | None = None, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._monotonic = monotonic
        self._end = None if total_s is None else monotonic() + total_s

    def within(self, seconds: float) -> Deadline:
        """Return a deadline that ends after some seconds, or with this one."""
        total = seconds if self._end is None else min(seconds, self._end - self._monotonic())
        return Deadline(total, monotonic=self._monotonic)

    def portion(self, share: float) -> Deadline:
        """Return a deadline that ends when this share, 0 to 1, of the remaining time is over."""
        if self._end is None:
            return self
        left = max(0.0, self._end - self._monotonic())
        return Deadline(left * share, monotonic=self._monotonic)

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        return self._end is not None and self._monotonic() >= self._end

    async def limit(
        self,
        what: str,
        call: Callable[[], Awaitable[T]],
        timeout_s: float | None = None,
        *,
        share: float = 1.0,
    ) -> T:
        """Make one call within its own time and that of the whole.

        Args:
            what: The call in words, for messages, e.g. `embedding the question`.
            call: Starts it; not called when the time is over.
            timeout_s: Seconds for this call; None for no limit of its own.
            share: Part of the remaining time that it may take, 0 to 1. A call whose result is optional must
                leave time for those after it.

        Raises:
            DeadlineExceeded: The time ran out.
            WhenceError: The call failed; other exceptions are chained to an `InternalError`.
        """
        allowed = timeout_s
        if self._end is not None:
            left = max(0.0, self._end - self._monotonic()) * share
            allowed = left if timeout_s is None else min(timeout_s, left)
        if allowed is not None and allowed <= 0:
            raise DeadlineExceeded(f"the time of the question was over before {what}")
        scope = asyncio.timeout(allowed)
        try:
            async with scope:
                return await call()
        except WhenceError:
            raise
        except Exception as error:
            if scope.expired() and isinstance(error, TimeoutError):
                raise DeadlineExceeded(f"{what} was not done within {allowed:.3g} s") from error
            raise as_whence_error(error, what) from error


def as_whence_error(error: Exception, what: str) -> WhenceError:
    """Return a `WhenceError` for any exception; its message is never empty."""
    if isinstance(error, WhenceError):
        return error
    if isinstance(error, TimeoutError):
        return Unavailable(f"{what} timed out" + (f": {error}" if str(error) else ""))
    detail = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return InternalError(f"{what} failed: {detail}")


M = TypeVar("M", bound=Message)

#: Chunks that are read to find a term, at most.
_MOST_WITH_WORDS = 100
#: Ids of one text request; a reply of as many chunks stays below a broker's limit of 5 MiB.
_TEXTS_PER_REQUEST = 500


class Vector(msgspec.Struct, frozen=True):
    """The vector of one query."""

    data: bytes
    """float32 little endian, shape (dimension,)."""
    model: EmbeddingModel | None = None
    """Model that made it; a search refuses a vector of another model than its collection's."""


#: Weight of a query as it was written in the blend of its vectors; its correction has 1. A model reads a
#: misspelt word by its pieces, and mostly well; words alone need the correction.
_AS_WRITTEN_WEIGHT = 2.0


def blend_query_vectors(written: Any, corrected: Any) -> Any:
    """Return the vector of a query with corrected words: two parts as it was written, one as it was corrected.

    The reader may have meant either. Measurements: docs/benchmarks.md.

    Args:
        written: `Vector` of the query as it was written. One that is unknown, or of another model, does not
            count.
        corrected: That of the correction; None when words alone are to rank.
    """
    if isinstance(written, dict) and isinstance(corrected, dict):
        # Those of several collections.
        return {
            name: blend_query_vectors(written.get(name), one) for name, one in corrected.items()
        }
    if not (isinstance(written, Vector) and isinstance(corrected, Vector)):
        return corrected
    if written.model != corrected.model or len(written.data) != len(corrected.data):
        return corrected
    import numpy as np

    first, second = (np.frombuffer(one.data, dtype="<f4") for one in (written, corrected))
    total = _AS_WRITTEN_WEIGHT * first.astype(np.float64) + second
    length = np.linalg.norm(total)
    return (
        Vector((total / length).astype("<f4").tobytes(), corrected.model) if length else corrected
    )


class Embedded(msgspec.Struct, frozen=True):
    """Vectors of texts."""

    vectors: Sequence[Any]
    """One per text, in order; only `embed` and `search` know their type."""
    model: EmbeddingModel | None = None
    """Model that made them, when known."""
    served_by: str = ""
    """Model and host of the server that made them; empty for none."""


class PlannedQuery(msgspec.Struct, frozen=True):
    """One query of a search."""

    text: str
    vector: Any
    """None when words alone are to rank."""
    limit: int
    """Most candidates, 1 or more."""
    spelling: bool = False
    """Whether misspelt words are looked for; of several queries only in the first."""


class RetrievalServices(Protocol):
    """What retrieval asks of others, for one reader in one collection. All errors are `WhenceError`s.

    `RetrievalClients` sends messages to the services of a flow. Messages do not fit clients of the caller,
    whose vectors have a type of their own and of which each query and text fails alone; these are called by
    `answering.plain_services.PlainServices`.
    """

    @property
    def mode(self) -> SearchMode:
        """How the search ranks."""

    async def embed(self, texts: Sequence[str], what: str) -> Embedded:
        """Return one vector per text; `what` names them in errors."""

    async def check_spelling(self, text: str) -> Spelling:
        """Return what is known of the words of a query; nothing when that is not known."""

    async def occurs(self, term: str) -> bool:
        """Return whether a visible chunk may have a term word for word; True when that is not known."""

    async def search(self, queries: Sequence[PlannedQuery]) -> list[SearchResponse | WhenceError]:
        """Return the ranking of each query, or the error that it failed with."""

    async def fetch(
        self, chunk_ids: Sequence[str], *, with_places: bool = False
    ) -> Mapping[str, Any]:
        """Return texts by chunk id: a `ChunkText`, or the error of one that failed.

        With `with_places` a `ChunkText` has its place in its document, where that is known.
        """

    async def tagged(self, chunk_ids: Sequence[str], tags: frozenset[str]) -> frozenset[str]:
        """Return those of visible chunks whose documents have one of the tags as a label or in their ACL."""

    async def rerank(
        self, query: str, passages: Sequence[Passage], scores: Sequence[float], limit: int
    ) -> RerankResponse:
        """Choose at most `limit` passages for a query; `scores` are those of retrieval, when known.

        The documents of the reply have the numbers of the passages, from 0, as ids; it is not checked yet.
        """


class Caller(Protocol):
    """Sends requests to services by port: a `Context` of a processor, or a client of a flow."""

    def call(self, port: str, message: Message, reply: type[M]) -> Awaitable[M]:
        """Send a request and return its reply."""


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds for calls; None for no limit beside the caller's own."""

    embedding_s: float | None = None
    search_s: float | None = None
    texts_s: float | None = None
    rerank_s: float | None = None
    rerank_share: float = 1.0
    """Part of the remaining time that reranking may take, 0 to 1."""


async def embed_texts(
    caller: Caller,
    texts: Sequence[str],
    purpose: Purpose,
    port: str = "embedding",
    *,
    token_codes: bool = False,
    collection: str = "",
    model: EmbeddingModel | None = None,
) -> EmbeddingResponse:
    """Return the vectors of texts as they travel, one per text, and token codes when they are wanted.

    They are those of the model that is given, or of the collection's, where the service has it.
    """
    message = EmbeddingRequest(
        texts=tuple(texts),
        purpose=purpose,
        token_codes=token_codes,
        collection=collection,
        model=model,
    )
    reply = await caller.call(port, message, EmbeddingResponse)
    expected = len(texts) * reply.model.dimension * 4
    if len(reply.vectors) != expected:
        raise InternalError(
            f"the embedding service gave {len(reply.vectors)} bytes of vectors"
            f" for {len(texts)} texts; expected {expected}"
        )
    if len(reply.token_codes) not in (0, len(texts)):
        raise InternalError(
            f"the embedding service gave {len(reply.token_codes)} codes for {len(texts)} texts"
        )
    return reply


@dataclass(slots=True)
class RetrievalClients:
    """`RetrievalServices` over the bus."""

    caller: Caller
    _: KW_ONLY
    collection: str
    access: Access
    mode: SearchMode = "dense"
    filters: Mapping[str, Any] | None = None
    match: Match = "any"
    deadline: Deadline = field(default_factory=Deadline)
    timeouts: Timeouts = field(default_factory=Timeouts)
    texts_port: str = "texts"
    token_codes: bool = False
    """Whether texts are read with their token codes, for the reranker."""
    versions: set[int] = field(default_factory=set)
    """Versions of the collection that searches saw."""

    def __post_init__(self) -> None:
        if self.filters:
            parse_filters(self.filters)

    def oldest_versions(self) -> dict[str, int]:
        """Return the oldest version of the collection that a search saw; 0 when not known."""
        return {self.collection: min(self.versions, default=0)}

    async def embed(self, texts: Sequence[str], what: str) -> Embedded:
        """See `RetrievalServices.embed`."""
        reply = await self.deadline.limit(
            f"embedding {what}",
            partial(embed_texts, self.caller, texts, "query", collection=self.collection),
            self.timeouts.embedding_s,
        )
        size = reply.model.dimension * 4
        vectors = [
            Vector(reply.vectors[start : start + size], reply.model)
            for start in range(0, len(texts) * size, size)
        ]
        return Embedded(vectors, reply.model, reply.served_by)

    async def check_spelling(self, text: str) -> Spelling:
        """Look the words of a query up; a failure is left to the search that follows."""
        words = replace(self, mode="bm25", match="any", filters=None)
        found = (await words.search([PlannedQuery(text, None, 1, spelling=True)]))[0]
        if isinstance(found, WhenceError):
            return Spelling()
        return Spelling(found.corrections, found.absent)

    async def occurs(self, term: str) -> bool:
        """Look for a term in the best chunks that have all of its words."""
        words = replace(self, mode="bm25", match="all", filters=None)
        found = (await words.search([PlannedQuery(term, None, _MOST_WITH_WORDS)]))[0]
        if isinstance(found, WhenceError):
            return True
        texts = await words.fetch([one.chunk_id for one in found.candidates])
        return any(term.casefold() in one.content.casefold() for one in texts.values())

    async def search(self, queries: Sequence[PlannedQuery]) -> list[SearchResponse | WhenceError]:
        """Search in one request, and alone for each query that was not answered there."""
        reply = await self._request(queries)
        if isinstance(reply, WhenceError):
            return [reply] * len(queries)
        if len(queries) == 1:
            return [reply]
        # A service of an older version answers the first query only.
        found: list[SearchResponse | None] = [reply, *[None] * (len(queries) - 1)]
        if len(reply.results) == len(queries):
            found = [
                SearchResponse(
                    candidates=one.candidates,
                    degraded=one.degraded,
                    graph=one.graph,
                    calibration=one.calibration,
                    settings=reply.settings,
                )
                if one
                else None
                for one in reply.results
            ]
        missing = [place for place, one in enumerate(found) if one is None]
        replies = await asyncio.gather(*(self._request([queries[place]]) for place in missing))
        alone = iter(replies)
        return [next(alone) if one is None else one for one in found]

    async def _request(self, queries: Sequence[PlannedQuery]) -> SearchResponse | WhenceError:
        first, *others = queries
        vector: Vector | None = first.vector
        message = SearchRequest(
            access=self.access,
            collection=self.collection,
            limit=first.limit,
            vector=vector.data if vector else None,
            model=vector.model if vector else None,
            query_text=first.text,
            mode=self.mode,
            filters=dict(self.filters or {}),
            match=self.match,
            spelling=first.spelling,
            # It is searched for again as corrected.
            stop_when_misspelt=first.spelling,
            with_version=True,
            more=tuple(
                SearchQuery(
                    limit=one.limit,
                    vector=one.vector.data if one.vector else None,
                    query_text=one.text,
                )
                for one in others
            ),
        )
        try:
            response = await self.deadline.limit(
                "searching",
                partial(self.caller.call, "search", message, SearchResponse),
                self.timeouts.search_s,
            )
        except WhenceError as error:
            return error
        self.versions.add(response.collection_version)
        return response

    async def fetch(
        self, chunk_ids: Sequence[str], *, with_places: bool = False
    ) -> dict[str, ChunkText]:
        """See `RetrievalServices.fetch`."""
        texts: dict[str, ChunkText] = {}
        for start in range(0, len(chunk_ids), _TEXTS_PER_REQUEST):
            message = TextRequest(
                access=self.access,
                collection=self.collection,
                chunk_ids=tuple(chunk_ids[start : start + _TEXTS_PER_REQUEST]),
                token_codes=self.token_codes,
                with_places=with_places,
            )
            reply = await self.deadline.limit(
                "reading the texts",
                partial(self.caller.call, self.texts_port, message, TextResponse),
                self.timeouts.texts_s,
            )
            texts |= {text.chunk_id: text for text in reply.texts}
        return texts

    async def tagged(self, chunk_ids: Sequence[str], tags: frozenset[str]) -> frozenset[str]:
        """See `RetrievalServices.tagged`; texts are read with other rights, and only compared."""
        rights = self.access
        unlabelled = msgspec.structs.replace(rights, labels=rights.labels - tags)
        by_tag = msgspec.structs.replace(rights, acl_tags=tags)
        open_to_all = msgspec.structs.replace(rights, acl_tags=frozenset())
        seen = [
            frozenset(await replace(self, access=access).fetch(chunk_ids))
            for access in (unlabelled, by_tag, open_to_all)
        ]
        return frozenset(chunk_ids) - seen[0] | (seen[1] - seen[2])

    async def rerank(
        self, query: str, passages: Sequence[Passage], scores: Sequence[float], limit: int
    ) -> RerankResponse:
        """Score passages, titles and headings included, for a query."""
        known: Sequence[float | None] = scores or [None] * len(passages)
        message = RerankRequest(
            queries=(RerankItem(id="0", text=query),),
            documents=tuple(
                RerankItem(
                    id=str(place),
                    text=text_to_read(one.text, one.metadata, one.lead),
                    retrieval_score=score,
                    token_codes=one.token_codes,
                )
                for place, (one, score) in enumerate(zip(passages, known, strict=True))
            ),
            limit=limit,
        )
        return await self.deadline.limit(
            "reranking",
            partial(self.caller.call, "reranker", message, RerankResponse),
            self.timeouts.rerank_s,
            share=self.timeouts.rerank_share,
        )

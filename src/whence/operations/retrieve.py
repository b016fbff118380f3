"""`Retrieve`: every candidate of a question with its scores and why it was dropped; nothing is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from whence.operations.many_collections import collection_names
from whence.operations.operation import Filters, Offered, Operation
from whence.retrieval.duplicates import without_duplicates
from whence.retrieval.fusion import UNCALIBRATED, evidence, score_of
from whence.retrieval.many_collections import retrieval_clients
from whence.retrieval.pipeline import (
    check_search,
    find_candidates,
    read_passages,
    rerank_passages,
    search_corrected,
    search_mode,
)
from whence.schema.access import Access
from whence.schema.errors import BadInput
from whence.schema.filters import parse_filters
from whence.schema.passages import Passage
from whence.schema.search import truncate_query

if TYPE_CHECKING:
    from collections.abc import Mapping

    from whence.operations.session import Session
    from whence.provenance.reasons import DropCode
    from whence.retrieval.pipeline import Found, Searched
    from whence.retrieval.services import RetrievalServices
    from whence.schema.search import Calibration, Correction, Degradation, SearchMode

#: Candidates beyond the last one that is fetched, which show what a higher limit would add.
_BEYOND: Final = 20
_MOST: Final = 500
#: Candidates fetched for each passage that the writer gets, as for a question.
_FETCHED_PER_PASSAGE: Final = 3


class RetrievedCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate and what became of it."""

    chunk_id: str
    document_id: str
    title: str
    heading: str
    text: str
    rank: int
    """Place in the list, 1 is first."""
    rank_before: int
    """Place by retrieval alone."""
    retrievers: list[str]
    """Those that found it by themselves: `dense`, `bm25`."""
    dense_score: float | None
    sparse_score: float | None
    score: float | None
    """Score of retrieval, 0 to 1."""
    rerank_score: float | None
    """What ordered it at reranking; null when it was not reranked."""
    drop: str | None
    """Code of the reason why the writer would not get it."""


class RetrievalReport(msgspec.Struct, frozen=True, kw_only=True):
    """All candidates of a query."""

    query: str
    question_used: str
    """The query that was searched for, with the corrections."""
    corrections: tuple[Correction, ...]
    candidates: list[RetrievedCandidate]
    """Those that were reranked in their new order, then the others by retrieval."""
    calibration: Calibration | None
    dense_weight: float | None
    """Weight of the vectors that was used; null where words or vectors rank alone."""
    reranker: str
    """Model that reranked; empty when none did."""
    degraded: tuple[Degradation, ...]


class Retrieve(Operation[RetrievalReport], frozen=True):
    """Retrieve as a question does, and show every candidate; nothing is answered or recorded."""

    NAME: ClassVar[str] = "retrieve"
    many_collections: ClassVar[bool] = True

    query: str
    """Words or a question."""
    access: Access = Access.public()
    """Rights to read with."""
    collection: str = "default"
    """Collection to read, or several, separated by commas."""
    mode: str = "hybrid"
    """`hybrid`, `dense` or `bm25`."""
    threshold: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Minimum score of retrieval, 0 to 1."""
    filters: Filters = {}
    """Conditions on metadata, all of which must hold."""
    exact: bool = False
    """Search for all words as they are; quoted words always are."""
    rerank: Annotated[bool, Offered(option="--rerank/--no-rerank")] = True
    """Rerank the candidates."""
    fetch_limit: Annotated[int, Meta(ge=0, le=_MOST)] = 0
    """Candidates before reranking; 0 for three times `doc_limit`."""
    doc_limit: Annotated[int, Meta(ge=1, le=_MOST)] = 20
    """Passages that the writer would get."""
    dense_weight: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Weight of vectors against words in `hybrid`, 0 to 1; null for that of the calibration."""

    def check(self) -> None:
        """Raise `BadInput` for values that can be refused before anything starts."""
        search_mode(self.mode)
        parse_filters(self.filters)
        check_search(self.query, self.doc_limit, self.threshold)
        if self.dense_weight is not None and not 0.0 <= self.dense_weight <= 1.0:
            raise BadInput(f"dense_weight must be 0 to 1, not {self.dense_weight}")
        if self.dense_weight is not None and len(collection_names(self.collection)) > 1:
            raise BadInput(
                "each of several collections has a dense_weight of its own",
                hint="name one collection, or leave out dense_weight",
            )

    async def run(self, session: Session) -> RetrievalReport:
        """Return the candidates.

        Raises:
            BadInput: A value is out of range, or no visible document has a key of the filters.
            NotFound: There is no such collection.
            Unavailable: A service that is needed does not answer.
        """
        self.check()
        services = self._services(session, search_mode(self.mode))
        query, cut = truncate_query(self.query)
        fetched = self.fetch_limit or _FETCHED_PER_PASSAGE * self.doc_limit
        used = await search_corrected(
            services, query, min(_MOST, fetched + _BEYOND), 0.0, exact=self.exact
        )
        found = used.found
        candidates = self._weighed(found)
        passages = await read_passages(services, candidates)
        kept, drops = self._cut(passages, fetched)
        no_reranker = session.resources.disabled.get("reranker", "")
        model, degraded = "", (*cut, *(used.not_embedded or found.degraded))
        if self.rerank:
            reranked = await rerank_passages(services, used.asked.text, kept, no_reranker)
            kept, model = reranked.passages, reranked.model
            degraded += reranked.degraded
        code: DropCode = "reranked_out" if model else "over_limit"
        drops |= {one.chunk_id: code for one in kept[self.doc_limit :]}
        retrievers = await self._retrievers(session, used)
        return RetrievalReport(
            query=self.query,
            question_used=used.asked.text,
            corrections=used.corrections,
            candidates=_rows(passages, kept if model else passages, drops, retrievers),
            calibration=found.calibration,
            dense_weight=self._weight(found),
            reranker=model,
            degraded=degraded,
        )

    def count(self, result: RetrievalReport) -> int:
        """Return the number of candidates."""
        return len(result.candidates)

    def _services(self, session: Session, mode: SearchMode) -> RetrievalServices:
        return retrieval_clients(
            session.client,
            collection=",".join(collection_names(self.collection)),
            access=self.access,
            mode=mode,
            filters=self.filters,
            texts_port="text-fetcher",
            token_codes=self.rerank,
        )

    def _weight(self, found: Found) -> float | None:
        if search_mode(self.mode) != "hybrid":
            return None
        calibrated = found.calibration or UNCALIBRATED
        return calibrated.dense_weight if self.dense_weight is None else self.dense_weight

    def _weighed(self, found: Found) -> list[Passage]:
        """Return the candidates by score; with a weight of the caller's own by the score that it makes."""
        weight = self._weight(found)
        if self.dense_weight is None or weight is None:
            return found.candidates
        calibration = replace(found.calibration or UNCALIBRATED, dense_weight=weight)
        weighed = [
            one
            if one.name_score is not None
            else replace(
                one,
                score=min(1.0, score_of(evidence(one, calibration)) + (one.graph_score or 0.0)),
            )
            for one in found.candidates
        ]
        weighed.sort(key=lambda one: (-(one.score or 0.0), one.chunk_id))
        return [replace(one, rank=rank) for rank, one in enumerate(weighed, 1)]

    def _cut(
        self, passages: Sequence[Passage], fetched: int
    ) -> tuple[list[Passage], dict[str, DropCode]]:
        """Return what a question would rerank, and why the others are dropped."""
        drops: dict[str, DropCode] = {}
        for one in passages:
            if (one.score or 0.0) < self.threshold:
                drops[one.chunk_id] = "below_threshold"
            elif one.rank > fetched:
                drops[one.chunk_id] = "over_fetch_limit"
        left = [one for one in passages if one.chunk_id not in drops]
        texts = {one.chunk_id: one.text for one in left}
        kept, originals = without_duplicates(left)
        for chunk_id, original in originals.items():
            same = texts[chunk_id] == texts[original]
            drops[chunk_id] = "duplicate" if same else "near_duplicate"
        return kept, drops

    async def _retrievers(self, session: Session, used: Searched) -> dict[str, list[str]]:
        """Return the retrievers that found each candidate by themselves."""
        mode = search_mode(self.mode)
        alone: tuple[SearchMode, ...] = ("dense", "bm25") if mode == "hybrid" else (mode,)
        if used.asked.vector is None:
            alone = ("bm25",)
        query = replace(used.asked, spelling=False)

        async def ids(one: SearchMode) -> set[str]:
            asked = replace(query, vector=None) if one == "bm25" else query
            found = await find_candidates(self._services(session, one), [asked], limit=asked.limit)
            return {each.chunk_id for each in found.candidates}

        found = dict(zip(alone, await asyncio.gather(*map(ids, alone)), strict=True))
        every: set[str] = set().union(*found.values())
        return {one: [name for name in alone if one in found[name]] for one in every}


def _rows(
    passages: Sequence[Passage],
    ordered: Sequence[Passage],
    drops: Mapping[str, DropCode],
    retrievers: Mapping[str, list[str]],
) -> list[RetrievedCandidate]:
    """Return the rows: the ordered ones first, the others by rank."""
    known = {one.chunk_id for one in ordered}
    rows = [*ordered, *(one for one in passages if one.chunk_id not in known)]
    return [
        RetrievedCandidate(
            chunk_id=one.chunk_id,
            document_id=one.document_id,
            title=str(one.metadata.get("title") or ""),
            heading=str(one.metadata.get("heading") or ""),
            text=one.whole_text,
            rank=place,
            rank_before=one.rank,
            retrievers=retrievers.get(one.chunk_id, []),
            dense_score=one.dense_score,
            sparse_score=one.sparse_score,
            score=one.score,
            rerank_score=one.final_score,
            drop=drops.get(one.chunk_id),
        )
        for place, one in enumerate(rows, 1)
    ]

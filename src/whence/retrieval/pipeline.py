"""One way from queries to ranked, readable passages: embed, search, read the texts, rerank.

`search` is the whole of it for one query; a question takes `find_candidates` and `read_passages` as steps, to
record each. The services behind it are those of the bus, or plain objects behind adapters.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, compress
from operator import not_
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from whence.provenance.reasons import DropCode
from whence.retrieval.duplicates import without_duplicates
from whence.retrieval.editions import newest_first
from whence.retrieval.fusion import MAX_UNBOOSTED_SCORE
from whence.retrieval.pooling import fuse_rankings, pool_candidates
from whence.retrieval.rerank import SEARCH_POOL, order_scores, read_reranking, unscored_fault
from whence.retrieval.results import (
    Duplicate,
    Reranking,
    RetrievalResult,
    RetrievedChunk,
    SearchReport,
)
from whence.retrieval.services import (
    PlannedQuery,
    RetrievalServices,
    blend_query_vectors,
)
from whence.schema.errors import (
    BadInput,
    DeadlineExceeded,
    ModelMissing,
    Unavailable,
    WhenceError,
)
from whence.schema.passages import Passage
from whence.schema.search import (
    CALIBRATIONS,
    Calibration,
    Correction,
    Degradation,
    GraphUse,
    Match,
    SearchMode,
    SearchResponse,
    truncate_query,
)
from whence.schema.texts import ChunkText
from whence.text.normalization import is_blank
from whence.text.spelling import correct_text

if TYPE_CHECKING:
    from whence.operations.search import Search

T = TypeVar("T")

#: Seconds that reranking may take; on two busy cores loading the model and reading takes half of them.
RERANK_BUDGET_S = 10.0
MAX_BUDGET_S = 600.0
#: Texts that a search reads beyond those wanted, to fill the places of passages that say the same.
_MOST_FURTHER_TEXTS = 100
#: A shorter passage is listed beside its equals: records of a sentence or two are often equal and not copies.
_LEAST_WORDS_OF_A_COPY = 20
_TEXT_HINT = "give a word or a question"
_TOP_K_HINT = "it is the most results that are wanted, 1 or more"
_THRESHOLD_HINT = "0 keeps every result"
_MATCHES: dict[str, Match] = {"any": "any", "all": "all"}
_MODES: dict[str, SearchMode] = {
    "hybrid": "hybrid",
    "dense": "dense",
    "semantic": "dense",
    "bm25": "bm25",
}


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Candidates of one or several queries."""

    candidates: list[Passage]
    """By rank, those that were dropped with their reason."""
    degraded: tuple[Degradation, ...] = ()
    """What the searches did without, each once."""
    graphs: tuple[GraphUse, ...] = ()
    """What the passage graph did, one for each query that used it."""
    corrections: tuple[Correction, ...] = ()
    """Of the words of the first query, if it asked for that."""
    rankings: tuple[tuple[PlannedQuery, SearchResponse], ...] = ()
    """What each query that did not fail found."""

    @property
    def kept(self) -> list[Passage]:
        """Candidates that were not dropped, by rank."""
        return [one for one in self.candidates if not one.reason_code]

    @property
    def calibration(self) -> Calibration | None:
        """What the cosines of all queries meant; None where no score has a part of a cosine."""
        known = (ranking.calibration for _, ranking in self.rankings)
        return next((one for one in known if one is not None), None)

    @property
    def calibrations(self) -> dict[str, Calibration]:
        """What the cosines meant in each collection, of a search of several."""
        recorded = (ranking.settings.get(CALIBRATIONS) for _, ranking in self.rankings)
        found = next((one for one in recorded if isinstance(one, str)), "{}")
        return msgspec.json.decode(found, type=dict[str, Calibration])


def search_mode(mode: str) -> SearchMode:
    """Return the mode of a name; `semantic` is another word for `dense`."""
    return _look_up("mode", mode, _MODES)


def search_match(match: str) -> Match:
    """Return how the words of a query must match, by its name."""
    return _look_up("match", match, _MATCHES)


def _look_up(what: str, name: str, known: Mapping[str, T]) -> T:
    try:
        return known[name]
    except KeyError:
        raise BadInput(f"unknown {what} {name!r}", hint=f"use one of {', '.join(known)}") from None


def check_search(query: str, top_k: int, threshold: float, *, min_characters: int = 1) -> None:
    """Refuse arguments of a search that are out of range.

    Raises:
        BadInput: The query has fewer than `min_characters` characters besides spaces at its ends or is no valid
            text, `top_k` is no positive integer, or the threshold is not in 0 to 1.
    """
    if not isinstance(query, str):
        raise BadInput(f"query_text must be a string, not {type(query).__name__}", hint=_TEXT_HINT)
    stripped = query.strip()
    if is_blank(query):
        raise BadInput("query_text cannot be empty", hint=_TEXT_HINT)
    check_text("query_text", query)
    if len(stripped) < min_characters:
        raise BadInput(
            f"query_text must have at least {min_characters} characters", hint=_TEXT_HINT
        )
    if isinstance(top_k, bool) or not isinstance(top_k, int):
        raise BadInput(f"top_k must be an integer, not {top_k!r}", hint=_TOP_K_HINT)
    if top_k < 1:
        raise BadInput(f"top_k must be positive, not {top_k}", hint=_TOP_K_HINT)
    if isinstance(threshold, bool) or not isinstance(threshold, int | float):
        raise BadInput(
            f"the similarity threshold must be a number, not {threshold!r}", hint=_THRESHOLD_HINT
        )
    if not 0.0 <= threshold <= 1.0:
        raise BadInput(
            f"the similarity threshold must be 0 to 1, not {threshold}", hint=_THRESHOLD_HINT
        )


def check_text(name: str, text: str) -> None:
    """Refuse what cannot be sent or stored as UTF-8 text."""
    if "\0" in text:
        raise BadInput(f"{name} holds a NUL character", hint="remove it")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadInput(f"{name} is not valid UTF-8", hint="send it encoded as UTF-8") from error


def check_budget(budget_s: float) -> None:
    """Refuse a time for reranking that is out of range."""
    if not 0.0 < budget_s <= MAX_BUDGET_S:
        raise BadInput(
            f"the time for reranking must be above 0 and at most {MAX_BUDGET_S:g} s, not {budget_s}"
        )


async def search(
    services: RetrievalServices, asked: Search, *, no_reranker: str = ""
) -> SearchReport:
    """Search once, or again with corrected words when some are misspelt, unless `asked.exact`.

    A chunk that is hidden or removed before its text is read is left out.

    With `asked.distinct` a passage that says what a better one says takes no place, and the better one names
    it; the newest edition of a passage goes before the older ones, see `whence.retrieval.editions`.
    Reranked results are cut by threshold and `top_k` after that. Of a query that is a whole document only the
    beginning counts, and the report says so.

    Raises:
        BadInput: As for `check_search`, or a filter is invalid or has a key that no visible document has.
        NotFound: The collection does not exist.
        Unavailable: A service that is needed does not answer.
    """
    check_search(asked.query, asked.top_k, asked.threshold)
    query, cut = truncate_query(asked.query)
    distinct = asked.distinct and asked.snapshot is None
    marks = [time.perf_counter()]
    limit = max(asked.top_k, SEARCH_POOL) if asked.rerank else asked.top_k
    # The threshold is one of the reranked scores where there are any.
    floor = 0.0 if asked.rerank else asked.threshold
    further = min(2 * limit, _MOST_FURTHER_TEXTS) if distinct else 0
    used = await search_corrected(services, query, limit + further, floor, exact=asked.exact)
    read = await _read(services, used, limit, floor, distinct=distinct)
    query, found, not_embedded = used.asked.text, read.found, used.not_embedded
    marks += [*used.marks, time.perf_counter()]
    best = found.candidates[0].score if found.candidates else None
    passages = read.passages
    reranked = _Reranked(passages)
    if asked.rerank:
        reranked = await rerank_passages(services, query, passages, no_reranker)
        best = _score(reranked.passages[0]) if reranked.passages else None
        passages = [one for one in reranked.passages if _score(one) >= asked.threshold]
        marks.append(time.perf_counter())
    if distinct:
        passages = [passages[number] for number in newest_first(query, passages)]
    return SearchReport(
        results=to_results(passages, read.duplicates, falling=distinct)[: asked.top_k],
        reranker=reranked.model,
        degraded=(*cut, *(not_embedded or found.degraded), *reranked.degraded),
        graph=found.graphs[0] if found.graphs else None,
        calibration=found.calibration,
        calibrations=found.calibrations,
        latency_ms=_latencies(marks),
        question_used=query,
        corrections=used.corrections,
        best_score=best,
    )


class Searched(msgspec.Struct, frozen=True):
    """What a query found, corrected where words were misspelt."""

    asked: PlannedQuery
    corrections: tuple[Correction, ...]
    found: Found
    not_embedded: tuple[Degradation, ...]
    """Why the query has no vector."""
    marks: tuple[float, float]
    """When the query was embedded and when it was searched for, by the performance counter."""


async def search_corrected(
    services: RetrievalServices, query: str, limit: int, threshold: float, *, exact: bool
) -> Searched:
    """Embed a query and search; again with its corrections, if any, and the blend of both vectors."""
    corrections: tuple[Correction, ...] = ()
    written = None
    while True:
        vector, not_embedded = await _embed(services, query)
        written = vector = blend_query_vectors(written, vector)
        embedded_at = time.perf_counter()
        asked = PlannedQuery(query, vector, limit, spelling=not (exact or corrections))
        found = await find_candidates(services, [asked], limit=limit, threshold=threshold)
        new = found.corrections
        if not asked.spelling or not new:
            marks = (embedded_at, time.perf_counter())
            return Searched(asked, corrections, found, not_embedded, marks)
        corrections, query = new, correct_text(query, new)


class _Read(msgspec.Struct, frozen=True):
    """What one search found, with texts."""

    found: Found
    passages: list[Passage]
    """Best first, ranked from 1 again, at most as many as are wanted."""
    duplicates: dict[str, list[Duplicate]]
    """By the chunk that was kept in their place."""


async def _read(
    services: RetrievalServices, used: Searched, limit: int, threshold: float, *, distinct: bool
) -> _Read:
    """Read the texts of what was found; those that say the same count once, and the places are filled.

    Of several editions that say the same the newest counts, and an older one follows the newest.

    Cost: a text each; whenever too many say the same one more search, twice as far.
    """
    found, query = used.found, msgspec.structs.replace(used.asked, spelling=False)
    while True:
        passages = await read_passages(services, found.kept)
        if not distinct:
            return _Read(found, _ranked(passages), {})
        ordered = [passages[number] for number in newest_first(query.text, passages)]
        passages, originals = without_duplicates(ordered, least_words=_LEAST_WORDS_OF_A_COPY)
        if len(passages) >= limit or len(found.kept) < query.limit:
            break
        query = msgspec.structs.replace(query, limit=2 * query.limit)
        found = await find_candidates(services, [query], limit=query.limit, threshold=threshold)
    documents = {one.chunk_id: one.document_id for one in found.candidates}
    duplicates: dict[str, list[Duplicate]] = {}
    for chunk_id, original in originals.items():
        copy = Duplicate(chunk_id=chunk_id, document_id=documents[chunk_id])
        duplicates.setdefault(original, []).append(copy)
    return _Read(found, _ranked(passages[:limit]), duplicates)


def _ranked(passages: Iterable[Passage]) -> list[Passage]:
    return [msgspec.structs.replace(one, rank=rank) for rank, one in enumerate(passages, 1)]


async def _embed(services: RetrievalServices, query: str) -> tuple[Any, tuple[Degradation, ...]]:
    """Return the query's vector; None when the mode needs none, or words alone can rank without it."""
    if services.mode == "bm25":
        return None, ()
    try:
        return (await services.embed([query], "the query")).vectors[0], ()
    except (Unavailable, ModelMissing, DeadlineExceeded) as error:
        if services.mode == "dense":
            raise
        reason = f"words alone ranked, the query could not be embedded: {error.message}"
        return None, (Degradation(stage="embedding", code="query_not_embedded", reason=reason),)


async def find_candidates(
    services: RetrievalServices,
    queries: Sequence[PlannedQuery],
    *,
    limit: int,
    threshold: float = 0.0,
    cut_code: DropCode = "over_limit",
    weights: tuple[float, float] | None = None,
) -> Found:
    """Search for all queries and pool what they find; a query that fails is left out.

    Args:
        services: Search.
        queries: At least one.
        limit: Most candidates that are not dropped.
        threshold: Candidates with a score below it are dropped.
        cut_code: Why those after the limit are dropped.
        weights: See `fuse_rankings`, where queries without a vector are searched elsewhere than those with one.
    """
    rankings: list[tuple[PlannedQuery, SearchResponse]] = []
    errors: list[WhenceError] = []
    degraded: dict[Degradation, None] = {}
    for query, reply in zip(queries, await services.search(queries), strict=True):
        if isinstance(reply, WhenceError):
            errors.append(reply)
        else:
            rankings.append((query, reply))
            degraded |= dict.fromkeys(reply.degraded)
    if errors and not rankings:
        raise errors[0]
    if errors:
        reason = f"{len(errors)} of {len(queries)} searches failed: {errors[0].message}"
        degraded[Degradation(stage="search", code="search_failed", reason=reason)] = None
    named = [(query.text, ranking) for query, ranking in rankings]
    if weights is None:
        candidates = pool_candidates(named, limit=limit, threshold=threshold, cut_code=cut_code)
    else:
        by_words = [query.vector is None for query, _ in rankings]
        candidates = fuse_rankings(
            compress(named, map(not_, by_words)),
            compress(named, by_words),
            weights,
            limit=limit,
            threshold=threshold,
            cut_code=cut_code,
        )
    return Found(
        candidates=candidates,
        degraded=tuple(degraded),
        graphs=tuple(found.graph for _, found in rankings if found.graph is not None),
        corrections=rankings[0][1].corrections if rankings else (),
        rankings=tuple(rankings),
    )


def with_text(passage: Passage, text: ChunkText) -> Passage:
    """Return a passage with its text and source."""
    return msgspec.structs.replace(
        passage,
        document_id=text.document_id,
        text=text.content,
        lead=text.lead,
        metadata=text.metadata,
        digest=text.digest,
        word_signature=text.word_signature,
        token_codes=text.token_codes,
    )


async def read_passages(
    services: RetrievalServices,
    candidates: Sequence[Passage],
    reasons: dict[str, DropCode] | None = None,
) -> list[Passage]:
    """Return the candidates with their texts, in order; those without a text are left out."""
    if not candidates:
        return []
    texts = await services.fetch([one.chunk_id for one in candidates])
    passages: list[Passage] = []
    for one in candidates:
        text = texts.get(one.chunk_id)
        if isinstance(text, ChunkText):
            passages.append(with_text(one, text))
        elif reasons is not None:
            failed = isinstance(text, WhenceError)
            reasons[one.chunk_id] = "fetch_failed" if failed else "text_missing"
    return passages


def _score(passage: Passage) -> float:
    """Return what orders the results of a search."""
    return (passage.score or 0.0) if passage.final_score is None else passage.final_score


def to_results(
    passages: Sequence[Passage],
    duplicates: Mapping[str, Sequence[Duplicate]] = {},
    *,
    falling: bool = False,
) -> list[RetrievalResult]:
    """Return the results of a search; where scores must be `falling`, none is below a later one."""
    scores = [*map(_score, passages)]
    if falling:
        scores = [*accumulate(reversed(scores), max)][::-1]
    return [
        _result(rank, score, one, tuple(duplicates.get(one.chunk_id, ())))
        for rank, (score, one) in enumerate(zip(scores, passages, strict=True), 1)
    ]


def _result(
    rank: int, score: float, one: Passage, duplicates: tuple[Duplicate, ...]
) -> RetrievalResult:
    parts = {"graph_score": one.graph_score, "name_score": one.name_score}
    reranking = None
    if one.raw_score is not None:
        reranking = Reranking(
            score=one.raw_score, rank_before=one.rank, score_before=one.score or 0.0
        )
    return RetrievalResult(
        rank=rank,
        similarity_score=score,
        document_id=one.document_id,
        duplicates=duplicates,
        chunk=RetrievedChunk(
            id=one.chunk_id, content=one.text, lead=one.lead, metadata=dict(one.metadata)
        ),
        score_breakdown={
            "dense_score": one.dense_score,
            "sparse_score": one.sparse_score,
            "combined_score": one.score,
            **{name: score for name, score in parts.items() if score is not None},
        },
        reranking=reranking,
    )


class _Reranked(msgspec.Struct, frozen=True):
    """Passages after reranking."""

    passages: list[Passage]
    """By the final score, ties in the order before; unchanged when reranking failed."""
    model: str = ""
    """Model that scored; empty when none did."""
    degraded: tuple[Degradation, ...] = ()
    """Why reranking failed."""


async def rerank_passages(
    services: RetrievalServices, query: str, passages: list[Passage], no_reranker: str = ""
) -> _Reranked:
    """Have the reranker read all passages of a search, and order them by its final score.

    A reranker that is absent, fails or is late changes nothing: the passages are returned as they were, and the
    degradation says why. Cost: one pass of the model a passage.
    """
    if not passages:
        return _Reranked(passages)
    if no_reranker:
        return _unchanged(passages, "no_reranker", f"there is no reranker ({no_reranker})")
    count = len(passages)
    try:
        scores = order_scores(passages)
        reply = await services.rerank(query, passages, scores, count)
    except WhenceError as error:
        return _unchanged(passages, "reranker_failed", error.message)
    ranking = read_reranking(reply.results, passages, count).kept
    if len(ranking) != count:
        return _unchanged(passages, "reranker_reply_invalid", "it did not score every hit once")
    # Definitions keep their scores, and nothing else rises to them.
    defined = any(one.name_score is not None for one in passages)
    most = MAX_UNBOOSTED_SCORE if defined else 1.0
    scored = []
    for one in ranking:
        final = min(most, max(0.0, one.order_score), 1.0)
        own = final if one.name_score is None else one.score
        scored.append(msgspec.structs.replace(one, final_score=own or 0.0))
    scored.sort(key=lambda one: (-_score(one), one.rank))
    degraded: tuple[Degradation, ...] = ()
    if reply.unscored:
        code = "reranker_reply_invalid"
        degraded = (Degradation(stage="rerank", code=code, reason=unscored_fault(reply)),)
    return _Reranked(scored, reply.model, degraded)


def _unchanged(passages: list[Passage], code: str, why: str) -> _Reranked:
    reason = f"the order of retrieval was kept: {why}"
    return _Reranked(passages, "", (Degradation(stage="rerank", code=code, reason=reason),))


def _latencies(marks: list[float]) -> dict[str, float]:
    names = ("embedding", "search", "texts", "rerank")
    parts = {
        name: round((after - before) * 1e3, 3)
        for name, before, after in zip(names, marks, marks[1:], strict=False)
    }
    return parts | {"total": round((marks[-1] - marks[0]) * 1e3, 3)}

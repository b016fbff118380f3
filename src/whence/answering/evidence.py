"""Retrieval and reranking for a question (stages `exploration` and `focus`): queries in, passages out."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Sequence

import msgspec

from whence.answering.state import Question
from whence.provenance.reasons import DropCode
from whence.provenance.stage_records import CandidateRecord, ModelUse, Scalar, Selection
from whence.provenance.stages import exploration_triples, focus_triples, grounding_triples
from whence.retrieval.pipeline import Found, find_candidates, read_passages
from whence.retrieval.rerank import Reranking, read_reranking
from whence.retrieval.services import Embedded, Passage, Query
from whence.schema.errors import WhenceError
from whence.schema.prompt import PromptResult

#: List marks that models write although the prompt forbids them.
_BULLET = re.compile(r"^(?:[-*\u2022]|\d{1,2}[.)])\s+")
#: Longest concept in characters; a longer line is prose, not a search phrase.
_MAX_CONCEPT_CHARS = 500


class ProcessedQuery(msgspec.Struct, frozen=True):
    """What to search for."""

    concepts: tuple[str, ...]
    """Search phrases that a language model made of the question, or the question itself."""
    embedded: Embedded | WhenceError
    """The question's vector, or the error of embedding it."""


async def process_query(question: Question) -> ProcessedQuery:
    """Extract concepts and embed the question at the same time.

    A failure to extract concepts degrades: the question alone is searched. Without a language model the
    question is the only concept.
    """
    trace = question.trace
    trace.begin("grounding")

    async def extract_concepts() -> PromptResult:
        try:
            return await question.services.writer.extract_concepts(question.text)
        except WhenceError as error:
            reason = f"no concepts were named, the question alone is searched: {error.message}"
            trace.degrade("prompt", "concepts_failed", reason)
            return PromptResult(text="")

    result, embedded = await asyncio.gather(
        extract_concepts(), _embed(question, [question.text], "the question")
    )
    by_model = result.language_model is not False
    extracted = read_concepts(result.text or "", limit=question.options.max_concepts)
    concepts = (extracted if by_model else ()) or (question.text,)
    await trace.end(
        lambda run: grounding_triples(
            trace.answer_id,
            concepts,
            in_token=result.in_token,
            out_token=result.out_token,
            model=(result.model or None) if by_model else None,
            run=run,
        ),
        candidates_in=1,
        candidates_out=len(concepts),
        settings={"prompt_template": result.template} if result.template else None,
    )
    return ProcessedQuery(concepts, embedded)


async def _embed(question: Question, texts: Sequence[str], what: str) -> Embedded | WhenceError:
    """Return one vector per text, or the error: whether it matters depends on the caller."""
    try:
        embedded = await question.services.retrieval.embed(texts, what)
    except WhenceError as error:
        return error
    model = embedded.model
    if model is not None:
        question.models["embedding"] = ModelUse(
            role="embedding",
            name=model.name,
            revision=model.revision,
            precision=model.precision,
            dimension=model.dimension,
        )
    return embedded


async def plan_queries(question: Question, processed: ProcessedQuery) -> list[Query]:
    """Return the queries to search for: the question's own first, then one per concept.

    The question itself is always searched, to the whole depth of the pool: concepts may miss its point, or find
    the same chunks. The concepts share the pool equally.
    """
    text, pool = question.text, question.pool_limit
    trace, own = question.trace, processed.embedded
    concepts = [concept for concept in processed.concepts if concept != text]
    embedded: Embedded | WhenceError = Embedded(())
    if concepts:
        embedded = await _embed(question, concepts, "concepts")
    if not isinstance(own, WhenceError):
        queries = [Query(text, own.vectors[0], pool)]
    elif question.services.retrieval.mode != "dense":
        reason = f"words alone find candidates, the question could not be embedded: {own.message}"
        trace.degrade("embedding", "question_not_embedded", reason)
        queries = [Query(text, None, pool)]
    elif isinstance(embedded, WhenceError) or not concepts:
        raise own
    else:
        reason = f"only concepts are searched, not the question itself: {own.message}"
        trace.degrade("embedding", "question_not_embedded", reason)
        queries = []
    if isinstance(embedded, WhenceError):
        reason = f"only the question itself is searched: {embedded.message}"
        trace.degrade("embedding", "concepts_not_embedded", reason)
        return queries
    share = max(1, pool // max(1, len(concepts)))
    return queries + [
        Query(concept, vector, share)
        for concept, vector in zip(concepts, embedded.vectors, strict=True)
    ]


def read_concepts(text: str, *, limit: int) -> tuple[str, ...]:
    r"""Return the concepts of a reply: one a line, bullets and blanks stripped, each once, in order.

    >>> read_concepts("- return policy\n\n2. refund\nRefund", limit=5)
    ('return policy', 'refund')
    """
    concepts: dict[str, str] = {}
    for line in text.splitlines():
        concept = _BULLET.sub("", line.strip()).replace("\0", "").strip()
        if concept:
            concept = concept[:_MAX_CONCEPT_CHARS].strip()
            concepts.setdefault(concept.casefold(), concept)
    return tuple(concepts.values())[:limit]


async def retrieve(question: Question, processed: ProcessedQuery) -> list[Passage]:
    """Search, pool what was found, and read the texts of the candidates that are kept."""
    trace = question.trace
    trace.begin("exploration")
    cut_code: DropCode = "over_fetch_limit" if question.rerank else "over_limit"
    found = await find(question, processed, limit=question.pool_limit, cut_code=cut_code)
    question.candidates = found.candidates
    passages = await _read(question, found.kept)
    model = question.models.get("embedding")
    graphs = found.graphs
    settings: dict[str, Scalar] = {}
    if graphs:
        # What the passage graph did in all searches together.
        settings = {
            "graph_passages": sum(one.passages for one in graphs),
            "graph_links": sum(one.links for one in graphs),
            "graph_named": sum(one.named for one in graphs),
            "graph_linked_share": graphs[0].linked_share,
        }
    await trace.end(
        lambda run: exploration_triples(
            trace.answer_id,
            [passage.chunk_id for passage in passages],
            candidates=question.candidates if run else (),
            run=run,
        ),
        candidates_in=len(question.candidates),
        candidates_out=len(passages),
        models=(model,) if model else (),
        settings=settings,
    )
    return passages


async def find(
    question: Question, processed: ProcessedQuery, *, limit: int, cut_code: DropCode
) -> Found:
    """Search for the question and its concepts, without reading texts."""
    found = await find_candidates(
        question.services.retrieval,
        await plan_queries(question, processed),
        limit=limit,
        threshold=question.options.threshold,
        cut_code=cut_code,
    )
    for degradation in found.degraded:
        question.trace.note(degradation)
    return found


async def _read(question: Question, candidates: Sequence[CandidateRecord]) -> list[Passage]:
    """Read the texts of candidates; record digests, and why candidates without a text are dropped."""
    reasons: dict[str, DropCode] = {}
    first: dict[object, Passage] = {}
    found = await read_passages(question.services.retrieval, candidates, reasons)
    reasons |= {one.chunk_id: "text_missing" for one in found if not one.text.strip()}
    if reasons:
        question.trace.degrade(
            "text-fetch",
            "texts_missing",
            f"{len(reasons)} of {len(candidates)} passages found could not be read",
        )
    for passage in found:
        if passage.chunk_id not in reasons:
            key = passage.text if question.options.drop_duplicates else passage.chunk_id
            if first.setdefault(key, passage) is not passage:
                reasons[passage.chunk_id] = "duplicate"
    passages = list(first.values())
    full = question.trace.full
    if reasons or full:
        digests = {one.chunk_id: one.digest or text_digest(one.text) for one in passages if full}
        question.candidates = [
            msgspec.structs.replace(
                one,
                reason_code=reasons.get(one.chunk_id, one.reason_code),
                digest=digests.get(one.chunk_id, ""),
            )
            for one in question.candidates
        ]
    return passages


def text_digest(text: str) -> str:
    """Return the SHA-256 of a text in UTF-8, hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


async def rerank(question: Question, passages: list[Passage]) -> list[Passage]:
    """Rerank passages and keep the best.

    Where the reranker's scores are joined with those of one search only the first passages are read: with so
    small a weight none rises from far below, and reading is by far the most expensive part of a question.

    A reranker that fails, is late, or whose reply has no valid entry degrades: the order of retrieval stays,
    and there is no stage `focus`. Invalid entries of a reply are left out and reported.
    """
    if not question.rerank or not passages:
        return passages
    trace = question.trace
    trace.begin("focus")
    scores = _retrieval_scores(question, passages)
    read = passages[: question.rerank_limit] if scores else passages
    reranking, model = await _score(question, read, scores[: len(read)])
    if not reranking.kept:
        return passages
    question.selected = True
    if model:
        question.models["reranker"] = ModelUse(role="reranker", name=model)
    selections = [Selection(passages[one.index].chunk_id, one.score) for one in reranking.kept]
    await trace.end(
        lambda run: focus_triples(
            trace.answer_id,
            selections,
            candidates=_records(question, passages, len(read), reranking) if run else (),
            run=run,
        ),
        candidates_in=len(passages),
        candidates_out=len(selections),
        models=(question.models["reranker"],) if model else (),
    )
    return [passages[one.index] for one in reranking.kept]


async def _score(
    question: Question, passages: Sequence[Passage], scores: Sequence[float]
) -> tuple[Reranking, str]:
    """Return the valid part of the reranker's reply and the name of its model."""
    limit = question.doc_limit
    try:
        reply = await question.services.retrieval.rerank(question.text, passages, scores, limit)
    except WhenceError as error:
        question.trace.degrade(
            "rerank", "reranker_failed", f"the order of retrieval was kept: {error.message}"
        )
        return Reranking((), (), ()), ""
    reranking = read_reranking(reply.results, len(passages), limit)
    if reranking.faults or not reranking.kept:
        left_out = f"{len(reranking.faults)} entries of the reply were left out"
        what = left_out if reranking.kept else "the order of retrieval was kept"
        fault = reranking.faults[0] if reranking.faults else "the reply is empty"
        question.trace.degrade("rerank", "reranker_reply_invalid", f"{what}: {fault}")
    return reranking, reply.model


def _retrieval_scores(question: Question, passages: Sequence[Passage]) -> list[float]:
    """Return the scores of retrieval for a reranker that joins them with its own.

    Empty unless one search found and scored all passages: scores of different queries do not compare.
    """
    if not question.services.retrieval.fuses_scores:
        return []
    records = {one.chunk_id: one for one in question.candidates}
    found = [records[passage.chunk_id] for passage in passages]
    scores = [one.score for one in found if one.concepts == (question.text,)]
    known = [score for score in scores if score is not None]
    return known if len(known) == len(passages) else []


def _records(
    question: Question, passages: Sequence[Passage], read: int, reranking: Reranking
) -> list[CandidateRecord]:
    """Return each candidate with its rank and score, and why it was dropped; the first `read` were read."""
    by_id = {one.chunk_id: one for one in question.candidates}
    records = [by_id[passage.chunk_id] for passage in passages]
    kept = len(reranking.kept)
    scored: dict[int, CandidateRecord] = {}
    for rank, item in enumerate((*reranking.kept, *reranking.rest), start=1):
        scored[item.index] = msgspec.structs.replace(
            records[item.index],
            rerank_rank=rank,
            rerank_score=item.score,
            reason_code="" if rank <= kept else "reranked_out",
        )
    # A full reply implies that all others rank lower; a short one says nothing of them.
    unscored = "reranked_out" if kept >= question.doc_limit else "not_scored"
    return [
        scored.get(index)
        or msgspec.structs.replace(
            one, reason_code=unscored if index < read else "over_rerank_limit"
        )
        for index, one in enumerate(records)
    ]

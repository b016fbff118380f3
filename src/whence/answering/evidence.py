"""Retrieval and reranking for a question (stages `exploration` and `focus`): queries in, passages out."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from whence.answering.state import Question
from whence.provenance.reasons import DropCode
from whence.provenance.stage_records import ModelUse, Scalar
from whence.provenance.stages import exploration_triples, focus_triples, grounding_triples
from whence.quoting.follow_ups import read_completed, standalone_question
from whence.retrieval.diversity import diversify
from whence.retrieval.duplicates import without_duplicates
from whence.retrieval.editions import newer_editions, order_of_editions
from whence.retrieval.pipeline import Found, find_candidates, read_passages
from whence.retrieval.rerank import CheckedReranking, order_scores, read_reranking, unscored_fault
from whence.retrieval.services import (
    Embedded,
    PlannedQuery,
    RetrievalServices,
    blend_query_vectors,
)
from whence.schema.errors import PromptTooLong, ServerRefused, WhenceError
from whence.schema.passages import Passage
from whence.schema.prompt import PromptResult
from whence.text.replies import clean_reply
from whence.text.spelling import as_written, correct_text

#: List marks that models write although the prompt forbids them.
_BULLET = re.compile(r"^(?:[-*\u2022]|\d{1,2}[.)])\s+")
#: What they put around a phrase.
_QUOTES = " \t\"'`\u2018\u2019\u201c\u201d\u201e\u201a\u00ab\u00bb\u2039\u203a[]"
_RELEASE = re.compile(r"(?<![\w.])v?\d+(?:\.\d+)+(?!\w)")
#: Longest concept in characters; a longer line is prose, not a search phrase.
_MAX_CONCEPT_CHARS = 500
#: Earlier questions that complete one, and characters that a language model may add; more is no question.
_MOST_EARLIER = 6
_MAX_COMPLETED_CHARS = 1000
#: What is known of the passages without a reranker.
_NOT_RERANKED = CheckedReranking((), (), ())

T = TypeVar("T")


class ProcessedQuery(msgspec.Struct, frozen=True):
    """What to search for."""

    concepts: tuple[str, ...]
    """Search phrases that a language model made of the question, or the question itself."""
    embedded: Embedded | WhenceError | None
    """The question's vector, the error of embedding it, or None when it is not searched by a vector."""


async def process_query(question: Question) -> ProcessedQuery:
    """Complete and correct the question, then extract concepts and embed it at the same time.

    A failure to extract concepts degrades: the question alone is searched. Without a language model the
    question is the only concept.
    """
    trace, options = question.trace, question.options
    trace.begin("grounding")
    if question.request.history:
        await _complete(question)
    await _correct(question)
    text, made = question.text, question.corrections
    result: PromptResult | WhenceError
    embedded: Embedded | WhenceError | None
    result, embedded = await asyncio.gather(
        _name_concepts(question),
        embed_question(
            question.retrieval,
            text,
            as_written(question.asked, text, made) if made else text,
            searched=options.search_question,
        ),
    )
    if isinstance(result, ServerRefused) and not isinstance(result, PromptTooLong):
        # The answer would be refused alike.
        raise result
    if isinstance(result, WhenceError):
        reason = f"no concepts were named, the question alone is searched: {result.message}"
        trace.degrade("prompt", "concepts_failed", reason)
        result = PromptResult(text="")
    question.replies.append(result)
    by_model = result.language_model is not False
    named_by = result.model if by_model and result.model and result.text else ""
    extracted = read_concepts(result.text or "", limit=options.max_concepts)
    concepts = (extracted if by_model else ()) or (text,)
    await trace.end(
        partial(
            grounding_triples,
            concepts=concepts,
            in_token=result.in_token,
            out_token=result.out_token,
            model=named_by or None,
            question_used=text if question.asked else "",
            corrections=made,
        ),
        candidates_in=1,
        candidates_out=len(concepts),
        models=(ModelUse(role="writer", name=named_by),) if named_by else (),
        settings={"prompt_template": result.template} if result.template else None,
    )
    return ProcessedQuery(concepts, embedded)


async def _complete(question: Question) -> None:
    """Complete a follow-up question from the earlier ones: by a language model, else by rule."""
    earlier = question.request.history[-_MOST_EARLIER:]
    by_model = False
    previous = await question.previous_answer()
    result = await _or_error(
        question.deadline.limit(
            "completing the question",
            partial(
                question.writer.complete_question,
                question.text,
                earlier,
                previous,
            ),
            question.options.concepts_timeout_s,
            share=0.3,
        )
    )
    text = ""
    if isinstance(result, WhenceError):
        reason = f"the question was completed by rule alone: {result.message}"
        question.trace.degrade("prompt", "completion_failed", reason)
    elif result.language_model is not False:
        by_model = True
        question.replies.append(result)
        reply = clean_reply(result.text or "", 0).text
        text = read_completed(reply, question.text, earlier, previous)
    unchanged = text.casefold().rstrip(" ?") == question.text.casefold().rstrip(" ?")
    if not text or unchanged or len(text) > _MAX_COMPLETED_CHARS + len(question.text):
        # A small model repeats a question that does need the others.
        text = standalone_question(question.text, earlier, answered=by_model)
    if text != question.text:
        question.asked, question.text = question.text, text


async def _correct(question: Question) -> None:
    """Correct misspelt words, unless the question is `exact`; record the words that no document has."""
    if not question.checks_words:
        return
    found = await question.retrieval.check_spelling(question.text)
    question.absent = found.absent
    if question.request.exact:
        question.absent += tuple(one.source for one in found.corrections)
    elif found.corrections:
        question.asked = question.asked or question.text
        question.corrections = found.corrections
        question.text = correct_text(question.text, found.corrections)


async def _name_concepts(question: Question) -> PromptResult | WhenceError:
    options = question.options
    if not options.max_concepts:
        return PromptResult()
    return await _or_error(
        question.deadline.limit(
            "naming concepts",
            partial(question.writer.extract_concepts, question.text),
            options.concepts_timeout_s,
            share=0.3,
        )
    )


async def embed_question(
    retrieval: RetrievalServices, text: str, written: str, *, searched: bool
) -> Embedded | WhenceError | None:
    """Return the question's vector or the error; None where the question is not searched by a vector.

    With corrected words, where `written` is another text, it is the blend of both vectors.
    """
    if retrieval.mode == "bm25" or not searched:
        return None
    embedded = await _or_error(
        retrieval.embed([text] if written == text else [text, written], "the question")
    )
    if written == text or isinstance(embedded, WhenceError):
        return embedded
    corrected, first = embedded.vectors
    return replace(embedded, vectors=(blend_query_vectors(first, corrected),))


async def _or_error(call: Awaitable[T]) -> T | WhenceError:
    """Return the result of a call, or its error: whether that matters depends on the caller."""
    try:
        return await call
    except WhenceError as error:
        return error


class SearchPlan(msgspec.Struct, frozen=True):
    """The searches of one question."""

    queries: list[PlannedQuery]
    """The question's own first, then one for each concept."""
    own: int
    """How many are the question's own."""
    embedded: Embedded | None = None
    """What the vectors are of, when their model is known."""


async def plan_searches(
    retrieval: RetrievalServices,
    text: str,
    processed: ProcessedQuery,
    *,
    pool: int,
    degrade: Callable[[str, str, str], None],
    words_apart: bool = False,
) -> SearchPlan:
    """Embed the concepts of a question and return the queries to search for.

    The question itself is searched to the whole depth of the pool: concepts may miss its point, or find the
    same chunks. The concepts share the pool equally. A query without a vector is searched by its words alone;
    so is, once more, a question that names a release.

    Args:
        retrieval: Embeds the concepts.
        text: The question.
        processed: Its concepts and its vector.
        pool: Candidates to retrieve.
        degrade: Takes stage, code and reason of what is left out.
        words_apart: Whether words are searched apart from vectors.
    """
    own = processed.embedded
    embedded: Embedded | WhenceError = Embedded(())
    mode = retrieval.mode
    # The question is one of the concepts where it is not searched anyway.
    searched = text if own is not None or mode == "bm25" else ""
    concepts = [one for one in processed.concepts if one != searched]
    if concepts and mode != "bm25":
        embedded = await _or_error(retrieval.embed(concepts, "concepts"))
    known = (one for one in (embedded, own) if isinstance(one, Embedded) and one.model)
    model = next(known, None)
    queries = [PlannedQuery(text, None, pool)] if mode == "bm25" or words_apart else []
    if isinstance(own, Embedded):
        queries.append(PlannedQuery(text, own.vectors[0], pool))
        if mode == "hybrid" and not words_apart and _RELEASE.search(text):
            # Notes of all releases are alike in meaning; the number is a word.
            queries.append(PlannedQuery(text, None, pool))
    elif own is not None and mode != "dense":
        reason = f"words alone find candidates, the question could not be embedded: {own.message}"
        degrade("embedding", "question_not_embedded", reason)
        queries = [PlannedQuery(text, None, pool)]
    elif own is not None:
        if isinstance(embedded, WhenceError) or not concepts:
            raise own
        reason = f"only concepts are searched, not the question itself: {own.message}"
        degrade("embedding", "question_not_embedded", reason)
    if isinstance(embedded, WhenceError):
        if not queries:
            raise embedded
        reason = f"only the question itself is searched: {embedded.message}"
        degrade("embedding", "concepts_not_embedded", reason)
        return SearchPlan(queries, len(queries), model)
    own_queries = len(queries)
    share = share_of_pool(pool, len(concepts))
    vectors = embedded.vectors or [None] * len(concepts)
    for concept, vector in zip(concepts, vectors, strict=True):
        queries.append(PlannedQuery(concept, vector, share))
    return SearchPlan(queries, own_queries, model)


def share_of_pool(pool: int, concepts: int) -> int:
    """Return how many candidates the search of one concept returns at most."""
    return max(1, pool // max(1, concepts))


def read_concepts(text: str, *, limit: int) -> tuple[str, ...]:
    r"""Return the concepts of a reply: one a line, bullets, quotes and blanks stripped, each once, in order.

    A reply of one line with commas is a list, too.

    >>> read_concepts("- return policy\n\n2. \"refund\"\nRefund", limit=5)
    ('return policy', 'refund')
    >>> read_concepts('"return policy", "refund", "time to return"', limit=5)
    ('return policy', 'refund', 'time to return')
    """
    concepts: dict[str, str] = {}
    lines = [one for one in clean_reply(text, 0).text.splitlines() if one.strip()]
    if len(lines) == 1:
        lines = re.split(r"[,;\u3001\u060c]\s*", lines[0])
    for line in lines:
        concept = _BULLET.sub("", line.strip()).strip(_QUOTES).rstrip(",;")
        if concept:
            concept = concept[:_MAX_CONCEPT_CHARS].strip(_QUOTES)
            concepts.setdefault(concept.casefold(), concept)
    return tuple(concepts.values())[:limit]


async def retrieve(question: Question, processed: ProcessedQuery) -> list[Passage]:
    """Search, pool what was found, and read the texts of the candidates that are kept."""
    trace = question.trace
    trace.begin("exploration")
    cut_code: DropCode = "over_fetch_limit" if question.selects else "over_limit"
    found = await find(question, processed, limit=question.pool_limit, cut_code=cut_code)
    passages = await _read(question, found.kept)
    model = question.models.get("embedding")
    graphs = found.graphs
    settings: dict[str, Scalar] = {}
    for _, ranking in found.rankings[:1]:
        settings |= ranking.settings
    if graphs:
        # What the passage graph did in all searches together.
        settings |= {
            "graph_passages": sum(one.passages for one in graphs),
            "graph_links": sum(one.links for one in graphs),
            "graph_named": sum(one.named for one in graphs),
            "graph_linked_share": graphs[0].linked_share,
        }
    if found.calibration is not None:
        settings |= found.calibration.as_settings()
    await trace.end(
        partial(
            exploration_triples,
            chunk_ids=[passage.chunk_id for passage in passages],
            candidates=question.candidates.values() if trace.full else (),
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
    weights = question.rank_weights
    plan = await plan_searches(
        question.retrieval,
        question.text,
        processed,
        pool=question.pool_limit,
        degrade=question.trace.degrade,
        words_apart=weights is not None,
    )
    if plan.embedded is not None and plan.embedded.model is not None:
        model = plan.embedded.model
        question.models["embedding"] = ModelUse(
            role="embedding",
            name=plan.embedded.served_by or model.name,
            revision=model.revision,
            precision=model.precision,
            dimension=model.dimension,
        )
    found = await find_candidates(
        question.retrieval,
        plan.queries,
        limit=limit,
        threshold=question.options.threshold,
        cut_code=cut_code,
        weights=weights,
    )
    for degradation in found.degraded:
        question.trace.note(degradation)
    question.candidates = {one.chunk_id: one for one in found.candidates}
    return found


async def _read(question: Question, candidates: Sequence[Passage]) -> list[Passage]:
    """Read the texts of candidates; record digests, and why candidates without a text are dropped."""
    reasons: dict[str, DropCode] = {}
    found = await read_passages(question.retrieval, candidates, reasons)
    passages = []
    for passage in found:
        if passage.text.strip():
            passages.append(passage)
        else:
            reasons[passage.chunk_id] = "text_missing"
    if reasons:
        question.trace.degrade(
            "text-fetch",
            "texts_missing",
            f"{len(reasons)} of {len(candidates)} passages found could not be read",
        )
    records = question.candidates
    newest = newer_editions(question.text, passages)
    for old, new in newest.items():
        chunk_id = passages[old].chunk_id
        newer = passages[new].chunk_id
        records[chunk_id] = replace(records[chunk_id], newer_edition=newer)
    passages = [passages[number] for number in order_of_editions(len(passages), newest)]
    for chunk_id, code in reasons.items():
        records[chunk_id] = replace(records[chunk_id], reason_code=code)
    if question.options.drop_duplicates:
        texts = {one.chunk_id: one.text for one in passages}
        passages, originals = without_duplicates(passages)
        for chunk_id, original in originals.items():
            same = texts[chunk_id] == texts[original]
            records[chunk_id] = replace(
                records[chunk_id],
                reason_code="duplicate" if same else "near_duplicate",
                duplicate_of=original,
            )
    for passage in passages if question.trace.full else ():
        records[passage.chunk_id] = replace(
            records[passage.chunk_id], digest=passage.digest or text_digest(passage.text)
        )
    return passages


def text_digest(text: str) -> str:
    """Return the SHA-256 of a text in UTF-8, hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


async def rerank(question: Question, passages: list[Passage]) -> list[Passage]:
    """Choose the passages for the writer: by a reranker, by their diversity, or both.

    The reranker reads all passages, or the first `rerank_limit`. One that fails, is late, or whose reply has no
    valid entry degrades: the order of retrieval stays, and there is no stage `focus` unless passages are chosen
    for their diversity. Invalid entries of a reply are left out and reported.
    """
    if not question.selects or not passages:
        return passages
    trace = question.trace
    trace.begin("focus")
    read = passages[: question.rerank_limit or len(passages)]
    # Diversity is chosen among all that the reranker read.
    limit = question.doc_limit if question.diversity is None else len(read)
    reranking = _NOT_RERANKED
    if question.rerank:
        reranking = await _score(question, read, limit)
    if not reranking.kept and question.diversity is None:
        return passages
    question.selected = True
    kept: Sequence[Passage] = reranking.kept
    if kept:
        outcomes = _outcomes(passages, len(read), reranking, limit)
    else:
        outcomes = {one.chunk_id: one for one in passages}
    if question.diversity is not None:
        kept = _choose_diverse(question, passages, kept, question.diversity, outcomes)
    await trace.end(
        partial(
            focus_triples,
            selections=kept if trace.full else [replace(one, final_score=None) for one in kept],
            candidates=outcomes.values() if trace.full else (),
        ),
        candidates_in=len(passages),
        candidates_out=len(kept),
        models=(question.models["reranker"],) if "reranker" in question.models else (),
    )
    return [*kept]


def _choose_diverse(
    question: Question,
    passages: Sequence[Passage],
    reranked: Sequence[Passage],
    weight: float,
    outcomes: dict[str, Passage],
) -> list[Passage]:
    """Return those chosen by MMR, of the order of retrieval without a reranker; complete the outcomes."""
    out: DropCode = "reranked_out" if reranked else "over_limit"
    if not reranked:
        found = order_scores(passages)
        # Without scores relevance falls evenly with the rank.
        count = len(passages)
        scores = found or [1.0 - place / count for place in range(count)]
        reranked = [
            replace(one, raw_score=score, final_score=score)
            for one, score in zip(passages, scores, strict=True)
        ]
    texts = [one.text for one in reranked]
    scores = [one.order_score for one in reranked]
    chosen = diversify(texts, scores, question.doc_limit, weight)
    kept, last = frozenset(chosen.kept), max(chosen.kept)
    for place, one in enumerate(reranked):
        outcomes[one.chunk_id] = replace(
            outcomes[one.chunk_id],
            diversity_score=chosen.scores[place],
            overlap=chosen.overlaps[place],
            reason_code="" if place in kept else "less_diverse" if place < last else out,
        )
    return [reranked[place] for place in chosen.kept]


async def _score(question: Question, passages: Sequence[Passage], limit: int) -> CheckedReranking:
    """Return the valid part of the reranker's reply, and note its model."""
    scores = order_scores(passages)
    reply = await _or_error(question.retrieval.rerank(question.text, passages, scores, limit))
    if isinstance(reply, WhenceError):
        question.trace.degrade(
            "rerank", "reranker_failed", f"the order of retrieval was kept: {reply.message}"
        )
        return _NOT_RERANKED
    reranking = read_reranking(reply.results, passages, limit, reply.others)
    if reply.unscored:
        question.trace.degrade("rerank", "reranker_reply_invalid", unscored_fault(reply))
    if reranking.faults or not reranking.kept:
        left_out = f"{len(reranking.faults)} entries of the reply were left out"
        what = left_out if reranking.kept else "the order of retrieval was kept"
        fault = reranking.faults[0] if reranking.faults else "the reply is empty"
        question.trace.degrade("rerank", "reranker_reply_invalid", f"{what}: {fault}")
    if reply.model and (reranking.kept or question.diversity is not None):
        question.models["reranker"] = ModelUse(
            role="reranker", name=reply.model, revision=reply.revision
        )
    return reranking


def _outcomes(
    passages: Sequence[Passage], read: int, reranking: CheckedReranking, limit: int
) -> dict[str, Passage]:
    """Return the passages by id, with rank, scores and why they were dropped; the first `read` were read."""
    # A full reply implies that all others rank lower; a short one says nothing of them.
    unscored = "reranked_out" if len(reranking.kept) >= limit else "not_scored"
    outcomes = {
        one.chunk_id: replace(one, reason_code=unscored if place < read else "over_rerank_limit")
        for place, one in enumerate(passages)
    }
    return outcomes | {one.chunk_id: one for one in (*reranking.kept, *reranking.rest)}

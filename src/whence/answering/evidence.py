"""Exploration: candidates from all searches, and their texts."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from whence.answering.candidate_pool import Leg, pool_candidates
from whence.answering.citations import Passage
from whence.answering.deadline import Deadline
from whence.answering.query_processing import Grounding, embed
from whence.answering.state import Question
from whence.processors.clients import DocEmbeddingsClient, Matches, QueryVector
from whence.provenance.reasons import DropCode
from whence.provenance.stages import exploration_triples
from whence.provenance.terms import Scalar
from whence.schema.errors import NotFound, WhenceError
from whence.schema.texts import ChunkText

__all__ = ("explore", "find", "text_digest")


class _Search(msgspec.Struct, frozen=True):
    concept: str
    vector: Any
    limit: int


async def explore(question: Question, grounding: Grounding) -> list[Passage]:
    """Search, pool what was found, and read the texts of those that stay in.

    Raises:
        WhenceError: Nothing could be embedded, no search succeeded, or the batched read failed.
    """
    trail = question.trail
    trail.begin("exploration")
    legs = await find(question, grounding)
    question.accounts = pool_candidates(
        legs,
        limit=question.ask.pool_limit,
        threshold=question.options.threshold,
        cut_code="over_fetch_limit" if question.ask.rerank else "over_limit",
    )
    passages = await _read(question, [a.chunk_id for a in question.accounts if not a.reason_code])
    model = question.models.get("embedding")
    await trail.end(
        lambda facts: exploration_triples(
            trail.answer_id,
            [passage.chunk_id for passage in passages],
            candidates=question.accounts if facts else (),
            run=facts,
        ),
        candidates_in=len(question.accounts),
        candidates_out=len(passages),
        models=(model,) if model else (),
        settings=_walked(legs),
    )
    return passages


def _walked(legs: Sequence[Leg]) -> dict[str, Scalar]:
    """Tell what the passage graph did in the searches, all together; nothing where it took no part."""
    uses = [leg.matches.graph for leg in legs if isinstance(leg.matches, Matches)]
    walks = [use for use in uses if use is not None]
    if not walks:
        return {}
    return {
        "graph_passages": sum(one.passages for one in walks),
        "graph_links": sum(one.links for one in walks),
        "graph_named": sum(one.named for one in walks),
        "graph_linked_share": walks[0].linked_share,
    }


async def find(question: Question, grounding: Grounding) -> list[Leg]:
    """Search for the question and its concepts, and nothing more.

    Raises:
        WhenceError: Nothing could be embedded, or no search succeeded.
    """
    return await _search(question, await _searches(question, grounding))


async def _searches(question: Question, grounding: Grounding) -> list[_Search]:
    """Plan the searches: the question's own first, then one per concept.

    The question itself is always searched, to the whole depth of the pool: what a model made of it may
    miss the point, and concepts may find the same chunks. The concepts share the pool equally.
    """
    query, pool = question.ask.query, question.ask.pool_limit
    own = grounding.own_vector
    concepts = [concept for concept in grounding.concepts if concept != query]
    vectors = await embed(question, "concepts", concepts) if concepts else ()
    words = _words_only(question) if isinstance(own, WhenceError) else None
    if isinstance(own, WhenceError) and words is not None:
        reason = f"words alone find candidates, the question could not be embedded: {own.message}"
        question.trail.degrade("embedding", "question_not_embedded", reason)
        searches = [_Search(query, words, pool)]
    elif isinstance(own, WhenceError):
        if isinstance(vectors, WhenceError) or not concepts:
            raise own
        question.trail.degrade(
            "embedding",
            "question_not_embedded",
            f"only concepts are searched, not the question itself: {own.message}",
        )
        searches = []
    else:
        searches = [_Search(query, own, pool)]
    if isinstance(vectors, WhenceError):
        question.trail.degrade(
            "embedding",
            "concepts_not_embedded",
            f"only the question itself is searched: {vectors.message}",
        )
        return searches
    share = max(1, pool // max(1, len(concepts)))
    return searches + [
        _Search(concept, vector, share) for concept, vector in zip(concepts, vectors, strict=True)
    ]


def _words_only(question: Question) -> QueryVector | None:
    """Give the question as a search for words, when the search service takes part in that."""
    client = question.clients.doc_embeddings
    return (
        client.words_only(question.ask.query) if isinstance(client, DocEmbeddingsClient) else None
    )


async def _search(question: Question, searches: Sequence[_Search]) -> list[Leg]:
    """Run all searches at once; one that fails is left out as long as another succeeds."""
    replies = await _replies(question, searches)
    legs: list[Leg] = []
    errors: list[WhenceError] = []
    for search, reply in zip(searches, replies, strict=True):
        if isinstance(reply, WhenceError):
            errors.append(reply)
            continue
        legs.append(Leg(search.concept, reply))
        for degradation in reply.degraded if isinstance(reply, Matches) else ():
            question.trail.note(degradation)
    if errors and not legs:
        raise errors[0]
    if errors:
        question.trail.degrade(
            "search",
            "search_failed",
            f"{len(errors)} of {len(searches)} searches failed: {errors[0].message}",
        )
    return legs


async def _replies(
    question: Question, searches: Sequence[_Search]
) -> list[Sequence[Any] | WhenceError]:
    """Search in one request where that is offered, and alone for what was not answered there."""
    found: list[Sequence[Any] | WhenceError | None] = [None] * len(searches)
    client = question.clients.doc_embeddings
    if isinstance(client, DocEmbeddingsClient) and len(searches) > 1:
        queries = [(search.vector, search.limit) for search in searches]
        try:
            found[:] = await question.deadline.limit(
                "searching",
                lambda: client.query_all(queries),
                question.options.search_timeout_s,
            )
        except WhenceError as error:
            found[:] = [error] * len(searches)
    missing = [place for place, reply in enumerate(found) if reply is None]
    alone = await asyncio.gather(*(_search_one(question, searches[place]) for place in missing))
    late = iter(alone)
    return [next(late) if reply is None else reply for reply in found]


async def _search_one(question: Question, search: _Search) -> Sequence[Any] | WhenceError:
    try:
        return await question.deadline.limit(
            "searching",
            lambda: question.clients.doc_embeddings.query(search.vector, limit=search.limit),
            question.options.search_timeout_s,
        )
    except WhenceError as error:
        return error


async def _read(question: Question, chunk_ids: Sequence[str]) -> list[Passage]:
    """Read the texts of candidates; one without a text is dropped with the reason."""
    if not chunk_ids:
        return []
    texts = await _fetch(question, chunk_ids)
    passages: list[Passage] = []
    reasons: dict[str, DropCode] = {}
    for chunk_id in chunk_ids:
        passage = _passage(chunk_id, texts.get(chunk_id))
        if isinstance(passage, Passage):
            passages.append(passage)
        else:
            reasons[chunk_id] = passage
    if reasons:
        question.trail.degrade(
            "text-fetch",
            "texts_missing",
            f"{len(reasons)} of {len(chunk_ids)} passages found could not be read",
        )
    if question.options.drop_duplicates:
        passages = _without_duplicates(passages, reasons)
    _settle(question, reasons, passages)
    return passages


async def _fetch(question: Question, chunk_ids: Sequence[str]) -> Mapping[str, Any]:
    """Give what there is of the texts: all in one request where that is offered, else a few at once."""
    timeout_s = question.options.texts_timeout_s
    fetch_chunks = question.clients.fetch_chunks
    if fetch_chunks is not None:
        return await question.deadline.limit(
            "reading the texts", lambda: fetch_chunks(chunk_ids), timeout_s
        )
    gate = asyncio.Semaphore(question.options.fetch_concurrency)
    deadline = question.deadline.within(timeout_s)
    texts = await asyncio.gather(
        *(_fetch_one(question, gate, deadline, chunk_id) for chunk_id in chunk_ids)
    )
    return dict(zip(chunk_ids, texts, strict=True))


async def _fetch_one(
    question: Question, gate: asyncio.Semaphore, deadline: Deadline, chunk_id: str
) -> Any:
    """Give one text, None when there is none, or the error."""
    async with gate:
        try:
            return await deadline.limit(
                f"reading chunk {chunk_id}",
                lambda: question.clients.fetch_chunk(chunk_id),
                question.options.texts_timeout_s,
            )
        except NotFound:
            return None
        except WhenceError as error:
            return error


def _passage(chunk_id: str, text: Any) -> Passage | DropCode:
    """Give the passage of a fetched text, or why there is none."""
    if isinstance(text, WhenceError):
        return "fetch_failed"
    if isinstance(text, ChunkText):
        passage = Passage(
            chunk_id=chunk_id, text=text.content, document_id=text.document_id, source=text
        )
    elif isinstance(text, str):
        passage = Passage(chunk_id=chunk_id, text=text)
    else:
        return "text_missing"
    return passage if passage.text.strip() else "text_missing"


def _without_duplicates(passages: Sequence[Passage], reasons: dict[str, DropCode]) -> list[Passage]:
    """Keep the best ranked of passages with equal texts."""
    seen: set[str] = set()
    kept: list[Passage] = []
    for passage in passages:
        if passage.text in seen:
            reasons[passage.chunk_id] = "duplicate"
        else:
            seen.add(passage.text)
            kept.append(passage)
    return kept


def _settle(
    question: Question, reasons: Mapping[str, DropCode], passages: Sequence[Passage]
) -> None:
    """Write into the accounts what reading the texts told."""
    if not reasons and not question.trail.accounts_wanted:
        return
    digests: dict[str, str] = {}
    if question.trail.accounts_wanted:
        digests = {passage.chunk_id: _digest(passage) for passage in passages}
    question.accounts = [
        msgspec.structs.replace(
            account,
            reason_code=reasons.get(account.chunk_id, account.reason_code),
            digest=digests.get(account.chunk_id, ""),
        )
        for account in question.accounts
    ]


def _digest(passage: Passage) -> str:
    known = passage.source.digest if passage.source else ""
    return known or text_digest(passage.text)


def text_digest(text: str) -> str:
    """Give the SHA-256 of a text in UTF-8, hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

"""Further searches of a `deep` question: the model reads what was found and names what is missing.

Each step is a stage of the trace, with its queries, their reasons and the passages that it added. Steps end
when the model names nothing new, or with their budget: a number of steps, tokens and time. A step that fails
ends them, too; the answer is written from what was found until then.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from whence.answering.evidence import share_of_pool, text_digest
from whence.answering.sending import fitting_budget, sendable
from whence.answering.state import Question
from whence.provenance.reasons import DropCode
from whence.provenance.stage_records import ModelUse, Scalar, StepQuery
from whence.provenance.stages import step_triples
from whence.provenance.terms import STEP
from whence.retrieval.duplicates import without_duplicates
from whence.retrieval.fusion import reciprocal_ranks
from whence.retrieval.pipeline import find_candidates, read_passages
from whence.retrieval.services import Deadline, PlannedQuery
from whence.schema.errors import BadInput, WhenceError
from whence.schema.passages import Passage
from whence.schema.prompt import PromptResult
from whence.text.replies import clean_reply

#: Most queries of a step; a longer list is a list of guesses.
_MOST_QUERIES: Final = 3
#: Longest query and reason in characters; a longer query is prose.
_MAX_QUERY_CHARS: Final = 200
_MAX_REASON_CHARS: Final = 300
_MARKS: Final = " \t*-\u2022.)0123456789`"


def read_queries(text: str) -> tuple[StepQuery, ...] | None:
    """Return the queries of a reply, at most three; none for `ANSWER`, None for what cannot be read.

    >>> read_queries("SEARCH: birthplace of Ilse Brandt | where she was born")
    (StepQuery(query='birthplace of Ilse Brandt', reason='where she was born'),)
    >>> read_queries("ANSWER: enough"), read_queries("Let me think about that.")
    ((), None)
    """
    found: dict[str, StepQuery] = {}
    answers = False
    for line in clean_reply(text, 0, labels=True).text.splitlines():
        word, colon, rest = line.strip().strip(_MARKS).partition(":")
        word = word.strip(_MARKS).casefold()
        answers = answers or word == "answer"
        query, _, reason = rest.partition("|")
        query = " ".join(query.split()).strip(" \"'`*\u201c\u201d")
        if word == "search" and colon and 0 < len(query) <= _MAX_QUERY_CHARS:
            reason = " ".join(reason.split())[:_MAX_REASON_CHARS]
            found.setdefault(query.casefold(), StepQuery(query, reason))
    if not found and not answers:
        return None
    return tuple(found.values())[:_MOST_QUERIES]


def require_model(question: Question) -> None:
    """Raise `BadInput` when the writer is known to be no language model."""
    if question.only_quotes:
        raise BadInput(
            "a deep question needs a language model, and none is configured",
            hint="name one (WHENCE_WRITER), or ask without --deep",
        )


class _Step(msgspec.Struct, frozen=True):
    """What a step did."""

    outcome: str
    """`search`, or why it was the last one: `answer`, `unreadable`, `repeated`, `nothing_new` or `failed`."""
    queries: tuple[StepQuery, ...] = ()
    reply: PromptResult = PromptResult()
    ranking: tuple[Passage, ...] = ()
    """What its queries found, best first; passages that are known as they are known."""
    added: tuple[Passage, ...] = ()
    """Those that are not among the passages so far."""
    found: tuple[Passage, ...] = ()
    """Records of all that are new, or were dropped before."""


async def search_further(question: Question, passages: Sequence[Passage]) -> list[Passage]:
    """Let the model search again until it has what it needs; return all passages, joined by rank."""
    rankings: list[Sequence[Passage]] = [passages]
    searched = [question.text]
    deadline = question.deadline.portion(question.options.step_time_share)
    joined, used = [*passages], 0
    for number in range(1, question.most_steps + 1):
        if over := _over_budget(question, used, deadline):
            question.trace.degrade("steps", "steps_ended", over)
            break
        question.trace.begin(f"{STEP}{number}")
        step = await _take(question, joined, searched, deadline)
        used += (step.reply.in_token or 0) + (step.reply.out_token or 0)
        await _record(question, f"{STEP}{number}", step, len(joined))
        searched += [one.query for one in step.queries]
        if step.outcome != "search":
            break
        rankings.append(step.ranking)
        joined = _join(rankings)
    return joined


def _over_budget(question: Question, used: int, deadline: Deadline) -> str:
    most = question.options.step_tokens
    if used >= most:
        return f"no further search: the steps used {used} of {most} tokens"
    return "no further search: the time for steps was over" if deadline.is_over else ""


async def _take(
    question: Question, passages: Sequence[Passage], searched: Sequence[str], deadline: Deadline
) -> _Step:
    """Ask the model, and search for what it names; a failure is recorded and ends the steps."""
    reply = PromptResult()
    queries: tuple[StepQuery, ...] = ()
    try:
        reply = await _ask_model(question, passages, searched, deadline)
        named = read_queries(reply.text or "")
        if not named:
            return _Step("unreadable" if named is None else "answer", reply=reply)
        known = {one.casefold() for one in searched}
        queries = tuple(one for one in named if one.query.casefold() not in known)
        if not queries:
            return _Step("repeated", reply=reply)
        return await _search(question, passages, queries, reply)
    except BadInput:
        raise
    except WhenceError as error:
        reason = (
            f"a further search failed, the answer is from what was found before: {error.message}"
        )
        question.trace.degrade("steps", "step_failed", reason)
        return _Step("failed", queries, reply)


async def _ask_model(
    question: Question, passages: Sequence[Passage], searched: Sequence[str], deadline: Deadline
) -> PromptResult:
    shown, _ = await sendable(question, passages)
    read = f"{question.text} {' '.join(searched)}"
    budget = await fitting_budget(question, shown, read)
    given, _ = budget.cut(shown)
    reply = await deadline.limit(
        "choosing what to search for",
        partial(question.writer.search_again, question.text, given, searched[1:]),
    )
    question.replies.append(reply)
    require_model(question)
    return reply


async def _search(
    question: Question,
    passages: Sequence[Passage],
    queries: tuple[StepQuery, ...],
    reply: PromptResult,
) -> _Step:
    retrieval = question.retrieval
    texts = [one.query for one in queries]
    vectors: Sequence[object] = [None] * len(texts)
    if retrieval.mode != "bm25":
        vectors = (await retrieval.embed(texts, "the queries of a step")).vectors
    share = share_of_pool(question.doc_limit, len(texts))
    planned = [
        PlannedQuery(text, vector, share) for text, vector in zip(texts, vectors, strict=True)
    ]
    found = await find_candidates(
        retrieval, planned, limit=question.doc_limit, threshold=question.options.threshold
    )
    for degradation in found.degraded:
        question.trace.note(degradation)
    known = {one.chunk_id: one for one in passages}
    # A candidate that was dropped before may be found again: it gets a new rank.
    first = max((one.rank for one in question.candidates.values()), default=0) + 1
    fresh = [one for one in found.candidates if one.chunk_id not in known]
    records = {one.chunk_id: replace(one, rank=rank) for rank, one in enumerate(fresh, first)}
    reasons: dict[str, DropCode] = {}
    wanted = [one for one in records.values() if not one.reason_code]
    read = await read_passages(retrieval, wanted, reasons)
    reasons |= {one.chunk_id: "text_missing" for one in read if not one.text.strip()}
    read = [one for one in read if one.text.strip()]
    originals: dict[str, str] = {}
    if question.options.drop_duplicates:
        whole = {one.chunk_id: one.text for one in (*passages, *read)}
        kept, originals = without_duplicates([*passages, *read])
        kept_ids = {one.chunk_id for one in kept}
        read = [one for one in read if one.chunk_id in kept_ids]
        for chunk_id, original in originals.items():
            same = whole[chunk_id] == whole[original]
            reasons[chunk_id] = "duplicate" if same else "near_duplicate"
    for one in read:
        records[one.chunk_id] = replace(
            records[one.chunk_id], digest=one.digest or text_digest(one.text)
        )
    for chunk_id, code in reasons.items():
        if chunk_id in records:
            records[chunk_id] = replace(
                records[chunk_id], reason_code=code, duplicate_of=originals.get(chunk_id, "")
            )
    question.candidates |= records
    by_id = known | {one.chunk_id: one for one in read}
    ranking = [by_id[one.chunk_id] for one in found.candidates if one.chunk_id in by_id]
    return _Step(
        "search" if read else "nothing_new",
        queries,
        reply,
        tuple(ranking),
        tuple(read),
        tuple(records.values()),
    )


def _join(rankings: Sequence[Sequence[Passage]]) -> list[Passage]:
    """Return the passages of all rankings, each once, by reciprocal ranks; ties go to the earlier ranking."""
    known = {one.chunk_id: one for ranking in reversed(rankings) for one in ranking}
    ids = [[one.chunk_id for one in ranking] for ranking in rankings]
    scores = reciprocal_ranks(ids, [1.0] * len(ids))
    return [known[one] for one in sorted(scores, key=lambda one: -scores[one])]


async def _record(question: Question, name: str, step: _Step, before: int) -> None:
    trace, reply = question.trace, step.reply
    settings: dict[str, Scalar] = {"outcome": step.outcome}
    if reply.template:
        settings["prompt_template"] = reply.template
    models: tuple[ModelUse, ...] = ()
    if reply.model:
        models = (ModelUse(role="writer", name=reply.model, revision=reply.revision),)
    await trace.end(
        partial(
            step_triples,
            name=name,
            derived_from=question.step or ("focus" if question.selected else "exploration"),
            queries=step.queries,
            added=[one.chunk_id for one in step.added],
            candidates=step.found if trace.full else (),
            in_token=reply.in_token,
            out_token=reply.out_token,
            model=reply.model,
        ),
        candidates_in=before,
        candidates_out=before + len(step.added),
        models=models,
        settings=settings,
    )
    question.step = name

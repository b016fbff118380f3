"""Which passages are sent to the writer: those that may leave this machine, and fit into its window."""

from __future__ import annotations

from collections.abc import Sequence

from whence.answering.budget import ALWAYS_FITS, Budget, prompt_tokens
from whence.answering.state import Question
from whence.schema.errors import WhenceError
from whence.schema.passages import Passage

#: Seconds for asking a server how much its model reads.
_WINDOW_S = 6.0


async def sendable(
    question: Question, passages: Sequence[Passage]
) -> tuple[Sequence[Passage], list[Passage]]:
    """Return the passages that may leave this machine for the writer, and records of the others."""
    rights = question.request.access
    if question.only_quotes or not passages or not (rights.acl_tags or rights.labels):
        return passages, []
    tags, _ = await question.keeps_local()
    if not tags:
        return passages, []
    tagged = await question.retrieval.tagged([one.chunk_id for one in passages], tags)
    kept_back = [
        Passage(chunk_id=one.chunk_id, rank=one.rank, reason_code="local_only")
        for one in passages
        if one.chunk_id in tagged
    ]
    return [one for one in passages if one.chunk_id not in tagged], kept_back


async def fitting_budget(question: Question, passages: Sequence[Passage], read: str) -> Budget:
    """Return what the writer may read of passages beside the text `read`, within its window if known."""
    budget = Budget(
        passages=question.doc_limit,
        chars=question.options.max_context_chars,
        limit_code="over_joined_limit" if question.step else "over_limit",
    )
    given, _ = budget.cut(passages)
    if prompt_tokens(read, given) <= ALWAYS_FITS or question.only_quotes:
        return budget
    window = await _window(question)
    return budget if window is None else budget.within(window, read)


async def _window(question: Question) -> int | None:
    """Return the window of the writer; None when it is not known."""
    try:
        return await question.deadline.limit(
            "asking for the writer's window", question.writer.window, _WINDOW_S, share=0.3
        )
    except WhenceError:
        return None

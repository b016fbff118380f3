"""From the replies to a question to its answer, telling listeners on the way."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

from whence.answering.state import ChunkCallback, ExplainCallback
from whence.schema.document_rag import Answer, AnswerPiece, ExplainEvent
from whence.schema.errors import InternalError
from whence.schema.message import Message

logger = logging.getLogger(__name__)


async def collect_answer(
    replies: AsyncGenerator[Message, None],
    chunk_callback: ChunkCallback | None = None,
    explain_callback: ExplainCallback | None = None,
) -> Answer:
    """Return the answer at the end of the replies."""
    answer: Answer | None = None
    async with aclosing(replies) as arriving:
        async for part in arriving:
            if isinstance(part, Answer):
                answer = part
            elif isinstance(part, AnswerPiece) and chunk_callback is not None:
                await chunk_callback(part.text, part.end_of_stream)
            elif isinstance(part, ExplainEvent) and explain_callback is not None:
                await _explain(explain_callback, part)
    if answer is None:
        raise InternalError("the flow ended without an answer")
    return answer


async def _explain(callback: ExplainCallback, event: ExplainEvent) -> None:
    try:
        await callback(event.triples, event.explain_id)
    except Exception:
        logger.warning(
            "explain callback failed",
            extra={"action": "explain", "answer_id": event.answer_id, "stage": event.stage},
            exc_info=True,
        )

"""The conversation that a question goes on with, read from the trace of an answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from whence.operations.ask import MOST_PREVIOUS, Ask
from whence.operations.trace_access import load_trace

if TYPE_CHECKING:
    from whence.operations.session import Session

A = TypeVar("A", bound=Ask)


async def with_conversation(session: Session, asked: A) -> A:
    """Return a question with the questions and the text of the answer that it follows.

    Raises:
        NotFound: There is no such answer, or the reader may not see it any more.
    """
    if not asked.follow:
        return asked
    record = (await load_trace(session, asked.follow, asked.access)).record
    before = json.loads(record.settings.get("history", "[]"))
    text = record.answer.text if record.answer is not None and record.answer.found else ""
    return replace(asked, history=(*before, record.question), previous_answer=text[:MOST_PREVIOUS])

"""A span around each search and question of a session, named as OpenTelemetry's conventions for models say."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from whence.operations.ask import Ask
from whence.operations.search import Search
from whence.schema.document_rag import Answer

if TYPE_CHECKING:
    from whence.flow.telemetry.genai import Spans
    from whence.operations.operation import Call, Operation
    from whence.operations.session import Session

R = TypeVar("R")


class OperationSpans:
    """A middleware; operations without a name in the conventions have no span.

    Args:
        spans: Makes them.
    """

    def __init__(self, spans: Spans) -> None:
        self._spans = spans

    def around(self, operation: Operation[R], call: Call[R]) -> Call[R]:
        """Return a call within a span, of an operation that has one."""
        if not isinstance(operation, Ask | Search):
            return call
        asked = operation
        name = "chat" if isinstance(asked, Ask) else "retrieval"
        collection = asked.collection
        facts = {"gen_ai.request.model": collection, "gen_ai.data_source.id": collection}

        async def within_span(session: Session) -> R:
            with self._spans.operation(name, collection, **facts) as told:
                told.queried(asked.query) if isinstance(asked, Search) else told.asked(
                    asked.question
                )
                result = await call(session)
                if isinstance(result, Answer):
                    told.answered(
                        result.text,
                        result.model,
                        result.in_token,
                        result.out_token,
                        result.answer_id,
                    )
                return result

        return within_span

"""A recorded answer, as its question returned it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from msgspec.structs import replace

from whence.operations.freshness import with_freshness
from whence.operations.operation import Operation
from whence.operations.trace_access import load_trace
from whence.operations.unread_files import with_unread_files
from whence.schema.access import Access
from whence.schema.document_rag import Answer
from whence.schema.errors import NotFound

if TYPE_CHECKING:
    from whence.operations.session import Session


class ShowAnswer(Operation[Answer], frozen=True):
    """Show a recorded answer with its citations, and whether their sources changed."""

    NAME: ClassVar[str] = "answer"

    answer_id: str
    """Id of the answer."""
    access: Access = Access.public()
    """Rights to read with."""

    async def run(self, session: Session) -> Answer:
        """Return the answer, without passages that are hidden from the reader.

        Raises:
            NotFound: There is no such answer, the reader may not see it, or its question failed.
        """
        loaded = await load_trace(session, self.answer_id, self.access)
        record, answer = loaded.record, loaded.record.answer
        if answer is None:
            raise NotFound(
                f"the question of {self.answer_id!r} failed and has no answer",
                hint=f"`whence explain {self.answer_id}` shows where",
            )
        nearest = tuple(one for one in answer.nearest if one.chunk_id in loaded.visible)
        refusal = answer.refusal
        if refusal is not None and refusal.best and refusal.best.chunk_id not in loaded.visible:
            refusal = replace(refusal, best=None)
        seen = replace(answer, nearest=nearest, refusal=refusal)
        seen = await with_unread_files(session, record.collection, seen, self.access)
        return await with_freshness(session, record.collection, seen, self.access, past=True)

    def count(self, result: Answer) -> int:
        """Return the number of citations."""
        return len(result.citations)

    def answer_of(self, result: Answer) -> str:
        """Return the id of the answer."""
        return result.answer_id

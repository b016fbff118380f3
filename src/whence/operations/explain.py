"""Operations on one recorded answer: how it was produced, what proves it, why a passage is not in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from whence.operations.operation import Offered, Operation
from whence.provenance.outcome import WhyNot
from whence.provenance.trace import Trace
from whence.schema.access import Access

if TYPE_CHECKING:
    from whence.operations.session import Session


class Explain(Operation[Trace], frozen=True):
    """Show how an answer was produced."""

    NAME: ClassVar[str] = "explain"

    answer_id: str
    """Id of the answer."""
    access: Access = Access.public()
    """Rights to read with."""

    async def run(self, session: Session) -> Trace:
        """Return the trace, without candidates that are hidden from the reader.

        Raises:
            NotFound: There is no such answer, or the reader may not see its evidence.
        """
        from whence.operations.trace_access import explain

        return await explain(session, self.answer_id, self.access)

    def count(self, result: Trace) -> int:
        """Return the number of candidates."""
        return len(result.candidates)


class ExportEvidence(Operation[dict[str, Any]], frozen=True):
    """Export what proves an answer."""

    NAME: ClassVar[str] = "evidence"
    audited: ClassVar[bool] = False

    answer_id: str
    """Id of the answer."""
    access: Access = Access.public()
    """Rights to read with."""

    async def run(self, session: Session) -> dict[str, Any]:
        """Return the evidence; `whence.operations.evidence.export_evidence` documents it."""
        from whence.operations.evidence import export_evidence

        return await export_evidence(session, self.answer_id, self.access)


class ExplainAbsence(Operation[WhyNot], frozen=True):
    """Show why a passage or document is not in an answer."""

    NAME: ClassVar[str] = "why-not"

    item: Annotated[str, Offered(metavar="CHUNK_OR_DOCUMENT")]
    """Id of a chunk or document."""
    answer_id: Annotated[str, Offered(option="--answer", metavar="ANSWER_ID")]
    """Id of the answer."""
    access: Access = Access.public()
    """Rights to read with."""

    async def run(self, session: Session) -> WhyNot:
        """Return stage, reason and numbers; see `whence.operations.why_not`."""
        from whence.operations.why_not import why_not

        return await why_not(session, self.item, self.answer_id, self.access)

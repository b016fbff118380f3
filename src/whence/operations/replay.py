"""Operations that compare what was with what is: replay, diff, and the change log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from msgspec import Meta

from whence.operations.changes import LoggedChange, list_changes
from whence.operations.operation import PYTHON, Offered, Operation
from whence.operations.recorded_answers import AnswerDiff, ReplayReport, diff_answers, replay
from whence.schema.access import Access

if TYPE_CHECKING:
    from whence.operations.session import Session


class Replay(Operation[ReplayReport], frozen=True):
    """Ask a recorded question again and compare all stages, each difference with its cause.

    No second trace is stored. The question runs with its recorded rights if the reader's cover them, else with
    the reader's.
    """

    NAME: ClassVar[str] = "replay"

    answer_id: str
    """Id of the answer."""
    access: Access = Access.public()
    """Rights to read with."""
    timeout_s: Annotated[float, Meta(gt=0), Offered(on=frozenset({PYTHON}))] = 120.0
    """Time limit of the question in seconds."""
    as_of_answer: bool = False
    """Read the documents as they were for the answer."""

    async def run(self, session: Session) -> ReplayReport:
        """Return the comparison.

        Raises:
            NotFound: As for `explain`; also when a candidate is hidden from the reader.
            BadInput: The recorded question had failed, or `as_of_answer` is given and it is about code.
            WhenceError: As for `ask`.
        """
        return await replay(session, self)


class Diff(Operation[AnswerDiff], frozen=True):
    """Compare two recorded answers by stage; each difference has its cause."""

    NAME: ClassVar[str] = "diff"

    answer_a: str
    """Id of one answer."""
    answer_b: str
    """Id of the other."""
    access: Access = Access.public()
    """Rights to read with."""

    async def run(self, session: Session) -> AnswerDiff:
        """Return the comparison.

        Raises:
            NotFound: As for `replay`, of either answer.
            BadInput: A recorded question had failed.
        """
        return await diff_answers(session, self.answer_a, self.answer_b, self.access)


class ListChanges(Operation[list[LoggedChange]], frozen=True):
    """List which documents came, changed and went, oldest first, of those that the reader may see."""

    NAME: ClassVar[str] = "changes"

    collection: str = "default"
    """Collection to read."""
    access: Access = Access.public()
    """Rights of the reader, compared with the tags that a document has today, or had last."""
    since: Annotated[str | None, Offered(metavar="DATE")] = None
    """First moment to list: a date or time in ISO 8601, UTC."""

    async def run(self, session: Session) -> list[LoggedChange]:
        """Return the changes.

        Raises:
            NotFound: There is no such collection.
            BadInput: The moment cannot be read.
        """
        return await list_changes(session, self.collection, self.access, since=self.since)

    def count(self, result: list[LoggedChange]) -> int:
        """Return the number of changes."""
        return len(result)

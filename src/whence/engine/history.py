"""The operations of an engine that compare what was with what is: replay, diff, and the change log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whence.engine.changes import LoggedChange, list_changes
from whence.engine.replay import AnswerDiff, ReplayReport, diff_answers, replay
from whence.schema.access import Access

if TYPE_CHECKING:
    from whence.engine.session import EngineSession

_PUBLIC = Access.public()


class EngineHistory:
    """Part of `Engine`."""

    _session: EngineSession

    async def replay(
        self,
        answer_id: str,
        access: Access = _PUBLIC,
        *,
        timeout_s: float = 120.0,
        as_of_answer: bool = False,
    ) -> ReplayReport:
        """Ask a recorded question again and compare all stages, each difference with its cause.

        No second trace is stored.

        The question runs with its recorded rights if the reader's cover them, else with the reader's. With
        `as_of_answer` it runs on the documents of then, as does one that was asked as of a moment.

        Raises:
            NotFound: As for `explain`; also when a candidate is hidden from the reader.
            BadInput: The recorded question had failed, or `as_of_answer` is given and it is about code.
            WhenceError: As for `ask`.
        """
        how: dict[str, Any] = {"timeout_s": timeout_s, "as_of_answer": as_of_answer}
        return await replay(self._session, answer_id, access, **how)

    async def diff(self, answer_a: str, answer_b: str, access: Access = _PUBLIC) -> AnswerDiff:
        """Compare two recorded answers by stage; each difference has its cause.

        Raises:
            NotFound: As for `replay`, of either answer.
            BadInput: A recorded question had failed.
        """
        return await diff_answers(self._session, answer_a, answer_b, access)

    async def changes(
        self, collection: str = "default", access: Access = _PUBLIC, *, since: str | None = None
    ) -> list[LoggedChange]:
        """Return which documents came, changed and went, oldest first, of those that the reader may see.

        Args:
            collection: Its name.
            access: Rights of the reader, compared with the tags that a document has today, or had last.
            since: First moment, a date or time in ISO 8601.

        Raises:
            NotFound: There is no such collection.
            BadInput: The moment cannot be read.
        """
        return await list_changes(self._session, collection, access, since=since)

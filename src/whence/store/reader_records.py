"""What the web page keeps of its readers: sessions, whose answers are whose, and what they say of answers.

A reader is a digest: of the name of a token, or of a random id that a browser keeps. A question's text stands
in its trace alone, so it goes with the trace. A note of a reader may quote a document; erasing one removes it.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from whence.schema.access import Access

if TYPE_CHECKING:
    from whence.store.trace_body import AnswerSources

Verdict = Literal["right", "wrong", "missing"]
"""What a reader says of an answer: it is right, it is wrong, or something is missing from it."""


class ReaderSession(msgspec.Struct, frozen=True, kw_only=True):
    """A reader who signed in."""

    digest: str
    """SHA-256 of the session's id, hexadecimal; the id itself is stored nowhere."""
    token: str
    """SHA-256 of the token, whose rights of the moment count; empty for one of an identity provider."""
    caller: str
    """Name and rights of a reader of an identity provider, JSON; else empty."""
    ends_at: datetime


class Feedback(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader says of an answer; a later verdict of the same reader replaces it."""

    answer_id: str
    reader: str
    verdict: Verdict
    note: str = ""
    given_at: str = ""
    """ISO 8601 in UTC; set by the store."""


class ReaderStore(Protocol):
    """Sessions, histories and feedback."""

    async def put_session(self, session: ReaderSession) -> None:
        """Store a session, and remove those that ended."""

    async def reader_session(self, digest: str) -> ReaderSession | None:
        """Return a session that has not ended, or None."""

    async def end_session(self, digest: str) -> None:
        """Remove a session."""

    async def note_asked(self, answer_id: str, reader: str) -> None:
        """Note whose answer one is; noting it again changes nothing."""

    async def answers_of(
        self, reader: str, access: Access, *, limit: int, after: str = ""
    ) -> list[AnswerSources]:
        """Return the recorded answers of a reader, the latest first, after the one of an id.

        Answers to questions of which the reader lacks a right today are left out. Cost: linear in their traces.
        """

    async def put_feedback(self, feedback: Feedback) -> None:
        """Store what a reader says of an answer."""

    async def feedback(self) -> list[Feedback]:
        """Return what readers said of answers whose traces are stored, oldest first; for the owner."""

    async def erase_notes(self, answer_ids: Collection[str]) -> None:
        """Remove the notes about some answers; the verdicts stay."""

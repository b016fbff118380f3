"""Sessions, histories and feedback of readers in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime

from msgspec.structs import replace

from whence.schema.access import Access
from whence.schema.codec import encode
from whence.store.memory.search import MemoryTraces
from whence.store.reader_records import Feedback, ReaderSession
from whence.store.trace_body import AnswerSources, read_sources


class MemoryReaders(MemoryTraces):
    """Implements `ReaderStore`, beside the traces that histories are of."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        super().__init__(clock)
        self._sessions: dict[str, ReaderSession] = {}
        self._asked: dict[tuple[str, str], None] = {}
        self._feedback: dict[tuple[str, str], Feedback] = {}

    async def put_session(self, session: ReaderSession) -> None:
        """Store a session, and remove those that ended."""
        now, held = self._clock(), self._sessions
        held[session.digest] = session
        for ended in [one.digest for one in held.values() if one.ends_at <= now]:
            del held[ended]

    async def reader_session(self, digest: str) -> ReaderSession | None:
        """Return a session that has not ended, or None."""
        found = self._sessions.get(digest)
        return found if found is not None and found.ends_at > self._clock() else None

    async def end_session(self, digest: str) -> None:
        """Remove a session."""
        self._sessions.pop(digest, None)

    async def note_asked(self, answer_id: str, reader: str) -> None:
        """Note whose answer one is."""
        self._asked.setdefault((reader, answer_id))

    async def answers_of(
        self, reader: str, access: Access, *, limit: int, after: str = ""
    ) -> list[AnswerSources]:
        """Return the recorded answers of a reader, the latest first; see `ReaderStore`."""
        own = [answer_id for one, answer_id in reversed(self._asked) if one == reader]
        if after:
            own = own[own.index(after) + 1 :] if after in own else []
        stored = [self._stored(one) for one in own if one in self._traces]
        readable = [one for one in stored if access.covers(one.record.access)][:limit]
        return [read_sources(encode(one.record), one.recorded_at) for one in readable]

    async def put_feedback(self, feedback: Feedback) -> None:
        """Store what a reader says of an answer."""
        given_at = self._clock().astimezone(UTC).isoformat()
        key = feedback.answer_id, feedback.reader
        self._feedback.pop(key, None)
        self._feedback[key] = replace(feedback, given_at=given_at)

    async def feedback(self) -> list[Feedback]:
        """Return what readers said of answers whose traces are stored, oldest first."""
        return [one for one in self._feedback.values() if one.answer_id in self._traces]

    async def erase_notes(self, answer_ids: Collection[str]) -> None:
        """Remove the notes about some answers."""
        for key, one in self._feedback.items():
            if one.answer_id in answer_ids:
                self._feedback[key] = replace(one, note="")

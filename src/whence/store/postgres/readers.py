"""Sessions, histories and feedback of readers in PostgreSQL."""

from __future__ import annotations

from collections.abc import Collection

from whence.schema.access import Access
from whence.store.postgres.driver import iso_utc
from whence.store.postgres.part import PostgresPart
from whence.store.reader_records import Feedback, ReaderSession
from whence.store.trace_body import AnswerSources, read_sources
from whence.store.validation import check_texts, is_text

_PUT_SESSION = """
INSERT INTO reader_session (digest, token, caller, ends_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (digest) DO UPDATE SET token = $2, caller = $3, ends_at = $4
"""
_SESSION = (
    "SELECT digest, token, caller, ends_at FROM reader_session WHERE digest = $1 AND ends_at > $2"
)
_NOTE_ASKED = "INSERT INTO reader_answer (reader, answer_id) VALUES ($1, $2) ON CONFLICT DO NOTHING"
# Traces of an earlier version have their rights in the record alone, which is compared once more.
_ANSWERS = """
SELECT t.body, t.recorded_at FROM reader_answer a JOIN trace t USING (answer_id)
WHERE a.reader = $1 AND a.number < CASE WHEN $5 = '' THEN 9223372036854775807
    ELSE coalesce((SELECT b.number FROM reader_answer b WHERE b.reader = $1 AND b.answer_id = $5), 0) END
    AND (t.acl_tags IS NULL OR (t.acl_tags <@ $2::text[] AND t.labels <@ $3::text[] AND t.clearance <= $4))
ORDER BY a.number DESC LIMIT $6
"""
_PUT_FEEDBACK = """
INSERT INTO reader_feedback (answer_id, reader, verdict, note, given_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (answer_id, reader) DO UPDATE SET verdict = $3, note = $4, given_at = $5
"""
_FEEDBACK = """
SELECT f.answer_id, f.reader, f.verdict, f.note, f.given_at FROM reader_feedback f JOIN trace USING (answer_id)
ORDER BY f.given_at, f.answer_id, f.reader
"""
_ERASE_NOTES = (
    "UPDATE reader_feedback SET note = '' WHERE answer_id = ANY($1::text[]) AND note <> ''"
)


class PostgresReaders(PostgresPart):
    """Implements `ReaderStore`."""

    async def put_session(self, session: ReaderSession) -> None:
        """Store a session, and remove those that ended."""
        values = (session.digest, session.token, session.caller, session.ends_at)
        async with self.pool.connection() as connection:
            await connection.execute("DELETE FROM reader_session WHERE ends_at <= $1", self.clock())
            await connection.execute(_PUT_SESSION, *values)

    async def reader_session(self, digest: str) -> ReaderSession | None:
        """Return a session that has not ended, or None."""
        async with self.pool.connection() as connection:
            row = await connection.fetchrow(_SESSION, digest, self.clock())
        return None if row is None else ReaderSession(**dict(row))

    async def end_session(self, digest: str) -> None:
        """Remove a session."""
        async with self.pool.connection() as connection:
            await connection.execute("DELETE FROM reader_session WHERE digest = $1", digest)

    async def note_asked(self, answer_id: str, reader: str) -> None:
        """Note whose answer one is."""
        async with self.pool.connection() as connection:
            await connection.execute(_NOTE_ASKED, reader, answer_id)

    async def answers_of(
        self, reader: str, access: Access, *, limit: int, after: str = ""
    ) -> list[AnswerSources]:
        """Return the recorded answers of a reader, the latest first; see `ReaderStore`."""
        if not is_text(after):
            return []
        rights = (list(access.acl_tags), list(access.labels), access.clearance)
        async with self.pool.connection() as connection:
            rows = await connection.fetch(_ANSWERS, reader, *rights, after, limit)
        read = [read_sources(row["body"], iso_utc(row["recorded_at"])) for row in rows]
        return [one for one in read if access.covers(one.access)]

    async def put_feedback(self, feedback: Feedback) -> None:
        """Store what a reader says of an answer."""
        check_texts((feedback.answer_id, feedback.note), "feedback")
        values = (feedback.answer_id, feedback.reader, feedback.verdict, feedback.note)
        async with self.pool.connection() as connection:
            await connection.execute(_PUT_FEEDBACK, *values, self.clock())

    async def feedback(self) -> list[Feedback]:
        """Return what readers said of answers whose traces are stored, oldest first."""
        async with self.pool.connection() as connection:
            rows = await connection.fetch(_FEEDBACK)
        return [Feedback(**dict(row) | {"given_at": iso_utc(row["given_at"])}) for row in rows]

    async def erase_notes(self, answer_ids: Collection[str]) -> None:
        """Remove the notes about some answers."""
        async with self.pool.connection() as connection:
            await connection.execute(_ERASE_NOTES, list(answer_ids))

"""Sessions, histories and feedback of a store; part of `store_suite`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from whence.schema.access import Access
from whence.schema.document_rag import Answer, Citation
from whence.store.protocols import Store
from whence.store.reader_records import Feedback, ReaderSession
from whence.testing.store_samples import make_trace, serial_numbers


def _session(digest: str, ends_at: datetime) -> ReaderSession:
    return ReaderSession(digest=digest, token="", caller='{"name":"é"}', ends_at=ends_at)


async def _answered(store: Store, reader: str, access: Access | None = None) -> str:
    answer_id = f"asked-{next(serial_numbers)}"
    citation = Citation(marker=1, chunk_id="urn:chunk:c:a%20b:0", document_id="a b", quote="Ten.")
    answer = Answer(answer_id=answer_id, question="How many?", text="Ten.", citations=(citation,))
    rights = {} if access is None else {"access": access}
    await store.record_trace(make_trace(answer_id, question="How many?", answer=answer, **rights))
    await store.note_asked(answer_id, reader)
    return answer_id


class ReaderSuite:
    """A store keeps what the page knows of its readers."""

    async def test_a_session_is_found_until_it_ends(self, store: Store) -> None:
        """By its digest, unchanged; one that ended or was removed is not there."""
        digest, now = f"session-{next(serial_numbers)}", datetime.now(UTC)
        session = _session(digest, now + timedelta(hours=1))
        await store.put_session(session)
        assert await store.reader_session(digest) == session
        assert await store.reader_session("none") is None
        await store.put_session(_session(f"{digest}-ended", now - timedelta(seconds=1)))
        assert await store.reader_session(f"{digest}-ended") is None
        await store.end_session(digest)
        await store.end_session(digest)
        assert await store.reader_session(digest) is None

    async def test_a_history_has_the_answers_of_its_reader(self, store: Store) -> None:
        """The latest first, in pages; those of others, without a trace, or noted twice are not in it."""
        reader = f"reader-{next(serial_numbers)}"
        asked = [await _answered(store, reader) for _ in range(4)]
        await _answered(store, "somebody else")
        await store.note_asked(asked[0], reader)
        await store.note_asked("no trace", reader)
        everyone = Access.public()

        whole = await store.answers_of(reader, everyone, limit=9)
        assert [one.answer_id for one in whole] == asked[::-1]
        first = await store.answers_of(reader, everyone, limit=2)
        rest = await store.answers_of(reader, everyone, limit=9, after=first[-1].answer_id)
        assert [one.answer_id for one in (*first, *rest)] == asked[::-1]
        assert await store.answers_of(reader, everyone, limit=9, after="unknown") == []
        assert await store.answers_of("nobody", everyone, limit=9) == []
        one = whole[0]
        assert (one.question, one.found, one.cited) == ("How many?", True, frozenset({"a b"}))
        assert "Ten." in one.texts

    async def test_a_history_has_what_the_reader_may_see_today(self, store: Store) -> None:
        """An answer to a question whose rights the reader lacks now is left out and takes no place."""
        reader = f"reader-{next(serial_numbers)}"
        own = await _answered(store, reader)
        await _answered(store, reader, Access(frozenset({"finance"})))
        found = await store.answers_of(reader, Access.public(), limit=1)
        assert [one.answer_id for one in found] == [own]

    async def test_feedback_is_kept_once_a_reader(self, store: Store) -> None:
        """A later verdict replaces the former; an erased note leaves the verdict."""
        answer_id, other = await _answered(store, "r"), await _answered(store, "r")
        for verdict, note in (("right", ""), ("wrong", "It is \N{SNOWMAN} eleven.")):
            await store.put_feedback(
                Feedback(answer_id=answer_id, reader="r", verdict=verdict, note=note)  # type: ignore[arg-type]
            )
        await store.put_feedback(Feedback(answer_id=answer_id, reader="s", verdict="missing"))
        await store.put_feedback(
            Feedback(answer_id=other, reader="r", verdict="wrong", note="kept")
        )
        await store.put_feedback(Feedback(answer_id="no trace", reader="r", verdict="wrong"))

        found = [one for one in await store.feedback() if one.answer_id in (answer_id, other)]
        assert [(one.reader, one.verdict, one.note) for one in found] == [
            ("r", "wrong", "It is \N{SNOWMAN} eleven."),
            ("s", "missing", ""),
            ("r", "wrong", "kept"),
        ]
        assert all(one.given_at.endswith("+00:00") for one in found)
        assert "no trace" not in {one.answer_id for one in await store.feedback()}
        await store.erase_notes([answer_id])
        notes = {(one.answer_id, one.reader): one.note for one in await store.feedback()}
        assert (notes[answer_id, "r"], notes[other, "r"]) == ("", "kept")

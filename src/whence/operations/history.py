"""What readers of the page asked, what they say of answers, and the cases of an evaluation that this makes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, get_args

import msgspec
from msgspec import Meta

from whence.operations.documents import check_collection_exists
from whence.operations.operation import Operation
from whence.operations.source_roots import is_changed
from whence.operations.trace_access import find_trace, load_trace, wait_for_traces
from whence.provenance.erasing import ERASED
from whence.retrieval.pipeline import check_text
from whence.schema.access import Access
from whence.schema.errors import BadInput, NotFound
from whence.store.chunk_ids import collection_of, split_collections
from whence.store.reader_records import Feedback, Verdict

if TYPE_CHECKING:
    from whence.operations.session import Session
    from whence.store.protocols import ListedDocument, Store
    from whence.store.trace_body import AnswerSources

AnswerState = Literal["current", "changed", "erased"]
"""Whether the cited documents are those of then, one of them is another one now, or words were erased."""

#: Answers that are read at once.
_BATCH: Final = 100
_MOST_NOTE: Final = 4_000


class HistoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An answer in the history of a reader."""

    answer_id: str
    question: str
    asked_at: str
    """ISO 8601 in UTC."""
    collection: str
    found: bool
    """Whether citations support the answer."""
    state: AnswerState


class NoteAsked(Operation[None], frozen=True):
    """Note whose answer one is."""

    NAME: ClassVar[str] = "note asked"
    audited: ClassVar[bool] = False

    answer_id: str
    """Id of the answer."""
    reader: str
    """Digest of the reader, see `store.reader_records`."""

    async def run(self, session: Session) -> None:
        """Store it."""
        await (await session.store()).note_asked(self.answer_id, self.reader)


class ListHistory(Operation[list[HistoryEntry]], frozen=True):
    """List the answers of a reader, the latest first."""

    NAME: ClassVar[str] = "history"

    reader: str
    """Digest of the reader."""
    access: Access = Access.public()
    """Rights to read with."""
    limit: Annotated[int, Meta(ge=1)] = 50
    """Maximum number of answers."""
    after: str = ""
    """Id of the answer before the first one."""

    async def run(self, session: Session) -> list[HistoryEntry]:
        """Return the answers that the reader may see today. Cost: linear in their traces."""
        await wait_for_traces(session)
        store = await session.store()
        found: list[HistoryEntry] = []
        after = self.after
        while len(found) < self.limit:
            batch = await store.answers_of(self.reader, self.access, limit=_BATCH, after=after)
            visible = await visible_answers(session, batch, self.access)
            found += await _entries(store, visible, self.access)
            if len(batch) < _BATCH:
                break
            after = batch[-1].answer_id
        return found[: self.limit]

    def count(self, result: list[HistoryEntry]) -> int:
        """Return the number of answers."""
        return len(result)


async def visible_answers(
    session: Session, answers: Sequence[AnswerSources], access: Access
) -> list[AnswerSources]:
    """Return the answers that a reader may see today, of those whose questions it may see."""
    store = await session.store()
    hidden: set[tuple[str, str]] = set()
    parts = [part for one in answers for part in one.each()]
    for collection in {one.collection for one in parts}:
        own = (one.named | one.cited for one in parts if one.collection == collection)
        states = await store.document_states(collection, sorted(frozenset().union(*own)))
        hidden |= {
            (collection, name) for name, state in states.items() if not access.allows(state.tags)
        }
    found = []
    for one in answers:
        names_hidden = any(
            (part.collection, name) in hidden
            for part in one.each()
            for name in part.named | part.cited
        )
        if not names_hidden or await _is_visible(session, one.answer_id, access):
            found.append(one)
    return found


async def _is_visible(session: Session, answer_id: str, access: Access) -> bool:
    try:
        await find_trace(session, answer_id, access)
    except NotFound:
        return False
    return True


async def _entries(
    store: Store, answers: Sequence[AnswerSources], access: Access
) -> list[HistoryEntry]:
    known: dict[str, Mapping[str, ListedDocument]] = {}
    changed: dict[tuple[str, str], bool] = {}
    parts = [part for one in answers for part in one.each()]
    for collection in {one.collection for one in parts}:
        own = (one.cited for one in parts if one.collection == collection)
        names = sorted(frozenset().union(*own))
        documents = await store.describe_documents(collection, names, access)
        roots = await store.source_roots(collection)
        known[collection] = documents
        for name, one in documents.items():
            state = await asyncio.to_thread(is_changed, roots, one)
            changed[collection, name] = state is True
    return [
        HistoryEntry(
            answer_id=one.answer_id,
            question=one.question,
            asked_at=one.asked_at,
            collection=one.collection,
            found=one.found,
            state=_state(one, known, changed),
        )
        for one in answers
    ]


def _state(
    one: AnswerSources,
    known: Mapping[str, Mapping[str, ListedDocument]],
    changed: Mapping[tuple[str, str], bool],
) -> AnswerState:
    if ERASED in one.texts:
        return "erased"
    others = (
        name not in known[part.collection]
        or changed[part.collection, name]
        or _is_later(known[part.collection][name].indexed_at, one.asked_at)
        for part in one.each()
        for name in part.cited
    )
    return "changed" if any(others) else "current"


def _is_later(moment: str | None, other: str) -> bool:
    return bool(moment and other) and (
        datetime.fromisoformat(str(moment)) > datetime.fromisoformat(other)
    )


class CitingAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded answer that cites a document."""

    answer_id: str
    question: str
    asked_at: str
    """ISO 8601 in UTC."""


class ListCitingAnswers(Operation[list[CitingAnswer]], frozen=True):
    """List the recorded answers that cite a document, the latest first."""

    NAME: ClassVar[str] = "citing answers"

    document_id: str
    """Id of the document, or its path, with or without its root."""
    access: Access = Access.public()
    """Rights to read with."""
    collection: str = "default"
    """Its collection."""

    async def run(self, session: Session) -> list[CitingAnswer]:
        """Return those that the reader may see. Cost: linear in the traces that name the document.

        Raises:
            NotFound: There is no such document, or the reader may not see it.
        """
        from whence.operations.documents import find_named

        found = await find_named(session, self.collection, self.document_id, self.access)
        if found is None:
            raise NotFound(
                f"there is no document {self.document_id!r} in collection {self.collection!r}",
                hint="ids are in the list of the collection's documents",
            )
        await wait_for_traces(session)
        store = await session.store()
        answers = []
        for answer_id in await store.traces_about(self.collection, found):
            stored = await store.trace(answer_id, self.access)
            answer = None if stored is None else stored.record.answer
            if stored is None or answer is None:
                continue
            cites = any(
                one.document_id == found
                for one in answer.citations
                if collection_of(stored.record.collection, one.chunk_id) == self.collection
            )
            if cites and await _is_visible(session, answer_id, self.access):
                asked_at = stored.record.asked_at or stored.recorded_at
                question = stored.record.question
                answers.append(
                    CitingAnswer(answer_id=answer_id, question=question, asked_at=asked_at)
                )
        return sorted(answers, key=lambda one: (one.asked_at, one.answer_id), reverse=True)

    def count(self, result: list[CitingAnswer]) -> int:
        """Return the number of answers."""
        return len(result)


class GiveFeedback(Operation[None], frozen=True):
    """Store whether an answer is right, wrong, or lacks something; a later verdict replaces the former."""

    NAME: ClassVar[str] = "feedback"

    answer_id: str
    """Id of the answer."""
    verdict: Verdict
    """`right`, `wrong` or `missing`."""
    note: Annotated[str, Meta(max_length=_MOST_NOTE)] = ""
    """What is wrong or missing."""
    reader: str = ""
    """Digest of the reader."""
    access: Access = Access.public()
    """Rights to read with."""

    def check(self) -> None:
        """Raise `BadInput` for values that can be refused before anything starts."""
        if self.verdict not in get_args(Verdict):
            raise BadInput(
                f"there is no verdict {self.verdict!r}", hint="use right, wrong or missing"
            )
        check_text("the note", self.note)

    async def run(self, session: Session) -> None:
        """Store it.

        Raises:
            BadInput: There is no such verdict, or the note cannot be stored.
            NotFound: There is no such answer, or the reader may not see it.
        """
        self.check()
        await load_trace(session, self.answer_id, self.access)
        given = Feedback(
            answer_id=self.answer_id, reader=self.reader, verdict=self.verdict, note=self.note
        )
        await (await session.store()).put_feedback(given)


class ExportCases(Operation[list[dict[str, Any]]], frozen=True):
    """Export what readers said of answers as cases of an evaluation; for the owner of the database."""

    NAME: ClassVar[str] = "export cases"

    collection: str | None = None
    """The only collection; all when null."""

    async def run(self, session: Session) -> list[dict[str, Any]]:
        """Return a case for each verdict, by id.

        A case has the fields of a query of `whence eval gate`, then the answer, its collection and the version
        of that. The documents that a right answer cites are what its question should find; what others should
        find nobody has said.

        Raises:
            NotFound: There is no such collection, and no case of a removed one.
        """
        store = await session.store()
        cases = []
        for one in await store.feedback():
            stored = await store.trace(one.answer_id)
            if stored is None:
                continue
            if self.collection and self.collection not in split_collections(
                stored.record.collection
            ):
                continue
            record = stored.record
            citations = record.answer.citations if record.answer else ()
            right = [c.document_id for c in citations] if one.verdict == "right" else []
            cases.append(
                {
                    "id": f"{one.answer_id}-{one.reader[:8] or 'reader'}",
                    "query": record.question,
                    "intent": "natural_language",
                    "expected_targets": [{"hint": name} for name in dict.fromkeys(right)],
                    "negative_targets": [],
                    "verdict": one.verdict,
                    "note": one.note,
                    "answer_id": one.answer_id,
                    "collection": record.collection,
                    "collection_version": record.collection_version,
                    "asked_at": record.asked_at or stored.recorded_at,
                    "given_at": one.given_at,
                }
            )
        if self.collection and not cases:
            await check_collection_exists(store, self.collection)
        return sorted(cases, key=_case_id)

    def count(self, result: list[dict[str, Any]]) -> int:
        """Return the number of cases."""
        return len(result)


def _case_id(case: dict[str, Any]) -> str:
    return str(case["id"])

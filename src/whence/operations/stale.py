"""The documents on which the answers of the last days stand, with their age."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec
from msgspec import Meta

from whence.flow.setting_values import parse_duration
from whence.operations.changes import parse_moment
from whence.operations.documents import check_collection_exists
from whence.operations.operation import Offered, Operation
from whence.operations.source_roots import is_changed
from whence.operations.trace_access import wait_for_traces
from whence.schema.access import Access
from whence.schema.errors import BadInput, WhenceError

if TYPE_CHECKING:
    from whence.operations.session import Session
    from whence.store.protocols import Store
    from whence.store.trace_body import AnswerSources


class StaleDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document that answers stand on."""

    document_id: str
    root: str
    """Folder or uploads that it came from; empty when unknown."""
    document_date: str | None
    """Its own date, ISO 8601."""
    indexed_at: str | None
    """When its text was stored, ISO 8601 in UTC."""
    changed: bool | None
    """Whether its file is another one now; null when that cannot be known."""
    answers: int
    """Number of answers that cite it."""
    last_asked: str
    """When the last of them was asked, ISO 8601 in UTC."""


class ListStale(Operation[list[StaleDocument]], frozen=True):
    """List the documents on which most answers of the last days stand, with their age."""

    NAME: ClassVar[str] = "stale"

    access: Access = Access.public()
    """Rights to read with."""
    collection: str = "default"
    """Collection to read."""
    since: Annotated[str, Offered(metavar="AGE|DATE")] = "30d"
    """Answers since then count: an age such as `30d` or `12h`, or a date or time in ISO 8601."""
    limit: Annotated[int, Meta(ge=1)] = 20
    """Maximum number of documents."""

    async def run(self, session: Session) -> list[StaleDocument]:
        """Return the documents that the reader may see, by number of answers, then the oldest first.

        Answers count that the reader may see: those to questions within the reader's rights of which no passage
        is hidden now. Cost: linear in the traces of that time.

        Raises:
            BadInput: `since` is neither an age nor a date.
            NotFound: There is no such collection.
        """
        since = _moment(self.since)
        await wait_for_traces(session)
        store = await session.store()
        answers = await store.answer_sources(self.collection, self.access, since)
        answers = await _without_hidden(store, answers, self.access)
        asked: dict[str, list[str]] = {}
        for answer in answers:
            for name in answer.of(self.collection).cited:
                asked.setdefault(name, []).append(answer.asked_at)
        if not asked:
            await check_collection_exists(store, self.collection)
        known = await store.describe_documents(self.collection, sorted(asked), self.access)
        roots = await store.source_roots(self.collection)
        found = [
            StaleDocument(
                document_id=name,
                root=one.root,
                document_date=one.document_date,
                indexed_at=one.indexed_at,
                changed=await asyncio.to_thread(is_changed, roots, one),
                answers=len(asked[name]),
                last_asked=max(asked[name]),
            )
            for name, one in known.items()
        ]
        return sorted(found, key=_order)[: self.limit]

    def count(self, result: list[StaleDocument]) -> int:
        """Return the number of documents."""
        return len(result)


def _order(one: StaleDocument) -> tuple[int, str, str]:
    return -one.answers, one.document_date or one.indexed_at or "", one.document_id


def _moment(text: str) -> datetime:
    try:
        if text[-1:] in {"h", "d", "w"}:
            return datetime.now(UTC) - parse_duration("since", text)
        return parse_moment(text)
    except WhenceError:
        raise BadInput(
            f"{text!r} is neither an age nor a date", hint="write 30d, 12h, 4w or 2026-11-23"
        ) from None


async def _without_hidden(
    store: Store, answers: list[AnswerSources], access: Access
) -> list[AnswerSources]:
    """Return the answers whose traces name no document that is hidden from the reader now."""
    shown = list(answers)
    for name in {part.collection for one in answers for part in one.each()}:
        parts = [part for one in shown for part in one.each() if part.collection == name]
        named = sorted(frozenset().union(*(one.named | one.cited for one in parts)))
        states = await store.document_states(name, named) if named else {}
        hidden = {one for one, state in states.items() if not access.allows(state.tags)}
        gone = {one.answer_id for one in parts if hidden & (one.named | one.cited)}
        shown = [one for one in shown if one.answer_id not in gone]
    return shown

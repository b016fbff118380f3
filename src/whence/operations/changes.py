"""The change log of a collection, for readers; and moments as people write them."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING

import msgspec

from whence.schema.errors import BadInput, NotFound
from whence.store.change_log import ChangeKind

if TYPE_CHECKING:
    from whence.operations.session import Session
    from whence.schema.access import Access


class LoggedChange(msgspec.Struct, frozen=True, kw_only=True):
    """One document that came, changed or went."""

    changed_at: str
    """ISO 8601 in UTC."""
    kind: ChangeKind
    document_id: str | None
    """None for `erased`, which leaves no name, and for `settings`, which are the collection's."""


async def list_changes(
    session: Session, collection: str, access: Access, *, since: str | None = None
) -> list[LoggedChange]:
    """Return the log of the documents that the reader may see today, oldest first."""
    after = None if since is None else parse_moment(since)
    store = await session.store()
    if await store.collection_model(collection) is None:
        raise NotFound(
            f"there is no collection {collection!r}",
            hint="`whence collections` lists what there is",
        )
    return [
        LoggedChange(changed_at=one.changed_at, kind=one.kind, document_id=one.document_id or None)
        for one in await store.changes(collection, access)
        if after is None or datetime.fromisoformat(one.changed_at) >= after
    ]


def parse_moment(text: str, *, end_of_day: bool = False) -> datetime:
    """Return the moment that a date or time in ISO 8601 names, in UTC where no zone is given.

    A date is its first moment, or with `end_of_day` its last.

    Raises:
        BadInput: It is neither.
    """
    try:
        moment = datetime.fromisoformat(text)
        if len(text) <= len("2026-11-23"):
            day = date.fromisoformat(text)
            moment = datetime.combine(day, time.max if end_of_day else time.min)
    except ValueError:
        raise BadInput(
            f"{text!r} is no date or time",
            hint="write 2026-11-23, 2026-11-23T14:00 (UTC) or 2026-11-23T14:00+01:00",
        ) from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment

"""`Engine.owner`: operations of the owner of the database, who may see every document; no server has them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from whence.engine.access_report import (
    AccessExplanation,
    AccessPreview,
    TagChange,
    explain_access,
    preview_access,
)
from whence.engine.audit import Operation, audit_calls
from whence.engine.erasure import (
    Erasure,
    ErasurePreview,
    ask_again,
    broker_hint,
    erase_documents,
    preview_erasure,
    with_remaining_copies,
)
from whence.engine.source_roots import ids_below
from whence.engine.trace_access import check_integrity, wait_for_traces
from whence.retrieval.pipeline import check_text
from whence.schema.errors import BadInput, NotFound
from whence.schema.integrity import Integrity
from whence.store.protocols import Expunged, SupportsRetention

if TYPE_CHECKING:
    from whence.engine.indexing import Progress
    from whence.engine.session import EngineSession
    from whence.schema.access import Access

_AUDITED = {
    "explain_access": Operation("access explain"),
    "preview_access": Operation("access preview", lambda found: len(found.documents)),
    "erase": Operation("erase", lambda done: sum(one.before.documents for one in done)),
    "verify": Operation("verify", lambda report: report.traces),
    "prune_traces": Operation("traces prune", lambda done: done.removed),
}


class PrunedTraces(msgspec.Struct, frozen=True, kw_only=True):
    """What became of old traces."""

    before: str
    """Traces recorded before this time, ISO 8601 in UTC, are old."""
    removed: int
    """Number of traces that were removed; with `dry_run` of all that are old."""
    faulty: int
    """Number of old traces that were kept because they are not as they were recorded."""
    changes: int
    """Number of entries of change logs that were removed, or would be; no trace or version needs them."""
    dry_run: bool
    physical: Expunged | None
    """What was done about the bytes in files; None when nothing was removed."""


class OwnerOperations:
    """Erase documents, explain who sees them, verify and prune traces; in use while the engine is open."""

    def __init__(self, session: EngineSession) -> None:
        self._session = session
        audit_calls(self, _AUDITED, session.audit_log)

    async def erase(
        self,
        document_ids: Sequence[str],
        *,
        collection: str = "default",
        reask: bool = False,
        progress: Progress | None = None,
    ) -> list[Erasure]:
        """Erase documents: chunks, vectors and postings, their words in traces, and bytes in files.

        Traces keep a tombstone with the id of each chunk and the time of the erasure. The tables of an embedded
        database are rewritten once for all documents: cost linear in the size of the home.

        Args:
            document_ids: At least one.
            collection: Their collection.
            reask: Whether questions whose answers were erased are asked again, with their rights; each new
                answer names the former one.
            progress: Called with the number of steps done and their total (None until counted).

        Raises:
            NotFound: One does not exist, and no trace contains words of it; then none is erased.
            Unavailable: Other processes use the database for too long; what is erased stays so.
        """
        names = _document_ids(document_ids)
        await wait_for_traces(self._session)
        done = await erase_documents(
            await self._session.store(),
            collection,
            names,
            trace_dir=self._session.settings.trace_dir,
            progress=progress,
        )
        hint = broker_hint(self._session.settings.broker)
        if hint:
            done = [
                msgspec.structs.replace(one, physical=with_remaining_copies(one.physical, hint))
                for one in done
            ]
        if not reask:
            return done
        asked = tuple(await ask_again(self._session, done))
        return [msgspec.structs.replace(one, asked_again=asked) for one in done]

    async def preview_erasure(
        self, document_ids: Sequence[str], *, collection: str = "default"
    ) -> list[ErasurePreview]:
        """Return what erasing documents would remove, and the answers that would change.

        Raises:
            NotFound: As for `erase`.
        """
        names = _document_ids(document_ids)
        return await preview_erasure(await self._session.store(), collection, names)

    async def verify(self, answer_id: str | None = None) -> Integrity:
        """Return whether a trace, or every trace, is as Whence stored it, and none is missing.

        Cost: linear in the triples of what is checked.

        Raises:
            NotFound: There is no such answer, and there was none.
        """
        if answer_id is not None:
            check_text("the answer's id", answer_id)
        return await check_integrity(await self._session.store(), answer_id)

    async def explain_access(
        self, document_id: str, reader: Access, *, collection: str = "default"
    ) -> AccessExplanation:
        """Return by which rules a reader sees a document or does not.

        Raises:
            NotFound: There is no such document.
        """
        (name,) = _document_ids([document_id])
        return await explain_access(await self._session.store(), collection, name, reader)

    async def documents_below(self, folder: str, *, collection: str = "default") -> list[str]:
        """Return the sorted ids of the documents of a folder: an indexed path, or the beginning of ids.

        Raises:
            NotFound: There are none.
        """
        ids = await (await self._session.store()).document_ids(collection)
        found = ids_below(self._session.settings, collection, folder, ids)
        if not found:
            raise NotFound(
                f"there is no document of the folder {folder!r} in collection {collection!r}",
                hint="name a folder that was indexed, or the beginning of document ids",
            )
        return found

    async def preview_access(
        self, document_ids: Sequence[str], change: TagChange, *, collection: str = "default"
    ) -> AccessPreview:
        """Return what other tags of documents would change, for which readers. Nothing is changed.

        Raises:
            NotFound: A document does not exist.
        """
        return await preview_access(self._session, collection, _document_ids(document_ids), change)

    async def prune_traces(
        self, older_than: timedelta, *, dry_run: bool = False, progress: Progress | None = None
    ) -> PrunedTraces:
        """Remove traces older than a time, and what they left in files; the chain keeps an entry of each.

        Cost: linear in the size of the home, as for `erase`.

        Args:
            older_than: Age by the time of recording.
            dry_run: Whether traces are only counted.
            progress: As for `erase`.

        Raises:
            BadInput: The store cannot remove traces.
        """
        store = await self._session.store()
        if not isinstance(store, SupportsRetention):
            raise BadInput("this store keeps all traces", hint="erase documents instead")
        before = datetime.now(UTC) - older_than
        done = await store.remove_traces(before, dry_run=dry_run)
        finished = dry_run or (await store.is_expunged() and not (done.removed or done.changes))
        return PrunedTraces(
            before=before.isoformat(),
            removed=done.removed,
            faulty=done.faulty,
            changes=done.changes,
            dry_run=dry_run,
            physical=None if finished else await store.expunge((), progress=progress),
        )


def _document_ids(given: Sequence[str]) -> list[str]:
    """Return each id once."""
    if not given:
        raise BadInput("no document is given", hint="name at least one")
    for one in given:
        check_text("the document's id", one)
    return list(dict.fromkeys(given))

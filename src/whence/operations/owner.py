"""Operations of the owner of the database, who may see every document; no server has them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec

from whence.operations.access_report import (
    AccessExplanation,
    AccessPreview,
    explain_access,
    preview_access,
)
from whence.operations.documents import find_named
from whence.operations.erasure import (
    Erasure,
    ErasurePreview,
    ask_again,
    broker_hint,
    erase_documents,
    preview_erasure,
    with_remaining_copies,
)
from whence.operations.index import Progress
from whence.operations.operation import PYTHON, Offered, Operation
from whence.operations.source_roots import documents_below
from whence.operations.trace_access import check_integrity, wait_for_traces
from whence.retrieval.pipeline import check_text
from whence.schema.access import Access, TagChange
from whence.schema.errors import BadInput, NotFound
from whence.schema.integrity import Integrity
from whence.store.protocols import Expunged, SupportsRetention

if TYPE_CHECKING:
    from whence.operations.session import Session

_PROGRESS = Offered(on=frozenset({PYTHON}), local=True)


def _age(given: str) -> timedelta:
    from whence.flow.setting_values import parse_duration

    return parse_duration("--older-than", given)


class Erase(Operation[list[Erasure]], frozen=True):
    """Erase documents: chunks, vectors and postings, their words in traces, and bytes in files.

    Traces keep a tombstone with the id of each chunk and the time of the erasure. The tables of an embedded
    database are rewritten once for all documents: cost linear in the size of the home.
    """

    NAME: ClassVar[str] = "erase"

    document_ids: Annotated[Sequence[str], Offered(metavar="DOCUMENT...")]
    """Ids of the documents, at least one."""
    collection: str = "default"
    """Their collection."""
    reask: bool = False
    """Ask the questions again whose answers were erased, with their rights; each new answer names the former
    one."""
    progress: Annotated[Progress | None, _PROGRESS] = None
    """Called with the number of steps done and their total (None until counted)."""

    async def run(self, session: Session) -> list[Erasure]:
        """Return what was erased.

        Raises:
            NotFound: One does not exist, and no trace contains words of it; then none is erased.
            Unavailable: Other processes use the database for too long; what is erased stays so.
        """
        names = await _document_ids(session, self.collection, self.document_ids)
        await wait_for_traces(session)
        done = await erase_documents(
            await session.store(),
            self.collection,
            names,
            trace_dir=session.settings.trace_dir,
            progress=self.progress,
        )
        hint = broker_hint(session.settings.broker)
        if hint:
            done = [
                msgspec.structs.replace(one, physical=with_remaining_copies(one.physical, hint))
                for one in done
            ]
        if not self.reask:
            return done
        asked = tuple(await ask_again(session, done))
        return [msgspec.structs.replace(one, asked_again=asked) for one in done]

    def count(self, result: list[Erasure]) -> int:
        """Return the number of documents that were there."""
        return sum(one.before.documents for one in result)


class PreviewErasure(Operation[list[ErasurePreview]], frozen=True):
    """List what erasing documents would remove, and the answers that would change; change nothing."""

    NAME: ClassVar[str] = "erase preview"
    audited: ClassVar[bool] = False

    document_ids: Sequence[str]
    """Ids of documents, at least one."""
    collection: str = "default"
    """Their collection."""

    async def run(self, session: Session) -> list[ErasurePreview]:
        """Return the preview of each.

        Raises:
            NotFound: As for `Erase`.
        """
        names = await _document_ids(session, self.collection, self.document_ids)
        return await preview_erasure(await session.store(), self.collection, names)


class Verify(Operation[Integrity], frozen=True):
    """Check whether a trace, or every trace, is as Whence stored it, and none is missing.

    Cost: linear in the triples of what is checked.
    """

    NAME: ClassVar[str] = "verify"

    answer_id: Annotated[str | None, Offered(argument=True)] = None
    """Id of an answer; every trace when left out."""

    async def run(self, session: Session) -> Integrity:
        """Return the faults.

        Raises:
            NotFound: There is no such answer, and there was none.
        """
        if self.answer_id is not None:
            check_text("the answer's id", self.answer_id)
        return await check_integrity(await session.store(), self.answer_id)

    def count(self, result: Integrity) -> int:
        """Return the number of traces."""
        return result.traces


class ExplainAccess(Operation[AccessExplanation], frozen=True):
    """Show by which rules a reader sees a document or does not."""

    NAME: ClassVar[str] = "access explain"

    document_id: Annotated[str, Offered(metavar="DOCUMENT")]
    """Id of the document."""
    reader: Access
    """Rights of the reader."""
    collection: str = "default"
    """Its collection."""

    async def run(self, session: Session) -> AccessExplanation:
        """Return the rules.

        Raises:
            NotFound: There is no such document.
        """
        (name,) = await _document_ids(session, self.collection, [self.document_id])
        return await explain_access(await session.store(), self.collection, name, self.reader)


class PreviewAccess(Operation[AccessPreview], frozen=True):
    """Show what other tags of documents would change, for which readers."""

    NAME: ClassVar[str] = "access preview"

    document_ids: Annotated[Sequence[str], Offered(argument=True, metavar="DOCUMENT...")] = ()
    """Ids of documents."""
    change: TagChange = TagChange()
    """The other tags."""
    collection: str = "default"
    """Their collection."""
    folder: Annotated[str, Offered(option="--source", metavar="FOLDER")] = ""
    """All documents of a folder instead: an indexed one, or one of ids."""

    def check(self) -> None:
        """Raise `BadInput` when both documents and a folder are given, or neither."""
        if bool(self.document_ids) == bool(self.folder):
            raise BadInput("name documents or a folder (--source)", hint="give one of the two")

    async def run(self, session: Session) -> AccessPreview:
        """Return the preview. Nothing is changed.

        Raises:
            BadInput: Both documents and a folder are given, or neither.
            NotFound: A document does not exist, or the folder has none.
        """
        self.check()
        given = self.document_ids
        if self.folder:
            given = await ListFolder(self.folder, self.collection).run(session)
        names = await _document_ids(session, self.collection, given)
        return await preview_access(session, self.collection, names, self.change)

    def count(self, result: AccessPreview) -> int:
        """Return the number of documents."""
        return len(result.documents)


class ListFolder(Operation[list[str]], frozen=True):
    """List the ids of the documents of a folder."""

    NAME: ClassVar[str] = "documents below"
    audited: ClassVar[bool] = False

    folder: str
    """An indexed path, or the beginning of ids."""
    collection: str = "default"
    """Their collection."""

    async def run(self, session: Session) -> list[str]:
        """Return the sorted ids.

        Raises:
            NotFound: There are none.
        """
        found = await documents_below(session, self.collection, self.folder)
        if not found:
            raise NotFound(
                f"there is no document of the folder {self.folder!r} in collection {self.collection!r}",
                hint="name a folder that was indexed, or the beginning of document ids",
            )
        return found


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


class PruneTraces(Operation[PrunedTraces], frozen=True):
    """Remove traces older than a time, and what they left in files; the chain keeps an entry of each.

    Cost: linear in the size of the home, as for `Erase`.
    """

    NAME: ClassVar[str] = "traces prune"

    older_than: Annotated[timedelta | None, Offered(metavar="AGE", parse=_age)] = None
    """Age by the time of recording, such as 90d, 12h or 52w; the setting `keep` by default."""
    dry_run: bool = False
    """Count what would be removed; change nothing."""
    progress: Annotated[Progress | None, _PROGRESS] = None
    """As for `Erase`."""

    async def run(self, session: Session) -> PrunedTraces:
        """Return what was removed.

        Raises:
            BadInput: The store cannot remove traces, or no age is given.
        """
        age = self.older_than or session.settings.keep
        if age is None:
            raise BadInput("no age is given", hint="use --older-than 90d, or set WHENCE_KEEP")
        store = await session.store()
        if not isinstance(store, SupportsRetention):
            raise BadInput("this store keeps all traces", hint="erase documents instead")
        before = datetime.now(UTC) - age
        done = await store.remove_traces(before, dry_run=self.dry_run)
        finished = self.dry_run or (
            await store.is_expunged() and not (done.removed or done.changes)
        )
        return PrunedTraces(
            before=before.isoformat(),
            removed=done.removed,
            faulty=done.faulty,
            changes=done.changes,
            dry_run=self.dry_run,
            physical=None if finished else await store.expunge((), progress=self.progress),
        )

    def count(self, result: PrunedTraces) -> int:
        """Return the number of traces."""
        return result.removed


async def _document_ids(session: Session, collection: str, given: Sequence[str]) -> list[str]:
    """Return the id that each name means, once; a name without a document as it is."""
    if not given:
        raise BadInput("no document is given", hint="name at least one")
    for one in given:
        check_text("the document's id", one)
    found = [await find_named(session, collection, one, None) or one for one in given]
    return list(dict.fromkeys(found))

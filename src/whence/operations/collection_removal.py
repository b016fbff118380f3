"""Removal of a whole collection, for the owner of the database: what stands on it, then everything of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec

from whence.operations.erasure import (
    broker_hint,
    erase_documents,
    preview_erasure,
    with_remaining_copies,
)
from whence.operations.index import Progress
from whence.operations.operation import PYTHON, Offered, Operation
from whence.operations.trace_access import wait_for_traces
from whence.retrieval.pipeline import check_text
from whence.schema.errors import NotFound
from whence.store.protocols import Expunged
from whence.store.source_states import SourceRoot

if TYPE_CHECKING:
    from whence.operations.session import Session
    from whence.store.protocols import Store


class CollectionContents(msgspec.Struct, frozen=True, kw_only=True):
    """What a collection has, and what stands on it."""

    collection: str
    documents: int
    chunks: int
    roots: tuple[SourceRoot, ...]
    """Folders that its documents came from."""
    answers: int
    """Stored answers that have words of its documents, which removal erases."""


class CollectionRemoval(CollectionContents, frozen=True, kw_only=True):
    """A removed collection."""

    physical: Expunged
    """What was done about the bytes in files."""


class PreviewCollectionRemoval(Operation[CollectionContents], frozen=True):
    """Show what removing a collection would remove, and the answers that would change."""

    NAME: ClassVar[str] = "remove collection preview"
    audited: ClassVar[bool] = False

    name: str
    """Name of the collection."""

    async def run(self, session: Session) -> CollectionContents:
        """Return the counts. Cost: linear in the traces that name its documents.

        Raises:
            NotFound: There is no such collection.
        """
        await wait_for_traces(session)
        return await _contents(await session.store(), self.name)


class RemoveCollection(Operation[CollectionRemoval], frozen=True):
    """Remove a collection: erase all of its documents, and forget its folders.

    Documents are erased as by `Erase`. What is left is the log of what was erased, which keeps words of them
    out of answers that are under way.
    """

    NAME: ClassVar[str] = "remove collection"

    name: str
    """Name of the collection."""
    progress: Annotated[Progress | None, Offered(on=frozenset({PYTHON}), local=True)] = None
    """As for `Erase`."""

    async def run(self, session: Session) -> CollectionRemoval:
        """Return what was removed; can be repeated after an interruption.

        Raises:
            NotFound: There is no such collection.
            Unavailable: As for `Erase`.
        """
        await wait_for_traces(session)
        store = await session.store()
        contents = await _contents(store, self.name)
        names = await store.document_ids(self.name)
        trace_dir = session.settings.trace_dir
        physical = Expunged(done=True)
        if names:
            done = await erase_documents(
                store, self.name, names, trace_dir=trace_dir, progress=self.progress
            )
            physical = done[0].physical
        await store.forget_sources(self.name)
        if hint := broker_hint(session.settings.broker):
            physical = with_remaining_copies(physical, hint)
        return CollectionRemoval(**msgspec.structs.asdict(contents), physical=physical)

    def count(self, result: CollectionRemoval) -> int:
        """Return the number of documents."""
        return result.documents


async def _contents(store: Store, name: str) -> CollectionContents:
    check_text("the collection's name", name)
    info = next((one for one in await store.collections() if one.name == name), None)
    roots = tuple(await store.source_roots(name))
    if info is None and not roots:
        raise NotFound(
            f"there is no collection {name!r}", hint="`whence collections` lists what there is"
        )
    previews = await preview_erasure(store, name, await store.document_ids(name))
    answers = {answer.answer_id for one in previews for answer in one.answers}
    return CollectionContents(
        collection=name,
        documents=info.documents if info else 0,
        chunks=info.chunks if info else 0,
        roots=roots,
        answers=len(answers),
    )

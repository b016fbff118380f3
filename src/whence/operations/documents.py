"""Operations on stored documents: list, show, remove."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_args

import msgspec
from msgspec import Meta

from whence.operations.operation import PYTHON, Offered, Operation
from whence.operations.source_roots import is_changed
from whence.retrieval.pipeline import check_text
from whence.schema.access import Access
from whence.schema.errors import BadInput, NotFound
from whence.schema.places import DocumentText
from whence.store.protocols import ListedCollection, ListedDocument
from whence.store.source_states import Order, SourceRoot, State
from whence.store.validation import missing_collection

if TYPE_CHECKING:
    from whence.operations.session import Session
    from whence.store.protocols import Store


#: Documents whose names are compared with one that was not found, and names that are suggested.
_MOST_COMPARED = 10_000
_MOST_SUGGESTED = 3
#: Least similarity of a suggested name, 0 to 100.
_LEAST_SIMILAR = 80


class DocumentEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A document, or a file that was not read, in the list of a collection."""

    document_id: str | None
    """Null for a file without a document."""
    root: str
    """Folder or uploads that it came from; empty when unknown."""
    path: str
    """Path of its file, relative to the root."""
    state: State
    reason: str
    """Why its file was not read."""
    title: str
    source_file: str
    source_url: str
    chunks: int
    vectors: int
    """Number of its chunks that have a vector."""
    document_date: str | None
    """Its own date, ISO 8601."""
    indexed_at: str | None
    """When its text was stored, ISO 8601 in UTC."""
    tried_at: str | None
    """When its file was tried last, ISO 8601 in UTC."""
    changed: bool | None
    """Whether its file is another one now; null when that cannot be known."""
    encoding: str
    """Encoding of its file when it was guessed or set."""
    left_out: dict[str, int]
    """What its loader saw and did not take, by kind."""
    line: int | None
    """Line of its file, of a document that is one line, such as a record."""
    key: str
    """What `after` takes for the next page."""


class Show(Operation[DocumentText], frozen=True):
    """Show a document with its text."""

    NAME: ClassVar[str] = "show"

    item: Annotated[str, Offered(metavar="DOCUMENT_OR_CHUNK")]
    """Id of a document or chunk, or path of a document, with or without its root."""
    access: Access = Access.public()
    """Rights to read with."""
    collection: str = "default"
    """Collection to read."""

    async def run(self, session: Session) -> DocumentText:
        """Return the stored text.

        Raises:
            NotFound: There is no such item, or the reader may not see it.
            BadInput: Several documents have that path.
        """
        check_text("the item's id", self.item)
        store = await session.store()
        texts = await store.document_texts(self.collection, [self.item], self.access)
        if self.item in texts:
            return texts[self.item]
        found = await find_named(session, self.collection, self.item, self.access)
        texts = await store.document_texts(self.collection, [found], self.access) if found else {}
        if found not in texts:
            raise NotFound(
                f"there is no document or chunk {self.item!r} in collection {self.collection!r}",
                hint=await _suggestion(store, self.collection, self.item, self.access)
                or "ids are in the results of `whence search --json`; give the access options of its reader",
            )
        return texts[found]


async def find_named(
    session: Session, collection: str, name: str, access: Access | None
) -> str | None:
    """Return the id of the document that a name means and a reader may see, None for the owner.

    A name is an id, `ROOT/PATH`, or a path that one document has.

    Raises:
        BadInput: Several documents have that path.
    """
    found = await (await session.store()).documents_named(collection, name, access)
    if len(found) > 1:
        listed = ", ".join(found[:_MOST_SUGGESTED]) + (
            ", ..." if len(found) > _MOST_SUGGESTED else ""
        )
        raise BadInput(f"{name!r} is the path of several documents", hint=f"name one of {listed}")
    return found[0] if found else None


async def _suggestion(store: Store, collection: str, name: str, access: Access) -> str:
    """Return a hint with the nearest names of documents and unread files that a reader may see."""
    listed = await store.visible_documents(collection, access, limit=_MOST_COMPARED, unread=True)
    known = {one.document_id or one.path: one for one in listed}
    found = await asyncio.to_thread(nearest_names, name, list(known))
    parts = [repr(one) for one in found if known[one].document_id is not None]
    hint = f"did you mean {' or '.join(parts)}?" if parts else ""
    unread = [one for one in map(known.__getitem__, found) if one.document_id is None]
    notes = [f"{one.path} was not read: {one.reason}" for one in unread]
    return "; ".join(filter(None, [hint, *notes]))


def nearest_names(name: str, known: Sequence[str]) -> list[str]:
    """Return the names that resemble one, as whole paths or by their last part, the nearest first.

    Suffixes are not compared: that two files are `.md` says nothing.
    """
    from rapidfuzz import fuzz, process

    def similarity(one: str, other: str, **_: object) -> float:
        pair = PurePosixPath(one), PurePosixPath(other)
        whole = fuzz.ratio(*(str(path.with_suffix("")) if path.name else "" for path in pair))
        return max(whole, fuzz.ratio(pair[0].stem, pair[1].stem))

    found = process.extract(
        name,
        known,
        scorer=similarity,
        processor=str.casefold,
        limit=_MOST_SUGGESTED,
        score_cutoff=_LEAST_SIMILAR,
    )
    return [one for one, _, _ in found]


class ListCollections(Operation[list[ListedCollection]], frozen=True):
    """List visible collections."""

    NAME: ClassVar[str] = "collections"
    audited: ClassVar[bool] = False

    access: Access = Access.public()
    """Rights to read with."""
    names: Annotated[tuple[str, ...], Offered(on=frozenset({PYTHON}))] = ()
    """The only ones to list; all when empty."""

    async def run(self, session: Session) -> list[ListedCollection]:
        """Return the collections with a document that the reader may see.

        A collection that is empty, missing or hidden is left out alike.
        """
        return await (await session.store()).visible_collections(self.access, self.names)


async def check_collection_exists(store: Store, name: str) -> None:
    """Refuse a collection that has neither a model nor folders; one whose documents are hidden exists.

    Raises:
        NotFound: There is no such collection.
    """
    if await store.collection_model(name) is None and not await store.source_roots(name):
        raise missing_collection(name)


class ListDocuments(Operation[list[DocumentEntry]], frozen=True):
    """List the documents of a collection, and the files of its folders that were not read."""

    NAME: ClassVar[str] = "documents"

    access: Access = Access.public()
    """Rights to read with."""
    collection: str = "default"
    """Collection to read."""
    limit: Annotated[int, Meta(ge=1)] = 100
    """Maximum number of documents."""
    after: Annotated[str, Offered(metavar="KEY")] = ""
    """Key of the document before the first one."""
    state: Annotated[State | None, Offered(metavar="STATE")] = None
    """The only state: `read`, `waiting` for vectors, `skipped`, `failed` or `gone`."""
    unread: Annotated[bool, Offered(on=frozenset({PYTHON}))] = True
    """Whether files without a document are among them."""
    order: Annotated[Order, Offered(metavar="key|newest")] = "key"
    """`key` for the order of ids, `newest` for the newest first."""

    async def run(self, session: Session) -> list[DocumentEntry]:
        """Return the first documents that the reader may see, after the one of a key; keys go by code point.

        Raises:
            BadInput: There is no such state or order, or `after` is no key of a list in this order.
            NotFound: There is no such collection.
        """
        if self.order not in get_args(Order):
            raise BadInput(f"there is no order {self.order!r}", hint="use key or newest")
        if self.state not in (None, *get_args(State)):
            raise BadInput(
                f"there is no state {self.state!r}", hint=f"use one of {', '.join(get_args(State))}"
            )
        store = await session.store()
        listed = await store.visible_documents(
            self.collection,
            self.access,
            limit=self.limit,
            after=self.after,
            state=self.state,
            unread=self.unread,
            order=self.order,
        )
        if not listed:
            await check_collection_exists(store, self.collection)
        roots = await store.source_roots(self.collection)
        return await asyncio.to_thread(lambda: [_entry(roots, one, self.order) for one in listed])

    def count(self, result: list[DocumentEntry]) -> int:
        """Return the number of documents."""
        return len(result)


def _entry(roots: Sequence[SourceRoot], one: ListedDocument, order: Order) -> DocumentEntry:
    own: dict[str, Any] = {
        name: getattr(one, name, None) for name in DocumentEntry.__struct_fields__
    }
    changed = None if one.document_id is None else is_changed(roots, one)
    return DocumentEntry(**own | {"changed": changed, "key": one.place(order)})


class Remove(Operation[None], frozen=True):
    """Remove a document from its collection; `erase` also removes its words from traces and files."""

    NAME: ClassVar[str] = "remove"

    document_id: str
    """Id of the document, or its path, with or without its root."""
    access: Access = Access.public()
    """Rights of the one who removes it."""
    collection: str = "default"
    """Its collection."""

    async def run(self, session: Session) -> None:
        """Remove it.

        Raises:
            NotFound: There is no such document, or the caller may not see it.
        """
        store = await session.store()
        found = await find_named(session, self.collection, self.document_id, self.access)
        if found is None:
            raise NotFound(
                f"there is no document {self.document_id!r} in collection {self.collection!r}",
                hint="ids are in the list of the collection's documents",
            )
        await store.remove_documents(self.collection, [found])

"""Operations on stored documents: list, show, remove."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from msgspec import Meta

from whence.operations.operation import PYTHON, Offered, Operation
from whence.retrieval.pipeline import check_text
from whence.schema.access import Access
from whence.schema.errors import NotFound
from whence.schema.places import DocumentText
from whence.store.protocols import ListedCollection, ListedDocument

if TYPE_CHECKING:
    from whence.operations.session import Session


class Show(Operation[DocumentText], frozen=True):
    """Show a document with its text."""

    NAME: ClassVar[str] = "show"

    item: Annotated[str, Offered(metavar="DOCUMENT_OR_CHUNK")]
    """Id of a document or chunk."""
    access: Access = Access.public()
    """Rights to read with."""
    collection: str = "default"
    """Collection to read."""

    async def run(self, session: Session) -> DocumentText:
        """Return the stored text.

        Raises:
            NotFound: There is no such item, or the reader may not see it.
        """
        check_text("the item's id", self.item)
        store = await session.store()
        texts = await store.document_texts(self.collection, [self.item], self.access)
        if self.item not in texts:
            raise NotFound(
                f"there is no document or chunk {self.item!r} in collection {self.collection!r}",
                hint="ids are in the results of `whence search --json`; give the access options of its reader",
            )
        return texts[self.item]


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


class ListDocuments(Operation[list[ListedDocument]], frozen=True):
    """List documents."""

    NAME: ClassVar[str] = "documents"

    access: Access = Access.public()
    """Rights to read with."""
    collection: str = "default"
    """Collection to read."""
    limit: Annotated[int, Meta(ge=1)] = 100
    """Maximum number of documents."""
    after: str = ""
    """Id of the document before the first one."""

    async def run(self, session: Session) -> list[ListedDocument]:
        """Return the first documents that the reader may see, of ids after one, by code point."""
        store = await session.store()
        return await store.visible_documents(
            self.collection, self.access, limit=self.limit, after=self.after
        )

    def count(self, result: list[ListedDocument]) -> int:
        """Return the number of documents."""
        return len(result)


class Remove(Operation[None], frozen=True):
    """Remove a document from its collection; `erase` also removes its words from traces and files."""

    NAME: ClassVar[str] = "remove"

    document_id: str
    """Id of the document."""
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
        known = (await store.document_states(self.collection, [self.document_id])).get(
            self.document_id
        )
        if known is None or not self.access.allows(known.tags):
            raise NotFound(
                f"there is no document {self.document_id!r} in collection {self.collection!r}",
                hint="ids are in the list of the collection's documents",
            )
        await store.remove_documents(self.collection, [self.document_id])

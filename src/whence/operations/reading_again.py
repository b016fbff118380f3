"""Read the file of a stored document again: cut it, embed what changed, keep its rights."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from whence.operations.documents import find_named
from whence.operations.index import Index
from whence.operations.operation import Operation
from whence.operations.results import IndexReport
from whence.operations.source_roots import own_store, source_path
from whence.schema.access import Access
from whence.schema.errors import BadInput, NotFound

if TYPE_CHECKING:
    from whence.operations.session import Session


class ReadAgain(Operation[IndexReport], frozen=True):
    """Read the file of a document again, where it lies on this machine."""

    NAME: ClassVar[str] = "read again"

    document_id: str
    """Id of the document, or its path, with or without its root."""
    access: Access = Access.public()
    """Rights of the one who stores it."""
    collection: str = "default"
    """Its collection."""

    async def run(self, session: Session) -> IndexReport:
        """Return what was stored; the document keeps its tags.

        Raises:
            NotFound: There is no such document, or the caller may not see it.
            BadInput: Its file is not on this machine, as that of an upload, or holds other documents, too, each
                with tags of its own.
        """
        from whence.operations.indexing import index_paths

        found = await find_named(session, self.collection, self.document_id, self.access)
        if found is None:
            raise NotFound(
                f"there is no document {self.document_id!r} in collection {self.collection!r}",
                hint="ids are in the list of the collection's documents",
            )
        store = await own_store(session)
        known = {}
        if store is not None:
            known = await store.describe_documents(self.collection, [found], self.access)
        if store is None or found not in known:
            raise _not_readable(found, "its file is on another machine")
        document = known[found]
        roots = await store.source_roots(self.collection)
        path = source_path(roots, document.root, document.path)
        if path is None:
            raise _not_readable(found, "its file is not here, as that of an upload")
        place = f"{document.root}/{document.path}"
        inside = await store.document_ids(self.collection, prefix=f"{found}/")
        if inside or await store.documents_named(self.collection, place, None) != [found]:
            raise _not_readable(found, "its file holds other documents, too")
        tags = (await store.document_states(self.collection, [found]))[found].tags
        index = Index(
            [path],
            collection=self.collection,
            tags=tags,
            encoding=document.encoding.rstrip("?"),
        )
        return await index_paths(session, index, writer=self.access)

    def count(self, result: IndexReport) -> int:
        """Return the number of documents that were stored."""
        return result.documents.added + result.documents.updated


def _not_readable(document_id: str, why: str) -> BadInput:
    return BadInput(
        f"{document_id!r} cannot be read again: {why}",
        hint="upload it again, or run `whence index` on its folder",
    )

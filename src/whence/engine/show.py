"""The stored text of a document, for a reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence.schema.errors import ConfigError, NotFound
from whence.store.protocols import SupportsDocumentTexts

if TYPE_CHECKING:
    from whence.schema.access import Access
    from whence.schema.places import DocumentText
    from whence.store.protocols import ChunkStore


async def show_document(
    store: ChunkStore, collection: str, item: str, access: Access
) -> DocumentText:
    """Return the text of a document, named by its id or that of one of its chunks.

    Raises:
        NotFound: It does not exist, or the reader may not see it.
        ConfigError: The store keeps no texts of documents.
    """
    if not isinstance(store, SupportsDocumentTexts):
        raise ConfigError(f"a {type(store).__name__} does not return texts of documents")
    found = (await store.document_texts(collection, [item], access)).get(item)
    if found is None:
        raise NotFound(
            f"there is no document or chunk {item!r} in collection {collection!r}",
            hint="ids are in the results of `whence search --json`; give the access options of its reader",
        )
    return found

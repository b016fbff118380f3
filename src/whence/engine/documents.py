"""The operations of an engine on collections and documents: list, show, remove; and on texts: embed, count."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from whence.engine.indexing import index_paths
from whence.engine.results import IndexReport
from whence.retrieval.pipeline import check_text
from whence.schema.access import Access, DocumentTags
from whence.schema.embedding import EmbeddingModel, EmbeddingRequest, EmbeddingResponse, Purpose
from whence.schema.errors import NotFound

if TYPE_CHECKING:
    from whence.engine.session import EngineSession
    from whence.schema.places import DocumentText
    from whence.store.protocols import CollectionInfo, ListedCollection, ListedDocument

_PUBLIC = Access.public()
_NO_TAGS = DocumentTags()


class EngineDocuments:
    """Part of `Engine`."""

    _session: EngineSession

    async def show(
        self, item: str, access: Access = _PUBLIC, *, collection: str = "default"
    ) -> DocumentText:
        """Return the stored text of a document, named by its id or that of one of its chunks.

        Raises:
            NotFound: There is no such item, or the reader may not see it.
        """
        check_text("the item's id", item)
        store = await self._session.store()
        found = (await store.document_texts(collection, [item], access)).get(item)
        if found is None:
            raise NotFound(
                f"there is no document or chunk {item!r} in collection {collection!r}",
                hint="ids are in the results of `whence search --json`; give the access options of its reader",
            )
        return found

    async def collections(self) -> list[CollectionInfo]:
        """Return all collections by name; counts include hidden documents."""
        return await (await self._session.store()).collections()

    async def visible_collections(
        self, access: Access = _PUBLIC, *, names: Sequence[str] = ()
    ) -> list[ListedCollection]:
        """Return the collections, of `names` if there are any, with a document that the reader may see.

        A collection that is empty, missing or hidden is left out alike.
        """
        return await (await self._session.store()).visible_collections(access, names)

    async def documents(
        self,
        access: Access = _PUBLIC,
        *,
        collection: str = "default",
        limit: int = 100,
        after: str = "",
    ) -> list[ListedDocument]:
        """Return the first `limit` documents that the reader may see, of ids after one, by code point."""
        store = await self._session.store()
        return await store.visible_documents(collection, access, limit=limit, after=after)

    async def index_for(
        self,
        writer: Access | None,
        folder: Path,
        *,
        collection: str = "default",
        tags: DocumentTags = _NO_TAGS,
    ) -> IndexReport:
        """Index the files of a folder that is not kept, for somebody who stores them.

        Args:
            writer: Rights of who stores them: documents that these do not see are neither stored nor replaced,
                and fail; None for the owner's.
            folder: The folder; ids of documents are paths relative to it.
            collection: Name of the collection; created when missing.
            tags: Rights that readers need, in addition to each document's own.
        """
        how: dict[str, Any] = {"prune": False, "boosts": None, "token_vectors": None}
        report = await index_paths(
            self._session,
            [folder],
            collection,
            tags,
            progress=None,
            writer=writer,
            remember=False,
            **how,
        )
        report.failures = [
            replace(one, path=one.path.removeprefix(f"{folder}/")) for one in report.failures
        ]
        return report

    async def embedding_model(self) -> EmbeddingModel:
        """Return the model of `embed`."""
        model: EmbeddingModel = (await self._session.resources.get("embedder")).model
        return model

    async def embed(self, texts: Sequence[str], purpose: Purpose = "document") -> EmbeddingResponse:
        """Return one unit vector for each text; a long text is read up to the model's limit."""
        request = EmbeddingRequest(texts=tuple(texts), purpose=purpose)
        return await self._session.client.call("embedding", request, EmbeddingResponse)

    async def count_tokens(self, texts: Sequence[str]) -> tuple[list[int] | None, int]:
        """Return the tokens of each text, and how many the embedding model reads of one.

        The counts are those of the embedding model's tokenizer; None where only an estimate is known.
        """
        embedder = await self._session.resources.get("embedder")
        if getattr(embedder, "estimates_tokens", False):
            return None, embedder.max_tokens
        counts = await asyncio.to_thread(embedder.count_tokens, list(texts))
        return counts, embedder.max_tokens

    async def remove(
        self, document_id: str, access: Access = _PUBLIC, *, collection: str = "default"
    ) -> None:
        """Remove a document from its collection; `erase` also removes its words from traces and files.

        Raises:
            NotFound: There is no such document, or the reader may not see it.
        """
        store = await self._session.store()
        states = await store.document_states(collection, [document_id])
        known = states.get(document_id)
        if known is None or not access.allows(known.tags):
            raise NotFound(
                f"there is no document {document_id!r} in collection {collection!r}",
                hint="ids are in the list of the collection's documents",
            )
        await store.remove_documents(collection, [document_id])

r"""A collection in memory for tests of code that searches: put texts in, take a `Retriever` out.

```python
collection = MemoryCollection()
collection.ingest("doc1.md", "# Python\nPython is a programming language.")
retriever = collection.retriever()
```
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.store_adapters import StoredVectors, StoredWords

from whence.ingest.chunking import Chunker
from whence.ingest.documents import load_documents
from whence.ingest.load_results import LoadedDocument
from whence.models.protocols import Embedder
from whence.schema.access import Access, DocumentTags
from whence.store.memory.store import MemoryStore
from whence.store.protocols import EmbeddedDocument
from whence.surfaces.python.loop_thread import LoopThread
from whence.surfaces.python.retriever import Retriever
from whence.testing.stub_models import HashEmbedder

_NAME = "memory"


class MemoryCollection:
    """Documents in memory, read and cut as `index` does.

    Args:
        embedder: Makes the vectors; by default one without weights that counts words.
    """

    def __init__(self, embedder: Embedder | None = None) -> None:
        self.embedder: Embedder = embedder or HashEmbedder()
        self.store = MemoryStore()
        self.vectors = StoredVectors(self.store, _NAME)
        """The vector store."""
        self.words = StoredWords(self.store, _NAME)
        """The sparse retriever."""
        self._thread: LoopThread[None] = LoopThread(_nothing, "whence-memory-collection")

    def ingest(
        self,
        name: str,
        text: str,
        *,
        tags: DocumentTags | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Put a document in, or in the place of its former self.

        Args:
            name: Its id and file name; the ending says how it is read (`.md`, `.txt`, ...).
            text: Its text.
            tags: Rights that readers need.
            metadata: Further metadata.

        Raises:
            ValueError: It cannot be read, or holds no text.
        """
        self.ingest_all({name: text}, tags=tags, metadata=metadata)

    def ingest_all(
        self,
        documents: Mapping[str, str],
        *,
        tags: DocumentTags | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Put texts in by name, all with the same rights and metadata, as `ingest` does."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in documents.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            chunker = Chunker(self.embedder.count_tokens, max_tokens=self.embedder.max_tokens)
            loaded = list(load_documents([folder], chunker=chunker, tags=tags or DocumentTags()))
        drafts = [one.draft for one in loaded if isinstance(one, LoadedDocument)]
        if len(drafts) < len(documents):
            raise ValueError(f"not all of {list(documents)} can be read: {loaded}")
        self._thread.run(lambda _: self._store(drafts, dict(metadata or {})))

    def retriever(self, *, hybrid: bool = True, access: Access | None = None) -> Retriever:
        """Return a retriever of this collection.

        Args:
            hybrid: False for the vector store alone.
            access: Rights of the reader; public documents only when None.
        """
        return Retriever(
            self.embedder,
            self.vectors,
            sparse=self.words if hybrid else None,
            access=access or Access.public(),
        )

    async def _store(self, drafts: list[Any], metadata: dict[str, Any]) -> None:
        import msgspec

        await self.store.ensure_collection(_NAME, self.embedder.model)
        documents = []
        for draft in drafts:
            kept = msgspec.structs.replace(draft, metadata={**draft.metadata, **metadata})
            # Contents alone: an embedder that counts words would count those of a heading twice.
            texts = [chunk.content for chunk in kept.chunks]
            vectors = await self.embedder.embed(texts, "document")
            documents.append(EmbeddedDocument(draft=kept, vectors=vectors))
        await self.store.replace_documents(_NAME, documents)


@asynccontextmanager
async def _nothing() -> AsyncIterator[None]:
    yield None

"""A collection of Qdrant as the target of a validation, searched with vectors of the configured model."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from whence.evaluation.searcher import Passage, SearchOutcome, make_passage, text_of
from whence.evaluation.validation.target import PassageSource, TargetInfo
from whence.schema.access import Access
from whence.schema.errors import ModelMismatch

if TYPE_CHECKING:
    from whence.models.protocols import Embedder
    from whence.store.qdrant import QdrantChunk, QdrantCollection

#: Chunks among which sections are chosen, and most chunks of one page.
_SAMPLE, _PAGE = 1000, 2000


class QdrantTarget:
    """A collection and the model that embeds queries for it."""

    def __init__(self, collection: QdrantCollection, embedder: Embedder) -> None:
        self._collection = collection
        self._embedder = embedder
        self._pages: dict[str, str] = {}

    async def describe(self) -> TargetInfo:
        """Return a description of the collection."""
        dimension, model = await self._collection.dimension(), self._embedder.model
        # An unknown model tells its dimension with its first answer.
        if model.dimension not in (0, dimension):
            raise ModelMismatch(
                f"{model.name} makes vectors of {model.dimension} numbers, those of collection"
                f" {self._collection.name!r} have {dimension}",
                hint="set WHENCE_EMBEDDER to the model that the collection was made with",
            )
        return TargetInfo(
            store=f"qdrant ({self._collection.shown})",
            collection=self._collection.name,
            model=model.name,
            dimension=dimension,
        )

    async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
        """Find the best passages by their vectors, in any mode."""
        started = time.perf_counter()
        vectors = await self._embedder.embed([query], "query")
        embedded = time.perf_counter()
        found = await self._collection.search(vectors[0], limit=limit, access=Access.public())
        return SearchOutcome(
            passages=[_passage(chunk) for chunk in found],
            embedding_ms=(embedded - started) * 1e3,
            search_ms=(time.perf_counter() - embedded) * 1e3,
        )

    async def document(self, passage: Passage) -> PassageSource:
        """Return the texts of all chunks with the same address, read once for each."""
        address = passage.source_url
        if not address:
            return PassageSource(text=passage.text)
        if address not in self._pages:
            chunks = await self._collection.chunks(_PAGE, source_url=address)
            chunks.sort(key=lambda chunk: _passage(chunk).chunk_index or 0)
            self._pages[address] = "\n".join(_text_with_title(chunk) for chunk in chunks)
        return PassageSource(text=self._pages[address])

    async def sections(self, limit: int) -> list[Passage]:
        """Return chunks of different pages, then further ones of the same, out of the first thousand."""
        chunks = await self._collection.chunks(_SAMPLE)
        chunks.sort(key=lambda chunk: hashlib.sha256(chunk.id.encode()).digest())
        seen: Counter[str] = Counter()
        turns = []
        for chunk in chunks:
            turns.append(seen[chunk.document_id])
            seen[chunk.document_id] += 1
        order = sorted(range(len(chunks)), key=turns.__getitem__)
        return [_passage(chunks[place]) for place in order[:limit]]

    async def folders(self) -> list[Path]:
        """Return none: the store was filled by another program."""
        return []

    async def contains(self, document_ids: Sequence[str]) -> bool:
        """Return False: Whence does not write to Qdrant."""
        return False


def _text_with_title(chunk: QdrantChunk) -> str:
    """Return the text of a chunk, and the title of its page, which pipelines often keep beside it."""
    title = text_of(chunk.metadata, "title") or text_of(chunk.metadata, "page_title") or ""
    return f"{title}\n{chunk.content}"


def _passage(chunk: QdrantChunk) -> Passage:
    return make_passage(
        chunk.metadata,
        id=chunk.id,
        document_id=chunk.document_id or chunk.id,
        score=min(1.0, max(0.0, chunk.score)),
        text=chunk.content,
    )

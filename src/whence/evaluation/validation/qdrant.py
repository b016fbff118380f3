"""A collection of Qdrant as a target of validation, searched with vectors of the configured model."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from whence.evaluation.validation.target import (
    Passage,
    PassageSource,
    RetrievedPassages,
    Section,
    TargetInfo,
)
from whence.schema.access import Access
from whence.schema.errors import ModelMismatch

if TYPE_CHECKING:
    from whence.models.protocols import Embedder
    from whence.store.qdrant import QdrantChunk, QdrantCollection

#: Chunks among which sections are chosen, and most chunks of one page.
_SAMPLE, _PAGE = 1000, 2000


class QdrantTarget:
    """A collection and the model that embeds queries for it."""

    def __init__(
        self,
        collection: QdrantCollection,
        embedder: Embedder,
    ) -> None:
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

    async def search(self, query: str, *, limit: int) -> RetrievedPassages:
        """Find the best passages, without a threshold."""
        started = time.perf_counter()
        vectors = await self._embedder.embed([query], "query")
        embedded = time.perf_counter()
        found = await self._collection.search(vectors[0], limit=limit, access=Access.public())
        return RetrievedPassages(
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
            chunks.sort(key=lambda chunk: _integer(chunk, "chunk_index") or 0)
            self._pages[address] = "\n".join(_text_with_title(chunk) for chunk in chunks)
        return PassageSource(text=self._pages[address])

    async def sections(self, limit: int) -> list[Section]:
        """Return chunks of different pages, then further ones of the same, out of the first thousand."""
        chunks = await self._collection.chunks(_SAMPLE)
        chunks.sort(key=lambda chunk: hashlib.sha256(chunk.id.encode()).digest())
        seen: dict[str, int] = {}
        ranked = []
        for number, chunk in enumerate(chunks):
            turn = seen[chunk.document_id] = seen.get(chunk.document_id, -1) + 1
            ranked.append((turn, number, chunk))
        ranked.sort(key=lambda one: one[:2])
        return [_section(chunk) for _, _, chunk in ranked[:limit]]

    async def contains(self, document_ids: Sequence[str]) -> bool:
        """Return False: Whence does not write to Qdrant."""
        return False


def _text(chunk: QdrantChunk, key: str) -> str | None:
    value = chunk.metadata.get(key)
    return value if isinstance(value, str) else None


def _integer(chunk: QdrantChunk, key: str) -> int | None:
    value = chunk.metadata.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text_with_title(chunk: QdrantChunk) -> str:
    """Return the text of a chunk, and the title of its page, which pipelines often keep beside it."""
    title = _text(chunk, "title") or _text(chunk, "page_title") or ""
    return f"{title}\n{chunk.content}"


def _passage(chunk: QdrantChunk) -> Passage:
    return Passage(
        id=chunk.id,
        score=min(1.0, max(0.0, chunk.score)),
        text=chunk.content,
        source_url=_text(chunk, "source_url"),
        section_path=_text(chunk, "section_path"),
        heading=_text(chunk, "heading"),
        chunk_index=_integer(chunk, "chunk_index"),
        document_id=chunk.document_id or chunk.id,
        title=_text(chunk, "title") or "",
    )


def _section(chunk: QdrantChunk) -> Section:
    return Section(
        heading=_text(chunk, "heading") or "",
        section_path=_text(chunk, "section_path") or "",
        text=chunk.content,
        source_url=_text(chunk, "source_url") or "",
    )

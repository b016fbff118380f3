"""Adapters for `whence.evaluation`: a collection as a validation target, and as a searcher for suites."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from whence.engine.search import SearchQuery
from whence.evaluation.searcher import Hit, SearchOutcome
from whence.evaluation.validation.target import (
    Passage,
    RetrievedPassages,
    Section,
    StoredDocument,
    TargetInfo,
)
from whence.schema.errors import NotFound
from whence.store.chunk_ids import chunk_key

if TYPE_CHECKING:
    from whence.engine.engine import Engine
    from whence.retrieval.results import RetrievalResult
    from whence.schema.access import Access
    from whence.schema.texts import ChunkText
    from whence.store.protocols import Store

#: Chunks before a passage in which its heading is searched.
_PAGE_CHUNKS = 1000
_BATCH_SIZE = 100


class EngineTarget:
    """A collection behind an engine."""

    def __init__(
        self,
        engine: Engine,
        store: Store,
        *,
        collection: str,
        access: Access,
        mode: str,
        where: str,
    ) -> None:
        self._engine = engine
        self._store = store
        self._collection = collection
        self._access = access
        self._mode = mode
        self._where = where

    async def describe(self) -> TargetInfo:
        """Describe the collection."""
        info = await self._store.collection(self._collection)
        if info is None:
            raise NotFound(
                f"there is no collection {self._collection!r}",
                hint="index something into it first; `whence collections` lists all collections",
            )
        return TargetInfo(
            store=self._where,
            collection=self._collection,
            model=info.model.name,
            dimension=info.model.dimension,
        )

    async def search(self, query: str, *, limit: int) -> RetrievedPassages:
        """Return the best passages, without a threshold."""
        report = await self._engine.search_report(
            SearchQuery(
                query=query,
                top_k=limit,
                threshold=0.0,
                mode=self._mode,
                access=self._access,
                collection=self._collection,
            )
        )
        times = report.latency_ms
        return RetrievedPassages(
            passages=[_passage(result) for result in report.results],
            embedding_ms=times["embedding"],
            search_ms=times["search"] + times["texts"],
            degraded=tuple(fault.reason for fault in report.degraded),
            embedded=all(fault.stage != "embedding" for fault in report.degraded),
        )

    async def document(self, passage: Passage) -> StoredDocument:
        """Return the text of the document up to a passage."""
        last = passage.chunk_index or 0
        ids = [
            chunk_key(self._collection, passage.document_id, index)
            for index in range(max(0, last - _PAGE_CHUNKS), last + 1)
        ]
        texts = await self._store.chunk_texts(self._collection, ids, self._access)
        digest = next((text.digest for text in texts if text.chunk_id == passage.id), "")
        return StoredDocument(text="\n".join(text.content for text in texts), digest=digest)

    async def sections(self, limit: int) -> list[Section]:
        """Return chunks of different documents, then further ones of the same documents.

        Cost: linear in the number of documents; about `limit` chunks are read.
        """
        # By digest: documents with similar names are often alike, and a random order would not be repeatable.
        ids = sorted(
            await self._store.document_ids(self._collection),
            key=lambda one: hashlib.sha256(one.encode("utf-8", "surrogatepass")).digest(),
        )
        found: list[Section] = []
        for keys in _batches(await self._keys(ids[: max(limit * 20, 1000)])):
            texts = await self._store.chunk_texts(self._collection, keys, self._access)
            found += [_section(text) for text in texts]
            if len(found) >= limit:
                break
        return found[:limit]

    async def contains(self, document_ids: Sequence[str]) -> bool:
        """Return whether the collection contains all of these documents."""
        states = await self._store.document_states(self._collection, document_ids)
        return len(states) == len(document_ids)

    async def _keys(self, ids: Sequence[str]) -> list[str]:
        states = await self._store.document_states(self._collection, ids)
        places = [
            (index, number, one)
            for number, one in enumerate(ids)
            for index in range(min(states[one].chunks if one in states else 0, 10))
        ]
        return [chunk_key(self._collection, one, index) for index, _, one in sorted(places)]


def _batches(keys: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(keys), _BATCH_SIZE):
        yield list(keys[start : start + _BATCH_SIZE])


def _text(metadata: dict[str, Any], key: str) -> str | None:
    value = metadata.get(key)
    return value if isinstance(value, str) else None


def _passage(result: RetrievalResult) -> Passage:
    metadata = result.chunk.metadata
    index = metadata.get("chunk_index")
    return Passage(
        id=result.chunk.id,
        score=result.similarity_score,
        text=result.chunk.content,
        source_url=_text(metadata, "source_url"),
        section_path=_text(metadata, "section_path"),
        heading=_text(metadata, "heading"),
        chunk_index=index if isinstance(index, int) else None,
        document_id=result.document_id,
        title=_text(metadata, "title") or "",
    )


def _section(text: ChunkText) -> Section:
    return Section(
        heading=_text(text.metadata, "heading") or "",
        section_path=_text(text.metadata, "section_path") or "",
        text=text.content,
        source_url=_text(text.metadata, "source_url") or "",
    )


class EngineSearcher:
    """Searches a collection through an engine, without a threshold."""

    def __init__(self, engine: Engine, collection: str, access: Access) -> None:
        self._engine = engine
        self._collection = collection
        self._access = access

    async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
        """Return the best passages."""
        report = await self._engine.search_report(
            SearchQuery(
                query=query,
                top_k=limit,
                threshold=0.0,
                mode=mode,
                access=self._access,
                collection=self._collection,
            )
        )
        return SearchOutcome(
            hits=[_hit(result) for result in report.results],
            latency_ms=report.latency_ms["total"],
            degraded=tuple(fault.reason for fault in report.degraded),
        )


def _hit(result: RetrievalResult) -> Hit:
    metadata = result.chunk.metadata

    def text(*keys: str) -> str:
        return next((metadata[key] for key in keys if isinstance(metadata.get(key), str)), "")

    return Hit(
        document_id=result.document_id,
        score=result.similarity_score,
        path=text("source_file"),
        graph_score=result.score_breakdown.get("graph_score") or 0.0,
        name=text("name", "title"),
        qualified_name=text("qualified_name"),
        content=result.chunk.content,
    )

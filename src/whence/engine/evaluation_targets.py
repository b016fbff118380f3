"""Adapters for `whence.evaluation`: a collection as a validation target, and as a searcher for suites."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from whence.engine.search import SearchQuery
from whence.evaluation.searcher import Hit, SearchOutcome
from whence.evaluation.validation.target import (
    Passage,
    PassageSource,
    RetrievedPassages,
    Section,
    TargetInfo,
)
from whence.retrieval.pipeline import MAX_BUDGET_S
from whence.schema.errors import NotFound, Unavailable
from whence.store.chunk_ids import chunk_key

if TYPE_CHECKING:
    from whence.engine.engine import Engine
    from whence.retrieval.results import RetrievalResult, SearchReport
    from whence.schema.access import Access
    from whence.schema.texts import ChunkText
    from whence.store.protocols import Store

#: Chunks before a passage in which its heading is searched.
_PAGE_CHUNKS = 1000
_BATCH_SIZE = 100


async def _search(
    engine: Engine, query: str, mode: str, limit: int, collection: str, access: Access
) -> SearchReport:
    """Search a collection without a threshold; a copy counts, because it may be the one that was judged."""
    rerank = mode == "rerank"
    request = SearchQuery(
        query=query,
        top_k=limit,
        mode="hybrid" if rerank else mode,
        rerank=rerank,
        rerank_budget_s=MAX_BUDGET_S,
        access=access,
        collection=collection,
        distinct=False,
    )
    report = await engine.search_report(request)
    if rerank and report.results and not report.reranker:
        raise Unavailable("; ".join(fault.reason for fault in report.degraded))
    return report


@dataclass(frozen=True)
class EngineTarget:
    """A collection behind an engine."""

    engine: Engine
    store: Store
    collection: str
    access: Access
    mode: str
    where: str
    """Kind and address of the store, without secrets."""

    async def describe(self) -> TargetInfo:
        """Describe the collection."""
        info = await self.store.collection(self.collection)
        if info is None:
            raise NotFound(
                f"there is no collection {self.collection!r}",
                hint="index something into it first; `whence collections` lists all collections",
            )
        return TargetInfo(
            store=self.where,
            collection=self.collection,
            model=info.model.name,
            dimension=info.model.dimension,
        )

    async def search(self, query: str, *, limit: int) -> RetrievedPassages:
        """Return the best passages, without a threshold."""
        report = await _search(self.engine, query, self.mode, limit, self.collection, self.access)
        times = report.latency_ms
        return RetrievedPassages(
            passages=[_passage(result) for result in report.results],
            embedding_ms=times["embedding"],
            search_ms=times["search"] + times["texts"],
            degraded=tuple(fault.reason for fault in report.degraded),
            embedded=all(fault.stage != "embedding" for fault in report.degraded),
        )

    async def document(self, passage: Passage) -> PassageSource:
        """Return the text of the document up to a passage."""
        last = passage.chunk_index or 0
        ids = [
            chunk_key(self.collection, passage.document_id, index)
            for index in range(max(0, last - _PAGE_CHUNKS), last + 1)
        ]
        texts = await self.store.chunk_texts(self.collection, ids, self.access)
        digest = next((text.digest for text in texts if text.chunk_id == passage.id), "")
        return PassageSource(text="\n".join(text.content for text in texts), digest=digest)

    async def sections(self, limit: int) -> list[Section]:
        """Return chunks of different documents, then further ones of the same documents.

        Cost: linear in the number of documents; about `limit` chunks are read.
        """
        # By digest: documents with similar names are often alike, and a random order would not be repeatable.
        ids = sorted(
            await self.store.document_ids(self.collection),
            key=lambda one: hashlib.sha256(one.encode("utf-8", "surrogatepass")).digest(),
        )
        keys = await self._keys(ids[: max(limit * 20, 1000)])
        found: list[Section] = []
        for start in range(0, len(keys), _BATCH_SIZE):
            batch = keys[start : start + _BATCH_SIZE]
            texts = await self.store.chunk_texts(self.collection, batch, self.access)
            found += [_section(text) for text in texts]
            if len(found) >= limit:
                break
        return found[:limit]

    async def contains(self, document_ids: Sequence[str]) -> bool:
        """Return whether the collection contains all of these documents."""
        states = await self.store.document_states(self.collection, document_ids)
        return len(states) == len(document_ids)

    async def _keys(self, ids: Sequence[str]) -> list[str]:
        states = await self.store.document_states(self.collection, ids)
        places = [
            (index, number, one)
            for number, one in enumerate(ids)
            for index in range(min(states[one].chunks if one in states else 0, 10))
        ]
        return [chunk_key(self.collection, one, index) for index, _, one in sorted(places)]


def _text(metadata: dict[str, Any], *keys: str) -> str | None:
    """Return the first of these values that is a text."""
    return next((metadata[key] for key in keys if isinstance(metadata.get(key), str)), None)


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
        source_file=_text(metadata, "source_file") or "",
    )


def _section(text: ChunkText) -> Section:
    return Section(
        heading=_text(text.metadata, "heading") or "",
        section_path=_text(text.metadata, "section_path") or "",
        text=text.content,
        source_url=_text(text.metadata, "source_url") or "",
    )


@dataclass(frozen=True)
class EngineSearcher:
    """Searches a collection through an engine, without a threshold."""

    engine: Engine
    collection: str
    access: Access

    async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
        """Return the best passages, with the time that a caller waits for them."""
        started = time.perf_counter()
        report = await _search(self.engine, query, mode, limit, self.collection, self.access)
        waited = time.perf_counter() - started
        return SearchOutcome(
            hits=[_hit(result) for result in report.results],
            latency_ms=waited * 1e3,
            degraded=tuple(fault.reason for fault in report.degraded),
        )


def _hit(result: RetrievalResult) -> Hit:
    metadata = result.chunk.metadata
    return Hit(
        document_id=result.document_id,
        score=result.similarity_score,
        path=_text(metadata, "source_file") or "",
        graph_score=result.score_breakdown.get("graph_score") or 0.0,
        name=_text(metadata, "name", "title") or "",
        qualified_name=_text(metadata, "qualified_name") or "",
        content=result.chunk.content,
    )

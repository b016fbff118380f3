"""A collection behind an engine: as the search of a suite, and as the target of a validation."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from whence.evaluation.searcher import Passage, SearchOutcome, make_passage, text_of
from whence.evaluation.validation.target import PassageSource, TargetInfo
from whence.operations.search import Search
from whence.retrieval.pipeline import MAX_BUDGET_S
from whence.schema.errors import NotFound, Unavailable
from whence.store.chunk_ids import chunk_key

if TYPE_CHECKING:
    from whence.retrieval.results import RetrievalResult
    from whence.schema.access import Access
    from whence.store.protocols import Store
    from whence.surfaces.python.engine import Engine

#: Chunks before a passage in which its heading is searched.
_PAGE_CHUNKS = 1000
_BATCH_SIZE = 100


@dataclass(frozen=True)
class EngineSearcher:
    """Searches a collection through an engine."""

    engine: Engine
    collection: str
    access: Access

    async def __call__(self, query: str, *, mode: str, limit: int) -> SearchOutcome:
        """Return the best passages; a copy counts, because it may be the one that was judged."""
        rerank = mode == "rerank"
        request = Search(
            query=query,
            top_k=limit,
            mode="hybrid" if rerank else mode,
            rerank=rerank,
            rerank_budget_s=MAX_BUDGET_S,
            access=self.access,
            collection=self.collection,
            distinct=False,
        )
        started = time.perf_counter()
        report = await self.engine.run(request)
        waited = time.perf_counter() - started
        faults = tuple(fault.reason for fault in report.degraded)
        if rerank and report.results and not report.reranker:
            raise Unavailable("; ".join(faults))
        times = report.latency_ms
        return SearchOutcome(
            passages=[_passage(result) for result in report.results],
            latency_ms=round(waited * 1e3, 3),
            embedding_ms=times["embedding"],
            search_ms=times["search"] + times["texts"],
            degraded=faults,
            embedded=all(fault.stage != "embedding" for fault in report.degraded),
        )


@dataclass(frozen=True)
class EngineTarget(EngineSearcher):
    """A collection whose stored documents can be read, too."""

    store: Store
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

    async def sections(self, limit: int) -> list[Passage]:
        """Return chunks of different documents, then further ones of the same documents.

        Cost: linear in the number of documents; about `limit` chunks are read.
        """
        # By digest: documents with similar names are often alike, and a random order would not be repeatable.
        ids = sorted(
            await self.store.document_ids(self.collection),
            key=lambda one: hashlib.sha256(one.encode("utf-8", "surrogatepass")).digest(),
        )
        keys = await self._keys(ids[: max(limit * 20, 1000)])
        found: list[Passage] = []
        for start in range(0, len(keys), _BATCH_SIZE):
            batch = keys[start : start + _BATCH_SIZE]
            texts = await self.store.chunk_texts(self.collection, batch, self.access)
            found += [make_passage(text.metadata, text=text.content) for text in texts]
            if len(found) >= limit:
                break
        return found[:limit]

    async def folders(self) -> list[Path]:
        """Return the folders of this machine that the collection was indexed from."""
        roots = await self.store.source_roots(self.collection)
        return [path for path in (Path(one.path) for one in roots if one.path) if path.is_dir()]

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


def _passage(result: RetrievalResult) -> Passage:
    metadata = result.chunk.metadata
    return make_passage(
        metadata,
        id=result.chunk.id,
        document_id=result.document_id,
        score=result.similarity_score,
        graph_score=result.score_breakdown.get("graph_score") or 0.0,
        text=result.chunk.content,
        source_file=text_of(metadata, "source_file") or "",
        name=text_of(metadata, "name", "title") or "",
        qualified_name=text_of(metadata, "qualified_name") or "",
    )

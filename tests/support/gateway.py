"""A gateway in this process, over an engine that answers at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx
import numpy as np

from whence.flow.telemetry.genai import Spans
from whence.operations.ask import Ask
from whence.operations.documents import ListCollections, ListDocuments, Show
from whence.operations.explain import Explain, ExplainAbsence
from whence.operations.operation import Middleware
from whence.operations.search import Search
from whence.operations.spans import OperationSpans
from whence.retrieval.results import RetrievalResult, RetrievedChunk, SearchReport
from whence.schema import Access, Answer, Citation, Term, Triple
from whence.schema.embedding import EmbeddingModel, EmbeddingResponse
from whence.schema.errors import NotFound
from whence.schema.places import DocumentText
from whence.store.protocols import ListedCollection, ListedDocument
from whence.surfaces.http.app import gateway
from whence.surfaces.http.auth import Authenticator, Caller, token_digest
from whence.surfaces.http.service import Service

SECRET = "correct horse"
FINANCE = Access(frozenset({"finance"}), frozenset(), 2)
TRIPLE = Triple(
    s=Term("i", iri="urn:a"),
    p=Term("i", iri="urn:b"),
    o=Term("l", value="c"),
    g="urn:graph:retrieval",
)
MODEL = EmbeddingModel(name="tiny", dimension=2)
#: Who may see which collection.
COLLECTIONS = {"wiki": Access.public(), "books": FINANCE}


class StubEngine:
    """Records its calls, and returns or raises as configured."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.failure: BaseException | None = None
        self.gate: asyncio.Event | None = None
        self.citations: tuple[Citation, ...] = ()
        self.middlewares: list[Middleware] = []

    async def _record(self, **given: Any) -> None:
        self.asked.append(given)
        if self.gate is not None:
            await self.gate.wait()
        if self.failure is not None:
            raise self.failure

    async def run(self, operation: Any) -> Any:
        """Return what an engine would, and record the fields of what is asked."""
        work = getattr(self, f"_{operation.NAME.replace('-', '_')}")

        async def call(_: Any) -> Any:
            return await work(operation)

        around: Any = call
        for middleware in self.middlewares:
            around = middleware.around(operation, around)
        return await around(None)

    async def _record_fields(self, operation: Any) -> None:
        await self._record(
            **{name: getattr(operation, name) for name in operation.__struct_fields__}
        )

    async def _search(self, asked: Search) -> SearchReport:
        await self._record_fields(asked)
        chunk = RetrievedChunk(id="urn:c:1", content="Text \N{SNOWMAN}", metadata={})
        hit = RetrievalResult(rank=1, similarity_score=0.9, chunk=chunk, document_id="a.md")
        return SearchReport(results=[hit], latency_ms={"total": 1.0})

    async def _ask(self, asked: Ask) -> Answer:
        await self._record_fields(asked)
        if asked.explain_callback is not None:
            await asked.explain_callback((TRIPLE,), "urn:trustgraph:docrag:a1")
        if asked.chunk_callback is not None:
            await asked.chunk_callback("Thirty ", False)
            await asked.chunk_callback("days.", True)
        return Answer(
            answer_id="a1", question=asked.question, text="Thirty days.", citations=self.citations
        )

    async def _explain(self, asked: Explain) -> Any:
        await self._record_fields(asked)

    async def _why_not(self, asked: ExplainAbsence) -> dict[str, Any]:
        await self._record_fields(asked)
        return {"chunk_id": asked.item, "stage": "exploration"}

    async def _collections(self, asked: ListCollections) -> list[ListedCollection]:
        return [
            ListedCollection(name=name, model=MODEL, documents=1)
            for name, needed in COLLECTIONS.items()
            if asked.access.covers(needed) and (not asked.names or name in asked.names)
        ]

    async def _documents(self, asked: ListDocuments) -> list[ListedDocument]:
        if asked.collection not in COLLECTIONS:
            raise NotFound(f"there is no collection {asked.collection!r}")
        return [ListedDocument(document_id="a.md")]

    async def _show(self, asked: Show) -> DocumentText:
        item = asked.item
        return DocumentText(
            document_id=item, source_file=item, source_url="", title="", text="Text", chunks=()
        )

    async def embedding_model(self) -> EmbeddingModel:
        return MODEL

    async def embed(self, texts: Sequence[str], purpose: str) -> EmbeddingResponse:
        await self._record(texts=list(texts), purpose=purpose)
        rows = np.array([[0.6, 0.8]] * len(texts), dtype="<f4")
        return EmbeddingResponse(vectors=rows.tobytes(), model=MODEL)

    async def count_tokens(self, texts: Sequence[str]) -> tuple[list[int], int]:
        return [len(text.split()) for text in texts], 4


def client_of(
    engine: StubEngine, *, spans: Spans | None = None, peer: str = "127.0.0.1", **options: Any
) -> httpx.AsyncClient:
    """Return a client of a gateway with one token, two places, and bodies up to a kilobyte.

    Args:
        engine: Behind the gateway.
        spans: Of its requests.
        peer: Address of the client.
        options: Of the gateway.
    """
    tokens = {token_digest(SECRET): Caller("desk", FINANCE)}
    if spans is not None:
        engine.middlewares.append(OperationSpans(spans))
    service = Service(engine, "wiki", concurrent=2, spans=spans)  # type: ignore[arg-type]
    rights = Authenticator(Access.public(), tokens)
    app = gateway(service, rights, hosts={"127.0.0.1"}, **({"max_body": 1024} | options))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=(peer, 9))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:9420")

"""The operations of the gateway: call the engine with the caller's rights, return JSON documents."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from whence.flow.telemetry.genai import Spans
from whence.operations.ask import Ask, AskLive, ChunkCallback, ExplainCallback
from whence.operations.documents import ListCollections, ListDocuments
from whence.operations.history import NoteAsked
from whence.operations.json_documents import answer_document, search_document
from whence.operations.operation import Operation
from whence.operations.search import Search
from whence.schema.errors import NotFound, WhenceError
from whence.surfaces.http.admission import Admission
from whence.surfaces.http.auth import Caller

if TYPE_CHECKING:
    from whence.schema.access import Access
    from whence.schema.embedding import EmbeddingModel, EmbeddingResponse, Purpose
    from whence.store.protocols import ListedCollection
    from whence.surfaces.python.engine import Engine

R = TypeVar("R")

logger = logging.getLogger(__name__)

#: Media type of each format of a trace.
MEDIA_TYPES = {
    "json": "application/json",
    "tree": "text/plain; charset=utf-8",
    "nquads": "application/n-quads",
    "turtle": "text/turtle",
    "trig": "application/trig",
    "jsonld": "application/ld+json",
    "svg": "image/svg+xml",
    "evidence": "application/json",
}
FORMATS = tuple(MEDIA_TYPES)
#: Time limit of what states none, in seconds.
_TIMEOUT_S = 30.0


class Service:
    """Serves requests with an engine.

    Args:
        engine: Does the work.
        collection: The one that is read by requests that name none.
        concurrent: Requests that run at the same time; others wait.
        spans: Records requests for vectors, which are no operation; nothing does by default.
    """

    def __init__(
        self, engine: Engine, collection: str, *, concurrent: int, spans: Spans | None = None
    ) -> None:
        self._engine = engine
        self._collection = collection
        self._admission = Admission(concurrent)
        self._spans = spans or Spans()
        self.upload_rights: Path | None = None
        """File of rules for the files that are sent; none when None."""

    @property
    def collection(self) -> str:
        """The collection that is read by requests that name none."""
        return self._collection

    async def run(
        self, caller: Caller, operation: Operation[R], timeout_s: float = _TIMEOUT_S
    ) -> R:
        """Run an operation in its turn."""
        return await self.call(
            caller, operation.NAME, lambda engine: engine.run(operation), timeout_s
        )

    async def run_at_once(self, operation: Operation[R]) -> R:
        """Run an operation of a look-up, which waits for no turn."""
        return await self._engine.run(operation)

    async def call(
        self,
        caller: Caller,
        name: str,
        work: Callable[[Engine], Awaitable[R]],
        timeout_s: float = _TIMEOUT_S,
    ) -> R:
        """Use the engine in the turn of the caller; `name` is that of the operation."""
        async with self._admission.admit(name, caller.share, timeout_s):
            return await work(self._engine)

    async def search(self, caller: Caller, asked: Search) -> dict[str, Any]:
        """Search."""
        report = await self.run(caller, asked)
        document = search_document(asked.query, asked.mode, report)
        return document | {"trace_id": report.trace_id} if asked.locations else document

    async def ask(
        self,
        caller: Caller,
        asked: Ask,
        *,
        on_text: ChunkCallback | None = None,
        on_stage: ExplainCallback | None = None,
    ) -> dict[str, Any]:
        """Answer a question."""
        async with self._admission.admit(asked.NAME, caller.share, asked.timeout_s) as left_s:
            live = AskLive.of(replace(asked, timeout_s=left_s), on_text, on_stage)
            return answer_document(await self._engine.run(live))

    async def note_asked(self, answer_id: str, reader: str) -> None:
        """Note whose answer one is; an answer is not lost when that fails."""
        try:
            await self.run_at_once(NoteAsked(answer_id, reader))
        except WhenceError as error:
            logger.warning("an answer is in no history: %s", error.message)

    def check_ask(self, caller: Caller, asked: Ask) -> None:
        """Refuse a question that could not be answered in time; see `Admission.check`."""
        self._admission.check(asked.NAME, caller.share, asked.timeout_s)

    async def collections(self, access: Access, *names: str) -> list[ListedCollection]:
        """Return the collections, of `names` if there are any, with a document that the reader may see."""
        return await self._engine.run(ListCollections(access, names))

    async def has_collection(self, access: Access, name: str) -> bool:
        """Return whether a collection has a document, or a file that was not read, that the reader may see."""
        if await self.collections(access, name):
            return True
        try:
            listed = await self.run_at_once(ListDocuments(access, name, limit=1))
        except NotFound:
            return False
        return bool(listed)

    async def embedding_model(self) -> EmbeddingModel:
        """Return the model of `embed`."""
        return await self._engine.embedding_model()

    async def embed(
        self, caller: Caller, texts: Sequence[str], purpose: Purpose
    ) -> tuple[EmbeddingResponse, list[int] | None, int]:
        """Return the vectors of texts, the tokens of each if known, and how many are read of one."""
        async with self._admission.admit("embed", caller.share, _TIMEOUT_S):
            counts, most = await self._engine.count_tokens(texts)
            model = await self._engine.embedding_model()
            with self._spans.operation("embeddings", model.name) as told:
                told.embedded(model)
                if counts is not None:
                    told.note(**{"gen_ai.usage.input_tokens": sum(counts)})
                return await self._engine.embed(texts, purpose), counts, most

    async def count_tokens(self, texts: Sequence[str]) -> list[int] | None:
        """Return the tokens of each text; None where only an estimate is known."""
        return (await self._engine.count_tokens(texts))[0]

"""The operations of the gateway: call the engine with the caller's rights, return JSON documents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from whence.engine.json_documents import (
    answer_document,
    expand_document,
    search_document,
    why_not_document,
)
from whence.engine.search import SearchQuery
from whence.flow.telemetry.genai import Operation, Spans
from whence.gateway.admission import Admission
from whence.gateway.auth import Caller
from whence.gateway.requests import (
    AskBody,
    ExpandBody,
    ExplainBody,
    FetchBody,
    SearchBody,
    WhyNotBody,
)
from whence.schema.code import SnapshotChoice
from whence.schema.texts import TextBudget

if TYPE_CHECKING:
    from whence.engine.engine import Engine
    from whence.engine.results import IndexReport
    from whence.provenance.trace import Trace
    from whence.schema.access import Access, DocumentTags
    from whence.schema.embedding import EmbeddingModel, EmbeddingResponse, Purpose
    from whence.schema.places import DocumentText
    from whence.schema.terms import Triple
    from whence.store.protocols import ListedCollection, ListedDocument

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
#: Time limit of storing files, in seconds.
_UPLOAD_S = 900.0
#: Most characters of a code node.
_NODE_CHARS = 1_000_000


class Service:
    """Serves requests with an engine.

    Args:
        engine: Does the work.
        collection: The one that is read by requests that name none.
        concurrent: Requests that run at the same time; others wait.
        spans: Records requests; nothing does by default.
    """

    def __init__(
        self, engine: Engine, collection: str, *, concurrent: int, spans: Spans | None = None
    ) -> None:
        self._engine = engine
        self._collection = collection
        self._admission = Admission(concurrent)
        self._spans = spans or Spans()

    @property
    def collection(self) -> str:
        """The collection that is read by requests that name none."""
        return self._collection

    async def search(self, caller: Caller, body: SearchBody) -> dict[str, Any]:
        """Search."""
        async with self._admission.admit("search", caller.share, _TIMEOUT_S):
            options = self._options(caller, body)
            choice = _choice(body)
            for name in ("snapshot", "set", "snapshot_source"):
                del options[name]
            with self._operation("retrieval", options["collection"]) as told:
                told.queried(body.query)
                report = await self._engine.search_report(SearchQuery(**options, snapshot=choice))
        document = search_document(body.query, body.mode, report)
        return document | {"trace_id": report.trace_id} if body.locations else document

    async def expand(self, caller: Caller, body: ExpandBody) -> dict[str, Any]:
        """Return the dependencies around nodes of code."""
        async with self._admission.admit("expand", caller.share, _TIMEOUT_S):
            reply = await self._engine.code.expand(
                body.nodes,
                snapshot=_choice(body) or SnapshotChoice(),
                max_depth=body.max_depth,
                max_nodes=body.max_nodes,
                relations=body.relations,
                direction=body.direction,
                access=caller.access_for(body.access),
            )
        return expand_document(reply)

    async def node_text(self, caller: Caller, body: FetchBody) -> dict[str, Any]:
        """Return the text of a node of code, within a budget that holds any node."""
        async with self._admission.admit("fetch", caller.share, _TIMEOUT_S):
            report = await self._engine.code.fetch(
                [body.id],
                budget=TextBudget(kind="chars", limit=_NODE_CHARS),
                snapshot=_choice(body) or SnapshotChoice(),
                access=caller.access_for(body.access),
            )
        return {"snapshot_id": report.snapshot_id, "node_texts": report.node_texts}

    async def ask(
        self,
        caller: Caller,
        body: AskBody,
        *,
        on_text: Callable[[str, bool], Awaitable[None]] | None = None,
        on_stage: Callable[[tuple[Triple, ...], str], Awaitable[None]] | None = None,
    ) -> dict[str, Any]:
        """Answer a question."""
        async with self._admission.admit("ask", caller.share, body.timeout_s) as left_s:
            options = self._options(caller, body) | {"timeout_s": left_s}
            with self._operation("chat", options["collection"]) as told:
                told.asked(body.question)
                answer = await self._engine.ask(
                    **options, chunk_callback=on_text, explain_callback=on_stage
                )
                document = answer_document(answer)
                told.answered(
                    answer.text,
                    answer.model,
                    answer.in_token,
                    answer.out_token,
                    answer.answer_id,
                )
        return document

    def check_ask(self, caller: Caller, body: AskBody) -> None:
        """Refuse a question that could not be answered in time; see `Admission.check`."""
        self._admission.check("ask", caller.share, body.timeout_s)

    async def trace(self, caller: Caller, body: ExplainBody) -> Trace:
        """Return the trace of an answer, without hidden candidates."""
        async with self._admission.admit("explain", caller.share, _TIMEOUT_S):
            return await self._engine.explain(body.answer_id, caller.access_for(body.access))

    async def evidence(self, caller: Caller, body: ExplainBody) -> dict[str, Any]:
        """Return evidence of an answer for an auditor, with hidden parts as hashes."""
        async with self._admission.admit("explain", caller.share, _TIMEOUT_S):
            return await self._engine.evidence(body.answer_id, caller.access_for(body.access))

    async def why_not(self, caller: Caller, body: WhyNotBody) -> dict[str, Any]:
        """Return why a passage is not in an answer; of an unknown one the error and similar ids."""
        async with self._admission.admit("why-not", caller.share, _TIMEOUT_S):
            access = caller.access_for(body.access)
            told = await self._engine.why_not(body.item, body.answer_id, access)
        return why_not_document(told)

    async def collections(
        self, access: Access, names: Sequence[str] = ()
    ) -> list[ListedCollection]:
        """Return the collections, of `names` if there are any, with a document that the reader may see."""
        return await self._engine.visible_collections(access, names=names)

    async def documents(
        self, caller: Caller, collection: str, access: Access, limit: int, after: str
    ) -> list[ListedDocument]:
        """Return the first documents after an id that the reader may see."""
        async with self._admission.admit("documents", caller.share, _TIMEOUT_S):
            return await self._engine.documents(
                access, collection=collection, limit=limit, after=after
            )

    async def show(
        self, caller: Caller, collection: str, item: str, access: Access
    ) -> DocumentText:
        """Return a document, named by its id or that of one of its chunks."""
        async with self._admission.admit("show", caller.share, _TIMEOUT_S):
            return await self._engine.show(item, access, collection=collection)

    async def remove(
        self, caller: Caller, collection: str, document_id: str, access: Access
    ) -> None:
        """Remove a document that the caller may see."""
        async with self._admission.admit("remove", caller.share, _TIMEOUT_S):
            await self._engine.remove(document_id, access, collection=collection)

    async def index(
        self, caller: Caller, folder: Path, collection: str, tags: DocumentTags
    ) -> IndexReport:
        """Store the files of a folder for a caller."""
        writer = None if caller.speaks_for_others else caller.access
        async with self._admission.admit("index", caller.share, _UPLOAD_S):
            return await self._engine.index_for(writer, folder, collection=collection, tags=tags)

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

    def _operation(self, name: str, collection: str) -> AbstractContextManager[Operation]:
        facts = {"gen_ai.request.model": collection, "gen_ai.data_source.id": collection}
        return self._spans.operation(name, collection, **facts)

    def _options(self, caller: Caller, body: SearchBody | AskBody) -> dict[str, Any]:
        """Return the fields of a body with the caller's rights and the collection to read."""
        return msgspec.structs.asdict(body) | {
            "access": caller.access_for(body.access),
            "collection": body.collection or self._collection,
        }


def _choice(body: SearchBody | FetchBody | ExpandBody) -> SnapshotChoice | None:
    """Return the snapshot of code that a body names; None when it names none."""
    names = {"snapshot": body.snapshot, "set_name": body.set, "source": body.snapshot_source}
    return SnapshotChoice(**names) if any(names.values()) else None

"""`Engine`: Whence in this process, behind messages.

An engine starts a flow here and speaks to it as a client of a running fleet would. What it does is what
`whence run` and the command line do with the same flow file.
"""

from __future__ import annotations

import asyncio
import os
import uuid
import weakref
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from whence.answering.validation import check_patience
from whence.engine.answer_stream import ChunkCallback, ExplainCallback, collect_answer
from whence.engine.audit import AuditLog, audited
from whence.engine.erasure import Erasure, erase
from whence.engine.indexing import Indexing, Progress, from_thread
from whence.engine.node_texts import GraphEngine
from whence.engine.replay import ReplayReport, replay
from whence.engine.reranking import RERANK_BUDGET_S, RerankPlan, check_budget
from whence.engine.results import IndexReport
from whence.engine.snapshot_reading import SnapshotChoice, search_snapshot
from whence.engine.trace_access import explain, why_not
from whence.retrieval.pipeline import check_text, search, search_match, search_mode
from whence.retrieval.results import RetrievalResult, SearchReport
from whence.schema.access import Access, DocumentTags
from whence.schema.document_rag import Answer, DocumentRagRequest
from whence.schema.errors import BadInput, WhenceError

if TYPE_CHECKING:
    from whence.engine.retriever import Retriever
    from whence.flow.client import FlowClient
    from whence.flow.resources import Resources
    from whence.flow.settings import Settings
    from whence.ingest.documents import KnownSources
    from whence.models.protocols import Embedder, Reranker, Writer
    from whence.provenance.trace import Trace
    from whence.provenance.why_not import WhyNot
    from whence.store.protocols import ChunkStore, CollectionInfo, Store

__all__ = ("ChunkCallback", "Engine", "ExplainCallback")

#: Types of processors that a search goes through.
_SEARCHING = ("embedding", "search", "text-fetcher", "reranker")
#: Silence after which a fleet is asked whether it is there, in seconds.
_ABSENT_AFTER_S = 3.0
_NO_TAGS = DocumentTags()
_PUBLIC = Access.public()


class Engine(GraphEngine):
    """Index, search, ask and explain, in this process.

    Use it as an asynchronous context manager. Models are loaded when first needed, so that opening costs a
    connection to the database and little else.

    Args:
        home: Folder of the embedded database; the user's data folder when None.
        database_url: A PostgreSQL 16+ with pgvector instead of the embedded one.
        broker: `memory://` runs the flow in this process; a `pulsar://` address makes this engine a client
            of the flow that runs there.
        embedder: `local`, `openai:MODEL` or `cohere:MODEL`, or an embedder of your own.
        writer: `extractive` or `openai:MODEL`, or a writer of your own.
        reranker: `auto`, `none`, a flashrank model or folder, or a reranker of your own.
        settings: All settings at once; the arguments above go before them. When None they come from the
            environment, then `whence.toml`, then the defaults.
        store: A store of your own, already open; it is not closed here.
        flow: Name of a shipped flow, or path of a flow file.
        only: Processors of the flow to start here; all of them when empty.
        warm_up: True loads the embedding model while the database is connected: the first search is
            sooner there, and opening costs processor time that an engine without searches would save.
            "questions" loads the reranker after it, for the first question.

    Raises:
        ConfigError: A setting or the flow file is wrong.
        Unavailable: The database or the broker does not answer (on entering).
    """

    def __init__(
        self,
        home: str | os.PathLike[str] | None = None,
        database_url: str | None = None,
        broker: str | None = None,
        embedder: str | Embedder | None = None,
        writer: str | Writer | None = None,
        reranker: str | Reranker | None = None,
        *,
        settings: Settings | None = None,
        store: ChunkStore | None = None,
        flow: str | Path = "all-in-one",
        only: Iterable[str] = (),
        warm_up: bool | Literal["questions"] = False,
    ) -> None:
        from whence.flow.settings import Settings

        models = {"embedder": embedder, "writer": writer, "reranker": reranker, "store": store}
        named = {name: value for name, value in models.items() if isinstance(value, str)}
        places = {
            "home": None if home is None else os.fspath(home),
            "database_url": database_url,
            "broker": broker,
        }
        options = {name: value for name, value in (places | named).items() if value}
        self._settings = (settings or Settings.load()).replace(**options)
        self._objects = {
            name: value for name, value in models.items() if value and name not in named
        }
        self._audit = None if self._settings.audit is None else AuditLog(self._settings.audit)
        self._flow = flow
        self._only = tuple(only)
        self._warm_up = warm_up
        self._stack = AsyncExitStack()
        self._client: FlowClient | None = None
        self._resources: Resources | None = None
        #: Answers given here whose traces may still be on their way to the store.
        self._fresh: set[str] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._retrievers: weakref.WeakSet[Retriever] = weakref.WeakSet()

    async def __aenter__(self) -> Self:
        if self._client is not None:
            raise BadInput("this engine is open already", hint="make one engine per `async with`")
        async with AsyncExitStack() as stack:
            await self._open(stack)
            self._stack = stack.pop_all()
        self._loop = asyncio.get_running_loop()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._client = None
        for retriever in list(self._retrievers):
            # Waits for its thread, which waits for its work: not in this loop.
            await asyncio.to_thread(retriever.close)
        await self._stack.__aexit__(exc_type, exc, traceback)

    async def _open(self, stack: AsyncExitStack) -> None:
        """Connect, start the flow when it is to run here, and note what must be closed in which order."""
        from whence.flow.resources import Resources

        self._resources = Resources(self._settings, self._objects)
        stack.push_async_callback(self._resources.aclose)
        here = self._settings.broker.startswith("memory:")
        if self._warm_up and here:
            warming = asyncio.create_task(
                _load(self._resources, reranker=self._warm_up == "questions")
            )
            stack.push_async_callback(_finished, warming)
            await asyncio.sleep(0)  # it loads in a thread from here on
        connecting: asyncio.Task[Any] | None = None
        if here and not self._only:
            # An embedded server starts in processes of its own while the modules of the flow are loaded here.
            connecting = asyncio.create_task(self._resources.get("store"))
            stack.push_async_callback(_ended, connecting)
            await asyncio.sleep(0)
        from whence.broker.connect import connect
        from whence.flow.builtin_flows import find_flow
        from whence.flow.client import FlowClient
        from whence.flow.loader import load_flow
        from whence.flow.runtime import run_flow

        definition = load_flow(find_flow(self._flow))
        transport = await connect(self._settings.broker)
        stack.push_async_callback(transport.aclose)
        if connecting is not None:
            await connecting
        if here:
            running = run_flow(definition, transport, self._resources, only=self._only)
            await stack.enter_async_context(running)
        self._client = (
            FlowClient(definition, transport)
            if here
            else FlowClient(
                definition,
                transport,
                absent_after_s=_ABSENT_AFTER_S,
                new_id=lambda: uuid.uuid4().hex,
            )
        )

    @property
    def audit_log(self) -> AuditLog | None:
        """Where operations are logged; None when the setting `audit` names no place."""
        return self._audit

    @audited("index", lambda report: report.documents.added + report.documents.updated)
    async def index(
        self,
        paths: Iterable[str | os.PathLike[str]],
        *,
        collection: str = "default",
        tags: DocumentTags = _NO_TAGS,
        prune: bool = False,
        boosts: Mapping[str, int] | None = None,
        progress: Progress | None = None,
    ) -> IndexReport:
        """Put files and folders into a collection; what has not changed costs nothing.

        Args:
            paths: Files and folders.
            collection: Collection to put them into; made when it does not exist.
            tags: Rights that readers need, joined with each document's own.
            prune: True removes the documents of the collection that no path has any more.
            boosts: How often words of `title`, `heading` and `path` count beside once in the text, from now on
                and in all that the collection holds; as before when not given.
            progress: Called with the number of documents done, and of all; None while those are counted.

        Raises:
            BadInput: A path does not exist, the collection's name is no name, or a boost is none.
            ModelMismatch: The collection was made with another embedding model.
            Unavailable: A service that is needed does not answer; what was stored stays.
        """
        from whence.ingest.chunking import Chunker
        from whence.ingest.documents import count, load
        from whence.store.field_boosts import parse_field_boosts

        client, resources = self._opened()
        weights = None if boosts is None else parse_field_boosts(boosts)
        embedder = await resources.get("embedder")
        chunker = Chunker(embedder.count_tokens, max_tokens=embedder.max_tokens)
        wanted = [Path(path) for path in paths]
        indexing = Indexing(client, collection, progress, lambda: count(wanted), prune=prune)
        known = await self._known_sources(resources, collection, embedder)
        report = await indexing.run(load(wanted, chunker=chunker, tags=tags, known=known))
        if prune:
            store = await resources.get("store")
            gone = indexing.gone(await store.document_ids(collection))
            report.documents.removed = await store.remove_documents(collection, gone)
        if weights is not None:
            await (await self._store()).boost_fields(collection, weights)
        return report

    async def search(
        self,
        query: str,
        *,
        top_k: int = 5,
        threshold: float = 0.5,
        mode: str = "hybrid",
        access: Access = _PUBLIC,
        collection: str = "default",
        filters: Mapping[str, Any] | None = None,
        match: str = "any",
        rerank: bool = False,
        rerank_budget_s: float = RERANK_BUDGET_S,
        snapshot: str = "",
        set_name: str = "",
        snapshot_source: str = "",
    ) -> list[RetrievalResult]:
        """Find the passages that fit best among those the reader may see.

        Args:
            query: At least three characters.
            top_k: Most results, 1 or more.
            threshold: Lowest score, 0 to 1.
            mode: `hybrid`, `dense` (or `semantic`) or `bm25`.
            access: Rights of the reader.
            collection: Collection to search.
            filters: Conditions on metadata, key to value; see `whence.schema.filters`. All must hold.
            match: `all` lets words count only in passages that have every one of them: in mode `bm25` no others
                are found, in `hybrid` others stand by their vectors alone. `any` takes what there is.
            rerank: True has the best hits read together with the query, and orders them by both scores.
            rerank_budget_s: Seconds that this may take; after that the hits stay as they are, and the report
                says so.
            snapshot: Id, head sha, branch or tag of a snapshot of code to search in place of a collection.
            set_name: Set of snapshots; with `snapshot`, the set it must be in.
            snapshot_source: `primary` or `secondary` member of the set; primary when empty.

        Raises:
            BadInput: An argument is out of range, or no visible document has a key of the filters; a
                `ValueError` too.
            NotFound: There is no such collection.
            Unavailable: A service that is needed does not answer.
        """
        report = await self.search_report(
            query,
            top_k=top_k,
            threshold=threshold,
            mode=mode,
            access=access,
            collection=collection,
            filters=filters,
            match=match,
            rerank=rerank,
            rerank_budget_s=rerank_budget_s,
            snapshot=snapshot,
            set_name=set_name,
            snapshot_source=snapshot_source,
        )
        return report.results

    @audited("search", lambda report: len(report.results))
    async def search_report(
        self,
        query: str,
        *,
        top_k: int = 5,
        threshold: float = 0.5,
        mode: str = "hybrid",
        access: Access = _PUBLIC,
        collection: str = "default",
        filters: Mapping[str, Any] | None = None,
        match: str = "any",
        rerank: bool = False,
        rerank_budget_s: float = RERANK_BUDGET_S,
        snapshot: str = "",
        set_name: str = "",
        snapshot_source: str = "",
    ) -> SearchReport:
        """Search as `search` does, and tell what was left out and how long each part took.

        Raises:
            WhenceError: As for `search`.
        """
        check_budget(rerank_budget_s)
        client, resources = self._opened()
        absent = resources.disabled.get("reranker", "")
        plan = RerankPlan(budget_s=rerank_budget_s, absent=absent) if rerank else None

        async def read(where: str) -> SearchReport:
            return await search(
                client,
                query,
                collection=where,
                access=access,
                mode=search_mode(mode),
                top_k=top_k,
                threshold=threshold,
                filters=filters,
                match=search_match(match),
                plan=plan,
            )

        if not (snapshot or set_name or snapshot_source):
            return await read(collection)
        choice = SnapshotChoice(snapshot=snapshot, set_name=set_name, source=snapshot_source)
        return await search_snapshot(await self._code_store(), choice, read)

    @audited("ask", lambda answer: len(answer.citations), lambda answer: answer.answer_id)
    async def ask(
        self,
        question: str,
        *,
        collection: str = "default",
        access: Access = _PUBLIC,
        doc_limit: int = 20,
        fetch_limit: int = 0,
        rerank: bool = True,
        mode: str | None = None,
        filters: Mapping[str, Any] | None = None,
        timeout_s: float = 120.0,
        chunk_callback: ChunkCallback | None = None,
        explain_callback: ExplainCallback | None = None,
    ) -> Answer:
        """Answer a question from the documents that the reader may see.

        Args:
            question: The question.
            collection: Collection to answer from.
            access: Rights of the reader.
            doc_limit: Passages that the writer reads, 1 or more.
            fetch_limit: Candidates before reranking; 0 for three times `doc_limit`.
            rerank: False leaves the reranker out.
            mode: `hybrid`, `dense` or `bm25`; None for the flow's own.
            filters: Conditions on metadata that passages must meet, as for `search`.
            timeout_s: Seconds for the whole question.
            chunk_callback: Gets the text as it is written.
            explain_callback: Gets the triples of each stage as soon as it is done. An exception in it is
                logged and costs nothing but the call.

        Raises:
            BadInput: The question is blank or no text, or a limit is out of range.
            NotFound: There is no such collection.
            DeadlineExceeded: The time ran out.
            Unavailable: A service that is needed does not answer.
        """
        check_text("the question", question)
        check_patience(timeout_s)
        client, _ = self._opened()
        request = DocumentRagRequest(
            access=access,
            question=question,
            collection=collection,
            doc_limit=doc_limit,
            fetch_limit=fetch_limit,
            rerank=rerank,
            mode=None if mode is None else search_mode(mode),
            filters=dict(filters or {}),
            streaming=chunk_callback is not None,
        )
        replies = client.ask(request, timeout_s=timeout_s)
        answer = await collect_answer(replies, chunk_callback, explain_callback)
        self._fresh.add(answer.answer_id)
        return answer

    @audited("explain", lambda trace: len(trace.candidates))
    async def explain(self, answer_id: str, access: Access = _PUBLIC) -> Trace:
        """Give the trace of an answer as far as a reader may see it.

        Raises:
            NotFound: There is no such answer, or the reader may not see what it stands on.
        """
        check_text("the answer's id", answer_id)
        store = await self._store()
        return await explain(store, answer_id, access, fresh=answer_id in self._fresh)

    @audited("why-not")
    async def why_not(self, item: str, answer_id: str, access: Access = _PUBLIC) -> WhyNot:
        """Tell what became of a chunk or a document on the way to an answer: one stage, one reason.

        An item that the reader may not see is answered like one that does not exist.

        Args:
            item: Id of a chunk or of a document.
            answer_id: Id of the answer.
            access: Rights of the reader.

        Raises:
            NotFound: As for `explain`.
        """
        check_text("the item's id", item)
        check_text("the answer's id", answer_id)
        store = await self._store()
        return await why_not(store, item, answer_id, access, fresh=answer_id in self._fresh)

    @audited("replay")
    async def replay(
        self, answer_id: str, access: Access = _PUBLIC, *, timeout_s: float = 120.0
    ) -> ReplayReport:
        """Ask a recorded question again, with the rights it was asked with, and compare all stages.

        No trace of the second run is kept. A reader whose rights do not cover those of the question asks
        with their own.

        Raises:
            NotFound: As for `explain`; also when some candidate is hidden from this reader.
            BadInput: The question had failed, there is nothing to compare with.
            WhenceError: As for `ask`.
        """
        check_text("the answer's id", answer_id)
        client, _ = self._opened()
        store = await self._store()
        return await replay(
            client, store, answer_id, access, fresh=answer_id in self._fresh, timeout_s=timeout_s
        )

    @audited("erase", lambda erasure: erasure.before.documents)
    async def erase(self, document_id: str, *, collection: str = "default") -> Erasure:
        """Remove a document for good: chunks, vectors, postings, and its words in traces.

        Traces keep a tombstone: which chunk it was and when it was erased.

        Raises:
            NotFound: There is no such document, and no trace holds words of it.
        """
        check_text("the document's id", document_id)
        return await erase(await self._store(), collection, document_id)

    async def collections(self) -> list[CollectionInfo]:
        """Give all collections by name, with counts that include hidden documents."""
        return await (await self._store()).collections()

    async def _store(self) -> Store:
        _, resources = self._opened()
        store: Store = await resources.get("store")
        return store

    def retriever(
        self,
        collection: str = "default",
        access: Access = _PUBLIC,
        *,
        mode: str = "hybrid",
        filters: Mapping[str, Any] | None = None,
        match: str = "any",
        rerank: bool = False,
    ) -> Retriever:
        """Give a retriever of one collection for one reader, for blocking searches too.

        It works as long as this engine is open, from any thread and from within a running event loop.

        Args:
            collection: Collection to search.
            access: Rights of the reader.
            mode: As for `search`.
            filters: As for `search`.
            match: As for `search`.
            rerank: As for `search`.

        Raises:
            BadInput: There is no such mode or match.
        """
        from whence.engine.engine_retriever import EngineRetriever

        options = {
            "mode": search_mode(mode),
            "filters": filters,
            "match": search_match(match),
            "rerank": rerank,
        }
        retriever = EngineRetriever(self, collection=collection, access=access, options=options)
        self._retrievers.add(retriever)
        return retriever

    @property
    def is_open(self) -> bool:
        """True inside of `async with`."""
        return self._client is not None

    @property
    def is_here(self) -> bool:
        """True in the event loop that this engine was opened in."""
        return asyncio.get_running_loop() is self._loop

    def twin(self) -> Engine:
        """Give an engine of the same settings for searches in another event loop, not opened yet.

        Models that run in this process know no event loop and are shared; all else is opened anew.

        Raises:
            BadInput: This engine is not open.
        """
        client, resources = self._opened()
        return Engine(
            settings=self._settings,
            flow=self._flow,
            only=client.names_of_types(_SEARCHING, among=self._only),
            **{**resources.loop_independent_models(), **self._objects},
        )

    async def _known_sources(
        self, resources: Resources, collection: str, embedder: Embedder
    ) -> KnownSources | None:
        """Give what tells unchanged sources from others; a client of a fleet has no store to ask."""
        from whence.ingest.documents import KnownSources

        if not self._settings.broker.startswith("memory:"):
            return None
        store = await resources.get("store")
        model = embedder.model
        return KnownSources(
            find=from_thread(store.source_digests, collection),
            reading=f"{model.name} {model.revision}",
        )

    def _opened(self) -> tuple[FlowClient, Resources]:
        if self._client is None or self._resources is None:
            raise BadInput(
                "this engine is not open", hint="use it inside `async with Engine(...) as engine:`"
            )
        return self._client, self._resources


async def _load(resources: Resources, *, reranker: bool) -> None:
    """Load the models that are needed first; what is wrong with one is told to whoever uses it."""
    with suppress(WhenceError):
        embedder = await resources.get("embedder")
        await embedder.embed(["warm up"])
    if reranker:
        with suppress(WhenceError):
            model = await resources.get("reranker")
            await model.score("warm up", ["warm up"])


async def _finished(task: asyncio.Task[None]) -> None:
    await asyncio.wait({task})


async def _ended(task: asyncio.Task[Any]) -> None:
    """End what somebody else has waited for, or will not."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

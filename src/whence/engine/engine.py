"""`Engine`: Whence in this process.

An engine runs a flow, or connects to one, and uses it as a client of a fleet does: it sends the same messages
as `whence run` and the command line serve.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from whence.answering.state import ChunkCallback, ExplainCallback
from whence.code.operations import CodeSnapshots
from whence.engine.audit import Operation, audit_calls
from whence.engine.documents import EngineDocuments
from whence.engine.erasure import Erasure
from whence.engine.evidence import export_evidence
from whence.engine.history import EngineHistory
from whence.engine.indexing import Progress, index_paths
from whence.engine.owner import OwnerOperations
from whence.engine.results import IndexReport
from whence.engine.search import SearchQuery, run_search
from whence.engine.session import EngineSession
from whence.engine.trace_access import explain
from whence.provenance.outcome import WhyNot
from whence.provenance.trace import Trace
from whence.retrieval.pipeline import RERANK_BUDGET_S, search_match, search_mode
from whence.retrieval.results import RetrievalResult, SearchReport
from whence.schema.access import Access, DocumentTags
from whence.schema.code import SnapshotChoice
from whence.schema.document_rag import Answer, Diversity, DocumentRagRequest

if TYPE_CHECKING:
    from whence.engine.retriever import Retriever
    from whence.flow.settings import Settings
    from whence.flow.telemetry.monitor import FlowMonitor
    from whence.models.protocols import Embedder, Reranker, Writer
    from whence.store.protocols import ChunkStore

__all__ = ("ChunkCallback", "Engine", "ExplainCallback")

_NO_TAGS = DocumentTags()
_PUBLIC = Access.public()
#: What the audit log has of each method.
_AUDITED = {
    "index": Operation("index", lambda report: report.documents.added + report.documents.updated),
    "index_for": Operation(
        "index", lambda report: report.documents.added + report.documents.updated
    ),
    "documents": Operation("documents", len),
    "search_report": Operation("search", lambda report: len(report.results)),
    "ask": Operation("ask", lambda answer: len(answer.citations), lambda answer: answer.answer_id),
    "explain": Operation("explain", lambda trace: len(trace.candidates)),
    "why_not": Operation("why-not"),
    "show": Operation("show"),
    "remove": Operation("remove"),
    "replay": Operation("replay"),
    "diff": Operation("diff"),
    "changes": Operation("changes", len),
}


def _resources(settings: Settings, **given: Any) -> tuple[Settings, dict[str, Any]]:
    """Return the settings with those that are given as text, and the objects that are given."""
    options = {name: value for name, value in given.items() if value and isinstance(value, str)}
    objects = {name: value for name, value in given.items() if value and name not in options}
    return settings.replace(**options), objects


class Engine(EngineHistory, EngineDocuments):
    """Index, search, ask and explain; `code` has the operations on snapshots, `owner` those without rights.

    Use it as an asynchronous context manager. Models are loaded on first use: opening costs a connection.

    Args:
        home: Folder of the embedded database; the user's data folder by default.
        database_url: A PostgreSQL 16+ with pgvector to use instead of the embedded one.
        broker: `memory://` runs the flow in this process; with a `pulsar://` address the engine is a client
            of the flow that runs there.
        embedder: `local`, `openai:MODEL` or `cohere:MODEL`, or an embedder object.
        writer: `extractive` or `openai:MODEL`, or a writer object.
        reranker: `auto`, `none`, a flashrank model or folder, or a reranker object.
        settings: Settings below the arguments above; by default environment, `whence.toml`, defaults.
        store: An open store; it is not closed here.
        flow: Name of a shipped flow, or path of a flow file.
        only: Processors of the flow to start; all of them when empty.
        warm_up: True loads the embedding model while connecting; "questions" loads the reranker too.
        monitor: Observes a flow that runs in this process; see `whence.flow.telemetry.monitor`.
        trace: File that is replaced by the pipeline trace of each search, question, expansion and fetch.

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
        trace: str | os.PathLike[str] | None = None,
        monitor: FlowMonitor | None = None,
    ) -> None:
        from whence.flow.settings import Settings

        settings, objects = _resources(
            settings or Settings.load(),
            home=None if home is None else os.fspath(home),
            database_url=database_url,
            broker=broker,
            embedder=embedder,
            writer=writer,
            reranker=reranker,
            store=store,
        )
        traced = trace is not None or settings.trace_dir is not None
        self._session = EngineSession(
            settings,
            objects,
            flow=flow,
            only=tuple(only),
            warm_up=warm_up,
            traced=traced,
            monitor=monitor,
        )
        self.code = CodeSnapshots(self._session)
        self.owner = OwnerOperations(self._session)
        audit_calls(self, _AUDITED, self._session.audit_log)
        if traced:
            from whence.engine.pipeline_trace import trace_engine

            trace_engine(self, None if trace is None else Path(trace), settings.trace_dir)

    async def __aenter__(self) -> Self:
        await self._session.open()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._session.close(*error)

    @property
    def is_open(self) -> bool:
        """Whether this is inside of `async with`."""
        return self._session.is_open

    @property
    def is_on_own_loop(self) -> bool:
        """Whether the running event loop is the one that this engine was opened in."""
        return asyncio.get_running_loop() is self._session.loop

    async def index(
        self,
        paths: Iterable[str | os.PathLike[str]],
        *,
        collection: str = "default",
        tags: DocumentTags = _NO_TAGS,
        prune: bool = False,
        boosts: Mapping[str, int] | None = None,
        token_vectors: bool | None = None,
        progress: Progress | None = None,
    ) -> IndexReport:
        """Index files and folders into a collection; unchanged documents are not stored again.

        Args:
            paths: Files and folders.
            collection: Name of the collection; created when missing.
            tags: Rights that readers need, in addition to each document's own.
            prune: Whether documents of the collection that are in no path are removed.
            boosts: Weight of words of `title`, `heading` and `path`, 1 for the text; unchanged when None.
            token_vectors: Whether token vectors are kept for the local reranker; None for the setting.
            progress: Called with the number of documents done and their total (None until counted).

        Raises:
            BadInput: A path does not exist, or the collection's name or a boost is invalid.
            ModelMismatch: The collection was made with another embedding model.
            Unavailable: A service that is needed does not answer; stored documents stay.
        """
        how: dict[str, Any] = {"prune": prune, "boosts": boosts, "token_vectors": token_vectors}
        return await index_paths(self._session, paths, collection, tags, progress=progress, **how)

    async def search(
        self,
        query: str,
        *,
        top_k: int = 5,
        threshold: float = 0.0,
        mode: str = "hybrid",
        access: Access = _PUBLIC,
        collection: str = "default",
        filters: Mapping[str, Any] | None = None,
        match: str = "any",
        exact: bool = False,
        rerank: bool = False,
        rerank_budget_s: float = RERANK_BUDGET_S,
        snapshot: str | SnapshotChoice | None = None,
    ) -> list[RetrievalResult]:
        """Return the best passages among those the reader may see.

        `SearchQuery` documents the arguments, `whence.engine.search.run_search` the errors.
        """
        request = SearchQuery(
            query=query,
            top_k=top_k,
            threshold=threshold,
            mode=mode,
            access=access,
            collection=collection,
            filters=filters or {},
            match=match,
            exact=exact,
            rerank=rerank,
            rerank_budget_s=rerank_budget_s,
            snapshot=None if snapshot is None else SnapshotChoice.of(snapshot),
        )
        return (await self.search_report(request)).results

    async def search_report(self, query: SearchQuery) -> SearchReport:
        """Search, and report degradations and latencies beside the results."""
        return await run_search(self._session, query)

    async def ask(
        self,
        question: str,
        *,
        collection: str = "default",
        access: Access = _PUBLIC,
        doc_limit: int = 20,
        fetch_limit: int = 0,
        rerank: bool = True,
        rerank_limit: int = 0,
        diversity: Diversity | None = None,
        diversity_lambda: float | None = None,
        mode: str | None = None,
        filters: Mapping[str, Any] | None = None,
        exact: bool = False,
        as_of: str | None = None,
        history: Sequence[str] = (),
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
            rerank: Whether candidates are reranked.
            rerank_limit: Candidates that the reranker reads; 0 for all.
            diversity: `mmr` for passages that say different things, or `none`; None for the flow's own.
            diversity_lambda: Weight of relevance against diversity, 0 to 1; None for the flow's own.
            mode: `hybrid`, `dense` or `bm25`; None for the flow's own.
            filters: Conditions on metadata that passages must meet, as for `search`.
            exact: Whether misspelt words are searched for as they are.
            as_of: Date, time or id of an answer, whose documents are read; see `whence.engine.as_of`.
            history: Earlier questions of the conversation, oldest first; they complete a follow-up question.
            timeout_s: Seconds for the whole question.
            chunk_callback: Receives the text while it is written.
            explain_callback: Receives the triples of each finished stage; its exceptions are only logged.

        Raises:
            WhenceError: As for `search`; also when the time ran out.
        """
        how: dict[str, Any] = {"exact": exact, "rerank": rerank, "rerank_limit": rerank_limit}
        limits: dict[str, Any] = {"doc_limit": doc_limit, "fetch_limit": fetch_limit}
        request = DocumentRagRequest(
            access=access,
            question=question,
            collection=collection,
            diversity=diversity,
            diversity_lambda=diversity_lambda,
            mode=None if mode is None else search_mode(mode),
            filters=dict(filters or {}),
            streaming=chunk_callback is not None,
            history=tuple(history),
            **(how | limits),
        )
        return await self._session.ask(request, timeout_s, chunk_callback, explain_callback, as_of)

    async def explain(self, answer_id: str, access: Access = _PUBLIC) -> Trace:
        """Return the trace of an answer, without candidates that are hidden from the reader.

        Raises:
            NotFound: There is no such answer, or the reader may not see its evidence.
        """
        return await explain(self._session, answer_id, access)

    async def evidence(self, answer_id: str, access: Access = _PUBLIC) -> dict[str, Any]:
        """Return what proves an answer; `whence.engine.evidence.export_evidence` documents it."""
        return await export_evidence(self._session, answer_id, access)

    async def why_not(self, item: str, answer_id: str, access: Access = _PUBLIC) -> WhyNot:
        """Return why a passage is not in an answer, with numbers; see `whence.engine.why_not`."""
        from whence.engine.why_not import why_not

        return await why_not(self._session, item, answer_id, access)

    async def erase(self, document_id: str, *, collection: str = "default") -> Erasure:
        """Erase a document; see `whence.engine.owner.OwnerOperations.erase`."""
        return (await self.owner.erase([document_id], collection=collection))[0]

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
        """Return a retriever of one collection for one reader; arguments as for `search`.

        It works while this engine is open, from any thread, blocking or in any event loop.

        Raises:
            BadInput: The mode or match is unknown.
        """
        from whence.engine.retriever import EngineRetriever

        how = {"mode": search_mode(mode), "match": search_match(match)}
        options = {**how, "filters": filters or {}, "rerank": rerank}
        retriever = EngineRetriever(self, collection=collection, access=access, options=options)
        self._session.retrievers.add(retriever)
        return retriever

    def clone(self) -> Engine:
        """Return an unopened engine of the same settings, for searches in another event loop.

        Local models are shared; connections are opened again.

        Raises:
            BadInput: This engine is not open.
        """
        return Engine(**self._session.clone_options())

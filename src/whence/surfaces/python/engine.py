"""`Engine`: Whence in this process.

An engine runs a flow, or connects to one, and uses it as a client of a fleet does: it sends the same messages
as `whence run` and the command line serve.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from whence.operations.answers import ShowAnswer
from whence.operations.ask import AskLive, ChunkCallback, ExplainCallback
from whence.operations.citation_source import ShowSource
from whence.operations.documents import ListCollections, ListDocuments, Remove, Show
from whence.operations.erasure import Erasure
from whence.operations.explain import Explain, ExplainAbsence, ExportEvidence
from whence.operations.index import Index, StoreFiles
from whence.operations.operation import Operation
from whence.operations.overview import Overview
from whence.operations.plugins import operations_plugin
from whence.operations.replay import Diff, ListChanges, Replay
from whence.operations.retrieve import Retrieve
from whence.operations.search import Search
from whence.operations.session import Session
from whence.operations.stale import ListStale
from whence.retrieval.pipeline import search_match, search_mode
from whence.schema.access import Access
from whence.surfaces.python.methods import method
from whence.surfaces.python.owner import OwnerOperations
from whence.surfaces.python.texts import EngineTexts

if TYPE_CHECKING:
    from whence.code.operations import CodeSnapshots
    from whence.flow.settings import Settings
    from whence.flow.telemetry.monitor import FlowMonitor
    from whence.models.protocols import Embedder, Reranker, Writer
    from whence.store.protocols import ChunkStore
    from whence.surfaces.python.retriever import Retriever

__all__ = ("ChunkCallback", "Engine", "ExplainCallback")

R = TypeVar("R")

_PUBLIC = Access.public()


def _resources(settings: Settings, **given: Any) -> tuple[Settings, dict[str, Any]]:
    """Return the settings with those that are given as text, and the objects that are given."""
    options = {name: value for name, value in given.items() if value and isinstance(value, str)}
    objects = {name: value for name, value in given.items() if value and name not in options}
    return settings.replace(**options), objects


class Engine(EngineTexts):
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
        self._session = Session(
            settings,
            objects,
            flow=flow,
            only=tuple(only),
            warm_up=warm_up,
            traced=traced,
            monitor=monitor,
        )
        self.owner = OwnerOperations(self._session)
        if traced:
            from whence.operations.pipeline_trace import PipelineTracer

            file = None if trace is None else Path(trace)
            self._session.middlewares.append(PipelineTracer(file, settings.trace_dir))

    async def __aenter__(self) -> Self:
        await self._session.open()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._session.close(*error)

    @cached_property
    def code(self) -> CodeSnapshots:
        """Operations on snapshots of code."""
        snapshots: CodeSnapshots = operations_plugin("code")(self._session)
        return snapshots

    @property
    def is_open(self) -> bool:
        """Whether this is inside of `async with`."""
        return self._session.is_open

    @property
    def is_on_own_loop(self) -> bool:
        """Whether the running event loop is the one that this engine was opened in."""
        return asyncio.get_running_loop() is self._session.loop

    async def run(self, operation: Operation[R]) -> R:
        """Run an operation; the report of `whence.operations.search.Search` has more than the hits."""
        return await self._session.run(operation)

    index = method(Index)
    index_for = method(StoreFiles)
    search = method(Search, lambda report: report.results)
    ask = method(AskLive)
    explain = method(Explain)
    evidence = method(ExportEvidence)
    why_not = method(ExplainAbsence)
    replay = method(Replay)
    diff = method(Diff)
    changes = method(ListChanges)
    show = method(Show)
    documents = method(ListDocuments)
    stale = method(ListStale)
    answer = method(ShowAnswer)
    source = method(ShowSource)
    overview = method(Overview)
    retrieve = method(Retrieve)
    visible_collections = method(ListCollections)
    remove = method(Remove)

    async def erase(self, document_id: str, *, collection: str = "default") -> Erasure:
        """Erase a document; see `whence.operations.owner.Erase`."""
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
        from whence.surfaces.python.retriever import EngineRetriever

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

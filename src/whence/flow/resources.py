"""Opens the resources of processors on first use: store, ledger and models.

A model that is not installed does not keep a flow from running; using it raises the error. Resources that a
setting disables are in `disabled`.

Other packages add kinds of resources through the entry-point group `whence.resources`: the name of an entry
point is the kind, its value a function `open(get)` that returns an asynchronous context manager with the
resource; `await get(KIND)` returns another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Self

from whence.flow.settings import Settings
from whence.schema.errors import ConfigError, Unavailable
from whence.schema.plugins import load_plugin

if TYPE_CHECKING:
    from whence.models.factory import ModelSettings
    from whence.models.local_embedder import LocalEmbedder
    from whence.schema.embedding import EmbeddingModel
    from whence.store.postgres.store import PostgresStore

GROUP = "whence.resources"
#: Built-in kinds of resources; a processor lists those that it uses in `needs`.
KINDS = ("store", "ledger", "embedder", "embedders", "reranker", "writer", "prompting")


class Resources:
    """Opens each resource once and closes all in reverse order at the end of `async with`.

    Args:
        settings: Settings of database and models.
        objects: Existing resources by kind; the caller closes them.
        processor_arguments: Keyword arguments for every processor whose constructor has one of that name, e.g.
            `sources`, the origin of ids and times, for runs that can be repeated exactly.
    """

    def __init__(
        self,
        settings: Settings,
        objects: Mapping[str, Any] | None = None,
        *,
        processor_arguments: Mapping[str, Any] | None = None,
    ) -> None:
        self.processor_arguments: Mapping[str, Any] = dict(processor_arguments or {})
        self._settings = settings
        self._given = dict(objects or {})
        for kind in self._given:
            _check_kind(kind)
        self._opened: dict[str, Any] = {}
        self._stack = AsyncExitStack()
        self._lock = asyncio.Lock()
        self._closed = False

    @property
    def disabled(self) -> Mapping[str, str]:
        """Disabled kinds, with the setting that disables each."""
        from whence.models.factory import leaves_out_reranker

        settings = self._settings
        reranker, embedder = settings.reranker, settings.embedder
        if "reranker" in self._given:
            return {}
        if reranker == "none":
            return {"reranker": "WHENCE_RERANKER=none"}
        if leaves_out_reranker(reranker, embedder, settings.home, settings.models):
            return {"reranker": f"WHENCE_EMBEDDER={embedder}, without a reranker of its languages"}
        return {}

    async def get(self, kind: str) -> Any:
        """Return a resource, and open it on first use.

        A local model that is not installed is returned, too; it fails when it is used.
        """
        _check_kind(kind)
        async with self._lock:
            if self._closed:
                raise Unavailable("the resources of this flow are closed")
            return await self._get(kind)

    def loop_independent_models(self) -> dict[str, Any]:
        """Return the opened models that do not depend on an event loop: those that run in this process."""
        from whence.models.factory import encoder_of

        kinds = []
        for kind in ("embedder", "reranker"):
            # A model of a plug-in, `NAME:MODEL`, may have connections.
            setting = str(self._settings.get(kind))
            name, mark, _ = setting.partition(":")
            local = name == "onnx" or (
                not mark if kind == "reranker" else encoder_of(setting) is not None
            )
            if local:
                kinds.append(kind)
        opened = {kind: self._opened.get(kind) for kind in kinds}
        return {kind: one for kind, one in opened.items() if one is not None}

    async def aclose(self) -> None:
        """Close the opened resources in reverse order. Idempotent."""
        async with self._lock:
            self._closed = True
            self._opened.clear()
            await self._stack.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _get(self, kind: str) -> Any:
        if kind in self._given:
            return self._given[kind]
        if kind not in self._opened:
            self._opened[kind] = await self._open(kind)
        return self._opened[kind]

    async def _open(self, kind: str) -> Any:
        if kind in KINDS:
            return await getattr(self, f"_open_{kind}")()
        return await self._stack.enter_async_context(load_plugin(GROUP, kind)(self._get))

    async def _open_store(self) -> Any:
        from whence.store.chain_key import ChainKey

        url = self._settings.database_url
        key = ChainKey(self._settings.integrity, url or "")
        keep_versions, keep_traces = self._settings.keep_versions, self._settings.keep
        store: Any
        if url is None:
            from whence.store.postgres.server.server import EmbeddedServer

            embedded = EmbeddedServer(self._settings.home, while_starting=_postgres_store)
            server = await self._stack.enter_async_context(embedded)
            store = await _postgres_store().connect(
                server, key=key, keep_versions=keep_versions, keep_traces=keep_traces
            )
        else:
            from whence.store.open import open_store

            store = await open_store(url, key, keep_versions=keep_versions, keep_traces=keep_traces)
        return self._closing(store)

    async def _open_ledger(self) -> Any:
        from whence.broker.connect import in_process
        from whence.broker.idempotency import MemoryLedger

        store = await self._get("store")
        # Messages of an in-process broker end with the process, and so may their ledger.
        if in_process(self._settings.broker) or not hasattr(store, "ledger"):
            return MemoryLedger()
        return self._closing(store.ledger())

    async def _open_embedder(self) -> Any:
        from whence.models.factory import make_embedder

        return self._local(
            "embedder",
            self._closing(make_embedder(self._settings.embedder, self.model_settings())),
        )

    async def _open_embedders(self) -> Any:
        from whence.broker.connect import in_process
        from whence.models.library import ModelLibrary

        async def model_of(collection: str) -> EmbeddingModel | None:
            store = await self.get("store")
            found: EmbeddingModel | None = await store.collection_model(collection)
            return found

        settings = self._settings
        # A worker of embeddings alone starts no database.
        has_store = settings.database_url is not None or in_process(settings.broker)
        own = await self._get("embedder")
        library = ModelLibrary(self.model_settings(), model_of if has_store else None, own)
        return self._closing(library)

    async def _open_reranker(self) -> Any:
        from whence.models.factory import encoder_of, make_reranker

        own = encoder_of(self._settings.embedder) is not None
        embedder = await self._token_reader() if own else None
        reranker = make_reranker(self._settings.reranker, self.model_settings(), embedder)
        return self._local("reranker", self._closing(reranker))

    async def _open_writer(self) -> Any:
        from whence.models.factory import is_local_reranker, make_writer

        if self._settings.writer != "extractive":
            return self._closing(make_writer(self._settings.writer, self.model_settings()))
        from whence.models.encoders import MINILM, MULTILINGUAL
        from whence.models.late_interaction import SpanReader
        from whence.quoting.extractive_writer import ExtractiveWriter

        # It compares spans by their vectors, and reads the best of them as the local reranker does.
        embedder = await self._get("embedder")
        local = is_local_reranker(self._settings.reranker)
        library = await self._get("embedders")
        words = (await self._token_reader() or library.installed(MINILM.name)) if local else None
        others = library.installed(MULTILINGUAL.name) if words else None
        return self._closing(
            ExtractiveWriter(embedder, SpanReader(words, others) if words else None)
        )

    async def _open_prompting(self) -> Any:
        from whence.answering.prompting import Prompting, read_templates
        from whence.models.factory import make_writer
        from whence.models.prices import read_prices

        settings = self._settings
        named = settings.get("rewriter")
        prompting = Prompting(
            templates=read_templates(settings.prompts),
            language=settings.get("answer_language") or "",
            instructions=settings.get("answer_instructions") or "",
            concepts=settings.concepts,
            prices=read_prices(settings.prices),
            local_only=settings.local_only_labels,
            rewriter=make_writer(named, self.model_settings()) if named else None,
        )
        return self._closing(prompting)

    async def _token_reader(self) -> LocalEmbedder | None:
        """Return what reads words for reranker and writer, one model for both; None where nothing does."""
        from whence.models.factory import make_token_reader

        if "token_reader" not in self._opened:
            embedder = await self._get("embedder")
            reader = make_token_reader(self.model_settings(), embedder)
            if reader is not None and reader is not embedder:
                self._closing(reader)
            self._opened["token_reader"] = reader
        found: LocalEmbedder | None = self._opened["token_reader"]
        return found

    def _local(self, role: str, model: Any) -> Any:
        """Return a model that reads all passages.

        Raises:
            ConfigError: It is on another machine, and some documents must not leave this one.
        """
        if self._settings.local_only_labels and getattr(model, "is_remote", False):
            raise ConfigError(
                f"the {role} {model.served_by} reads texts on another machine, and WHENCE_LOCAL_ONLY_LABELS is set",
                hint=f"set a local {role} (WHENCE_{role.upper()}), or no such labels",
            )
        return model

    def _closing(self, resource: Any) -> Any:
        """Return a resource, which is closed with the others."""
        self._stack.push_async_callback(resource.aclose)
        return resource

    def model_settings(self) -> ModelSettings:
        """Return folders, keys and addresses of models."""
        from whence.models.factory import ModelSettings

        # Not by `msgspec.convert`, which takes the default where reading a setting fails.
        names = [one for one in ModelSettings.__struct_fields__ if hasattr(self._settings, one)]
        return ModelSettings(**{one: getattr(self._settings, one) for one in names})


def _postgres_store() -> type[PostgresStore]:
    """Import the store; the embedded server starts meanwhile."""
    from whence.store.postgres.store import PostgresStore

    return PostgresStore


def _check_kind(kind: str) -> None:
    if kind not in KINDS and load_plugin(GROUP, kind) is None:
        raise ConfigError(
            f"there is no resource {kind!r}", hint=f"a processor can need {', '.join(KINDS)}"
        )

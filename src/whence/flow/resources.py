"""What processors need besides messages: a store and models, opened when first asked for.

What is missing but could be there (a model that is not installed) does not keep a flow from running: whoever
asks for it gets the error, all else works. What the settings switch off is `absent`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from whence.flow.settings import Settings
from whence.schema.errors import ConfigError, ModelMissing, Unavailable

if TYPE_CHECKING:
    from whence.models.factory import ServiceSettings

__all__ = ("KINDS", "MissingReranker", "Resources")

#: Everything that a processor can name in its `needs`.
KINDS = ("store", "ledger", "embedder", "reranker", "writer")


class Resources:
    """Opens each resource once and closes them in reverse order. Use it as an `async with`.

    Args:
        settings: Which database and which models.
        objects: Resources that exist already, by kind; they are used as they are and not closed here.
        processor_arguments: Keyword arguments for every processor whose constructor has one of that name, e.g.
            `clock` and `new_id` for runs that can be repeated exactly.

    Raises:
        ConfigError: `objects` holds a kind that is none.
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
        """Kinds that are switched off, with the setting that did it."""
        off = self._settings.reranker == "none" and "reranker" not in self._given
        return {"reranker": "WHENCE_RERANKER=none"} if off else {}

    async def get(self, kind: str) -> Any:
        """Return a resource, opened when this is the first time.

        A local model that is not installed is given all the same; it fails when it is used.

        Raises:
            ConfigError: There is no such kind, or a setting is wrong.
            Unavailable: The database cannot be reached, or the resources are closed.
        """
        _check_kind(kind)
        async with self._lock:
            if self._closed:
                raise Unavailable("the resources of this flow are closed")
            return await self._get(kind)

    def loop_independent_models(self) -> dict[str, Any]:
        """Return the models opened here that any event loop can use: those that run in this process."""
        kinds = ["embedder"] if self._settings.embedder.startswith("local") else []
        opened = {kind: self._opened.get(kind) for kind in (*kinds, "reranker")}
        return {kind: one for kind, one in opened.items() if one is not None}

    async def aclose(self) -> None:
        """Close what was opened here, the last first. Safe to call twice."""
        async with self._lock:
            self._closed = True
            self._opened.clear()
            await self._stack.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _get(self, kind: str) -> Any:
        if kind in self._given:
            return self._given[kind]
        if kind not in self._opened:
            self._opened[kind] = await getattr(self, f"_open_{kind}")()
        return self._opened[kind]

    async def _open_store(self) -> Any:
        url = self._settings.database_url
        store: Any
        if url is None:
            from whence.store.postgres.server.server import EmbeddedServer

            server = await self._stack.enter_async_context(EmbeddedServer(self._settings.home))
            # After the server: it loads this while it waits.
            from whence.store.postgres.store import PostgresStore

            store = await PostgresStore.connect(server)
        else:
            from whence.store.open import open_store

            store = await open_store(url)
        self._stack.push_async_callback(store.aclose)
        return store

    async def _open_ledger(self) -> Any:
        """Return the ledger of processors that work once: durable where messages are."""
        from whence.broker.connect import in_process
        from whence.broker.idempotency import MemoryLedger

        store = await self._get("store")
        # Messages of a broker inside this process end with it, and so may the memory of them.
        if in_process(self._settings.broker) or not hasattr(store, "ledger"):
            return MemoryLedger()
        ledger = store.ledger()
        self._stack.push_async_callback(ledger.aclose)
        return ledger

    async def _open_embedder(self) -> Any:
        from whence.models.factory import make_embedder

        embedder = make_embedder(self._settings.embedder, self._services())
        self._stack.push_async_callback(embedder.aclose)
        return embedder

    async def _open_reranker(self) -> Any:
        from whence.models.factory import make_reranker

        reranker, reason = make_reranker(self._settings.reranker, self._services())
        if reranker is None:
            return MissingReranker(reason)
        self._stack.push_async_callback(reranker.aclose)
        return reranker

    async def _open_writer(self) -> Any:
        from whence.models.factory import make_writer

        # Only a writer that quotes compares sentences by their vectors.
        extractive = self._settings.writer == "extractive"
        embedder = await self._get("embedder") if extractive else None
        writer = make_writer(self._settings.writer, embedder, self._services())
        self._stack.push_async_callback(writer.aclose)
        return writer

    def _services(self) -> ServiceSettings:
        from whence.models.factory import ServiceSettings

        settings = self._settings
        return ServiceSettings(
            home=settings.home,
            models=settings.models,
            openai_api_key=settings.openai_api_key,
            openai_base_url=settings.openai_base_url,
            cohere_api_key=settings.cohere_api_key,
            cohere_base_url=settings.cohere_base_url,
        )


class MissingReranker:
    """Stands for a reranker that is not there: every use fails with the reason.

    Args:
        reason: What is missing and what to do, one line.
    """

    def __init__(self, reason: str) -> None:
        self._reason = reason

    @property
    def model(self) -> str:
        """Fail.

        Raises:
            ModelMissing: Always.
        """
        raise self._error()

    async def score(self, query: str, documents: Sequence[str]) -> list[float]:
        """Fail.

        Raises:
            ModelMissing: Always.
        """
        raise self._error()

    async def aclose(self) -> None:
        """Do nothing."""

    def _error(self) -> ModelMissing:
        # A new one each time: an exception that is raised twice grows its traceback.
        return ModelMissing(f"there is no reranker: {self._reason}")


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise ConfigError(
            f"there is no resource {kind!r}", hint=f"a processor can need {', '.join(KINDS)}"
        )

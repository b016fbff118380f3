"""A gateway in this process, over a real engine on a store in memory, and its page as a client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from whence.schema.access import Access
from whence.store.memory.store import MemoryStore
from whence.surfaces.http.app import gateway
from whence.surfaces.http.auth import Authenticator, Caller, token_digest
from whence.surfaces.http.service import Service
from whence.surfaces.python.engine import Engine
from whence.testing.stub_models import HashEmbedder

FINANCE = Access(frozenset({"finance"}))
CALLERS = {
    "editor": Caller("editor", FINANCE, may_write=True),
    "reader": Caller("reader", FINANCE),
    "other": Caller("other", Access.public()),
    "intranet": Caller("intranet", Access.public(), speaks_for_others=True),
}
URL = "http://127.0.0.1:9420"
#: What the page sends with each request.
PAGE = {"X-Whence-Page": "1"}


class PageServer:
    """An engine and the gateway before it; other gateways before the same engine are restarts."""

    def __init__(self, engine: Engine, store: Any) -> None:
        self.engine, self.store = engine, store
        self.callers = {token_digest(name): caller for name, caller in CALLERS.items()}

    def browser(self, cookies: httpx.Cookies | None = None, **options: Any) -> httpx.AsyncClient:
        """Return a client that keeps cookies, at a new gateway."""
        auth = Authenticator(Access.public(), lambda: self.callers)
        service = Service(self.engine, "default", concurrent=2)
        app = gateway(service, auth, hosts={"127.0.0.1", "wiki.example"}, **options)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url=URL, headers=PAGE, cookies=cookies)


@asynccontextmanager
async def page_server(home: Path, store: Any = None) -> AsyncIterator[PageServer]:
    """Yield a server with an empty store."""
    store = store or MemoryStore()
    models: dict[str, Any] = {"embedder": HashEmbedder(), "reranker": "none"}
    async with Engine(home=home, store=store, writer="extractive", **models) as engine:
        yield PageServer(engine, store)

"""Opens the configured store so that the database refuses every change."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from whence.schema.errors import InternalError, NotFound

if TYPE_CHECKING:
    from whence.flow.settings import Settings
    from whence.store.postgres.store import PostgresStore

#: SQLSTATE of a change in a transaction that only reads.
_READ_ONLY = "25006"


@asynccontextmanager
async def read_only_store(settings: Settings) -> AsyncIterator[PostgresStore]:
    """Open the store of the settings with read-only transactions.

    Raises:
        NotFound: The database has no schema that this version can read unchanged.
        ConfigError: The address is wrong, or the server refuses the connection.
        Unavailable: The server cannot be reached.
    """
    from whence.store.postgres.server.server import EmbeddedServer
    from whence.store.postgres.store import PostgresStore

    async with AsyncExitStack() as stack:
        url = settings.database_url
        if url is None:
            url = (await stack.enter_async_context(EmbeddedServer(settings.home))).url()
        # A query of a PostgreSQL URL holds settings of every connection that is made with it.
        read_only = f"{url}{'&' if '?' in url else '?'}default_transaction_read_only=on"
        try:
            store = await PostgresStore.connect(read_only)
        except InternalError as error:
            if getattr(error.__cause__, "sqlstate", None) != _READ_ONLY:
                raise
            raise NotFound(
                "this database holds no collection of this version of Whence",
                hint="index something first; after an update `whence search` brings the database up to date",
            ) from error
        stack.push_async_callback(store.aclose)
        yield store

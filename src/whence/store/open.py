"""Open the store that a database URL names.

Other packages add stores through the entry-point group `whence.stores`: the name of an entry point is the
scheme of the URL, its value an async function `open_store(url) -> Store` whose result has `aclose`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from whence.schema.errors import ConfigError
from whence.schema.plugins import load_plugin, plugin_names
from whence.store.chain_key import ChainKey
from whence.store.change_log import KEEP_VERSIONS

GROUP = "whence.stores"
_POSTGRES = ("postgresql", "postgres")


async def open_store(
    url: str,
    key: ChainKey | None = None,
    *,
    keep_versions: timedelta = KEEP_VERSIONS,
    keep_traces: timedelta | None = None,
) -> Any:
    """Open a store, to be closed by the caller with `aclose`.

    Args:
        url: Its address.
        key: Signs the chain of traces, where the store has one.
        keep_versions: Time for which former versions of documents are kept, where the store keeps them.
        keep_traces: How long traces are kept, where the store can remove them; None for ever.

    Returns:
        A `Store`, with the optional protocols that it supports.

    Raises:
        ConfigError: There is no store for the scheme, or the store's package cannot be loaded.
        Unavailable: The database cannot be reached.
    """
    try:
        scheme = urlsplit(url).scheme
    except ValueError:
        scheme = url.partition(":")[0]
    if scheme in _POSTGRES:
        # asyncpg and numpy are loaded only where they are used.
        from whence.store.postgres.store import PostgresStore

        return await PostgresStore.connect(
            url, key=key, keep_versions=keep_versions, keep_traces=keep_traces
        )
    factory = load_plugin(GROUP, scheme)
    if factory is None:
        raise ConfigError(
            f"no store is installed for database URLs that begin with {scheme or 'nothing'}",
            hint=f"known: {', '.join(f'{one}://' for one in (*_POSTGRES, *plugin_names(GROUP)))}",
        )
    return await factory(url)

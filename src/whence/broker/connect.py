"""From an address to a transport."""

from __future__ import annotations

import asyncio
import importlib
from urllib.parse import urlsplit

from whence.broker.transport import Transport
from whence.schema.errors import ConfigError, Unavailable

__all__ = ("SCHEMES", "connect")

#: Module of the transport for each scheme; each has a coroutine `open_transport(url)`.
SCHEMES = {
    "memory": "whence.broker.memory.transport",
    "pulsar": "whence.broker.pulsar.transport",
    "pulsar+ssl": "whence.broker.pulsar.transport",
}


async def connect(url: str) -> Transport:
    """Give a new client of the broker at `url`.

    Args:
        url: `memory://` for a broker inside this process that nobody else sees, or `pulsar://host:port`,
            `pulsar+ssl://host:port`.

    Raises:
        ConfigError: The address has an unknown scheme; its credentials are not repeated.
        Unavailable: There is no transport for the scheme in this version, or nobody answers there.
    """
    scheme = urlsplit(url).scheme if "://" in url else ""
    name = SCHEMES.get(scheme)
    if name is None:
        raise ConfigError(
            f"a broker's address cannot begin with {scheme}://"
            if scheme
            else "no broker's address",
            hint=f"use one of {', '.join(f'{known}://' for known in SCHEMES)}",
        )
    try:
        # Reading a client library takes a tenth of a second, for which the event loop should not stand still.
        module = await asyncio.to_thread(importlib.import_module, name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise Unavailable(
            f"no transport for {scheme}://", hint="this version speaks memory:// only"
        ) from error
    transport: Transport = await module.open_transport(url)
    return transport

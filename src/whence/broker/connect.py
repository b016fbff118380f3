"""From the address of a broker to a transport: built-in schemes first, then plug-ins.

A plug-in is an entry point in the group `whence.transports`. Its name is the scheme of its addresses; its
object is a coroutine function `open_transport(url) -> Transport`. A transport that connects nothing but its own
process says so with `open_transport.in_process = True`; the flow then runs in that process.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from whence.broker.transport import Transport
from whence.schema.errors import ConfigError
from whence.schema.plugins import load_plugin, plugin_names

#: Entry-point group of transports.
GROUP = "whence.transports"
#: Module of each built-in transport, with a coroutine function `open_transport`.
_MODULES = {
    "memory": "whence.broker.memory.transport",
    "pulsar": "whence.broker.pulsar.transport",
    "pulsar+ssl": "whence.broker.pulsar.transport",
}


async def connect(url: str) -> Transport:
    """Return a new client of the broker at `url`.

    Args:
        url: `memory://` for a broker inside this process, `pulsar://host:port`, `pulsar+ssl://host:port`, or an
            address of a plug-in's scheme.

    Raises:
        ConfigError: The address has an unknown scheme; its credentials are not repeated.
        Unavailable: The broker cannot be reached.
    """
    # Importing a client library takes a tenth of a second and must not block the event loop.
    opener = await asyncio.to_thread(_opener, _scheme(url))
    transport: Transport = await opener(url)
    return transport


def in_process(url: str) -> bool:
    """Return whether the broker at `url` lives in the process that connects to it.

    Raises:
        ConfigError: The plug-in of the scheme cannot be loaded.
    """
    scheme = _scheme(url)
    if not scheme or scheme in _MODULES:
        return scheme == "memory"
    return bool(getattr(load_plugin(GROUP, scheme), "in_process", False))


def _scheme(url: str) -> str:
    return urlsplit(url).scheme if "://" in url else ""


def _opener(scheme: str) -> Any:
    module = _MODULES.get(scheme)
    if module is not None:
        return import_module(module).open_transport
    opener = load_plugin(GROUP, scheme) if scheme else None
    if opener is None:
        known = (*_MODULES, *plugin_names(GROUP))
        raise ConfigError(
            f"no transport for {scheme}://"
            if scheme
            else "the address of the broker has no scheme",
            hint=f"use one of {', '.join(f'{name}://' for name in known)}",
        )
    return opener

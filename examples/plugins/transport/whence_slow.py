"""The in-process transport with a delay before every message, to see what a slow network does to a flow.

`WHENCE_BROKER=slow://?delay_ms=50` selects it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

from whence.broker.memory.transport import MemoryTransport
from whence.schema.errors import ConfigError

DEFAULT_DELAY_MS = 50.0


class SlowTransport(MemoryTransport):
    """Waits before it publishes; all else is the transport in memory."""

    def __init__(self, delay_s: float) -> None:
        super().__init__()
        self._delay_s = delay_s

    async def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
        delay_s: float | None = None,
    ) -> str:
        """Publish after the delay; returns the message's id."""
        await asyncio.sleep(self._delay_s)
        return await super().publish(topic, payload, headers=headers, key=key, delay_s=delay_s)


async def open_transport(url: str) -> SlowTransport:
    """Open the transport of a URL `slow://?delay_ms=N`.

    Raises:
        ConfigError: The delay is not a number from 0 to 10000.
    """
    values = parse_qs(urlsplit(url).query).get("delay_ms", [str(DEFAULT_DELAY_MS)])
    try:
        delay_ms = float(values[-1])
    except ValueError:
        delay_ms = -1.0
    if not 0.0 <= delay_ms <= 10_000.0:
        raise ConfigError(f"delay_ms={values[-1]} is not 0 to 10000", hint="slow://?delay_ms=50")
    return SlowTransport(delay_ms / 1000)


#: The transport connects nothing outside its process, so the flow runs there, too.
open_transport.in_process = True  # type: ignore[attr-defined]

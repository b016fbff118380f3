"""HTTP connections with limits: how many, and how long one may take to send a request."""

from __future__ import annotations

import asyncio
import logging
import resource
from collections import Counter
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

logger = logging.getLogger(__name__)

#: Open files that are not connections of clients: database, models, logs.
_OTHER_FILES: Final = 256
#: Connections at most, however many files may be open.
_MOST_CONNECTIONS: Final = 4096
#: Seconds from the beginning of a request to the end of its headers, and from there to the end of its body.
HEADERS_S: Final = 10.0
BODY_S: Final = 30.0


def most_connections() -> int:
    """Return how many connections there may be, after raising the limit of open files as far as it goes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_CONNECTIONS + _OTHER_FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(16, wanted - _OTHER_FILES)


class ConnectionLimits:
    """The connections that are open, and how many there may be.

    Args:
        most: Connections in all; one address has at most half of them.
        headers_s: Seconds for the headers of a request.
        body_s: Seconds for its body.
    """

    def __init__(self, most: int, *, headers_s: float = HEADERS_S, body_s: float = BODY_S) -> None:
        self.headers_s, self.body_s = headers_s, body_s
        self._most = most
        self._open: Counter[str] = Counter()

    def accepts(self, address: str) -> bool:
        """Count a connection; return whether it is within the limits."""
        self._open[address] += 1
        within = self._open.total() <= self._most and self._open[address] <= max(1, self._most // 2)
        if not within:
            logger.warning("refused a connection, there are too many", extra={"address": address})
        return within

    def closed(self, address: str) -> None:
        """Count a connection no longer."""
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]


class LimitedProtocol(H11Protocol):
    """Closes a connection that is beyond the limits, or whose client is too slow."""

    limits: ConnectionLimits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self._awaited: tuple[Any, Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        if self.limits.accepts(self._address):
            self._watch()
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_watching()
        self.limits.closed(self._address)
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Limit the time until the client has sent what is awaited; more bytes do not extend it."""
        state = self.conn.their_state
        limit = {h11.IDLE: self.limits.headers_s, h11.SEND_BODY: self.limits.body_s}.get(state)
        awaited = None if limit is None else (self.cycle, state)
        if awaited == self._awaited:
            return
        self._stop_watching()
        self._awaited = awaited
        if limit is not None:
            self._timer = self.loop.call_later(limit, self.transport.abort)

    def _stop_watching(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class RateFilter(logging.Filter):
    """Lets few records of one kind pass in a while, so that no caller can fill the log.

    Args:
        most: Records of one logger and message that pass in a period.
        period_s: Its seconds.
    """

    def __init__(self, most: int = 10, period_s: float = 10.0) -> None:
        super().__init__()
        self._most, self._period_s = most, period_s
        self._began = 0.0
        self._counts: Counter[tuple[str, str]] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record passes; the first after a period says how many did not."""
        if record.created - self._began > self._period_s:
            left_out = sum(max(0, count - self._most) for count in self._counts.values())
            self._began = record.created
            self._counts.clear()
            if left_out:
                record.msg = f"{record.msg} (before, {left_out} similar records were left out)"
        kind = (record.name, str(record.msg))
        self._counts[kind] += 1
        return self._counts[kind] <= self._most

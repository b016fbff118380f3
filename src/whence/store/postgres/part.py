"""What the parts of the store on PostgreSQL share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from whence.store.chain_key import ChainKey
from whence.store.postgres.cache import ByteCache
from whence.store.postgres.pool import ConnectionPool
from whence.store.postgres.server.tuning import memory_bytes

if TYPE_CHECKING:
    # Maintenance uses functions that stand beside parts.
    from whence.store.postgres.maintenance import Maintenance

#: Size of the cache: a part of the memory, and at most.
_OF_MEMORY = 16
_MAX_BYTES = 128 * 1024 * 1024


class PostgresPart:
    """A base class of `PostgresStore`; all of them share what is passed here.

    Args:
        pool: Lends connections.
        maintenance: Does what writes leave for later.
        write_timeout_s: Longest one statement of a write may take, in seconds.
        clock: Returns the time that a change or a trace is recorded with, and its zone.
        key: Signs the chain of traces; None when nothing is signed.
        keep_versions: Time for which replaced and removed documents are kept; none when it is zero.
        keep_traces: How long traces are kept; None for ever.
    """

    def __init__(
        self,
        pool: ConnectionPool,
        maintenance: Maintenance,
        *,
        write_timeout_s: float,
        clock: Callable[[], datetime],
        key: ChainKey | None,
        keep_versions: timedelta,
        keep_traces: timedelta | None,
    ) -> None:
        self.pool = pool
        self.maintenance = maintenance
        self.cache = ByteCache(min(_MAX_BYTES, memory_bytes() // _OF_MEMORY))
        self.write_timeout_s = write_timeout_s
        self.clock = clock
        self._key = key
        self._keep_versions = keep_versions
        self._keep_traces = keep_traces

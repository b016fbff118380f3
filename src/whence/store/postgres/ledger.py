"""The idempotency ledger in PostgreSQL: claimed and completed messages, and their effects on documents.

A process renews its claims as long as it lives, so the claim of a killed worker expires within seconds, however
long the lease of the message is. Times are the server's: the clocks of the processes may differ.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress

from whence.schema.errors import ConfigError, WhenceError
from whence.schema.idempotency import Claim, ClaimState, EffectKind, Effects
from whence.store.postgres.driver import Connection
from whence.store.validation import is_text

logger = logging.getLogger(__name__)

#: Rows deleted by one statement, so that none takes long.
_DELETE_BATCH = 5_000
_CLEANUP_INTERVAL_S = 60.0
_BUSY_S = 0.05

_CLAIM = """
INSERT INTO ledger AS l (member_group, message_id, owner, expires_at)
VALUES ($1, $2, $3, now() + make_interval(secs => $4))
ON CONFLICT (member_group, message_id) DO UPDATE
SET owner = $3, done = false, expires_at = now() + make_interval(secs => $4),
    deaths = CASE WHEN l.done THEN 0 ELSE l.deaths + 1 END
WHERE l.expires_at <= now()
RETURNING deaths
"""
_LOOK = """
SELECT done, greatest(0, extract(epoch FROM expires_at - now()))::float8 AS wait_s
FROM ledger WHERE member_group = $1 AND message_id = $2
"""
_DONE = """
INSERT INTO ledger (member_group, message_id, owner, done, expires_at)
VALUES ($1, $2, $3, true, now() + make_interval(secs => $4))
ON CONFLICT (member_group, message_id) DO UPDATE
SET done = true, expires_at = excluded.expires_at
"""
_RELEASE = """
DELETE FROM ledger WHERE member_group = $1 AND message_id = $2 AND owner = $3 AND NOT done
"""
_RENEW = """
UPDATE ledger l SET expires_at = now() + make_interval(secs => $4)
FROM unnest($1::text[], $2::text[]) AS mine (member_group, message_id)
WHERE l.member_group = mine.member_group AND l.message_id = mine.message_id
  AND l.owner = $3 AND NOT l.done
"""
#: Expired claims are kept as long as completed ones: they show which message kills its workers.
_DELETE_EXPIRED = """
DELETE FROM ledger WHERE (member_group, message_id) IN (
    SELECT member_group, message_id FROM ledger
    WHERE expires_at <= now() - CASE WHEN done THEN interval '0' ELSE make_interval(secs => $1) END
    LIMIT $2)
"""
_DELETE_EFFECTS = """
DELETE FROM effect WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM effect WHERE written_at <= now() - make_interval(secs => $1) LIMIT $2))
"""
_RECORD = """
INSERT INTO effect (message_id, collection_id, document_id, outcome)
SELECT $1, c.id, d.document_id, d.outcome
FROM collection c, unnest($3::text[], $4::text[]) AS d (document_id, outcome)
WHERE c.name = $2
ON CONFLICT (collection_id, message_id, document_id) DO NOTHING
"""
_FIND = """
SELECT e.document_id, e.outcome FROM effect e JOIN collection c ON c.id = e.collection_id
WHERE c.name = $1 AND e.message_id = $2
"""

Lend = Callable[[], AbstractAsyncContextManager[Connection]]
"""Lends a connection for the time of a block, see `ConnectionPool.connection`."""


class PostgresLedger:
    """Ledger that ensures one effect of a redelivered message, for all processes of a database.

    A claim or a mark costs one statement; renewing all claims costs one every third of `lease_s`.

    Args:
        lend: Lends connections.
        keep_s: Seconds for which a completed message is remembered; longer than any redelivery may take.
        lease_s: Seconds after which the claim of a dead process expires.
    """

    def __init__(self, lend: Lend, *, keep_s: float = 24 * 3600.0, lease_s: float = 6.0) -> None:
        if keep_s <= 0 or lease_s <= 0:
            raise ConfigError(
                f"a ledger needs times above 0, not {keep_s} s with leases of {lease_s} s"
            )
        self._lend = lend
        self._keep_s = keep_s
        self._lease_s = lease_s
        self._owner = uuid.uuid4().hex
        #: When the lease of each own claim ends, monotonic seconds.
        self._claims: dict[tuple[str, str], float] = {}
        self._task: asyncio.Task[None] | None = None
        self._last_cleanup = time.monotonic()

    async def claim(self, group: str, message_id: str, *, lease_s: float) -> Claim:
        """Claim a message for `lease_s` seconds, or for fewer when this process dies."""
        lease = min(lease_s, self._lease_s)
        async with self._lend() as connection:
            deaths = await connection.fetchval(_CLAIM, group, message_id, self._owner, lease)
            if deaths is None:
                return await _blocking_claim(connection, group, message_id)
        self._claims[group, message_id] = time.monotonic() + lease_s
        if self._task is None:
            self._task = asyncio.create_task(self._keep_alive(), name="whence-ledger")
        return Claim(state=ClaimState.CLAIMED, deaths=deaths)

    async def done(self, group: str, message_id: str) -> None:
        """Mark a message as completed."""
        async with self._lend() as connection:
            await connection.execute(_DONE, group, message_id, self._owner, self._keep_s)
        self._claims.pop((group, message_id), None)

    async def release(self, group: str, message_id: str) -> None:
        """Release a claim; completed messages and claims of other processes are left alone."""
        self._claims.pop((group, message_id), None)
        async with self._lend() as connection:
            await connection.execute(_RELEASE, group, message_id, self._owner)

    async def aclose(self) -> None:
        """Stop renewing; remaining claims expire within seconds."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def forget(self) -> None:
        """Delete expired rows, some thousand at most."""
        self._last_cleanup = time.monotonic()
        async with self._lend() as connection:
            await connection.execute(_DELETE_EXPIRED, self._keep_s, _DELETE_BATCH)
            await connection.execute(_DELETE_EFFECTS, self._keep_s, _DELETE_BATCH)

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(self._lease_s / 3)
            try:
                await self._renew()
                if time.monotonic() - self._last_cleanup >= _CLEANUP_INTERVAL_S:
                    await self.forget()
            except WhenceError as error:
                # Tried again later; at worst a message is handled twice, with one effect.
                logger.warning("claims not renewed", extra={"action": "renew", "error": str(error)})

    async def _renew(self) -> None:
        now = time.monotonic()
        for key in [key for key, until in self._claims.items() if until <= now]:
            del self._claims[key]
        if not self._claims:
            return
        groups, ids = zip(*self._claims, strict=True)
        async with self._lend() as connection:
            await connection.execute(_RENEW, list(groups), list(ids), self._owner, self._lease_s)


async def _blocking_claim(connection: Connection, group: str, message_id: str) -> Claim:
    """Return why a message could not be claimed."""
    row = await connection.fetchrow(_LOOK, group, message_id)
    if row is None:
        # Released between the two statements.
        return Claim(state=ClaimState.BUSY, retry_after_s=_BUSY_S)
    if row["done"]:
        return Claim(state=ClaimState.DONE)
    return Claim(state=ClaimState.BUSY, retry_after_s=row["wait_s"])


async def record_effects(connection: Connection, collection: str, effects: Effects) -> None:
    """Record the effects of a message, in the transaction that has them."""
    names = list(effects.outcomes)
    if names:
        kinds = [effects.outcomes[name] for name in names]
        await connection.execute(_RECORD, effects.message_id, collection, names, kinds)


async def find_effects(
    connection: Connection, collection: str, message_id: str
) -> dict[str, EffectKind]:
    """Return the effects of a message by document id; empty for a new one."""
    if not (is_text(collection) and is_text(message_id)):
        return {}
    rows = await connection.fetch(_FIND, collection, message_id)
    return {row["document_id"]: row["outcome"] for row in rows}

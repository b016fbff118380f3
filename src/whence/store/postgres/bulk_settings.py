"""Settings of a transaction that writes or deletes all rows of a snapshot."""

from __future__ import annotations

from whence.store.postgres.driver import Connection


async def bulk_settings(connection: Connection, timeout_s: float) -> tuple[str, ...]:
    """Return the settings of a transaction that writes rows of a snapshot, for `driver.writing`.

    Where the role permits, the server does not check foreign keys: the caller writes and deletes whole
    snapshots, to which nothing else refers.

    Args:
        connection: Its role is checked for the permission.
        timeout_s: Longest one statement may take, in seconds.
    """
    settings = (f"statement_timeout = {int(timeout_s * 1000)}", "synchronous_commit = off")
    may_skip_checks = await connection.fetchval(
        "SELECT has_parameter_privilege('session_replication_role', 'SET')"
    )
    return (*settings, "session_replication_role = replica") if may_skip_checks else settings

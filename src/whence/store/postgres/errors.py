"""Errors of the driver translated into those of Whence: what failed, where, and what to do; no passwords."""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit

from whence.schema.errors import (
    BadInput,
    ConfigError,
    DeadlineExceeded,
    DiskFull,
    InternalError,
    Overloaded,
    Unavailable,
    WhenceError,
)
from whence.store.postgres.driver import errors

#: All errors of the driver.
DRIVER_ERRORS = (errors.PostgresError, errors.InterfaceError, errors.InternalClientError)
_LOST = (
    OSError,
    errors.InterfaceError,
    # Raised for a query whose connection the server is closing.
    errors.InternalClientError,
    errors.PostgresConnectionError,
    errors.AdminShutdownError,
    errors.CrashShutdownError,
    errors.CannotConnectNowError,
)
_REFUSED = (
    errors.InvalidAuthorizationSpecificationError,
    errors.InvalidCatalogNameError,
    errors.InsufficientPrivilegeError,
    errors.ClientConfigurationError,
)
_AGAIN = (errors.DeadlockDetectedError, errors.SerializationError, errors.LockNotAvailableError)


def check_url(url: str) -> None:
    """Refuse a URL that is not one of PostgreSQL."""
    try:
        parts = urlsplit(url)
        wrong = parts.scheme not in ("postgresql", "postgres")
        _ = parts.port
    except ValueError as error:
        raise ConfigError("the database URL cannot be read", hint=_URL_HINT) from error
    if wrong:
        raise ConfigError(
            f"the database URL begins with {parts.scheme or 'nothing'}, not postgresql",
            hint=_URL_HINT,
        )


_URL_HINT = "write it as postgresql://user:password@host:5432/database"


def address_of(url: str) -> str:
    """Return host, port and database of a URL, without user and password.

    >>> address("postgresql://me:secret@db.example:5433/whence")
    'db.example:5433/whence'
    >>> address("postgresql://postgres@/postgres?host=/srv/home/run&port=5432")
    '/srv/home/run/postgres'
    """
    parts = urlsplit(url)
    host = parts.hostname or parse_qs(parts.query).get("host", ["localhost"])[0]
    port = f":{parts.port}" if parts.port else ""
    return f"{host}{port}{unquote(parts.path) or '/'}"


def is_connection_lost(error: BaseException) -> bool:
    """Return whether an error means that the connection was lost, rather than refused."""
    return isinstance(error, _LOST) and not isinstance(error, (TimeoutError, *_REFUSED))


def translate(error: Exception, where: str) -> WhenceError:
    """Return the error of Whence for one of the driver.

    Args:
        error: Raised by asyncpg or the socket.
        where: The server's address, see `address_of`.
    """
    if isinstance(error, errors.DiskFullError):
        return DiskFull(f"the database at {where} has no space left")
    if isinstance(error, errors.QueryCanceledError):
        return DeadlineExceeded(f"the database at {where} took too long and was stopped")
    if isinstance(error, TimeoutError):
        return Unavailable(f"the database at {where} does not answer", hint=_REACH_HINT)
    if isinstance(error, errors.TooManyConnectionsError):
        return Overloaded(f"the database at {where} has no connection left")
    if is_connection_lost(error):
        return Unavailable(f"the database at {where} cannot be reached: {error}", hint=_REACH_HINT)
    if isinstance(error, _AGAIN):
        return Unavailable(f"a concurrent writer blocked this one: {error}", hint="try again")
    if isinstance(error, _REFUSED):
        return ConfigError(
            f"the database at {where} refuses us: {error}",
            hint="check user, password, database and rights of --database-url",
        )
    return _of_state(error, where)


_REACH_HINT = "check that it runs and that --database-url is right, then try again"


def _of_state(error: Exception, where: str) -> WhenceError:
    """Translate by class of SQLSTATE: 22 is bad data; 53, 57 and 58 are failures of the server."""
    state = getattr(error, "sqlstate", None) or ""
    if state.startswith("22") or isinstance(error, errors.DataError):
        return BadInput(f"the database cannot hold this value: {error}")
    if state.startswith(("53", "57", "58")):
        return Unavailable(f"the database at {where} failed: {error}", hint=_REACH_HINT)
    return InternalError(
        f"the database at {where} failed ({state or type(error).__name__}): {error}"
    )

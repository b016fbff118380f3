"""The embedded PostgreSQL: several processes share one server, and the last one to leave stops it.

Its life cycle depends on three kernel locks in the home and on no process id:

- Each user holds a shared lock on `users.lock`, which the kernel frees when the user is killed.
- `start.lock` is held by a process that checks for, starts or stops the server.
- `alive.lock` is inherited by the server and all its processes. When it is free, no process has the
  data directory open, and a left-over `postmaster.pid` may be removed.

The server is started through `launcher.py`, which also stops it when its last user was killed. It listens on
a Unix socket only, in a folder of mode 0700: access to the home is access to the database.

PostgreSQL refuses to run as root, so for root the server runs as the owner of the home, or as `nobody` when
that is root. `launcher.py` documents how it passes folders that only root may pass; no permission is changed
and no user is created.
"""

from __future__ import annotations

import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Callable
from enum import Enum
from pathlib import Path
from types import TracebackType
from urllib.parse import quote, urlencode

from whence.schema.errors import DiskFull, Unavailable
from whence.store.postgres.server.home import SOCKET_NAME, Home, default_home
from whence.store.postgres.server.launcher import ALIVE_ELSEWHERE
from whence.store.postgres.server.locks import Backoff, FileLock
from whence.store.postgres.server.process import PORT, SUPERUSER, ServerProcess

logger = logging.getLogger(__name__)

_SERVED = "SELECT current_setting('data_directory')"
_PROBE_TIMEOUT_S = 5.0
#: Waiting for the server to answer; recovering from a crash may take long.
_START_TIMEOUT_S = 600.0
#: A stop that takes longer has a checkpoint to write; nothing is lost when it is cut short.
_STOP_TIMEOUT_S = 60.0
_KILL_TIMEOUT_S = 10.0
#: A server that is alive but has no socket for this long will not get one.
_NO_SOCKET_S = 10.0


class _State(Enum):
    READY = "ready"
    BUSY = "starting, recovering or stopping"
    ABSENT = "absent"
    FOREIGN = "of another home"


class EmbeddedServer:
    """A share in the PostgreSQL server of a home: `async with EmbeddedServer(home) as server`.

    Args:
        home: The folder; the user's data folder when None.
        lock_timeout_s: Seconds to wait for another process that starts or stops the server.
        while_starting: Called while the server starts, for example to import what connects to it.
    """

    def __init__(
        self,
        home: Path | str | None = None,
        *,
        lock_timeout_s: float = 120.0,
        while_starting: Callable[[], object] = lambda: None,
    ) -> None:
        self._home = Home(Path(home) if home is not None else default_home())
        self._lock_timeout_s = lock_timeout_s
        self._process = ServerProcess(self._home, while_starting)
        self._users = FileLock(self._home.users_lock, "the last server to stop")
        self._socket_dir: Path | None = None

    @property
    def home(self) -> Path:
        """The folder, absolute."""
        return self._home.path

    def url(self, database: str = SUPERUSER) -> str:
        """Return the URL of a database of the running server; it contains no secret."""
        assert self._socket_dir is not None, "the server has an address once it is started"
        query = urlencode({"host": str(self._socket_dir), "port": PORT})
        return f"postgresql://{SUPERUSER}@/{quote(database, safe='')}?{query}"

    async def __aenter__(self) -> EmbeddedServer:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Join the users of the server; start it when it does not run, create it when it does not exist.

        Raises:
            HomeTooNew: A newer version wrote the home.
            ConfigError: The home cannot be used, or PostgreSQL is not installed.
            DiskFull: There is no space for the server to start.
            Unavailable: The server does not start, or another process holds the lock for too long.
        """
        self._home.prepare()
        try:
            await self._ensure_running()
        except BaseException:
            self._users.release()
            raise

    async def restart(self) -> None:
        """Start the server again after it died; its users stay its users.

        Raises:
            Unavailable: As for `start`.
        """
        await self._ensure_running()

    async def aclose(self) -> None:
        """Leave; the last user stops the server. A second call does nothing."""
        if not self._users.is_held:
            return
        try:
            async with self._start_lock():
                self._users.release()
                if self._users.try_acquire():
                    await self._stop()
                elif not self._users.try_acquire(shared=True):
                    # The launcher was faster: it stops the server and holds the lock meanwhile.
                    await self._wait_until_gone(_STOP_TIMEOUT_S)
        except Unavailable:
            logger.warning(
                "left the server without looking for other users", extra={"action": "leave"}
            )
        finally:
            # In any case: once no process holds this lock the launcher stops the server.
            self._users.release()

    @contextlib.asynccontextmanager
    async def _start_lock(self) -> AsyncIterator[None]:
        """Hold the lock under which the server is started or stopped."""
        lock = FileLock(self._home.start_lock, "another process to start or stop the database")
        with self._home.translate_errors():
            await lock.acquire(self._lock_timeout_s)
            lock.write_holder()
        try:
            yield
        finally:
            lock.release()

    async def _ensure_running(self) -> None:
        async with self._start_lock():
            self._home.write_version()
            if not self._users.is_held:
                with self._home.translate_errors():
                    await self._users.acquire(self._lock_timeout_s, shared=True)
            self._socket_dir = self._home.socket_dir()
            state = await self._probe()
            if state is _State.READY:
                return
            if state is _State.FOREIGN:
                with self._home.translate_errors():
                    self._socket_dir = self._home.new_socket_dir()
            # The launcher of a user that was just killed may come in between; then both are tried again.
            while not (await self._wait_for_previous() or await self._start_on_any_disk()):
                pass
            self._home.keep_reserve()

    async def _start_on_any_disk(self) -> bool:
        """Start a server as `_start_new` does; on a full disk in the space that was kept for it."""
        try:
            return await self._start_new()
        except DiskFull as error:
            if not self._home.release_reserve():
                raise
            logger.warning(
                "the disk is full: stored documents can be searched, nothing can be stored",
                extra={"action": "start", "home": self._home.path, "error": error.message},
            )
            return await self._start_new()

    async def _start_new(self) -> bool:
        """Start a server where none is alive; return False when another one came to life meanwhile."""
        assert self._socket_dir is not None
        with self._home.translate_errors():
            self._home.remove_unfinished()
            if not await self._process.create_data():
                return False
            self._process.check_data_version()
            log_size = self._process.trim_log()
            if await self._process.launch(self._socket_dir) == ALIVE_ELSEWHERE:
                return False
        await self._wait_until_ready(log_size)
        return True

    async def _probe(self) -> _State:
        """Have the server name its data directory, which shows that it works and is that of this home."""
        assert self._socket_dir is not None
        if not (self._socket_dir / SOCKET_NAME).exists():
            return _State.ABSENT
        # Imported here, so that commands without a database do not load the driver.
        from whence.store.postgres.driver import connect, errors

        try:
            connection = await connect(self.url(), _PROBE_TIMEOUT_S)
        except errors.TooManyConnectionsError:
            return _State.READY
        except (errors.InterfaceError, TimeoutError):
            return _State.BUSY
        except errors.PostgresError as error:
            return self._busy(error)
        except OSError:
            return _State.ABSENT
        try:
            served = await connection.fetchval(_SERVED, timeout=_PROBE_TIMEOUT_S)
            await connection.close(timeout=_PROBE_TIMEOUT_S)
        except (errors.InterfaceError, OSError):
            connection.terminate()
            return _State.BUSY
        except errors.PostgresError as error:
            connection.terminate()
            return self._busy(error)
        ours = self._home.is_served(Path(served), self._socket_dir)
        return _State.READY if ours else _State.FOREIGN

    def _busy(self, error: Exception) -> _State:
        """Return that the server is busy, unless it refuses connections for good."""
        from whence.store.postgres.driver import errors

        if isinstance(error, (errors.OperatorInterventionError, errors.PostgresConnectionError)):
            return _State.BUSY
        raise Unavailable(
            f"the database in {self._home.path} refuses connections: {error}",
            hint="restore a copy of this home, or index the documents again into a new one (--home);"
            f" see {self._home.log}",
        ) from error

    async def _wait_for_previous(self) -> bool:
        """Wait for an earlier server; return True when it answers, False when it is gone."""
        backoff = Backoff(_START_TIMEOUT_S, "an earlier database server to answer or to end")
        no_socket_since: float | None = None
        while self._process.is_alive():
            state = await self._probe()
            if state is _State.READY:
                return True
            if state is _State.BUSY:
                no_socket_since = None
            elif no_socket_since is None:
                no_socket_since = backoff.waited_s
            elif backoff.waited_s - no_socket_since > _NO_SOCKET_S:
                self._process.signal(signal.SIGQUIT)
            if not await backoff.wait():
                raise Unavailable(
                    f"a database server in {self._home.path} neither answers nor ends",
                    hint=f"end the postgres processes of that folder; see {self._home.log}",
                )
        return False

    async def _wait_until_ready(self, log_size: int) -> None:
        backoff = Backoff(_START_TIMEOUT_S, "the database server to get ready")
        while await self._probe() is not _State.READY:
            if not self._process.is_alive():
                raise self._process.failure("the database server did not start", log_size)
            if not await backoff.wait():
                raise Unavailable(
                    f"the database server is not ready after {_START_TIMEOUT_S:g} s",
                    hint=f"it may still be recovering: see {self._home.log}, then try again",
                )

    async def _stop(self) -> None:
        """End the server; the start lock and the users' lock must be held."""
        for order, timeout_s in (
            (signal.SIGINT, _STOP_TIMEOUT_S),
            (signal.SIGQUIT, _KILL_TIMEOUT_S),
        ):
            self._process.signal(order)
            if await self._wait_until_gone(timeout_s):
                return
        logger.error("the server does not stop", extra={"action": "stop"})

    async def _wait_until_gone(self, timeout_s: float) -> bool:
        backoff = Backoff(timeout_s, "the database server to stop")
        while self._process.is_alive():
            if not await backoff.wait():
                return False
        return True

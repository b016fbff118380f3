"""The embedded PostgreSQL: several processes share one server, the last to leave stops it.

Three kernel locks in the home carry the whole life cycle; no process id is ever trusted:

- Each user holds `users.lock` in common. A killed user's share is freed by the kernel.
- `start.lock` is held while somebody looks whether a server runs, starts one or stops it.
- `alive.lock` is inherited by the server and all its processes. Free means that no process has the data
  directory open, so that a left-over `postmaster.pid` may be removed, whatever number stands in it.

The server is started through `launcher.py`, which also stops it when its last user was killed. It listens on
a Unix socket only, in a folder of mode 0700: who may enter the home may use the database.

As root the server runs as the owner of the home, or as `nobody` when that is root: PostgreSQL refuses to run
as root. See `launcher.py` for how it passes folders that only root may pass; no permission is changed, no
user is made.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import subprocess
import sys
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from whence.schema.errors import ConfigError, DiskFull, HomeTooNew, Unavailable, WhenceError
from whence.store.postgres.server import launcher
from whence.store.postgres.server.binaries import MAJOR_VERSION, program
from whence.store.postgres.server.home import SOCKET_NAME, Home, default_home
from whence.store.postgres.server.locks import FileLock, open_owned
from whence.store.postgres.server.patience import Patience
from whence.store.postgres.server.tuning import memory_bytes, server_arguments

__all__ = ("EmbeddedServer",)

logger = logging.getLogger(__name__)

_PORT = 5432
_USER = "postgres"
_PROBE_TIMEOUT_S = 5.0
_INIT_TIMEOUT_S = 300.0
_LAUNCH_TIMEOUT_S = 60.0
#: A stop that takes longer has a checkpoint to write; nothing is lost when it is cut short.
_STOP_TIMEOUT_S = 60.0
_KILL_TIMEOUT_S = 10.0
#: A server that lives but has no socket for this long will not get one.
_NO_SOCKET_S = 10.0
#: One call for the whole file system costs next to nothing; a thousand single files took 0.1 to 3 s.
_SYNC = ("--sync-method=syncfs",) if sys.platform == "linux" else ()
#: What a probe is told that came too early; never the cause of anything.
_STARTING_UP = "the database system is"
_FULL_DISK = ("No space left on device", "Check free disk space", "Disk quota exceeded")
_LONGEST_LOG_BYTES = 10 * 1024 * 1024


class _State(Enum):
    READY = "ready"
    BUSY = "starting, recovering or stopping"
    ABSENT = "not there"


class EmbeddedServer:
    """A share in the PostgreSQL server of a home: `async with EmbeddedServer(home) as server`.

    Args:
        home: The folder; the user's data folder when None.
        lock_timeout_s: Seconds to wait for another process that starts or stops the server.
        start_timeout_s: Seconds to wait for the server to answer; recovering from a crash may take long.
    """

    def __init__(
        self,
        home: Path | str | None = None,
        *,
        lock_timeout_s: float = 120.0,
        start_timeout_s: float = 600.0,
    ) -> None:
        self._home = Home(Path(home) if home is not None else default_home())
        self._lock_timeout_s = lock_timeout_s
        self._start_timeout_s = start_timeout_s
        self._users = FileLock(self._home.users_lock, "the last server to stop")
        self._socket_dir: Path | None = None

    @property
    def home(self) -> Path:
        """The folder, absolute."""
        return self._home.path

    def url(self, database: str = _USER) -> str:
        """Give the address of a database of the running server; it holds no secret."""
        assert self._socket_dir is not None, "the server has an address once it is started"
        query = urlencode({"host": str(self._socket_dir), "port": _PORT})
        return f"postgresql://{_USER}@/{quote(database, safe='')}?{query}"

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
        """Join the users of the server; start it when it does not run, make it when it is not there.

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

    async def revive(self) -> None:
        """Start the server again when it died under its users; they stay its users.

        Raises:
            Unavailable: As for `start`.
        """
        await self._ensure_running()

    async def aclose(self) -> None:
        """Leave; the last user stops the server. A second call does nothing."""
        if not self._users.held:
            return
        try:
            async with self._starting():
                self._users.release()
                if self._users.try_acquire():
                    await self._stop()
                elif not self._users.try_acquire(shared=True):
                    # The launcher was quicker: it stops the server and holds the lock meanwhile.
                    await self._wait_until_gone(_STOP_TIMEOUT_S)
        except Unavailable:
            logger.warning(
                "left the server without looking for other users", extra={"action": "leave"}
            )
        finally:
            # Whatever went wrong: once nobody holds this lock the launcher stops the server.
            self._users.release()

    def _starting(self) -> _Held:
        lock = FileLock(self._home.start_lock, "another process to start or stop the database")
        return _Held(self._home, lock, self._lock_timeout_s)

    # --- start ---------------------------------------------------------------------------------

    async def _ensure_running(self) -> None:
        async with self._starting():
            self._home.stamp()
            if not self._users.held:
                with self._home.faults():
                    await self._users.acquire(self._lock_timeout_s, shared=True)
            self._socket_dir = self._home.socket_dir()
            if await self._probe() is _State.READY:
                return
            # A launcher whose user was just killed may come in between; then it is looked at again.
            while not (await self._previous_answers() or await self._started_anew()):
                pass

    async def _started_anew(self) -> bool:
        """Start a server where none is alive; False when another one came to life meanwhile."""
        with self._home.faults():
            self._home.remove_unfinished()
            if not await self._make_data():
                return False
            self._check_data_version()
            self._prepare_socket_dir()
            (self._home.data / "postmaster.pid").unlink(missing_ok=True)
            said = self._trim_log()
            if await self._launch() == launcher.ALIVE_ELSEWHERE:
                return False
        await self._wait_until_ready(said)
        return True

    async def _probe(self) -> _State:
        """Ask the server for a 1; nothing else shows that it works."""
        assert self._socket_dir is not None
        if not (self._socket_dir / SOCKET_NAME).exists():
            return _State.ABSENT
        # Here, so that a start does not wait for the driver, nor does what needs no database.
        from whence.store.postgres.driver import connect, errors

        try:
            connection = await connect(self.url(), _PROBE_TIMEOUT_S)
        except errors.TooManyConnectionsError:
            return _State.READY
        except (errors.PostgresError, errors.InterfaceError, TimeoutError):
            return _State.BUSY
        except OSError:
            return _State.ABSENT
        try:
            await connection.fetchval("SELECT 1", timeout=_PROBE_TIMEOUT_S)
            await connection.close(timeout=_PROBE_TIMEOUT_S)
        except (errors.PostgresError, errors.InterfaceError, OSError):
            connection.terminate()
            return _State.BUSY
        return _State.READY

    async def _previous_answers(self) -> bool:
        """Wait for what is left of an earlier server: True when it answers, False when it is gone."""
        patience = Patience(self._start_timeout_s, "an earlier database server to answer or to end")
        no_socket_since: float | None = None
        while self._alive():
            state = await self._probe()
            if state is _State.READY:
                return True
            if state is _State.BUSY:
                no_socket_since = None
            elif no_socket_since is None:
                no_socket_since = patience.waited_s
            elif patience.waited_s - no_socket_since > _NO_SOCKET_S:
                self._signal(signal.SIGQUIT)
            if not await patience.pause():
                raise Unavailable(
                    f"a database server in {self._home.path} neither answers nor ends",
                    hint=f"end the postgres processes of that folder; see {self._home.log}",
                )
        return False

    def _alive(self) -> bool:
        """Tell whether any process of a server is left."""
        lock = FileLock(self._home.alive_lock, "")
        with self._home.faults():
            if not lock.try_acquire():
                return True
        lock.release()
        return False

    async def _make_data(self) -> bool:
        """Make the data directory under another name and move it into place when it is whole.

        False when a program of another start is still alive.
        """
        if self._home.data.exists():
            return True
        fresh = self._home.new_data_dir()
        try:
            self._give(fresh)
            said = self._trim_log()
            # Bytes sort as Unicode code points do in Python: both sides order ids the same way.
            command = [
                str(program("initdb")), "-D", str(fresh), "-U", _USER, "--auth=trust",
                "--encoding=UTF8", "--locale=C", "--locale-provider=builtin",
                "--builtin-locale=C.UTF-8", "--no-instructions", *_SYNC,
            ]  # fmt: skip
            status = await asyncio.to_thread(self._run_launcher, command, None, _INIT_TIMEOUT_S)
            if not status:
                fresh.rename(self._home.data)
                return True
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        if status == launcher.ALIVE_ELSEWHERE:
            return False
        raise self._failure("the database could not be made", said)

    def _check_data_version(self) -> None:
        text = (self._home.data / "PG_VERSION").read_text(encoding="ascii").strip()
        if text == str(MAJOR_VERSION):
            return
        wrong = f"{self._home.data} was made by PostgreSQL {text}, this is {MAJOR_VERSION}"
        if text.isdecimal() and int(text) > MAJOR_VERSION:
            raise HomeTooNew(wrong)
        raise ConfigError(wrong, hint="index the documents again into a new home (--home)")

    def _prepare_socket_dir(self) -> None:
        assert self._socket_dir is not None
        self._socket_dir.mkdir(mode=0o700, exist_ok=True)
        for leftover in self._socket_dir.glob(".s.PGSQL.*"):
            leftover.unlink(missing_ok=True)
        self._give(self._socket_dir)

    async def _launch(self) -> int:
        assert self._socket_dir is not None
        disk = shutil.disk_usage(self._home.path).free
        command = [
            str(program("postgres")), "-D", str(self._home.data), "-k", str(self._socket_dir),
            "-h", "", "-p", str(_PORT), *server_arguments(memory_bytes(), disk),
        ]  # fmt: skip
        launched = asyncio.get_running_loop().run_in_executor(
            None, self._run_launcher, command, self._home.users_lock, _LAUNCH_TIMEOUT_S
        )
        # The server comes up in processes of its own; all that will speak to it is loaded here meanwhile.
        import whence.store.postgres.store  # noqa: F401

        return await launched

    def _run_launcher(self, command: list[str], users: Path | None, timeout_s: float) -> int:
        order = {
            "command": command,
            "parent": os.getpid(),
            "alive": str(self._home.alive_lock),
            "log": str(self._home.log),
            "user": self._server_user(),
            "users": None if users is None else str(users),
        }
        try:
            done = subprocess.run(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    launcher.__file__,
                    msgspec.json.encode(order).decode(),
                ],
                # Variables such as PGDATA or PGPORT of whoever calls are not for this server.
                env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=timeout_s,
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise Unavailable(
                f"{Path(command[0]).name} did not finish within {timeout_s:g} s",
                hint=f"see {self._home.log}, then try again",
            ) from error
        return done.returncode

    async def _wait_until_ready(self, said: int) -> None:
        patience = Patience(self._start_timeout_s, "the database server to get ready")
        while await self._probe() is not _State.READY:
            if not self._alive():
                raise self._failure("the database server did not start", said)
            if not await patience.pause():
                raise Unavailable(
                    f"the database server is not ready after {self._start_timeout_s:g} s",
                    hint=f"it may still be recovering: see {self._home.log}, then try again",
                )

    # --- stop ----------------------------------------------------------------------------------

    async def _stop(self) -> None:
        """End the server; the start lock and the users' lock must be held."""
        for order, timeout_s in (
            (signal.SIGINT, _STOP_TIMEOUT_S),
            (signal.SIGQUIT, _KILL_TIMEOUT_S),
        ):
            self._signal(order)
            if await self._wait_until_gone(timeout_s):
                return
        logger.error("the server does not stop", extra={"action": "stop"})

    async def _wait_until_gone(self, timeout_s: float) -> bool:
        patience = Patience(timeout_s, "the database server to stop")
        while self._alive():
            if not await patience.pause():
                return False
        return True

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal to the postmaster of our data directory, and to no other process."""
        try:
            process = int((self._home.data / "postmaster.pid").read_bytes().split(b"\n")[0])
            # A server works in its data directory; the number alone proves nothing.
            cannot_tell = not Path("/proc/self/cwd").exists()
            if cannot_tell or Path(f"/proc/{process}/cwd").samefile(self._home.data):
                os.kill(process, number)
        except (OSError, ValueError):
            logger.warning("found no postmaster to signal", extra={"action": "signal"})

    # --- the account, the log ------------------------------------------------------------------

    def _server_user(self) -> tuple[int, int] | None:
        """Give user and group that the server runs as, None for ourselves."""
        if os.geteuid() != 0:
            return None
        owner = (self._home.data if self._home.data.exists() else self._home.path).stat()
        if owner.st_uid != 0:
            return owner.st_uid, owner.st_gid
        return _nobody()

    def _give(self, folder: Path) -> None:
        """Give a folder to the account of the server."""
        user = self._server_user()
        if user is not None:
            os.chown(folder, *user)

    def _trim_log(self) -> int:
        """Give the length of the log in bytes, after emptying one that has grown too long."""
        descriptor = open_owned(self._home.log, os.O_WRONLY)
        try:
            size = os.fstat(descriptor).st_size
            if size <= _LONGEST_LOG_BYTES:
                return size
            os.ftruncate(descriptor, 0)
            return 0
        finally:
            os.close(descriptor)

    def _failure(self, what: str, said: int) -> WhenceError:
        """Name the cause that the log gives, from byte `said` on."""
        try:
            with self._home.log.open("rb") as file:
                file.seek(said)
                lines = file.read(64 * 1024).decode("utf-8", "replace").splitlines()
        except OSError:
            lines = []
        reason = _cause(lines)
        text = f"{what}: {reason}" if reason else what
        if any(mark in line for line in lines for mark in _FULL_DISK):
            return DiskFull(text)
        return Unavailable(text, hint=f"see {self._home.log}")


class _Held:
    """The start lock for the time of a block."""

    def __init__(self, home: Home, lock: FileLock, timeout_s: float) -> None:
        self._home = home
        self._lock = lock
        self._timeout_s = timeout_s

    async def __aenter__(self) -> None:
        with self._home.faults():
            await self._lock.acquire(self._timeout_s)
            self._lock.sign()

    async def __aexit__(self, *_: Any) -> None:
        self._lock.release()


def _cause(lines: list[str]) -> str:
    """Find the line of a log that tells why, without its time stamp."""
    for mark in ("FATAL:", "PANIC:", "initdb: error:", "error:"):
        for line in lines:
            if mark in line and _STARTING_UP not in line:
                return line[line.index(mark) :].removeprefix(mark).strip()
    # What went well is no cause: a server that somebody killed has nothing else to tell.
    told = [line for line in lines if "LOG:" not in line and _STARTING_UP not in line]
    return told[-1].strip() if told else ""


def _nobody() -> tuple[int, int]:
    """Give the account without rights.

    Raises:
        ConfigError: The machine has none.
    """
    import pwd

    try:
        entry = pwd.getpwnam("nobody")
    except KeyError as error:
        raise ConfigError(
            "PostgreSQL refuses to run as root, and this machine has no user `nobody` to run it as",
            hint="run as an ordinary user, or use a PostgreSQL of your own with --database-url",
        ) from error
    return entry.pw_uid, entry.pw_gid

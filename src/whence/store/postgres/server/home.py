"""The home: the folder of the embedded database and the files of its life cycle.

| Name | What it is |
|---|---|
| `version` | the layout of this folder, a whole number |
| `postgres/` | the data directory, present only when complete |
| `run/` | the server's socket, when the path is short enough for one |
| `socket-dir` | where the socket is instead, when it is not, and the inode of the home that this is true of |
| `postgres.log` | the log of the server |
| `start.lock` | held while the server is started or stopped |
| `users.lock` | held, shared, by every process that uses the server |
| `alive.lock` | held by the server's own processes |
| `erasure-pending` | present while words of erased documents may be in files of the database |
| `sources/` | paths that were indexed, by database and collection |
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from whence.schema.errors import ConfigError, DiskFull, HomeTooNew, WhenceError
from whence.store.postgres.server.locks import open_owned

#: Layout of the folder; incremented by a change that older versions cannot read.
LAYOUT = 1

#: Longest path of a socket: `sun_path` of Linux holds 108 bytes with the closing NUL, of macOS 104.
_LONGEST_SOCKET_PATH = 103
#: What PostgreSQL calls its socket.
SOCKET_NAME = ".s.PGSQL.5432"


def default_home() -> Path:
    """Return the home when none is configured: the user's data folder."""
    import platformdirs

    return platformdirs.user_data_path("whence")


#: A server writes less than half of this to start, answer searches and stop.
_RESERVE_BYTES = 2**20
#: With less free space no reserve is made.
_AMPLE_BYTES = 64 * 2**20


class Home:
    """Paths of a home, and its files that are written without the server."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.abspath(path.expanduser()))  # noqa: PTH100 - links stay as given
        self.data = self.path / "postgres"
        self.log = self.path / "postgres.log"
        self.start_lock = self.path / "start.lock"
        self.users_lock = self.path / "users.lock"
        self.alive_lock = self.path / "alive.lock"
        self.erasure_mark = self.path / "erasure-pending"
        self._reserve = self.path / "reserve"
        self._version = self.path / "version"
        self._socket_note = self.path / "socket-dir"

    def prepare(self) -> None:
        """Create the folder, readable by its owner alone, or check the existing one.

        Raises:
            HomeTooNew: A newer version of Whence wrote it.
            ConfigError: It cannot be created or written, or is not a home.
            DiskFull: There is no space left.
        """
        self._check_path()
        with self.translate_errors():
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_version()
            if not os.access(self.path, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, "not writable", str(self.path))

    def is_empty(self) -> bool:
        """Return whether no database was created here; this creates nothing.

        Raises:
            HomeTooNew: A newer version of Whence wrote it.
            ConfigError: It cannot be read, or is not a home.
        """
        self._check_path()
        with self.translate_errors():
            self._check_version()
            return not self.data.exists()

    def _check_path(self) -> None:
        try:
            str(self.path).encode()
        except UnicodeEncodeError as error:
            raise ConfigError(
                f"the home {os.fsencode(self.path)!r} has a name that is not UTF-8",
                hint="choose another folder with --home or WHENCE_HOME",
            ) from error

    def _check_version(self) -> None:
        try:
            text = self._version.read_text(encoding="ascii", errors="replace").strip()
        except FileNotFoundError:
            return
        if not text.isdecimal():
            raise ConfigError(
                f"{self._version} holds {text[:40]!r}, which is not the version of a home",
                hint="choose another home with --home",
            )
        if int(text) > LAYOUT:
            raise HomeTooNew(
                f"{self.path} was written by a newer version of Whence"
                f" (layout {int(text)}, this one knows {LAYOUT})"
            )

    def write_version(self) -> None:
        """Write the layout version of a new home; the start lock must be held."""
        with self.translate_errors():
            if self._version.exists():
                return
            fresh = self.path / "version.new"
            descriptor = open_owned(fresh, os.O_WRONLY | os.O_TRUNC)
            with os.fdopen(descriptor, "w") as file:
                file.write(f"{LAYOUT}\n")
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self._version)

    def socket_dir(self) -> Path:
        """Return the folder of the socket: in the home, or one with a shorter path, recorded in the home.

        The start lock must be held, since the folder may be created.
        """
        inside = self.path / "run"
        if len(os.fsencode(inside / SOCKET_NAME)) <= _LONGEST_SOCKET_PATH:
            return inside
        with self.translate_errors():
            noted = self._recorded_socket_dir()
            return noted if noted is not None else self.new_socket_dir()

    def _recorded_socket_dir(self) -> Path | None:
        try:
            folder, _, inode = self._socket_note.read_text(encoding="utf-8").partition("\n")
            noted = Path(folder)
            info = noted.lstat()
        except (FileNotFoundError, ValueError):
            return None
        if inode and inode != str(
            self.path.stat().st_ino
        ):  # a copy of this home was noted, not this one
            return None
        # Another user could have created a folder of that name since; only our own is safe.
        ours = info.st_uid in (os.geteuid(), self.path.stat().st_uid) or os.geteuid() == 0
        return noted if ours and noted.is_dir() and not noted.is_symlink() else None

    def new_socket_dir(self) -> Path:
        """Create a folder for the socket outside of the home, and record it; the start lock must be held."""
        runtime = os.environ.get("XDG_RUNTIME_DIR", "")
        parent = runtime if len(runtime) <= 60 and os.access(runtime, os.W_OK) else None
        made = Path(tempfile.mkdtemp(prefix="whence-", dir=parent))
        if len(os.fsencode(made / SOCKET_NAME)) > _LONGEST_SOCKET_PATH:
            made.rmdir()
            made = Path(tempfile.mkdtemp(prefix="whence-", dir="/tmp"))
        descriptor = open_owned(self._socket_note, os.O_WRONLY | os.O_TRUNC)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"{made}\n{self.path.stat().st_ino}")
        return made

    def is_served(self, served: Path, socket_dir: Path) -> bool:
        """Return whether the server of a data directory, which listens in `socket_dir`, is that of this home.

        A socket within the home is that of its server, also where the server sees other paths.
        """
        if socket_dir.parent == self.path:
            return True
        try:
            return served.samefile(self.data)
        except OSError:
            return False

    def keep_reserve(self) -> None:
        """Take the space that a server needs to start on a full disk, unless hardly any is left."""
        with contextlib.suppress(OSError):
            left = shutil.disk_usage(self.path).free
            if left < _AMPLE_BYTES or self._reserve.exists():
                return
            descriptor = open_owned(self._reserve, os.O_WRONLY)
            try:
                os.write(descriptor, bytes(_RESERVE_BYTES))
            finally:
                os.close(descriptor)

    def release_reserve(self) -> bool:
        """Free the space that was kept for a full disk; return False when there was none."""
        try:
            self._reserve.unlink()
        except OSError:
            return False
        return True

    def new_data_dir(self) -> Path:
        """Create a folder for an incomplete data directory."""
        return Path(tempfile.mkdtemp(prefix="postgres.new-", dir=self.path))

    def remove_unfinished(self) -> None:
        """Remove what killed starts left; the start lock must be held and no server alive."""
        for leftover in self.path.glob("postgres.new-*"):
            shutil.rmtree(leftover, ignore_errors=True)

    @contextlib.contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raise errors that name the home in place of those of the file system.

        Raises:
            DiskFull: No space or quota is left.
            ConfigError: Anything else that the file system refuses.
        """
        try:
            yield
        except OSError as error:
            raise self._error(error) from error

    def _error(self, error: OSError) -> WhenceError:
        reason = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return DiskFull(f"the home {self.path} cannot be written: {reason}")
        return ConfigError(
            f"the home {self.path} cannot be used: {reason} ({error.filename or self.path})",
            hint="choose a folder that you may write with --home or WHENCE_HOME",
        )

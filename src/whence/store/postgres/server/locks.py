"""Locks between processes that the kernel frees when their holder dies.

A lock belongs to the open file, not to a process id: a killed holder leaves nothing behind, and no id can be
mistaken for another process that got the same one later. Lock files are never deleted; only whether they
are held means anything.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import logging
import os
import time
from pathlib import Path

from whence.schema.errors import ConfigError, Unavailable

#: Long waits have a logger of their own, which the command line shows; it shows nothing else of the server.
logger = logging.getLogger("whence.waiting")

_FIRST_PAUSE_S = 0.005
_LONGEST_PAUSE_S = 0.5
_REPORT_EVERY_S = 5.0


class Backoff:
    """Waits with growing pauses up to a timeout, and logs what for every 5 s.

    Args:
        timeout_s: Seconds until `wait` returns False.
        purpose: What it waits for.
    """

    def __init__(self, timeout_s: float, purpose: str) -> None:
        self._started = time.monotonic()
        self._timeout_s = timeout_s
        self._purpose = purpose
        self._pause_s = _FIRST_PAUSE_S
        self._reports = 0

    @property
    def waited_s(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._started

    async def wait(self) -> bool:
        """Wait a little; return False when the time is over."""
        if self.waited_s >= self._timeout_s:
            return False
        if self.waited_s >= _REPORT_EVERY_S * (self._reports + 1):
            self._reports += 1
            logger.warning(
                "still waiting for %s (%.0f s)",
                self._purpose,
                self.waited_s,
                extra={"action": "wait"},
            )
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 1.5, _LONGEST_PAUSE_S)
        return True


def open_owned(path: Path, flags: int) -> int:
    """Open a file of the home, created with mode 0600 if missing; return the descriptor.

    A file made by root belongs to the owner of its folder, so that the owner can go on using it.
    """
    descriptor = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    return descriptor


class FileLock:
    """A lock on a file, exclusive or shared.

    Args:
        path: The lock file; created if missing.
        purpose: What a waiting process waits for, for the error.
    """

    def __init__(self, path: Path, purpose: str) -> None:
        self.path = path
        self._purpose = purpose
        self._descriptor: int | None = None

    @property
    def is_held(self) -> bool:
        """Whether this object holds the lock."""
        return self._descriptor is not None

    def try_acquire(self, *, shared: bool = False) -> bool:
        """Acquire the lock if it is free; return whether it was.

        Raises:
            ConfigError: The file system has no locks.
            OSError: The file cannot be opened.
        """
        assert self._descriptor is None, "the lock is held already"
        descriptor = open_owned(self.path, os.O_RDWR)
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
                raise ConfigError(
                    f"the file system of {self.path.parent} cannot lock files",
                    hint="choose a home on a local disk with --home",
                ) from error
            raise
        self._descriptor = descriptor
        return True

    async def acquire(self, timeout_s: float, *, shared: bool = False) -> None:
        """Acquire the lock, waiting for it.

        Raises:
            Unavailable: It was not free within `timeout_s` seconds.
            ConfigError: The file system has no locks.
        """
        backoff: Backoff | None = None
        while not self.try_acquire(shared=shared):
            if backoff is None:
                backoff = Backoff(timeout_s, f"{self._purpose}{self._holder()}")
            if not await backoff.wait():
                raise Unavailable(
                    f"waited {timeout_s:g} s for {self._purpose}{self._holder()}: {self.path} is locked",
                    hint="wait until the other process is done or end it, then try again",
                )

    def write_holder(self) -> None:
        """Write the process id into the locked file, for the messages of waiting processes."""
        assert self._descriptor is not None, "the lock is not held"
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, str(os.getpid()).encode(), 0)

    def _holder(self) -> str:
        text = self.path.read_text(encoding="ascii", errors="replace").strip()
        return f" (held by process {text})" if text.isdecimal() else ""

    def release(self) -> None:
        """Release the lock; a lock that is not held stays so."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

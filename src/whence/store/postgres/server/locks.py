"""Locks between processes that the kernel frees when their holder dies, whatever it dies of.

A lock belongs to the open file, not to a process id: a killed holder leaves nothing behind, and no id can be
mistaken for another process that got the same one later. Lock files are never deleted; only whether they
are held means anything.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from whence.schema.errors import ConfigError, Unavailable
from whence.store.postgres.server.patience import Patience

__all__ = ("FileLock", "open_owned")


def open_owned(path: Path, flags: int) -> int:
    """Open a file of the home, made with mode 0600 when missing; gives the descriptor.

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
        path: The lock file; made when missing.
        purpose: What is waited for, for the error when waiting is given up.
    """

    def __init__(self, path: Path, purpose: str) -> None:
        self.path = path
        self._purpose = purpose
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._descriptor is not None

    def try_acquire(self, *, shared: bool = False) -> bool:
        """Take the lock when it is free; gives whether it was.

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
        """Take the lock, waiting for it.

        Raises:
            Unavailable: It was not free within `timeout_s` seconds.
            ConfigError: The file system has no locks.
        """
        patience: Patience | None = None
        while not self.try_acquire(shared=shared):
            if patience is None:
                patience = Patience(timeout_s, f"{self._purpose}{self._holder()}")
            if not await patience.pause():
                raise Unavailable(
                    f"waited {timeout_s:g} s for {self._purpose}{self._holder()}: {self.path} is locked",
                    hint="wait until the other process is done or end it, then try again",
                )

    def sign(self) -> None:
        """Write into the held file who holds it, for the message of those who wait."""
        assert self._descriptor is not None, "only the holder signs"
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, str(os.getpid()).encode(), 0)

    def _holder(self) -> str:
        text = self.path.read_text(encoding="ascii", errors="replace").strip()
        return f" (held by process {text})" if text.isdecimal() else ""

    def release(self) -> None:
        """Give the lock back; a lock that is not held stays so."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

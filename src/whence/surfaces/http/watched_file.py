"""Files of a running server that are read again when they change: tokens, keys, a mapping of groups."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from whence.schema.errors import ConfigError, Unavailable

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Seconds after which a caller tries again while a file is malformed.
_RETRY_S = 10.0


class WatchedFile(Generic[T]):
    """The content of a file of rights, as of now.

    A change holds from the next request on: each read compares inode, size and times with those of the last
    one, which takes microseconds. While the file is malformed or gone nobody has rights by it.

    Args:
        path: The file.
        parse: Makes the content from its bytes; ValueError and RecursionError mean that it is malformed.
        what: What it holds, for errors.
        hint: What a correct file looks like.
        missing: Content of a file that does not exist; an error when None.
        secret: Whether other users should not even read it.
    """

    def __init__(
        self,
        path: Path,
        parse: Callable[[bytes], T],
        *,
        what: str,
        hint: str,
        missing: T | None = None,
        secret: bool = False,
    ) -> None:
        self.path = path
        self._parse = parse
        self._what, self._hint = what, hint
        self._missing = missing
        self._secret = secret
        self._seen: tuple[int, ...] = ()
        self._content: T | ConfigError | None = None

    def read(self) -> T:
        """Return the content.

        Raises:
            ConfigError: The file is malformed, or cannot be read.
        """
        try:
            seen = _identity(self.path.stat())
            if seen != self._seen:
                self._content = self._load()
                self._seen = seen
        except FileNotFoundError as error:
            self._seen = ()
            if self._missing is None:
                raise self._unreadable(error) from error
            return self._missing
        except OSError as error:
            self._seen = ()
            raise self._unreadable(error) from error
        if isinstance(self._content, ConfigError):
            # A new one: an exception that is raised again and again keeps all its tracebacks.
            raise ConfigError(self._content.message, hint=self._content.hint)
        assert self._content is not None
        return self._content

    def current(self) -> T:
        """Return the content, for a request.

        Raises:
            Unavailable: The file is malformed, or cannot be read; the log says why.
        """
        try:
            return self.read()
        except ConfigError as error:
            logger.error("tokens are refused: %s", error.message)  # noqa: TRY400 - the message says it
            raise Unavailable(
                "this server cannot check tokens at present",
                hint="see the log of the server",
                retry_after_s=_RETRY_S,
            ) from error

    def _load(self) -> T | ConfigError:
        data = self.path.read_bytes()
        self._warn_when_shared()
        try:
            return self._parse(data)
        except ConfigError as error:
            return error
        except (ValueError, RecursionError) as error:  # of TOML, of JSON, of UTF-8, or of msgspec
            words = f"the {self._what} in {self.path} are malformed: {error}"
            return ConfigError(words, hint=self._hint)

    def _unreadable(self, error: OSError) -> ConfigError:
        return ConfigError(f"cannot read the {self._what} in {self.path}: {error.strerror}")

    def _warn_when_shared(self) -> None:
        """Log that other users may change or read the file: who can change it grants himself rights."""
        shared = self.path.stat().st_mode & (0o077 if self._secret else 0o022)
        if shared:
            how = "change" if shared & 0o022 else "read"
            mode = 600 if self._secret else 644
            logger.warning(
                "other users can %s the %s in %s; run: chmod %d %s",
                how, self._what, self.path, mode, self.path,
            )  # fmt: skip


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return (
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns,
    )  # fmt: skip

"""The tokens file: who may call the gateway, with which rights.

It is TOML with one table `[tokens.NAME]` for each caller, and holds SHA-256 digests, not tokens. A token that
`new_token` makes has 256 random bits, so its digest needs no salt. Comments and order are kept when a token is
added or revoked. Writers take turns (a lock on the folder), and readers see the old file or the new one.
"""

from __future__ import annotations

import fcntl
import math
import os
import re
import secrets
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from whence.schema.errors import BadInput, ConfigError, NotFound
from whence.surfaces.http.auth import AccessBody, Caller, token_digest
from whence.surfaces.http.watched_file import WatchedFile

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

#: Begins every new token, so that scanners for leaked secrets find it.
_PREFIX: Final = "whence_"
_RANDOM_BYTES: Final = 32
_MODE: Final = 0o600
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}\Z")
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_EXAMPLE: Final = 'a caller is [tokens.NAME] with sha256 = "...", and acl, labels, clearance, write, expires or speaks_for_others'

_Time = Annotated[datetime, msgspec.Meta(tz=True)]


class TokenEntry(AccessBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table of the tokens file."""

    sha256: str
    """Digest of the token in hexadecimal digits."""
    speaks_for_others: bool = False
    """Whether each request names the rights of its reader."""
    write: bool = False
    """Whether the caller may store and remove documents."""
    created: _Time | None = None
    """When the token was made."""
    expires: _Time | None = None
    """When it ends; never without."""

    def fields(self) -> dict[str, Any]:
        """Return everything but the digest, as JSON shows it."""
        return {key: value for key, value in msgspec.to_builtins(self).items() if key != "sha256"}

    def is_expired(self, now: datetime) -> bool:
        """Return whether the token has ended."""
        return self.expires is not None and now >= self.expires


class _TokenFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tokens: dict[str, TokenEntry] = {}


def watch_tokens(path: Path, *, required: bool) -> WatchedFile[Mapping[str, Caller]]:
    """Return callers by the digest of their token, as the tokens file has them at each moment.

    Args:
        path: The tokens file.
        required: Whether it must exist; else a missing one has no tokens.
    """
    return WatchedFile(
        path,
        lambda data: _callers(path, _parse(data)),
        what="tokens",
        hint=_EXAMPLE,
        missing=None if required else {},
        secret=True,
    )


def read_tokens(path: Path) -> dict[str, TokenEntry]:
    """Return the entries of the tokens file by name, in its order; none when it does not exist."""
    none: dict[str, TokenEntry] = {}
    return WatchedFile(path, _parse, what="tokens", hint=_EXAMPLE, missing=none, secret=True).read()


def new_token(
    path: Path,
    name: str,
    rights: AccessBody,
    *,
    write: bool = False,
    speaks_for_others: bool = False,
    expires: datetime | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    random: Callable[[int], str] = secrets.token_urlsafe,
) -> tuple[str, TokenEntry]:
    """Make a token, and add its digest and rights to the file, which is created when it is missing.

    Returns:
        The token, which is stored nowhere, and its entry.

    Raises:
        BadInput: The name is malformed or taken.
        ConfigError: The file is malformed, or cannot be read or written.
    """
    if not _NAME.match(name):
        raise BadInput(
            f"{name!r} is not a name of a token",
            hint="use 1 to 64 of A-Z, a-z, 0-9, `.`, `_`, `@` and `-`, starting with a letter or digit",
        )
    rights.access()
    token = _PREFIX + random(_RANDOM_BYTES)
    entry = TokenEntry(
        acl=rights.acl,
        labels=rights.labels,
        clearance=rights.clearance,
        sha256=token_digest(token),
        speaks_for_others=speaks_for_others,
        write=write,
        created=now().replace(microsecond=0),
        expires=expires and expires.replace(microsecond=0),
    )
    with _editing(path) as document:
        import tomlkit

        tokens = document.setdefault("tokens", tomlkit.table(is_super_table=True))
        if name in tokens:
            raise BadInput(
                f"there is a token {name!r} already", hint=f"run: whence tokens revoke {name}"
            )
        stated = {key: getattr(entry, key) for key in ("sha256", *entry.fields())}
        tokens[name] = {key: value for key, value in stated.items() if value not in ([], 0, None)}
    return token, entry


def revoke_token(path: Path, name: str) -> TokenEntry:
    """Remove a token from the file; return its former entry.

    Raises:
        NotFound: There is no such token.
        ConfigError: The file is malformed, or cannot be read or written.
    """
    with _editing(path) as document:
        found = read_tokens(path)
        if name not in found:
            names = ", ".join(found) or "none"
            raise NotFound(f"there is no token {name!r} in {path}", hint=f"the tokens are {names}")
        tokens: Any = document["tokens"]
        tokens.remove(name)
    return found[name]


@contextmanager
def _editing(path: Path) -> Iterator[TOMLDocument]:
    """Yield the document of the file, and replace the file by what became of it."""
    import tomlkit

    # The file itself, not the link that leads to it.
    path = path.resolve()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(path.parent):
            read_tokens(path)
            before = path.read_text("utf-8") if path.exists() else ""
            document = tomlkit.parse(before)
            yield document
            text = tomlkit.dumps(document)
            data = (text if text.endswith("\n") else f"{text}\n").encode()
            _callers(path, _parse(data))
            _replace(path, data)
    except OSError as error:
        raise ConfigError(
            f"cannot write the tokens in {path}: {error.strerror}",
            hint="name a file that you may write with --tokens",
        ) from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(path: Path, data: bytes) -> None:
    """Replace a file by one that only its owner may read."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor has no path
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        fresh.replace(path)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise


def _parse(data: bytes) -> dict[str, TokenEntry]:
    return msgspec.convert(tomllib.loads(data.decode("utf-8")), _TokenFile).tokens


def _callers(path: Path, entries: Mapping[str, TokenEntry]) -> dict[str, Caller]:
    """Return callers by the digest of their token."""
    callers: dict[str, Caller] = {}
    for name, entry in entries.items():
        digest = entry.sha256.lower()
        if not _DIGEST.match(digest):
            raise ConfigError(f"{path}: {name}: sha256 must be 64 hex digits", hint=_EXAMPLE)
        if digest in callers:
            raise ConfigError(f"{path}: {name!r} and {callers[digest].name!r} have the same token")
        try:
            access = entry.access()
        except BadInput as error:
            raise ConfigError(f"{path}: {name!r}: {error.message}") from error
        callers[digest] = Caller(
            name,
            access,
            entry.speaks_for_others,
            entry.write,
            entry.expires.timestamp() if entry.expires else math.inf,
        )
    return callers

"""Callers and their rights.

Requests without a token have the rights that the gateway was started with, public documents by default. A
token has the rights that the tokens file lists; the file holds SHA-256 digests, not tokens. A request can only
narrow its rights, unless its token has `speaks_for_others`: then each request names the rights of its reader.
"""

from __future__ import annotations

import hashlib
import logging
import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from whence.schema.access import Access
from whence.schema.errors import BadInput, ConfigError, WhenceError

logger = logging.getLogger(__name__)


class Unauthorized(WhenceError):
    """The request has no token where one is required, or an unknown one."""

    code = "unauthorized"
    exit_code = 2
    default_hint = "send `Authorization: Bearer TOKEN`"


class Forbidden(WhenceError):
    """The token is known, but does not allow this."""

    code = "forbidden"
    exit_code = 2


class AccessBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rights in a request or in the tokens file."""

    acl: list[str] = []
    """Access tags."""
    labels: list[str] = []
    """Labels."""
    clearance: int = 0
    """Highest level, 0 or more."""

    def access(self) -> Access:
        """Return the rights."""
        return Access(frozenset(self.acl), frozenset(self.labels), self.clearance)


class _TokenEntry(AccessBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table of the tokens file."""

    sha256: str
    speaks_for_others: bool = False
    write: bool = False


class _TokenFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tokens: dict[str, _TokenEntry] = {}


class Caller(msgspec.Struct, frozen=True):
    """The sender of a request."""

    name: str
    """Name of the token; empty without one."""
    access: Access
    """Most that the caller may see."""
    speaks_for_others: bool = False
    """Whether each request names the rights of its reader."""
    may_write: bool = False
    """Whether the caller may store and remove documents."""
    address: str = ""
    """Network address of the sender."""

    @property
    def share(self) -> str:
        """Whose share of the server a request uses: that of its token, else of its address."""
        return self.name or self.address

    def access_for(self, requested: AccessBody | None) -> Access:
        """Return the rights of one request: the requested rights within those of the caller.

        A caller who speaks for others without naming rights sees public documents.
        """
        if self.speaks_for_others:
            return Access.public() if requested is None else requested.access()
        return self.access if requested is None else self.access.intersect(requested.access())

    def require_write(self) -> None:
        """Refuse a caller who may not store or remove documents.

        Raises:
            Unauthorized: The request has no token.
            Forbidden: Its token does not allow writing.
        """
        if self.may_write:
            return
        if not self.name:
            raise Unauthorized("storing and removing documents requires a token")
        raise Forbidden(
            f"the token {self.name!r} does not allow storing or removing documents",
            hint="the administrator of the server can allow it with `write = true`",
        )


class Authenticator:
    """Finds the caller of a request by its token."""

    def __init__(
        self,
        anonymous: Access,
        tokens: Mapping[str, Caller] | None = None,
        *,
        require_token: bool = False,
    ) -> None:
        self._anonymous = Caller("", anonymous)
        self._tokens = dict(tokens or {})
        self._require_token = require_token

    async def caller(self, authorization: str | None) -> Caller:
        """Return the caller of a request by its `Authorization` header."""
        if not authorization:
            if self._require_token:
                raise Unauthorized("this server requires a token")
            return self._anonymous
        scheme, _, token = authorization.partition(" ")
        caller = self._tokens.get(token_digest(token.strip()))
        if scheme.lower() != "bearer" or caller is None:
            raise Unauthorized("unknown token")
        return caller


def token_digest(token: str) -> str:
    """Return the SHA-256 of a token in hexadecimal digits, as in the tokens file."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def read_tokens(path: Path) -> dict[str, Caller]:
    """Read the tokens file; return callers by the digest of their token."""
    try:
        _warn_when_shared(path)
        found = msgspec.convert(tomllib.loads(path.read_text("utf-8")), _TokenFile)
    except OSError as error:
        raise ConfigError(f"cannot read the tokens in {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, or of msgspec
        raise ConfigError(f"the tokens in {path} are malformed: {error}", hint=_EXAMPLE) from error
    callers: dict[str, Caller] = {}
    for name, entry in found.tokens.items():
        digest = entry.sha256.lower()
        if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
            raise ConfigError(f"{path}: {name}: sha256 must be 64 hex digits", hint=_EXAMPLE)
        if digest in callers:
            raise ConfigError(f"{path}: {name!r} and {callers[digest].name!r} have the same token")
        callers[digest] = Caller(
            name, _access(path, name, entry), entry.speaks_for_others, entry.write
        )
    return callers


def _warn_when_shared(path: Path) -> None:
    """Log that other users may read or change the file: who can change it grants himself rights."""
    shared = path.stat().st_mode & 0o077
    if shared:
        what = "change" if shared & 0o022 else "read"
        logger.warning("other users can %s the tokens in %s; run: chmod 600 %s", what, path, path)


_EXAMPLE = 'a caller is [tokens.NAME] with sha256 = "...", and acl, labels, clearance, write or speaks_for_others'


def _access(path: Path, name: str, entry: _TokenEntry) -> Access:
    try:
        return entry.access()
    except BadInput as error:
        raise ConfigError(f"{path}: {name!r}: {error.message}") from error

"""Who a caller is and what they may see.

A caller without a token sees what the gateway was started to show to everybody: public documents. A token opens
what the file of tokens says. The file holds digests, so that reading it gives nobody a token. What a request
asks for can only narrow that, unless the token is marked as speaking for others: then each request names
the rights of its reader.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from whence.schema.access import MAX_CLEARANCE, Access
from whence.schema.errors import BadInput, ConfigError, WhenceError

__all__ = ("AccessBody", "Caller", "Rights", "Unauthorized", "read_tokens", "token_digest")


class Unauthorized(WhenceError):
    """The caller gave no token where one is needed, or one that is not known."""

    code = "unauthorized"
    exit_code = 2
    default_hint = "send `Authorization: Bearer TOKEN`"


class AccessBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rights as a request or the file of tokens names them."""

    acl: list[str] = []
    """Access tags."""
    labels: list[str] = []
    """Labels."""
    clearance: int = 0
    """Highest level, 0 or more."""

    def access(self) -> Access:
        """Give them as rights.

        Raises:
            BadInput: A tag is empty or holds NUL, or the clearance is out of range.
        """
        return Access(frozenset(self.acl), frozenset(self.labels), self.clearance)


class _TokenEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table of the file."""

    sha256: str
    acl: list[str] = []
    labels: list[str] = []
    clearance: int = 0
    speaks_for_others: bool = False


class _TokenFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tokens: dict[str, _TokenEntry] = {}


class Caller(msgspec.Struct, frozen=True):
    """Whoever sent a request."""

    name: str
    """Name of the token; empty without one."""
    access: Access
    """What they may see at most."""
    speaks_for_others: bool = False
    """True when each request names the rights of its reader."""

    def reading(self, asked: AccessBody | None) -> Access:
        """Give the rights of one request: what was asked for within what the caller has.

        A caller who speaks for others and names nobody sees public documents.

        Raises:
            BadInput: A tag is empty or holds NUL, or the clearance is out of range.
        """
        if self.speaks_for_others:
            return Access.public() if asked is None else asked.access()
        return self.access if asked is None else self.access.intersect(asked.access())


class Rights:
    """Turns the header of a request into a caller.

    Args:
        everybody: What is shown without a token.
        tokens: Caller by the SHA-256 of the token.
        token_needed: True refuses callers without one.
    """

    def __init__(
        self,
        everybody: Access,
        tokens: Mapping[str, Caller] | None = None,
        *,
        token_needed: bool = False,
    ) -> None:
        self._everybody = Caller("", everybody)
        self._tokens = dict(tokens or {})
        self._token_needed = token_needed

    def caller(self, authorization: str | None) -> Caller:
        """Give the caller of a request by its `Authorization` header.

        Raises:
            Unauthorized: A token is needed and none was given, or it is not known. A wrong token is never
                taken for none.
        """
        if not authorization:
            if self._token_needed:
                raise Unauthorized("this server answers only to callers with a token")
            return self._everybody
        scheme, _, token = authorization.partition(" ")
        caller = self._tokens.get(token_digest(token.strip()))
        if scheme.lower() != "bearer" or caller is None:
            raise Unauthorized("the token is not known here")
        return caller


def token_digest(token: str) -> str:
    """Give the SHA-256 of a token in hexadecimal digits, as the file of tokens holds it."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def read_tokens(path: Path) -> dict[str, Caller]:
    """Read the file of tokens; gives the caller by the digest of their token.

    Raises:
        ConfigError: The file cannot be read, is no TOML, has an unknown key, a digest that is none, a tag that
            is none, or the same digest twice.
    """
    try:
        found = msgspec.convert(tomllib.loads(path.read_text("utf-8")), _TokenFile)
    except OSError as error:
        raise ConfigError(f"cannot read the tokens in {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"the tokens in {path} are malformed: {error}", hint=_EXAMPLE) from error
    callers: dict[str, Caller] = {}
    for name, entry in found.tokens.items():
        digest = entry.sha256.lower()
        if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
            raise ConfigError(f"{path}: sha256 of {name!r} is no SHA-256", hint=_EXAMPLE)
        if digest in callers:
            raise ConfigError(f"{path}: {name!r} and {callers[digest].name!r} are one token")
        callers[digest] = Caller(name, _access(path, name, entry), entry.speaks_for_others)
    return callers


_EXAMPLE = (
    'a caller is [tokens.NAME] with sha256 = "...", and acl, labels, clearance or speaks_for_others'
)


def _access(path: Path, name: str, entry: _TokenEntry) -> Access:
    if not 0 <= entry.clearance <= MAX_CLEARANCE:
        raise ConfigError(f"{path}: clearance of {name!r} must be from 0 to {MAX_CLEARANCE}")
    try:
        return AccessBody(entry.acl, entry.labels, entry.clearance).access()
    except BadInput as error:
        raise ConfigError(f"{path}: {name!r}: {error.message}") from error

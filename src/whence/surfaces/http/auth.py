"""Callers and their rights.

Requests without a token have the rights that the gateway was started with, public documents by default. When
an identity provider is configured, a token of three parts joined by dots is a JWT and is checked as such only
(`jwt_check`). Any other token has the rights that the tokens file lists (`tokens_file`). A request can only
narrow its rights, unless its token has `speaks_for_others`: then each request names the rights of its reader.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping
from hmac import compare_digest
from typing import Protocol

import msgspec

from whence.schema.access import Access
from whence.schema.errors import WhenceError


class Unauthorized(WhenceError):
    """The request has no token where one is required, or one that is unknown, invalid or expired."""

    code = "unauthorized"
    exit_code = 2
    default_hint = "send `Authorization: Bearer TOKEN`"


class InvalidToken(Unauthorized):
    """The token is unknown, invalid, expired or revoked; its message is sent in the header of the response."""


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


class Caller(msgspec.Struct, frozen=True):
    """The sender of a request."""

    name: str
    """Name of the token, or subject of a JWT; empty without one."""
    access: Access
    """Most that the caller may see."""
    speaks_for_others: bool = False
    """Whether each request names the rights of its reader."""
    may_write: bool = False
    """Whether the caller may store and remove documents."""
    expires_s: float = math.inf
    """When the token ends, in seconds since 1970."""
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


class TokenCheck(Protocol):
    """Checks the tokens of an identity provider."""

    async def caller(self, token: str) -> Caller:
        """Return the caller, or raise `InvalidToken`, or `Unavailable` while no key can be had."""
        ...


#: What clients that need a key send for a reader without a token.
_NO_TOKEN = "public"  # noqa: S105 - no secret
_KEYS = "send a token of this server, or `public` to read without a token"


class Authenticator:
    """Finds the caller of a request by its token.

    Args:
        anonymous: Rights without a token.
        tokens: Callers by the digest of their token, or what returns those of the moment.
        jwt: Checks tokens of an identity provider; None when there is none.
        require_token: Whether requests without a token are refused.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        anonymous: Access,
        tokens: Mapping[str, Caller] | Callable[[], Mapping[str, Caller]] | None = None,
        *,
        jwt: TokenCheck | None = None,
        require_token: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._anonymous = Caller("", anonymous)
        known: Mapping[str, Caller] = {} if tokens is None or callable(tokens) else dict(tokens)
        self._tokens = tokens if callable(tokens) else lambda: known
        self._jwt = jwt
        self._require_token = require_token
        self._clock = clock

    async def caller(self, authorization: str | None) -> Caller:
        """Return the caller of a request by its `Authorization` header; `Bearer public` is no token.

        Raises:
            Unauthorized: There is no token where one is required, or it is invalid.
            Unavailable: Tokens cannot be checked at present.
        """
        scheme, _, token = (authorization or f"Bearer {_NO_TOKEN}").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer":
            raise Unauthorized("the scheme of the Authorization header is not Bearer")
        if token == _NO_TOKEN:
            if self._require_token:
                raise Unauthorized("this server requires a token")
            return self._anonymous
        return (await self.sign_in(token))[0]

    async def sign_in(self, token: str) -> tuple[Caller, str]:
        """Return the caller of a token, and its digest; that of a JWT is empty.

        Raises:
            InvalidToken: It is unknown, invalid or expired.
            Unavailable: Tokens cannot be checked at present.
        """
        if self._jwt is not None and token.count(".") == 2:
            return await self._jwt.caller(token), ""
        digest = token_digest(token)
        caller = self._known(digest)
        if caller is None:
            raise InvalidToken("unknown token", hint=_KEYS)
        if self._clock() >= caller.expires_s:
            raise InvalidToken("the token has expired")
        return caller, digest

    def known(self, digest: str) -> Caller | None:
        """Return the caller of a token by its digest, as the tokens are now; None when it ended."""
        caller = self._known(digest)
        return None if caller is None or self._clock() >= caller.expires_s else caller

    def _known(self, digest: str) -> Caller | None:
        """Return the caller of a digest. Compares with every digest, each in constant time."""
        found = None
        for known, caller in self._tokens().items():
            if compare_digest(known, digest):
                found = caller
        return found


def token_digest(token: str) -> str:
    """Return the SHA-256 of a token in hexadecimal digits, as in the tokens file."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()

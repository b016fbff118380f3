"""Checks JSON Web Tokens of an identity provider (RFC 7519, RFC 8725, RFC 9068) and maps them to callers.

What comes in: the token, the keys of its issuer, and what groups grant. What goes out: the caller, or
`InvalidToken` with the reason. A claim that is read must have its type, and no claim may be repeated.
"""

from __future__ import annotations

import binascii
import json
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable
from typing import Any, Final

from whence.schema.errors import BadInput
from whence.surfaces.http.auth import Caller, InvalidToken
from whence.surfaces.http.group_rights import GroupRights
from whence.surfaces.http.key_sets import ALGORITHMS, KeySet
from whence.surfaces.http.requests import decode_json

#: Longest token, in characters: twice that of a reader in 200 groups.
MOST_CHARACTERS: Final = 16_384
#: Types of tokens that are no answer to anything else (RFC 8725, section 3.11).
_TYPES: Final = frozenset({"jwt", "at+jwt", "application/jwt", "application/at+jwt"})
#: Most keys of one name that are tried.
_MOST_KEYS: Final = 8


class JwtCheck:
    """Finds the caller of a token.

    Args:
        issuer: Value of `iss`, exactly.
        audience: Value that must be in `aud`.
        keys: Keys of the issuer.
        rights: What its groups grant.
        skew_s: By how many seconds the clocks of issuer and server may differ.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        issuer: str,
        audience: str,
        keys: KeySet,
        rights: GroupRights,
        *,
        skew_s: float = 60,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._issuer, self._audience = issuer, audience
        self._keys = keys
        self._rights = rights
        self._skew_s = skew_s
        self._clock = clock

    async def caller(self, token: str) -> Caller:
        """Return the caller.

        Raises:
            InvalidToken: The token is malformed, not from the issuer, for another audience, not valid now, or
                its groups are malformed.
            Unavailable: No key can be had, or the mapping cannot be read.
        """
        return self.caller_of(await self.claims(token))

    async def claims(self, token: str) -> dict[str, Any]:
        """Return the claims of a valid token; raises as `caller`, but for its groups."""
        if len(token) > MOST_CHARACTERS:
            raise InvalidToken(f"the token has more than {MOST_CHARACTERS} characters")
        claims = await self._verified(token)
        self._check_source(claims)
        self._check_times(claims)
        return claims

    def caller_of(self, claims: dict[str, Any]) -> Caller:
        """Return the caller of a valid token by its claims.

        Raises:
            InvalidToken: Its groups are malformed.
            Unavailable: The mapping cannot be read.
        """
        granted = self._rights.granted(claims)
        return Caller(
            f"oidc:{claims['sub']}",
            granted.access(),
            may_write=granted.write,
            expires_s=claims["exp"],
        )

    def for_audience(self, audience: str) -> JwtCheck:
        """Return a check of tokens for another audience, with the same keys and rights."""
        return JwtCheck(
            self._issuer,
            audience,
            self._keys,
            self._rights,
            skew_s=self._skew_s,
            clock=self._clock,
        )

    async def _verified(self, token: str) -> dict[str, Any]:
        """Return the claims of a token that a key of the issuer has signed."""
        import jwt

        header = _object(_part(token.partition(".")[0]))
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            raise InvalidToken("the algorithm of the token is not allowed")
        if "crit" in header or "b64" in header:
            raise InvalidToken("the token has critical extensions, which are unknown here")
        if str(header.get("typ", "JWT")).lower() not in _TYPES:
            raise InvalidToken("the token is of another type")
        if kid is not None and not isinstance(kid, str):
            raise InvalidToken("the token is malformed")
        for each in (await self._keys.matching(kid, algorithm))[:_MOST_KEYS]:
            try:
                signed = jwt.PyJWS().decode(token, each.key, algorithms=[algorithm])
            except jwt.InvalidSignatureError:
                continue
            except jwt.PyJWTError as error:
                raise InvalidToken("the token is malformed") from error
            return _object(signed)
        raise InvalidToken("the token is not signed by its issuer")

    def _check_source(self, claims: dict[str, Any]) -> None:
        if claims.get("iss") != self._issuer:
            raise InvalidToken("the token is from another issuer")
        audiences = claims.get("aud")
        if isinstance(audiences, str):
            audiences = [audiences]
        if not (
            isinstance(audiences, list)
            and all(isinstance(one, str) for one in audiences)
            and self._audience in audiences
        ):
            raise InvalidToken("the token is for another audience")
        subject = claims.get("sub")
        if not isinstance(subject, str) or not subject:
            raise InvalidToken("the token has no subject")

    def _check_times(self, claims: dict[str, Any]) -> None:
        now = self._clock()
        expires = _seconds(claims, "exp")
        if expires is None:
            raise InvalidToken("the token has no time of expiry")
        if now >= expires + self._skew_s:
            raise InvalidToken("the token has expired")
        for name in ("nbf", "iat"):
            begins = _seconds(claims, name)
            if begins is not None and now < begins - self._skew_s:
                raise InvalidToken("the token is not valid yet")


def _seconds(claims: dict[str, Any], name: str) -> float | None:
    """Return a time; None when the token has none."""
    if name not in claims:
        return None
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidToken(f"the claim {name} of the token is not a number")
    return value


def _part(text: str) -> bytes:
    """Decode a part of a token; PyJWT checks its letters later."""
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError) as error:
        raise InvalidToken("the token is malformed") from error


def _object(data: bytes) -> dict[str, Any]:
    """Return a JSON object of which no member, at any level, stands twice (RFC 8725, section 2.4)."""
    try:
        decoded = decode_json(data)
        json.loads(data, object_pairs_hook=_unique)
    except (BadInput, ValueError) as error:
        raise InvalidToken("the token is malformed") from error
    if not isinstance(decoded, dict):
        raise InvalidToken("the token is malformed")
    return decoded


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a member stands twice")
    return found

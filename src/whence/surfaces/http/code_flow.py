"""Sign-in of the page with an identity provider: authorization code with PKCE (RFC 7636, OpenID Connect Core).

`GET /v1/reader/oidc` sends the browser to the issuer, which sends it back to `/v1/reader/oidc/callback` with a
code. The server exchanges the code, checks the token as it checks those of other clients, and begins a session.
Tokens never reach the browser. A sign-in that the same browser did not begin is refused.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from hmac import compare_digest
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from whence.schema.errors import BadInput, Unavailable, WhenceError
from whence.surfaces.http.auth import Caller, InvalidToken
from whence.surfaces.http.jwt_check import JwtCheck
from whence.surfaces.http.key_sets import checked_url, describe_issuer, issuer_client
from whence.surfaces.http.requests import decode_json

#: Time for a sign-in at the issuer, in seconds, and sign-ins under way at most.
PENDING_S: Final = 600.0
_MOST_PENDING: Final = 1_000
#: Longest time of an exchange with the issuer, in seconds, and its largest reply, in bytes.
_TIMEOUT_S: Final = 10.0
_MOST_BYTES: Final = 2**20
_RANDOM_BYTES: Final = 32
_AGAIN: Final = "sign in again"


class _Pending(NamedTuple):
    verifier: str
    nonce: str
    browser: str
    redirect_uri: str
    begun: float


class CodeFlow:
    """Signs readers in with an issuer.

    Args:
        issuer: Its address, exactly as it calls itself.
        client_id: Name of the page at the issuer.
        check: Checks access tokens for this server; tokens of identity are checked for the client.
        client_secret: Of a client that has one.
        scopes: To ask for, beside `openid`.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        issuer: str,
        client_id: str,
        check: JwtCheck,
        *,
        client_secret: str = "",
        scopes: tuple[str, ...] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer, self._client_id, self._secret = issuer, client_id, client_secret
        self._access_check, self._identity_check = check, check.for_audience(client_id)
        self._scopes = tuple(dict.fromkeys(("openid", *scopes)))
        self._clock = clock
        self._pending: dict[str, _Pending] = {}

    async def begin(self, redirect_uri: str) -> tuple[str, str]:
        """Return the address of the issuer for a sign-in, and a secret for the browser that begins it.

        Raises:
            Unavailable: The issuer does not answer.
        """
        about = await self._about()
        state, nonce, browser, verifier = (secrets.token_urlsafe(_RANDOM_BYTES) for _ in range(4))
        self._forget_old()
        self._pending[state] = _Pending(verifier, nonce, browser, redirect_uri, self._clock())
        challenge = urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
        query = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(self._scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge.decode(),
            "code_challenge_method": "S256",
        }
        address = checked_url(about.get("authorization_endpoint"), "authorization_endpoint")
        return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}", browser

    async def finish(self, answer: dict[str, str], browser: str) -> Caller:
        """Return the reader that the issuer sent back.

        Args:
            answer: Query of the address that the issuer sent the browser to.
            browser: The secret of the browser.

        Raises:
            InvalidToken: The sign-in was refused, is not one of this browser, or its token is invalid.
            Unavailable: The issuer does not answer.
        """
        pending = self._pending.pop(answer.get("state", ""), None)
        is_own = pending is not None and compare_digest(pending.browser.encode(), browser.encode())
        if pending is None or not is_own or self._clock() - pending.begun > PENDING_S:
            raise InvalidToken("the sign-in is unknown here or took too long", hint=_AGAIN)
        if answer.get("iss", self._issuer) != self._issuer:
            raise InvalidToken("the sign-in is from another issuer", hint=_AGAIN)
        if "error" in answer or "code" not in answer:
            raise InvalidToken("the identity provider refused the sign-in", hint=_AGAIN)
        tokens = await self._exchange(answer["code"], pending)
        return await self._caller(tokens, pending.nonce)

    async def _caller(self, tokens: dict[str, Any], nonce: str) -> Caller:
        """Return the reader of an access token for this server, else of a token of identity."""
        access, identity = (str(tokens.get(name) or "") for name in ("access_token", "id_token"))
        try:
            return await self._access_check.caller(access)
        except InvalidToken:
            if not identity:
                raise
        claims = await self._identity_check.claims(identity)
        if not compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise InvalidToken("the token is of another sign-in", hint=_AGAIN)
        return self._identity_check.caller_of(claims)

    async def _exchange(self, code: str, pending: _Pending) -> dict[str, Any]:
        """Return the tokens for a code."""
        import httpx

        about = await self._about()
        address = checked_url(about.get("token_endpoint"), "token_endpoint")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": pending.redirect_uri,
            "client_id": self._client_id,
            "code_verifier": pending.verifier,
        }
        own: Any = httpx.USE_CLIENT_DEFAULT
        if self._secret:
            own = httpx.BasicAuth(self._client_id, self._secret)
        try:
            async with asyncio.timeout(_TIMEOUT_S), issuer_client(address) as client:
                reply = await client.post(address, data=form, auth=own)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError) as error:
            raise _silent(error) from error
        if reply.status_code != 200 or len(reply.content) > _MOST_BYTES:
            raise InvalidToken("the identity provider did not accept the sign-in", hint=_AGAIN)
        try:
            tokens = decode_json(reply.content)
        except BadInput as error:
            raise _silent(error) from error
        return tokens if isinstance(tokens, dict) else {}

    async def _about(self) -> dict[str, Any]:
        import httpx

        try:
            async with asyncio.timeout(_TIMEOUT_S), issuer_client(self._issuer) as client:
                return await describe_issuer(client, self._issuer)
        except (WhenceError, httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError) as error:
            raise _silent(error) from error

    def _forget_old(self) -> None:
        now = self._clock()
        old = [key for key, one in self._pending.items() if now - one.begun > PENDING_S]
        # Whoever begins many sign-ins pushes out the oldest.
        more = max(0, len(self._pending) - len(old) - _MOST_PENDING + 1)
        for key in (*old, *[one for one in self._pending if one not in old][:more]):
            del self._pending[key]


def _silent(error: Exception) -> Unavailable:
    words = str(error) or type(error).__name__
    return Unavailable(f"the identity provider does not answer: {words}", hint="try again later")

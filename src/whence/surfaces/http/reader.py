"""Who reads: a token of the request, or the session of the page; and how a reader signs in and out.

| Path | Response |
|---|---|
| `GET /v1/reader` | name and rights of the reader, and the ways to sign in |
| `POST /v1/reader/session` | `{token}`: begin a session; 204 with a cookie |
| `DELETE /v1/reader/session` | end it; 204 |
| `GET /v1/reader/oidc` | sign in with the identity provider, see `code_flow` |

The cookie holds a random id; the store has its digest, and the digest of the token, whose rights count as they
are at each request. It is taken only for requests of the server's own page: without a foreign `Origin`, not
from another site or port, and for writes with the header `X-Whence-Page: 1`, which no form can send.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace
from starlette.responses import Response
from starlette.routing import Route

from whence.operations.reader_sessions import (
    BeginReaderSession,
    EndReaderSession,
    FindReaderSession,
)
from whence.schema.errors import BadInput, NotFound
from whence.store.reader_records import ReaderSession
from whence.surfaces.http.attempts import Attempts
from whence.surfaces.http.auth import (
    AccessBody,
    Authenticator,
    Caller,
    Forbidden,
    InvalidToken,
    Unauthorized,
)
from whence.surfaces.http.code_flow import PENDING_S
from whence.surfaces.http.failures import JsonResponse
from whence.surfaces.http.oidc import base_url
from whence.surfaces.http.requests import parse_body, read_json

if TYPE_CHECKING:
    from starlette.requests import Request

    from whence.surfaces.http.code_flow import CodeFlow
    from whence.surfaces.http.service import Service

SESSION_COOKIE: Final = "whence_session"
BROWSER_COOKIE: Final = "whence_browser"
PAGE_HEADER: Final = "X-Whence-Page"
#: Longest time of a session.
SESSION_TIME: Final = timedelta(hours=12)
#: Time for which a browser keeps its id: the most that browsers allow.
_BROWSER_S: Final = 400 * 86_400
_ID_BYTES: Final = 32
_SAFE: Final = ("GET", "HEAD")
#: Path of the sign-in with the identity provider, and the cookie of a browser that is there. That one is sent
#: when the provider leads back, which `strict` would prevent.
OIDC_PATH: Final = "/v1/reader/oidc"
SIGN_IN_COOKIE: Final = "whence_sign_in"
_SIGN_IN_COOKIE: Final[dict[str, Any]] = {
    "httponly": True,
    "samesite": "lax",
    "path": "/",
    "max_age": int(PENDING_S),
}
_COOKIE: Final[dict[str, Any]] = {"httponly": True, "samesite": "strict", "path": "/"}


class SignInBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request of a session."""

    token: str
    """A token of `whence tokens new`, or of the identity provider."""


class Readers:
    """Finds the caller of each request, and serves these paths.

    Args:
        service: Stores sessions.
        auth: Knows tokens.
        public_url: Address for callers; that of each request when empty.
        code_flow: Signs readers in with the identity provider; None when there is none.
        now: Returns the time with its zone.
    """

    def __init__(
        self,
        service: Service,
        auth: Authenticator,
        *,
        public_url: str = "",
        code_flow: CodeFlow | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._service = service
        self._auth = auth
        self._public_url = public_url
        self._code_flow = code_flow
        self._now = now
        self._attempts = Attempts()

    def routes(self) -> list[Route]:
        """Return the routing table."""
        session = "/v1/reader/session"
        return [
            Route("/v1/reader", self.show),
            Route(session, self.sign_in, methods=["POST"]),
            Route(session, self.sign_out, methods=["DELETE"]),
            Route(OIDC_PATH, self.begin_sign_in),
            Route(f"{OIDC_PATH}/callback", self.finish_sign_in),
        ]

    async def caller(self, request: Request) -> Caller:
        """Return the caller of a request.

        Raises:
            BadInput: It has several tokens.
            Unauthorized: It has no token where one is required, or an invalid one.
        """
        stated = request.headers.getlist("authorization")
        if len(stated) > 1:
            raise BadInput("the request has more than one Authorization header")
        caller = None if stated else await self._of_session(request)
        if caller is None:
            caller = await self._auth.caller(stated[0] if stated else None)
        return replace(caller, address=_address(request))

    async def show(self, request: Request) -> Response:
        """Return who reads, with which rights."""
        token_required = False
        try:
            caller = await self.caller(request)
        except InvalidToken:
            raise
        except Unauthorized:
            caller, token_required = Caller("", AccessBody().access()), True
        access = caller.access
        rights = {
            "acl": sorted(access.acl_tags),
            "labels": sorted(access.labels),
            "clearance": access.clearance,
        }
        return JsonResponse(
            {
                "signed_in": bool(caller.name),
                "name": caller.name,
                "may_write": caller.may_write,
                "rights": rights,
                "token_required": token_required,
                "sign_in": {"token": True, "oidc": OIDC_PATH if self._code_flow else None},
            }
        )

    async def sign_in(self, request: Request) -> Response:
        """Begin a session with a token."""
        self.require_own_page(request)
        body = parse_body(await read_json(request), SignInBody)
        address = _address(request)
        self._attempts.check(address)
        try:
            caller, digest = await self._auth.sign_in(body.token)
        except InvalidToken:
            self._attempts.failed(address)
            raise
        self._attempts.succeeded(address)
        return await self.begin(request, caller, digest, Response(status_code=204))

    async def begin_sign_in(self, request: Request) -> Response:
        """Send the browser to the identity provider."""
        flow = self._required_flow()
        base = base_url(request, self._public_url)
        address, browser = await flow.begin(f"{base}{OIDC_PATH}/callback")
        response = Response(status_code=303, headers={"Location": address})
        response.set_cookie(
            SIGN_IN_COOKIE, browser, secure=self._is_secure(request), **_SIGN_IN_COOKIE
        )
        return response

    async def finish_sign_in(self, request: Request) -> Response:
        """Begin a session for a reader whom the identity provider sent back."""
        browser = request.cookies.get(SIGN_IN_COOKIE, "")
        caller = await self._required_flow().finish(dict(request.query_params), browser)
        # The page is above `/v1/reader/oidc/`, also below the prefix of a proxy.
        response = Response(status_code=303, headers={"Location": "../../../"})
        response.delete_cookie(SIGN_IN_COOKIE, path=_SIGN_IN_COOKIE["path"])
        return await self.begin(request, caller, "", response)

    def _required_flow(self) -> CodeFlow:
        if self._code_flow is None:
            raise NotFound("this server has no identity provider", hint="sign in with a token")
        return self._code_flow

    async def sign_out(self, request: Request) -> Response:
        """End the session of a request."""
        self.require_own_page(request)
        stated = request.cookies.get(SESSION_COOKIE)
        if stated:
            await self._service.run_at_once(EndReaderSession(_digest(stated)))
        response = Response(status_code=204)
        response.delete_cookie(SESSION_COOKIE, secure=self._is_secure(request), **_COOKIE)
        return response

    async def begin(
        self, request: Request, caller: Caller, token_digest: str, response: Response
    ) -> Response:
        """Begin a session, and return the response with its cookie."""
        stated = secrets.token_urlsafe(_ID_BYTES)
        ends_at = self._now() + SESSION_TIME
        if caller.expires_s < ends_at.timestamp():
            ends_at = datetime.fromtimestamp(caller.expires_s, UTC)
        own = "" if token_digest else msgspec.json.encode(_Kept.of(caller)).decode()
        session = ReaderSession(
            digest=_digest(stated), token=token_digest, caller=own, ends_at=ends_at
        )
        await self._service.run_at_once(BeginReaderSession(session))
        response.set_cookie(SESSION_COOKIE, stated, secure=self._is_secure(request), **_COOKIE)
        return response

    def require_own_page(self, request: Request) -> None:
        """Refuse a request that another page may have sent.

        Raises:
            Forbidden: It has a foreign origin, or lacks the header of the page.
        """
        if not self.is_own_page(request) or request.headers.get(PAGE_HEADER) != "1":
            raise Forbidden(
                "sessions are for the page of this server",
                hint=f"send `Authorization: Bearer TOKEN`; the page sends `{PAGE_HEADER}: 1`",
            )

    def is_own_page(self, request: Request) -> bool:
        """Return whether no page of another origin sent a request, as far as its browser says so."""
        origin = request.headers.get("origin")
        if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            return False
        if origin is None:
            return True
        parts = urlsplit(origin)
        own = urlsplit(self._public_url) if self._public_url else None
        if own is not None and (parts.scheme, parts.netloc) == (own.scheme, own.netloc):
            return True
        # A proxy that ends TLS may hide that: https may come as http, and never the other way.
        same_host = parts.netloc.lower() == request.headers.get("host", "").lower()
        return same_host and parts.scheme in ("https", request.url.scheme)

    def reader_key(self, caller: Caller, request: Request) -> tuple[str, str]:
        """Return the digest of whose history a request adds to, and a new id for its browser, if it needs one.

        A token that speaks for others is many readers; each is known by its browser.
        """
        if caller.name and not caller.speaks_for_others:
            return _digest(f"name:{caller.name}"), ""
        known = request.cookies.get(BROWSER_COOKIE, "") if self.is_own_page(request) else ""
        fresh = "" if known else secrets.token_urlsafe(_ID_BYTES)
        return _digest(f"browser:{known or fresh}"), fresh

    def asking(self, caller: Caller, request: Request) -> tuple[str, str]:
        """Return the same for a question; whose history it adds to is empty unless the page sent it."""
        if request.headers.get(PAGE_HEADER) != "1" or not self.is_own_page(request):
            return "", ""
        return self.reader_key(caller, request)

    def keep_browser(self, request: Request, response: Response, fresh: str) -> None:
        """Let a browser keep its id."""
        if fresh:
            secure = self._is_secure(request)
            response.set_cookie(BROWSER_COOKIE, fresh, max_age=_BROWSER_S, secure=secure, **_COOKIE)

    async def _of_session(self, request: Request) -> Caller | None:
        stated = request.cookies.get(SESSION_COOKIE)
        is_write = request.method not in _SAFE
        if not stated or not self.is_own_page(request):
            return None
        if is_write and request.headers.get(PAGE_HEADER) != "1":
            return None
        found = await self._service.run_at_once(FindReaderSession(_digest(stated)))
        if found is None:
            return None
        if found.token:
            return self._auth.known(found.token)
        return msgspec.json.decode(found.caller, type=_Kept).caller()

    def _is_secure(self, request: Request) -> bool:
        return request.url.scheme == "https" or self._public_url.startswith("https:")


class _Kept(msgspec.Struct, frozen=True):
    """A reader of an identity provider, as a session keeps it."""

    name: str
    rights: AccessBody
    may_write: bool

    @classmethod
    def of(cls, caller: Caller) -> _Kept:
        access = caller.access
        rights = AccessBody(sorted(access.acl_tags), sorted(access.labels), access.clearance)
        return cls(caller.name, rights, caller.may_write)

    def caller(self) -> Caller:
        """Return the reader."""
        return Caller(self.name, self.rights.access(), may_write=self.may_write)


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()

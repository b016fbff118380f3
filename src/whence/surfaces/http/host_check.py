"""Middleware that rejects foreign hosts, foreign pages and large bodies, and adds security headers.

A web page can send requests to a server on its reader's machine, and read the answers by pointing a host name
of its own to 127.0.0.1 (DNS rebinding). So a request must name an allowed host or a plain IP address, and a
request with an `Origin` must come from a page of the same host, or of an origin that is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whence.flow.hosts import host_name
from whence.schema.errors import BadInput
from whence.surfaces.http.failures import JsonResponse, error_for

#: Largest request body in bytes, far above the longest accepted question.
MAX_BODY: Final = 2**20
#: Largest request that stores files, in bytes; larger than any file that is read.
MAX_UPLOAD: Final = 160 * 2**20

_STORES: Final = re.compile(r"/v1/collections/[^/]+/documents\Z")
_SEND_LESS: Final = "send a smaller request"
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'",
    "Cache-Control": "no-store",
}


class HostCheck:
    """Rejects foreign hosts, foreign pages and large bodies; adds security headers."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Iterable[str],
        max_body: int = MAX_BODY,
        max_upload: int = MAX_UPLOAD,
        origins: Iterable[str] = (),
    ) -> None:
        self._app = app
        self._hosts = frozenset(hosts)
        self._origins = frozenset(origins)
        self._max_body = max_body
        self._max_upload = max_upload

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or reject it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        send_secured = _with_security_headers(send)
        refusal = self._refusal(scope["method"], scope["path"], headers)
        if refusal is not None:
            await refusal(scope, receive, send_secured)
            return
        limit = self._limit(scope["method"], scope["path"])
        await self._app(scope, _with_limit(receive, limit), send_secured)

    def _limit(self, method: str, path: str) -> int:
        """Return the largest body in bytes; that of files is not read before the caller may store them."""
        return self._max_upload if method == "POST" and _STORES.match(path) else self._max_body

    def _refusal(self, method: str, path: str, headers: Headers) -> JsonResponse | None:
        host = headers.get("host", "")
        if not self._is_allowed_host(host):
            message = f"{host!r} is not a host name of this server"
            return _refused(path, 421, message, "allow it with --allow-host")
        origin = headers.get("origin")
        # A page of this server sends the server's own host as its origin.
        own = origin is None or urlsplit(origin).netloc.lower() == host.lower()
        if not own and origin not in self._origins:
            message = f"pages of {origin!r} may not use this server"
            return _refused(path, 403, message, "allow it with --allow-origin")
        length = headers.get("content-length", "0")
        limit = self._limit(method, path)
        if not length.isdecimal() or int(length) > limit:
            message = f"the request has more than {limit} bytes"
            return _refused(path, 413, message, _SEND_LESS)
        return None

    def _is_allowed_host(self, host: str) -> bool:
        name = host_name(host)
        try:
            return name in self._hosts or bool(ip_address(name))
        except ValueError:
            return False


def _with_limit(receive: Receive, limit: int) -> Receive:
    """Receive a body up to a size; a chunked body declares no length."""
    received = 0

    async def receiving() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > limit:
            raise BadInput(f"the request has more than {limit} bytes", hint=_SEND_LESS)
        return message

    return receiving


def _refused(path: str, status: int, message: str, hint: str) -> JsonResponse:
    return JsonResponse(error_for(path, BadInput(message, hint=hint), status), status)


def _with_security_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending

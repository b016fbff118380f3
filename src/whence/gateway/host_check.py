"""The door of the gateway: what is turned away before anything reads it, and what every answer carries.

A page on the web can send requests to a server on this machine through its reader's browser, and by pointing a
name of its own to 127.0.0.1 it could read the answers, too. So a request must name a host that this server
goes by, or a plain address, which nobody can point elsewhere; and one that a browser sends for a page must come
from such a host.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whence.gateway.failures import JsonResponse
from whence.schema.errors import BadInput

__all__ = ("LOOPBACK", "MAX_BODY", "Door")

#: Names that a machine calls itself by.
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
#: Largest request, in bytes: a question is text, and the longest accepted one is far below this.
MAX_BODY: Final = 2**20

_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}


class Door:
    """Turns away foreign hosts, foreign pages and huge bodies; adds headers that keep browsers careful.

    Args:
        app: What is behind it.
        hosts: Names that requests may use for this server, lower case; plain addresses always go.
        max_body: Largest body, in bytes.
    """

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str], max_body: int = MAX_BODY) -> None:
        self._app = app
        self._hosts = frozenset(hosts)
        self._max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        careful = _careful(send)
        refusal = self._refusal(headers)
        if refusal is not None:
            await refusal(scope, receive, careful)
            return
        await self._app(scope, _Limited(receive, self._max_body), careful)

    def _refusal(self, headers: Headers) -> JsonResponse | None:
        host = headers.get("host", "")
        if not self._goes_by(host):
            return _refused(
                421, f"this server does not go by the name {host!r}", "name it with --allow-host"
            )
        origin = headers.get("origin")
        # A page's own requests name its own host, whatever that is.
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return _refused(403, f"pages of {origin!r} may not ask this server", "ask it directly")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._max_body:
            return _too_large(self._max_body)
        return None

    def _goes_by(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
            return name in self._hosts or bool(ip_address(name))
        except ValueError:
            return False


class _Limited:
    """Receives a body up to a size; a chunked one has no length to go by."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive = receive
        self._left = limit
        self._limit = limit

    async def __call__(self) -> MutableMapping[str, Any]:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise BadInput(f"the request has more than {self._limit} bytes", hint="ask for less")
        return message


def _too_large(limit: int) -> JsonResponse:
    """Give the answer to a body that is too large."""
    return _refused(413, f"the request has more than {limit} bytes", "ask for less at once")


def _refused(status: int, message: str, hint: str) -> JsonResponse:
    document = {"error": {"code": "bad_input", "message": message, "hint": hint}}
    return JsonResponse(document, status)


def _careful(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending

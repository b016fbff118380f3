"""The Model Context Protocol: messages of assistants and their answers; `mcp_offer` has what Whence offers.

Transports: HTTP (one JSON-RPC message a POST, no session) and standard input and output (one message a line).
Revisions up to 2025-11-25 begin with a handshake; from 2026-07-28 on every request carries its revision in an
envelope. Both are supported. The official library adds 30 MB and a second of start time, so it is used only in
the tests, as a client.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from whence.schema.errors import BadInput, NotFound, WhenceError
from whence.schema.version import VERSION
from whence.surfaces.http.auth import Caller
from whence.surfaces.http.requests import decode_json

#: Revisions that begin with `initialize`, newest first.
HANDSHAKE_REVISIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
#: Revisions whose requests carry an envelope, newest first.
ENVELOPE_REVISIONS: Final = ("2026-07-28",)
REVISIONS: Final = (*ENVELOPE_REVISIONS, *HANDSHAKE_REVISIONS)

#: Keys of the envelope in `params._meta`.
_REVISION: Final = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
_SERVER: Final = "io.modelcontextprotocol/serverInfo"

_PARSE_ERROR, _INVALID_REQUEST, _NO_METHOD = -32700, -32600, -32601
_INVALID_PARAMS, _INTERNAL = -32602, -32603
#: A resource that does not exist, until 2025-11-25; later revisions have invalid parameters.
_NO_RESOURCE = -32002
_HEADER_MISMATCH, _UNSUPPORTED_REVISION = -32020, -32022
_REVISION_HEADER: Final = "mcp-protocol-version"
#: Methods that name something, by the parameter that the header `Mcp-Name` repeats.
_NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_BASE64 = re.compile(r"=\?base64\?([A-Za-z0-9+/=]*)\?=\Z")
#: Time for which clients may cache what is the same for every caller.
_TTL_MS: Final = 3_600_000
#: Most values of a completion (the protocol's limit).
_MOST_VALUES: Final = 100

Notify = Callable[[dict[str, Any]], Awaitable[None]]
"""Sends a notification to the client, before the reply."""
Progress = Callable[[float, float, str], Awaitable[None]]
"""Reports how far a call is: done, of how much, and what was done."""


class Offer(Protocol):
    """What a server offers; documents are in the form of the protocol.

    Methods raise `NotFound` for what is missing or hidden, `BadInput` for a wrong argument, and any other
    `WhenceError` for what failed.
    """

    instructions: str
    """How an assistant uses the server."""
    tools: Sequence[dict[str, Any]]
    templates: Sequence[dict[str, Any]]
    """Templates of the addresses of resources."""
    prompts: Sequence[dict[str, Any]]

    async def call(
        self, caller: Caller, name: str, arguments: Mapping[str, Any], progress: Progress
    ) -> dict[str, Any]:
        """Return the result of a tool; an error inside it is a result with `isError`."""
        ...

    async def resources(self, caller: Caller, cursor: str) -> dict[str, Any]:
        """Return the page of resources after a cursor; the first for an empty one."""
        ...

    async def read(self, caller: Caller, uri: str) -> dict[str, Any]:
        """Return the content of a resource."""
        ...

    async def prompt(
        self, caller: Caller, name: str, arguments: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the messages of a prompt."""
        ...

    async def complete(
        self,
        caller: Caller,
        ref: Mapping[str, Any],
        name: str,
        begun: str,
        known: Mapping[str, Any],
    ) -> list[str]:
        """Return values for an argument of a prompt or template, best first.

        Args:
            caller: Who asks.
            ref: The prompt or template.
            name: The argument.
            begun: How its value begins.
            known: Values of other arguments.
        """
        ...


class McpReply(msgspec.Struct, frozen=True):
    """The reply to one message."""

    status: int
    document: dict[str, Any] | None = None
    cancels: str | int | None = None
    """Id of the request that the message takes back."""


class ProtocolError(Exception):
    """A message violates the protocol."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


class Mcp:
    """Answers messages of the protocol."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer

    async def answer(
        self,
        raw: bytes,
        caller: Caller,
        headers: Mapping[str, str] | None = None,
        notify: Notify | None = None,
        begin: Callable[[str | int], None] | None = None,
    ) -> McpReply:
        """Answer one message.

        Args:
            raw: The message.
            caller: Who sent it.
            headers: Those of its HTTP request, with names in small letters; None without HTTP.
            notify: Sends notifications before the reply; None when the client cannot take any.
            begin: Called with the id of a sound request before it is answered.
        """
        try:
            message = decode_json(raw)
        except BadInput as error:
            return _failed(None, ProtocolError(_PARSE_ERROR, error.message), status=400)
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            refused = ProtocolError(
                _INVALID_REQUEST, "a message must be one JSON-RPC request or notification"
            )
            return _failed(None, refused, status=400)
        if "id" not in message:
            return McpReply(202, cancels=_cancelled(message))
        stated = (headers or {}).get(_REVISION_HEADER)
        enveloped = _REVISION in _meta(message) or stated in ENVELOPE_REVISIONS
        try:
            _check(message, headers, enveloped=enveloped)
            if begin is not None:
                begin(message["id"])
            result = await self._result(message, caller, notify, enveloped=enveloped)
        except ProtocolError as refused:
            status = 404 if refused.code == _NO_METHOD else 400
            # Handshake revisions answer an error with 200, unless the revision itself is unknown.
            is_told = enveloped or refused.code == _UNSUPPORTED_REVISION
            return _failed(message["id"], refused, status=status if is_told else 200)
        return McpReply(200, {"jsonrpc": "2.0", "id": message["id"], "result": result})

    async def _result(
        self,
        message: Mapping[str, Any],
        caller: Caller,
        notify: Notify | None,
        *,
        enveloped: bool,
    ) -> dict[str, Any]:
        method, params = message["method"], message.get("params") or {}
        kept = {"ttlMs": _TTL_MS, "cacheScope": "public"} if enveloped else {}
        lists: dict[str, tuple[str, Sequence[dict[str, Any]]]] = {
            "tools/list": ("tools", self._offer.tools),
            "prompts/list": ("prompts", self._offer.prompts),
            "resources/templates/list": ("resourceTemplates", self._offer.templates),
        }
        if method == "server/discover" and enveloped:
            result = {"supportedVersions": list(ENVELOPE_REVISIONS), **self._about(), **kept}
            result["_meta"] = {_SERVER: _server()}
        elif method == "initialize" and not enveloped:
            asked = params.get("protocolVersion")
            revision = asked if asked in HANDSHAKE_REVISIONS else HANDSHAKE_REVISIONS[0]
            result = {"protocolVersion": revision, "serverInfo": _server(), **self._about()}
        elif method == "ping" and not enveloped:
            result = {}
        elif method in lists:
            name, items = lists[method]
            result = {name: list(items), **kept}
        else:
            progress = _progress(_meta(message).get("progressToken"), notify)
            result = await self._ask(method, params, caller, progress, enveloped=enveloped)
        return ({"resultType": "complete"} if enveloped else {}) | result

    async def _ask(
        self,
        method: str,
        params: Mapping[str, Any],
        caller: Caller,
        progress: Progress,
        *,
        enveloped: bool,
    ) -> dict[str, Any]:
        """Return what depends on the caller; what cannot be returned is an error of the protocol."""
        # Two callers see different things.
        private = {"ttlMs": 0, "cacheScope": "private"} if enveloped else {}
        offer = self._offer
        try:
            if method == "tools/call":
                name, arguments = _text(params, "name"), _object(params, "arguments")
                return await offer.call(caller, name, arguments, progress)
            if method == "resources/list":
                return await offer.resources(caller, _text(params, "cursor", "")) | private
            if method == "resources/read":
                return await offer.read(caller, _text(params, "uri")) | private
            if method == "prompts/get":
                name, arguments = _text(params, "name"), _object(params, "arguments")
                return await offer.prompt(caller, name, arguments)
            if method == "completion/complete":
                return await self._complete(params, caller)
        except NotFound as error:
            missing = _INVALID_PARAMS if enveloped else _NO_RESOURCE
            data = {"uri": params["uri"]} if "uri" in params else None
            raise ProtocolError(missing, error.message, data) from error
        except BadInput as error:
            raise ProtocolError(_INVALID_PARAMS, error.message) from error
        except WhenceError as error:
            raise ProtocolError(_INTERNAL, error.message) from error
        raise ProtocolError(_NO_METHOD, f"unknown method {method!r}")

    async def _complete(self, params: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        argument = _object(params, "argument")
        known = _object(_object(params, "context"), "arguments")
        name, begun = _text(argument, "name"), _text(argument, "value")
        values = await self._offer.complete(caller, _object(params, "ref"), name, begun, known)
        shown = values[:_MOST_VALUES]
        return {"completion": {"values": shown, "hasMore": len(values) > len(shown)}}

    def _about(self) -> dict[str, Any]:
        return {
            "capabilities": {"completions": {}, "prompts": {}, "resources": {}, "tools": {}},
            "instructions": self._offer.instructions,
        }


def _check(
    message: Mapping[str, Any], headers: Mapping[str, str] | None, *, enveloped: bool
) -> None:
    """Refuse a message that contradicts its headers or has an unsupported revision."""
    if message.get("jsonrpc") != "2.0" or type(message["id"]) not in (str, int):
        raise ProtocolError(_INVALID_REQUEST, "not a JSON-RPC 2.0 request with an id")
    if not isinstance(message.get("params") or {}, dict):
        raise ProtocolError(_INVALID_PARAMS, "params must be an object")
    stated = (headers or {}).get(_REVISION_HEADER)
    if not enveloped:
        if stated is not None and stated not in HANDSHAKE_REVISIONS:
            raise _unsupported(stated, REVISIONS)
        return
    meta = _meta(message)
    if _CAPABILITIES not in meta or not isinstance(meta.get(_REVISION), str):
        raise ProtocolError(_INVALID_PARAMS, f"params._meta needs {_REVISION} and {_CAPABILITIES}")
    if headers is not None:
        _check_headers(message, headers, meta[_REVISION])
    if meta[_REVISION] not in ENVELOPE_REVISIONS:
        raise _unsupported(meta[_REVISION], ENVELOPE_REVISIONS)


def _progress(token: object, notify: Notify | None) -> Progress:
    """Return a function that sends the progress of a request, if its client asked for it."""

    async def progress(done: float, total: float, what: str) -> None:
        if notify is None or type(token) not in (str, int):
            return
        params = {"progressToken": token, "progress": done, "total": total, "message": what}
        await notify({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    return progress


def _cancelled(notification: Mapping[str, Any]) -> str | int | None:
    """Return the id of the request that a notification takes back; others need no action."""
    params = notification.get("params")
    if notification["method"] != "notifications/cancelled" or not isinstance(params, dict):
        return None
    named = params.get("requestId")
    return named if type(named) in (str, int) else None


def _text(params: Mapping[str, Any], name: str, default: str | None = None) -> str:
    given = params.get(name, default)
    if not isinstance(given, str):
        raise BadInput(f"the parameter {name} must be a text")
    return given


def _object(params: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    given = params.get(name) or {}
    if not isinstance(given, Mapping):
        raise BadInput(f"the parameter {name} must be an object")
    return given


def _check_headers(message: Mapping[str, Any], headers: Mapping[str, str], revision: str) -> None:
    routes = {_REVISION_HEADER: revision, "mcp-method": message["method"]}
    if message["method"] in _NAMED:
        named = (message.get("params") or {}).get(_NAMED[message["method"]])
        routes["mcp-name"] = str(named)
    for name, wanted in routes.items():
        if _header_text(headers.get(name)) != wanted:
            raise ProtocolError(_HEADER_MISMATCH, f"the header {name} is not {wanted!r}")


def _header_text(value: str | None) -> str | None:
    """Return the text of a header, which may be in base64; None when it is malformed."""
    encoded = _BASE64.match(value or "")
    if encoded is None:
        return value
    try:
        return base64.b64decode(encoded[1], validate=True).decode("utf-8")
    except ValueError:
        return None


def _unsupported(revision: str, supported: Sequence[str]) -> ProtocolError:
    return ProtocolError(
        _UNSUPPORTED_REVISION,
        f"revision {revision} is not supported",
        {"supported": list(supported), "requested": revision},
    )


def _meta(message: Mapping[str, Any]) -> Mapping[str, Any]:
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else {}


def _failed(message_id: Any, refused: ProtocolError, *, status: int) -> McpReply:
    error: dict[str, Any] = {"code": refused.code, "message": refused.message}
    if refused.data is not None:
        error["data"] = refused.data
    return McpReply(status, {"jsonrpc": "2.0", "id": message_id, "error": error})


def _server() -> dict[str, str]:
    return {"name": "whence", "title": "Whence", "version": VERSION}

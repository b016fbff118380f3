"""The Model Context Protocol: messages of assistants and their answers; `mcp_tools` has what is offered.

Transports: HTTP (one JSON-RPC message a POST, no session) and standard input and output (one message a line).
Revisions up to 2025-11-25 begin with a handshake; from 2026-07-28 on every request carries its revision in an
envelope. Both are supported. The official library adds 30 MB and a second of start time, so it is used only in
the tests, as a client.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from whence.gateway.auth import Caller
from whence.gateway.failures import as_whence_error
from whence.gateway.mcp_tools import (
    PROMPTS,
    TEMPLATES,
    TOOLS,
    list_resources,
    make_prompt,
    read_resource,
)
from whence.gateway.requests import decode_json, parse_body
from whence.gateway.service import Service
from whence.schema.errors import BadInput, NotFound, WhenceError
from whence.schema.version import VERSION

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
#: Methods that name something, by the parameter that the header `Mcp-Name` repeats.
_NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_BASE64 = re.compile(r"=\?base64\?([A-Za-z0-9+/=]*)\?=\Z")
_LISTS: Final[Mapping[str, dict[str, Any]]] = {
    "prompts/list": PROMPTS,
    "resources/templates/list": TEMPLATES,
}
#: Time for which clients may cache the list of tools.
_TTL_MS: Final = 3_600_000

_INSTRUCTIONS = (
    "Search and ask the documents indexed by Whence. `search` finds passages, `fetch` reads a whole document. `ask` returns an answer whose markers [1], [2] refer to its"
    " citations; `explain` shows which passages were considered, kept and dropped, and why; `why_not` returns the"
    " reason for one passage; `expand` follows dependencies of code. Only documents that the caller may see are used."
)


class McpReply(msgspec.Struct, frozen=True):
    """The reply to one message."""

    status: int
    document: dict[str, Any] | None = None


class _ProtocolError(Exception):
    """A message violates the protocol."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


class Mcp:
    """Answers messages of the protocol."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._tools = {tool.name: tool for tool in TOOLS}

    async def answer(
        self, raw: bytes, caller: Caller, headers: Mapping[str, str] | None = None
    ) -> McpReply:
        """Answer one message."""
        try:
            message = decode_json(raw)
        except BadInput as error:
            return _failed(None, _ProtocolError(_PARSE_ERROR, error.message), status=400)
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            refused = _ProtocolError(
                _INVALID_REQUEST, "a message must be one JSON-RPC request or notification"
            )
            return _failed(None, refused, status=400)
        if "id" not in message:
            # Notifications of clients need no action.
            return McpReply(202)
        enveloped = _REVISION in _meta(message)
        try:
            _check(message, headers, enveloped=enveloped)
            result = await self._result(message, caller, enveloped=enveloped)
        except _ProtocolError as refused:
            status = 404 if refused.code == _NO_METHOD else 400
            # Handshake revisions answer an error with 200.
            return _failed(message["id"], refused, status=status if enveloped else 200)
        return McpReply(200, {"jsonrpc": "2.0", "id": message["id"], "result": result})

    async def _result(
        self, message: Mapping[str, Any], caller: Caller, *, enveloped: bool
    ) -> dict[str, Any]:
        method, params = message["method"], message.get("params") or {}
        kept = {"ttlMs": _TTL_MS, "cacheScope": "public"}
        if method == "server/discover" and enveloped:
            result = {"supportedVersions": list(ENVELOPE_REVISIONS), **_about(), **kept}
            result["_meta"] = {_SERVER: _server()}
        elif method == "initialize" and not enveloped:
            asked = params.get("protocolVersion")
            revision = asked if asked in HANDSHAKE_REVISIONS else HANDSHAKE_REVISIONS[0]
            result = {"protocolVersion": revision, "serverInfo": _server(), **_about()}
        elif method == "ping" and not enveloped:
            result = {}
        elif method == "tools/list":
            result = {"tools": [tool.description() for tool in TOOLS]} | (kept if enveloped else {})
        elif method == "tools/call":
            result = await self._call(params, caller)
        elif method in _LISTS:
            result = _LISTS[method] | (kept if enveloped else {})
        elif method in ("resources/list", "resources/read", "prompts/get"):
            result = await self._read(method, params, caller, enveloped=enveloped)
        else:
            raise _ProtocolError(_NO_METHOD, f"unknown method {method!r}")
        return result | ({"resultType": "complete"} if enveloped else {})

    async def _read(
        self, method: str, params: Mapping[str, Any], caller: Caller, *, enveloped: bool
    ) -> dict[str, Any]:
        """Return documents or a prompt; what cannot be returned is an error of the protocol."""
        try:
            if method == "resources/list":
                # Two callers see different lists.
                private = {"ttlMs": 0, "cacheScope": "private"} if enveloped else {}
                cursor = _text(params, "cursor", "")
                return await list_resources(self._service, caller, cursor) | private
            if method == "resources/read":
                private = {"ttlMs": 0, "cacheScope": "private"} if enveloped else {}
                return await read_resource(self._service, caller, _text(params, "uri")) | private
            return await make_prompt(self._service, caller, params)
        except NotFound as error:
            missing = _INVALID_PARAMS if enveloped else _NO_RESOURCE
            raise _ProtocolError(missing, error.message) from error
        except BadInput as error:
            raise _ProtocolError(_INVALID_PARAMS, error.message) from error
        except WhenceError as error:
            raise _ProtocolError(_INTERNAL, error.message) from error

    async def _call(self, params: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        """Call a tool; an error inside it is a result with `isError`, for the assistant to act on."""
        name = params.get("name")
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None:
            known_tools = ", ".join(self._tools)
            raise _ProtocolError(
                _INVALID_PARAMS, f"unknown tool {name!r}; the tools are {known_tools}"
            )
        try:
            body = parse_body(params.get("arguments") or {}, tool.body)
            found = await tool.call(self._service, caller, body)
        except Exception as error:  # noqa: BLE001 - reported in the result
            fault = as_whence_error(error)
            words = f"error: {fault.message}" + (f"\nhint: {fault.hint}" if fault.hint else "")
            return {"content": [{"type": "text", "text": words}], "isError": True}
        document = msgspec.to_builtins(found)
        text = msgspec.json.encode(document).decode("utf-8", "replace")
        return {
            "content": [{"type": "text", "text": text}],
            "structuredContent": document,
            "isError": False,
        }


def _check(
    message: Mapping[str, Any], headers: Mapping[str, str] | None, *, enveloped: bool
) -> None:
    """Refuse a message that contradicts its headers or has an unsupported revision."""
    if message.get("jsonrpc") != "2.0" or type(message["id"]) not in (str, int):
        raise _ProtocolError(_INVALID_REQUEST, "not a JSON-RPC 2.0 request with an id")
    if not isinstance(message.get("params") or {}, dict):
        raise _ProtocolError(_INVALID_PARAMS, "params must be an object")
    stated = (headers or {}).get("mcp-protocol-version")
    if not enveloped:
        if stated is not None and stated not in REVISIONS:
            raise _unsupported(stated)
        return
    meta = _meta(message)
    if _CAPABILITIES not in meta or not isinstance(meta[_REVISION], str):
        raise _ProtocolError(_INVALID_PARAMS, f"params._meta needs {_REVISION} and {_CAPABILITIES}")
    if headers is not None:
        _check_headers(message, headers, meta[_REVISION])
    if meta[_REVISION] not in ENVELOPE_REVISIONS:
        raise _unsupported(meta[_REVISION])


def _text(params: Mapping[str, Any], name: str, default: str | None = None) -> str:
    given = params.get(name, default)
    if not isinstance(given, str):
        raise BadInput(f"the parameter {name} must be a text")
    return given


def _check_headers(message: Mapping[str, Any], headers: Mapping[str, str], revision: str) -> None:
    routes = {"mcp-protocol-version": revision, "mcp-method": message["method"]}
    if message["method"] in _NAMED:
        named = (message.get("params") or {}).get(_NAMED[message["method"]])
        routes["mcp-name"] = str(named)
    for name, wanted in routes.items():
        if _header_text(headers.get(name)) != wanted:
            raise _ProtocolError(_HEADER_MISMATCH, f"the header {name} is not {wanted!r}")


def _header_text(value: str | None) -> str | None:
    """Return the text of a header, which may be in base64; None when it is malformed."""
    encoded = _BASE64.match(value or "")
    if encoded is None:
        return value
    try:
        return base64.b64decode(encoded[1], validate=True).decode("utf-8")
    except ValueError:
        return None


def _unsupported(revision: str) -> _ProtocolError:
    return _ProtocolError(
        _UNSUPPORTED_REVISION,
        f"revision {revision} is not supported",
        {"supported": list(REVISIONS), "requested": revision},
    )


def _meta(message: Mapping[str, Any]) -> Mapping[str, Any]:
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else {}


def _failed(message_id: Any, refused: _ProtocolError, *, status: int) -> McpReply:
    error: dict[str, Any] = {"code": refused.code, "message": refused.message}
    if refused.data is not None:
        error["data"] = refused.data
    return McpReply(status, {"jsonrpc": "2.0", "id": message_id, "error": error})


def _server() -> dict[str, str]:
    return {"name": "whence", "title": "Whence", "version": VERSION}


def _about() -> dict[str, Any]:
    return {
        "capabilities": {"prompts": {}, "resources": {}, "tools": {}},
        "instructions": _INSTRUCTIONS,
    }

"""OpenAPI 3.1 description of the HTTP interface, generated from the request bodies."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from whence.gateway.auth import AccessBody
from whence.gateway.failures import STATUSES
from whence.gateway.requests import AskBody, SearchBody
from whence.gateway.service import FORMATS, MEDIA_TYPES
from whence.schema.version import VERSION


@cache
def openapi() -> dict[str, Any]:
    """Return the description."""
    _, parts = msgspec.json.schema_components(
        [SearchBody, AskBody, AccessBody], ref_template="#/components/schemas/{name}"
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Whence",
            "version": VERSION,
            "description": "Retrieval that shows how every answer was produced.",
        },
        "security": [{}, {"token": []}],
        "paths": {
            "/v1/search": {"post": _post("search", "Find passages", SearchBody)},
            "/v1/ask": {
                "post": _post(
                    "ask", "Answer a question, with citations", AskBody, _DOCUMENT | _EVENTS
                )
            },
            "/v1/answers/{answer_id}": {
                "get": _get(
                    "explain",
                    "Show how an answer was produced",
                    _parameter("format", {"enum": list(FORMATS), "default": "json"}),
                    {kind.partition(";")[0]: {} for kind in MEDIA_TYPES.values()},
                )
            },
            "/v1/answers/{answer_id}/why-not": {
                "get": _get(
                    "whyNot",
                    "Show why a passage or document is not in an answer",
                    _parameter("item", {"type": "string"}, required=True),
                    _DOCUMENT,
                )
            },
        },
        "components": {
            "schemas": parts | {"Error": _ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {"error": _ERROR_RESPONSE},
        },
    }


_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "hint"],
            "properties": {name: {"type": "string"} for name in ("code", "message", "hint")},
        }
    },
}
_ERROR_RESPONSE = {
    "description": "The error, and a hint how to resolve it.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
}
_DOCUMENT = {"application/json": {"schema": {"type": "object"}}}
_EVENTS = {"text/event-stream": {"schema": {"type": "string"}}}


def _parameter(
    name: str, schema: dict[str, Any], *, where: str = "query", required: bool = False
) -> dict[str, Any]:
    return {"name": name, "in": where, "required": required, "schema": schema}


_ANSWER_ID = _parameter("answer_id", {"type": "string"}, where="path", required=True)
_TAGS = {"type": "array", "items": {"type": "string"}}
_ACCESS = (
    _parameter("acl", _TAGS),
    _parameter("label", _TAGS),
    _parameter("clearance", {"type": "integer", "minimum": 0}),
)


def _post(name: str, summary: str, body: type[Any], content: Any = _DOCUMENT) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{body.__name__}"}
    request = {"required": True, "content": {"application/json": {"schema": schema}}}
    return _operation(name, summary, content, requestBody=request)


def _get(name: str, summary: str, own: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    return _operation(name, summary, content, parameters=[_ANSWER_ID, own, *_ACCESS])


def _operation(name: str, summary: str, content: Any, **request: Any) -> dict[str, Any]:
    failed = {"$ref": "#/components/responses/error"}
    statuses = sorted({status for _, status in STATUSES} | {413, 500})
    done = {"description": "Done.", "content": content}
    responses = {"200": done} | {str(status): failed for status in statuses}
    return {"operationId": name, "summary": summary, **request, "responses": responses}

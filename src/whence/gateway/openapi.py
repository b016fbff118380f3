"""OpenAPI 3.1 description of the HTTP interface, generated from the request bodies."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import Any

import msgspec

from whence.gateway.auth import AccessBody
from whence.gateway.failures import STATUSES
from whence.gateway.requests import AskBody, SearchBody
from whence.gateway.service import FORMATS, MEDIA_TYPES


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
            "version": version("whence"),
            "description": "Retrieval that shows how every answer was produced.",
        },
        "security": [{}, {"token": []}],
        "paths": {
            "/v1/search": {"post": _post("search", "Find passages", SearchBody)},
            "/v1/ask": {
                "post": _post(
                    "ask",
                    "Answer a question, with citations",
                    AskBody,
                    {"text/event-stream": {"schema": {"type": "string"}}},
                )
            },
            "/v1/answers/{answer_id}": {"get": _explain()},
            "/v1/answers/{answer_id}/why-not": {"get": _why_not()},
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


def _post(
    name: str, summary: str, body: type[Any], more: dict[str, Any] | None = None
) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{body.__name__}"}
    return {
        "operationId": name,
        "summary": summary,
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": _responses(_DOCUMENT | (more or {})),
    }


def _explain() -> dict[str, Any]:
    forms: dict[str, Any] = {kind.partition(";")[0]: {} for kind in MEDIA_TYPES.values()}
    asked = _parameter("format", "query", {"enum": list(FORMATS), "default": "json"})
    return {
        "operationId": "explain",
        "summary": "Show how an answer was produced",
        "parameters": [_ANSWER_ID, asked, *_ACCESS],
        "responses": _responses(forms),
    }


def _why_not() -> dict[str, Any]:
    item = _parameter("item", "query", {"type": "string"}, required=True)
    return {
        "operationId": "whyNot",
        "summary": "Show why a passage or document is not in an answer",
        "parameters": [_ANSWER_ID, item, *_ACCESS],
        "responses": _responses(_DOCUMENT),
    }


def _parameter(
    name: str, where: str, schema: dict[str, Any], *, required: bool = False
) -> dict[str, Any]:
    return {"name": name, "in": where, "required": required, "schema": schema}


_ANSWER_ID = _parameter("answer_id", "path", {"type": "string"}, required=True)
_TAGS = {"type": "array", "items": {"type": "string"}}
_ACCESS = (
    _parameter("acl", "query", _TAGS),
    _parameter("label", "query", _TAGS),
    _parameter("clearance", "query", {"type": "integer", "minimum": 0}),
)


def _responses(content: dict[str, Any]) -> dict[str, Any]:
    failed = {"$ref": "#/components/responses/error"}
    statuses = sorted({status for _, status in STATUSES} | {413, 500})
    done = {"description": "Done.", "content": content}
    return {"200": done} | {str(status): failed for status in statuses}

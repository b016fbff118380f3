"""OpenAPI 3.1 description of the HTTP interface, generated from the request bodies."""

from __future__ import annotations

from functools import cache
from typing import Any, get_args

import msgspec

from whence.operations.answers import ShowAnswer
from whence.operations.ask import Ask
from whence.operations.citation_source import DrawSourcePage, ReadSourceFile, ShowSource
from whence.operations.documents import ListCollections, ListDocuments, Remove, Show
from whence.operations.explain import Explain, ExplainAbsence
from whence.operations.history import GiveFeedback, ListCitingAnswers, ListHistory
from whence.operations.operation import summary
from whence.operations.overview import Overview
from whence.operations.reading_again import ReadAgain
from whence.operations.replay import Diff
from whence.operations.retrieve import Retrieve
from whence.operations.search import Search
from whence.operations.stale import ListStale
from whence.schema.version import VERSION
from whence.store.source_states import State
from whence.surfaces.http.auth import AccessBody
from whence.surfaces.http.bodies import body_of
from whence.surfaces.http.failures import STATUSES
from whence.surfaces.http.page_routes import FeedbackBody
from whence.surfaces.http.reader import SignInBody
from whence.surfaces.http.service import FORMATS, MEDIA_TYPES
from whence.surfaces.openai.bodies import ChatBody, EmbeddingsBody


@cache
def openapi() -> dict[str, Any]:
    """Return the description."""
    _, parts = msgspec.json.schema_components(
        [
            *(body_of(Search), body_of(Ask), body_of(Retrieve)),
            *(AccessBody, SignInBody, FeedbackBody, ChatBody, EmbeddingsBody),
        ],
        ref_template="#/components/schemas/{name}",
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
            "/v1/search": {"post": _post("search", summary(Search), body_of(Search))},
            "/v1/ask": {"post": _post("ask", summary(Ask), body_of(Ask), _DOCUMENT | _EVENTS)},
            "/v1/answers/{answer_id}": {
                "get": _get(
                    "explain",
                    summary(Explain),
                    _parameter("format", {"enum": list(FORMATS), "default": "json"}),
                    {kind.partition(";")[0]: {} for kind in MEDIA_TYPES.values()},
                )
            },
            "/v1/answers/{answer_id}/why-not": {
                "get": _get(
                    "whyNot",
                    summary(ExplainAbsence),
                    _parameter("item", {"type": "string"}, required=True),
                    _DOCUMENT,
                )
            },
            **_page_paths(),
            **_document_paths(),
            **_openai_paths(),
        },
        "components": {
            "schemas": parts | {"Error": _ERROR, "OpenAiError": _OPENAI_ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {
                "error": _error_response("The error, and a hint how to resolve it.", "Error"),
                "openAiError": _error_response(
                    "The error in the form of OpenAI's API.", "OpenAiError"
                ),
            },
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
_OPENAI_FIELDS = {
    "message": {"type": "string"},
    "type": {"type": "string"},
    "param": {"type": ["string", "null"]},
    "code": {"type": "string"},
}
_OPENAI_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": list(_OPENAI_FIELDS),
            "properties": _OPENAI_FIELDS,
        }
    },
}
_DOCUMENT = {"application/json": {"schema": {"type": "object"}}}
_EVENTS = {"text/event-stream": {"schema": {"type": "string"}}}


def _error_response(description: str, schema: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"description": description, "content": content}


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


def _post(
    name: str, summary: str, body: type[Any], content: Any = _DOCUMENT, *, failure: str = "error"
) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{body.__name__}"}
    request = {"required": True, "content": {"application/json": {"schema": schema}}}
    return _operation(name, summary, content, failure=failure, requestBody=request)


def _get(name: str, summary: str, own: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    return _operation(name, summary, content, parameters=[_ANSWER_ID, own, *_ACCESS])


def _page_paths() -> dict[str, Any]:
    """Return what the page asks for beside searches, questions and documents."""
    number = _parameter("citation", {"type": "integer", "minimum": 0}, where="path", required=True)
    other = _parameter("other_id", {"type": "string"}, where="path", required=True)
    page = _parameter("page", {"type": "integer", "minimum": 1})
    limit = _parameter("limit", {"type": "integer", "minimum": 1, "default": 50})
    after = _parameter("after", {"type": "string"})
    cited = [_ANSWER_ID, number, *_ACCESS]
    png = {"image/png": {"schema": {"type": "string", "format": "binary"}}}
    file = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    answer, citation = "/v1/answers/{answer_id}", "/v1/answers/{answer_id}/citations/{citation}"
    feedback = _post("giveFeedback", summary(GiveFeedback), FeedbackBody, {})
    feedback["parameters"] = [_ANSWER_ID, *_ACCESS]

    def get(name: str, text: str, *own: dict[str, Any], content: Any = _DOCUMENT) -> dict[str, Any]:
        return {"get": _operation(name, text, content, parameters=list(own))}

    return {
        "/v1/reader": get("reader", "Show who reads, with which rights"),
        "/v1/reader/session": {
            "post": _post("signIn", "Begin a session of the page", SignInBody, {}),
            "delete": _operation("signOut", "End the session of the page", {}),
        },
        "/v1/overview": get("overview", summary(Overview), *_ACCESS),
        "/v1/handbook": {
            "post": _operation("indexHandbook", "Index the example handbook", _DOCUMENT)
        },
        "/v1/retrieve": {"post": _post("retrieve", summary(Retrieve), body_of(Retrieve))},
        "/v1/history": get("history", summary(ListHistory), limit, after, *_ACCESS),
        f"{answer}/answer": get("showAnswer", summary(ShowAnswer), _ANSWER_ID, *_ACCESS),
        f"{answer}/diff/{{other_id}}": get("diff", summary(Diff), _ANSWER_ID, other, *_ACCESS),
        f"{answer}/feedback": {"post": feedback},
        f"{citation}/source": get("source", summary(ShowSource), *cited),
        f"{citation}/original": get("original", summary(ReadSourceFile), *cited, content=file),
        f"{citation}/page.png": get("page", summary(DrawSourcePage), page, *cited, content=png),
    }


def _document_paths() -> dict[str, Any]:
    collection = _parameter("collection", {"type": "string"}, where="path", required=True)
    document = _parameter("document_id", {"type": "string"}, where="path", required=True)
    whole = {"type": "integer", "minimum": 1, "default": 100}
    order = {"enum": ["key", "newest"], "default": "key"}
    page = [
        collection,
        _parameter("limit", whole),
        _parameter("after", {"type": "string"}),
        _parameter("state", {"enum": list(get_args(State))}),
        _parameter("order", order),
    ]
    fewer = {"type": "integer", "minimum": 1, "default": 20}
    since = {"type": "string", "default": "30d"}
    recent = [_parameter("since", since), _parameter("limit", fewer)]
    fields = {
        "file": {"type": "array", "items": {"type": "string", "format": "binary"}},
        "acl": _TAGS,
        "label": _TAGS,
        "clearance": {"type": "integer", "minimum": 0},
    }
    form = {"type": "object", "required": ["file"], "properties": fields}
    body = {"required": True, "content": {"multipart/form-data": {"schema": form}}}
    one = [collection, document, *_ACCESS]

    def operation(name: str, summary: str, **request: Any) -> dict[str, Any]:
        return _operation(name, summary, _DOCUMENT, **request)

    return {
        "/v1/collections": {
            "get": operation("listCollections", summary(ListCollections), parameters=[*_ACCESS])
        },
        "/v1/collections/{collection}/documents": {
            "get": operation("listDocuments", summary(ListDocuments), parameters=[*page, *_ACCESS]),
            "post": operation("store", "Store files", parameters=[collection], requestBody=body),
        },
        "/v1/collections/{collection}/stale": {
            "get": operation(
                "listStale", summary(ListStale), parameters=[collection, *recent, *_ACCESS]
            )
        },
        "/v1/collections/{collection}/documents/{document_id}": {
            "get": operation("show", summary(Show), parameters=one),
            "delete": operation("remove", summary(Remove), parameters=one),
        },
        "/v1/collections/{collection}/documents/{document_id}/answers": {
            "get": operation("listCitingAnswers", summary(ListCitingAnswers), parameters=one)
        },
        "/v1/collections/{collection}/documents/{document_id}/again": {
            "post": operation("readAgain", summary(ReadAgain), parameters=one)
        },
    }


def _openai_paths() -> dict[str, Any]:
    error = {"failure": "openAiError"}
    model = _parameter("model", {"type": "string"}, where="path", required=True)
    chat = _post(
        "createChatCompletion",
        "Answer the last question of a conversation",
        ChatBody,
        _DOCUMENT | _EVENTS,
        **error,
    )
    vectors = _post("createEmbedding", "Turn texts into vectors", EmbeddingsBody, **error)
    listed = _operation("listModels", "List the visible collections", _DOCUMENT, **error)
    one = "Show a visible collection"
    return {
        "/v1/chat/completions": {"post": chat},
        "/v1/models": {"get": listed},
        "/v1/models/{model}": {
            "get": _operation("retrieveModel", one, _DOCUMENT, parameters=[model], **error)
        },
        "/v1/embeddings": {"post": vectors},
    }


def _operation(
    name: str, summary: str, content: Any, *, failure: str = "error", **request: Any
) -> dict[str, Any]:
    failed = {"$ref": f"#/components/responses/{failure}"}
    statuses = sorted({status for _, status in STATUSES} | {413, 500})
    done = {"description": "Done.", "content": content}
    responses = {"200": done} | {str(status): failed for status in statuses}
    return {"operationId": name, "summary": summary, **request, "responses": responses}

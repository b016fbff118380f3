"""Errors in the form of OpenAI's API: `{error: {message, type, param, code}}`."""

from __future__ import annotations

import re
from typing import Any, Final

from whence.schema.errors import BadInput, NotFound, WhenceError
from whence.surfaces.http.request_hints import hint_of

#: Paths whose errors have this form.
PREFIXES: Final = ("/v1/chat/", "/v1/models", "/v1/embeddings")
_TYPES: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
#: Codes by which clients of that API recognise an error.
_CODES: Final = {401: "invalid_api_key", 429: "rate_limit_exceeded"}
#: Where a malformed field stands, in the words of msgspec.
_PLACE: Final = re.compile(r"`\$\.?(\w*)")


class ModelNotFound(NotFound):
    """There is no collection of this name with a document that the reader may see."""

    code = "model_not_found"
    param = "model"


class BadParameter(BadInput):
    """One field of a request is wrong."""

    def __init__(self, param: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.param = param


def is_of_openai(path: str) -> bool:
    """Return whether the errors of a path have this form."""
    return path.startswith(PREFIXES)


def openai_document(error: WhenceError, status: int) -> dict[str, Any]:
    """Return the JSON document of an error."""
    place = _PLACE.search(error.message)
    param = getattr(error, "param", None) or (place and place[1]) or None
    hint = hint_of(error)
    message = f"{error.message}. {hint}" if hint else error.message
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    code = _CODES.get(status, error.code)
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}

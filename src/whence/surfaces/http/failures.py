"""Errors as HTTP responses: a status, and the error document of the command line."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

from whence.schema.errors import (
    BadInput,
    CodecError,
    DeadlineExceeded,
    DiskFull,
    InternalError,
    ModelMissing,
    NotFound,
    Overloaded,
    Unavailable,
    WhenceError,
)
from whence.surfaces.http.admission import TooManyRequests
from whence.surfaces.http.auth import Forbidden, InvalidToken, Unauthorized
from whence.surfaces.http.request_hints import hint_of
from whence.surfaces.openai.faults import is_of_openai, openai_document

if TYPE_CHECKING:
    from starlette.exceptions import HTTPException
    from starlette.requests import Request

    from whence.surfaces.http.oidc import ProtectedResource

logger = logging.getLogger(__name__)

_SEE = "see /openapi.json"

#: Status of each class of errors; the first match counts.
STATUSES: tuple[tuple[type[WhenceError], int], ...] = (
    (Unauthorized, 401),
    (Forbidden, 403),
    (BadInput, 400),
    (CodecError, 400),
    (NotFound, 404),
    (DeadlineExceeded, 504),
    (DiskFull, 507),
    (Unavailable, 503),
    (ModelMissing, 503),
    (TooManyRequests, 429),
    (Overloaded, 503),
)


class JsonResponse(Response):
    """A JSON document with a stable order of keys; accepts msgspec structs."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Encode the document."""
        return self.encoded(content)

    @staticmethod
    def encoded(content: Any) -> bytes:
        """Return a document as JSON; lone surrogates become replacement characters."""
        wire = msgspec.json.encode(content, order="deterministic")
        return wire.decode("utf-8", "replace").encode()


def error_document(error: WhenceError) -> dict[str, Any]:
    """Return the JSON document of an error, as the command line prints it, with a hint for requests."""
    hint = hint_of(error)
    return {"error": {"code": error.code, "message": error.message, "hint": hint}}


def as_whence_error(error: Exception) -> WhenceError:
    """Convert any error to a `WhenceError`; unexpected errors are logged and hidden from the caller."""
    if isinstance(error, WhenceError):
        return error
    logger.error("request failed", extra={"action": "serve"}, exc_info=error)
    return InternalError("the request failed", hint="see the log of the server")


def status_of(fault: WhenceError) -> int:
    """Return the status of an error."""
    return next((code for kind, code in STATUSES if isinstance(fault, kind)), 500)


def error_for(path: str, fault: WhenceError, status: int) -> dict[str, Any]:
    """Return the JSON document of an error in the form that clients of a path expect."""
    return openai_document(fault, status) if is_of_openai(path) else error_document(fault)


async def handle_error(request: Request, error: Exception) -> Response:
    """Respond with an error document."""
    fault = as_whence_error(error)
    status = status_of(fault)
    headers = {}
    if fault.retry_after_s is not None or isinstance(fault, Overloaded):
        headers["Retry-After"] = str(max(1, round(fault.retry_after_s or 1)))
    if status in (401, 403):
        headers["WWW-Authenticate"] = _challenge(request, fault)
    return JsonResponse(error_for(request.url.path, fault, status), status, headers)


def _challenge(request: Request, fault: WhenceError) -> str:
    """Return how to authenticate (RFC 6750, section 3; RFC 9728, section 5.1)."""
    resource: ProtectedResource | None = getattr(request.app.state, "resource", None)
    stated = {} if resource is None else resource.challenge(request)
    if isinstance(fault, InvalidToken):
        stated |= {"error": "invalid_token", "error_description": fault.message}
    elif isinstance(fault, Forbidden):
        stated |= {"error": "insufficient_scope"}
    return " ".join(
        ("Bearer", ", ".join(f'{key}="{value}"' for key, value in stated.items()))
    ).strip()


async def handle_http_error(request: Request, error: Exception) -> Response:
    """Respond to an unknown path or method."""
    refused: HTTPException = error  # type: ignore[assignment]
    fault: WhenceError
    if refused.status_code == 404:
        fault = NotFound(f"there is no path {request.url.path}", hint=_SEE)
    elif refused.status_code == 405:
        fault = BadInput(f"{request.method} is not allowed for this path", hint=_SEE)
    else:
        fault = BadInput(str(refused.detail), hint=_SEE)
    document = error_for(request.url.path, fault, refused.status_code)
    return JsonResponse(document, refused.status_code, dict(refused.headers or {}))

"""Reading requests of HTTP and MCP."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from whence.schema.errors import BadInput
from whence.surfaces.http.auth import AccessBody

if TYPE_CHECKING:
    from starlette.requests import Request

#: Longest number of a clearance.
_MAX_DIGITS = 10
#: Most objects and lists inside one another in a message.
_MAX_DEPTH = 32

#: Rows of a list at most.
MOST_LISTED: Final = 1000

T = TypeVar("T")


def access_of(request: Request) -> AccessBody | None:
    """Return the rights in a query string: `acl` and `label`, repeatable, and `clearance`."""
    query = request.query_params
    if not query.keys() & {"acl", "label", "clearance"}:
        return None
    level = clearance_of(query.get("clearance", "0"))
    return AccessBody(query.getlist("acl"), query.getlist("label"), level)


def clearance_of(text: str) -> int:
    """Return the number of a clearance.

    Raises:
        BadInput: It is none; whether it is too large is checked later.
    """
    if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS):
        raise BadInput("clearance is not a number", hint="use 0 or more")
    return int(text)


def limit_of(request: Request, default: int) -> int:
    """Return how many rows a request asks for."""
    text = request.query_params.get("limit", str(default))
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= MOST_LISTED):
        raise BadInput(f"limit is {text!r}", hint=f"use 1 to {MOST_LISTED}")
    return int(text)


async def read_body(request: Request) -> bytes:
    """Return the body, which must be declared as JSON: forms on foreign pages can send other types.

    Raises:
        BadInput: It has another type.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise BadInput(
            f"a body of type {kind or 'unknown'!r} is not read",
            hint="send `Content-Type: application/json`",
        )
    return await request.body()


async def read_json(request: Request) -> Any:
    """Return the decoded body; errors as for `read_body` and `decode_json`."""
    return decode_json(await read_body(request))


def decode_json(raw: bytes) -> Any:
    """Decode a message.

    Raises:
        BadInput: It is no JSON, or is nested too deeply for those who read it.
    """
    try:
        document = msgspec.json.decode(raw)
    except RecursionError as error:
        raise _too_deep() from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        hint = "send a JSON object as the body, encoded as UTF-8"
        raise BadInput(f"the request is not JSON: {error}", hint=hint) from error
    level = [document]
    for _ in range(_MAX_DEPTH):
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return document
    raise _too_deep()


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _too_deep() -> BadInput:
    return BadInput(f"the message is nested more than {_MAX_DEPTH} levels deep")


def parse_body(document: object, form: type[T]) -> T:
    """Convert a decoded message to a request body."""
    try:
        return msgspec.convert(document, type=form)
    except msgspec.ValidationError as error:
        # The error names the field and the expected type.
        hint = f"the fields are {', '.join(getattr(form, '__struct_fields__', ()))}"
        raise BadInput(f"the request is malformed: {error}", hint=hint) from error

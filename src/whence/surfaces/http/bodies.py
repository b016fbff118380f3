"""Request bodies of HTTP and MCP, made from operations: their fields, ranges, defaults and sentences."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from whence.operations.operation import HTTP, Operation, Parameter, parameters
from whence.schema.code import SnapshotChoice
from whence.surfaces.http.auth import AccessBody
from whence.surfaces.http.requests import parse_body

if TYPE_CHECKING:
    from whence.surfaces.http.auth import Caller

Op = TypeVar("Op", bound=Operation[Any])

#: Maximum time limit of a question in seconds: an absent caller must not occupy a slot for long.
MAX_TIMEOUT_S = 600.0
#: Names of the parts of a snapshot choice, which stand beside the other fields.
_SNAPSHOT = {
    "snapshot": ("snapshot", "Snapshot of code to read: id, head sha, branch or tag."),
    "set": ("set_name", "Set of snapshots."),
    "snapshot_source": ("source", "Member of the set: primary or secondary."),
}


@cache
def body_of(operation: type[Operation[Any]]) -> type[msgspec.Struct]:
    """Return the struct of a request for an operation; unknown fields are refused: a limit may be misspelt."""
    fields: list[Any] = []
    for one in parameters(operation, HTTP).values():
        fields += _fields(one)
    return msgspec.defstruct(
        f"{operation.__name__}Body",
        fields,
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
        namespace={"__doc__": operation.__doc__},
    )


def _fields(one: Parameter) -> Iterator[tuple[Any, ...]]:
    if one.name == "access":
        text = "Rights to read with, within those of the token."
        yield "access", Annotated[AccessBody | None, Meta(description=text)], None
    elif one.name == "collection":
        text = "Collection to read; the server's default when empty."
        yield "collection", Annotated[str, Meta(description=text)], ""
    elif one.name == "snapshot":
        for name, (_, text) in _SNAPSHOT.items():
            yield name, Annotated[str, Meta(description=text)], ""
    else:
        hint: Any = Annotated[one.type, _described(one)]
        yield (one.name, hint) if one.required else (one.name, hint, one.default)


def _described(one: Parameter) -> Meta:
    ranges = {
        name: getattr(one.meta, name)
        for name in ("gt", "ge", "lt", "le", "min_length", "max_length", "pattern")
        if getattr(one.meta, name) is not None
    }
    if one.name == "timeout_s":
        ranges["le"] = MAX_TIMEOUT_S
    return Meta(description=f"{one.sentence} {one.offered.http_text}".strip(), **ranges)


def read_operation(document: object, operation: type[Op], caller: Caller, collection: str) -> Op:
    """Return the operation that a request asks for, with the rights of its caller.

    Args:
        document: The decoded body.
        operation: Its kind.
        caller: Its rights are the most that the operation has.
        collection: The one that is read when none is named.

    Raises:
        BadInput: A field is unknown or out of range, or rights are asked for that the caller has not.
    """
    body: Any = parse_body(document, body_of(operation))
    known = parameters(operation, HTTP)
    fields = {name: getattr(body, name) for name in known if name != "snapshot"}
    if "access" in known:
        fields["access"] = caller.access_for(body.access)
    if "collection" in known:
        fields["collection"] = body.collection or collection
    if "snapshot" in known:
        parts = {part: getattr(body, name) for name, (part, _) in _SNAPSHOT.items()}
        named = any(parts.values()) or known["snapshot"].required
        fields["snapshot"] = SnapshotChoice(**parts) if named else None
    return operation(**fields)

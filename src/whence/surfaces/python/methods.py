"""Methods of Python objects that run operations, with the signatures of their structs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Coroutine, Iterator
from inspect import Parameter as Argument
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    overload,
)

from whence.operations.operation import Operation, parameters

if TYPE_CHECKING:
    from whence.operations.session import Session

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


class HasSession(Protocol):
    """An object with a session, such as an engine."""

    _session: Session


Method: TypeAlias = Callable[Concatenate[HasSession, P], Coroutine[Any, Any, R]]


@overload
def method(operation: Callable[P, Operation[R]]) -> Method[P, R]: ...
@overload
def method(operation: Callable[P, Operation[R]], part: Callable[[R], S]) -> Method[P, S]: ...
def method(
    operation: Callable[P, Operation[Any]], part: Callable[[Any], Any] = lambda result: result
) -> Method[P, Any]:
    """Return a method that runs an operation and returns its result, or a part of it."""
    assert isinstance(operation, type)
    assert issubclass(operation, Operation)
    kind: type[Operation[Any]] = operation

    async def call(self: HasSession, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        # Whatever is logged or traced is read twice.
        lists: Any = [list(one) if isinstance(one, Iterator) else one for one in args]
        known = parameters(kind)
        named: Any = {
            name: list(one) if isinstance(one, Iterator) else one
            for name, one in kwargs.items()
            # None stands for an empty mapping or sequence.
            if one is not None or name not in known or not _is_collection(known[name].default)
        }
        return part(await self._session.run(operation(*lists, **named)))

    call.__name__ = call.__qualname__ = operation.__name__
    call.__doc__ = f"{inspect.cleandoc(operation.__doc__ or '')}\n\n{operation.run.__doc__}"
    call.__signature__ = signature(operation)  # type: ignore[attr-defined]
    return call


def _is_collection(default: Any) -> bool:
    return isinstance(default, Collection) and not isinstance(default, str)


def signature(operation: type[Operation[Any]]) -> inspect.Signature:
    """Return the signature of a method for an operation, with annotations as they are written.

    Resolving the annotations of all operations would take 16 ms of each start.
    """
    names, defaults = operation.__struct_fields__, operation.__struct_defaults__
    given = (Argument.empty,) * (len(names) - len(defaults)) + defaults
    written = {
        name: hint
        for cls in reversed(operation.__mro__)
        for name, hint in vars(cls).get("__annotations__", {}).items()
    }
    arguments = [Argument("self", Argument.POSITIONAL_OR_KEYWORD)]
    for name, default in zip(names, given, strict=True):
        # A struct has a factory for a default that can change.
        value = default.factory() if hasattr(default, "factory") else default
        arguments.append(
            Argument(name, Argument.POSITIONAL_OR_KEYWORD, default=value, annotation=written[name])
        )
    return inspect.Signature(arguments)

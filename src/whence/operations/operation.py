"""The base of every operation, and what surfaces read from its declaration."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Generic,
    Protocol,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from whence.schema.filters import BODY_SYNTAX, OPTION_SYNTAX, parse_filter_options

if TYPE_CHECKING:
    from whence.operations.session import Session
    from whence.operations.traced_client import TracedCall

R = TypeVar("R")
Call: TypeAlias = "Callable[[Session], Awaitable[R]]"

CLI: Final = "cli"
HTTP: Final = "http"
"""HTTP and MCP."""
PYTHON: Final = "python"


class Offered(msgspec.Struct, frozen=True):
    """How surfaces offer a field, where it is not by its own name on all; metadata of an `Annotated` type."""

    option: str = ""
    """Option of the command line; `--name` when empty, with `_` as `-` and without the unit `_s`."""
    argument: bool = False
    """Whether the command line takes it without an option; required fields are taken so, too."""
    metavar: str = ""
    """Placeholder of its value in help."""
    on: frozenset[str] = frozenset({CLI, HTTP, PYTHON})
    """Surfaces that have it."""
    local: bool = False
    """Whether it concerns the call alone, and is neither sent nor recorded."""
    parse: Callable[[Any], Any] | None = None
    """Makes the value of what the command line was given."""
    cli_text: str = ""
    """What the command line adds to the sentence, such as the syntax of a value."""
    http_text: str = ""
    """What HTTP and MCP add to the sentence."""


Filters = Annotated[
    dict[str, Any],
    Offered(
        option="--filter",
        metavar="KEY=VALUE",
        parse=parse_filter_options,
        cli_text=OPTION_SYNTAX,
        http_text=BODY_SYNTAX,
    ),
]
"""Conditions on metadata; see `whence.schema.filters`."""


class Operation(msgspec.Struct, Generic[R], frozen=True, omit_defaults=True):
    """Something a caller can ask for: its fields are the parameters, its docstring begins with its summary.

    A field has its type, range (`msgspec.Meta`), default, a docstring, and names that differ (`Offered`).
    """

    NAME: ClassVar[str] = ""
    """Name in logs and traces."""
    audited: ClassVar[bool] = True
    """Whether the audit log has it."""
    traced: ClassVar[bool] = False
    """Whether it has a pipeline trace."""
    many_collections: ClassVar[bool] = False
    """Whether its `collection` may name several, separated by commas."""

    def check(self) -> None:
        """Raise `BadInput` for values that can be refused before anything starts."""

    async def run(self, session: Session) -> R:
        """Return the result; `session` has the flow, the store and the models."""
        raise TypeError(f"{type(self).__name__} cannot be run")

    def count(self, result: R) -> int:
        """Return the number of results, for the audit log."""
        return 1

    def answer_of(self, result: R) -> str:
        """Return the id of the answer that the result is, or an empty string."""
        return ""

    def state_after(self, calls: Sequence[TracedCall], result: R | None) -> dict[str, Any]:
        """Return what happened, as JSON types, for the pipeline trace; the result of a failed run is None."""
        return {}


class Middleware(Protocol):
    """Something that runs around every operation of a session."""

    def around(self, operation: Operation[R], call: Call[R]) -> Call[R]:
        """Return a call that does what `call` does, and more."""
        ...


class Parameter(msgspec.Struct, frozen=True):
    """A field of an operation as surfaces read it."""

    name: str
    type: Any
    """Without metadata."""
    meta: msgspec.Meta
    """Range of the value."""
    default: Any
    """`msgspec.NODEFAULT` for a required one."""
    offered: Offered
    operation: type[Operation[Any]]

    @property
    def sentence(self) -> str:
        """Docstring of the field, in one line."""
        return sentences(self.operation)[self.name]

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.default is msgspec.NODEFAULT

    @property
    def option(self) -> str:
        """The option of the command line."""
        return self.offered.option or "--" + self.name.removesuffix("_s").replace("_", "-")


@cache
def parameters(operation: type[Operation[Any]], surface: str = "") -> Mapping[str, Parameter]:
    """Return the parameters of an operation by name, those that a surface has, in the order of declaration."""
    hints = get_type_hints(operation, include_extras=True)
    found = {}
    for field in msgspec.structs.fields(operation):
        hint = hints[field.name]
        kind, *metadata = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        default = field.default
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        found[field.name] = Parameter(
            name=field.name,
            type=kind,
            meta=next((one for one in metadata if isinstance(one, msgspec.Meta)), msgspec.Meta()),
            default=default,
            operation=operation,
            offered=next((one for one in metadata if isinstance(one, Offered)), Offered()),
        )
    return {name: one for name, one in found.items() if not surface or surface in one.offered.on}


@cache
def sentences(operation: type[Any]) -> dict[str, str]:
    """Return the docstrings of the fields of a struct and its bases, which Python does not keep."""
    found: dict[str, str] = {}
    for cls in reversed(operation.__mro__):
        if not issubclass(cls, msgspec.Struct) or cls.__module__.startswith("msgspec"):
            continue
        (tree,) = ast.parse(inspect.cleandoc("\n" + inspect.getsource(cls))).body
        assert isinstance(tree, ast.ClassDef)
        for field, text in zip(tree.body, tree.body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
            ):
                found[field.target.id] = " ".join(str(text.value.value).split())
    return found


def summary(operation: type[Operation[Any]]) -> str:
    """Return what an operation does: the first sentence of its docstring, without the full stop."""
    text = " ".join(inspect.cleandoc(operation.__doc__ or "").split())
    return text.partition(". ")[0].removesuffix(".").partition("; ")[0]


def travelling(operation: Operation[Any]) -> dict[str, Any]:
    """Return the fields of an operation that are sent and recorded."""
    return {
        name: getattr(operation, name)
        for name, one in parameters(type(operation)).items()
        if not one.offered.local
    }

"""Options that every command takes, before or after the command's name, and those of access."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

__all__ = (
    "Acl",
    "Clearance",
    "Filter",
    "Label",
    "State",
    "keep_common",
    "state_of",
    "with_common_options",
)

_PANEL = "Options of every command"


class State:
    """What the common options of one call were set to."""

    def __init__(self) -> None:
        self.json = False
        #: Settings given as options, by their name in `whence.toml`.
        self.given: dict[str, str] = {}


def state_of(context: typer.Context) -> State:
    """Give the state of this call, shared by the program and its command."""
    root = context.find_root()
    if not isinstance(root.obj, State):
        root.obj = State()
    return root.obj


def _option(name: str, text: str) -> Any:
    flag = "--" + name.replace("_", "-")
    option = typer.Option(flag, help=text, metavar="TEXT", rich_help_panel=_PANEL)
    return Annotated[str | None, option]


_COMMON: dict[str, Any] = {
    "home": _option("home", "Folder of the embedded database."),
    "database_url": _option("database_url", "PostgreSQL 16+ with pgvector, not the embedded one."),
    "broker": _option("broker", "memory:// or pulsar://host:port."),
    "embedder": _option("embedder", "local, openai:MODEL or cohere:MODEL."),
    "writer": _option("writer", "extractive or openai:MODEL."),
    "reranker": _option("reranker", "auto, none, or a flashrank model name or folder."),
    "collection": _option("collection", "Collection to work on."),
}
_JSON = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print one JSON document on stdout; the rest goes to stderr.",
        rich_help_panel=_PANEL,
    ),
]


def keep_common(context: typer.Context, values: dict[str, Any]) -> None:
    """Take the common options out of the arguments of a call and keep them for it."""
    state = state_of(context)
    state.json = values.pop("as_json", False) or state.json
    for name in _COMMON:
        value = values.pop(name, None)
        if value is not None:
            state.given[name] = value


def with_common_options(function: Callable[..., int | None]) -> Callable[..., int | None]:
    """Give the command function with the common options added to its own.

    The function's first parameter is the context; it does not see the common options.
    """

    @wraps(function)
    def command(context: typer.Context, **values: Any) -> int | None:
        keep_common(context, values)
        return function(context, **values)

    hints = get_type_hints(function, include_extras=True)
    own = [
        parameter.replace(annotation=hints[name])
        for name, parameter in inspect.signature(function).parameters.items()
    ]
    common = [_keyword(name, hint, None) for name, hint in _COMMON.items()]
    common.append(_keyword("as_json", _JSON, False))
    parameters = [*own, *common]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def _keyword(name: str, hint: Any, default: object) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=hint)


Acl = Annotated[
    list[str] | None,
    typer.Option("--acl", metavar="TAG", help="Access tag you hold; repeat for more."),
]
Label = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="L", help="Label you may see; repeat for more."),
]
Filter = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="KEY=VALUE",
        help="Condition on metadata; repeat for more, all must hold. KEY=A,B is any of them, KEY=LOW..HIGH,"
        " KEY>=LOW or KEY<HIGH a range of numbers or dates, KEY^=PREFIX a beginning (of a path).",
    ),
]
Clearance = Annotated[int, typer.Option("--clearance", help="Highest level you may see.")]

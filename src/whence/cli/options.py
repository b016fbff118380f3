"""Options shared by commands: those of every command, and groups of options that become one argument."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Annotated, Any, NamedTuple, get_type_hints

import typer

from whence.engine.snapshot_reading import SnapshotChoice
from whence.schema.access import Access, DocumentTags

_PANEL = "Options of every command"


class State:
    """Values of the common options of one call."""

    def __init__(self) -> None:
        self.json = False
        #: Settings given as options, by their name in `whence.toml`.
        self.given: dict[str, str] = {}


def state_of(context: typer.Context) -> State:
    """Return the state of this call, shared by the program and its command."""
    root = context.find_root()
    if not isinstance(root.obj, State):
        root.obj = State()
    return root.obj


class Option(NamedTuple):
    """An option as a parameter of a command."""

    hint: Any
    default: Any


class OptionGroup(NamedTuple):
    """Options that become one argument of a command; the metadata of an `Annotated` type."""

    options: Mapping[str, Option]
    make: Callable[..., Any]


def option(
    flag: str, text: str, kind: Any = str | None, default: Any = None, **extra: Any
) -> Option:
    """Return an option.

    Args:
        flag: Its name, with dashes.
        text: Help text.
        kind: Type of its value.
        default: Value without the option.
        extra: Further arguments of `typer.Option`.
    """
    return Option(Annotated[kind, typer.Option(flag, help=text, **extra)], default)


def _common_option(name: str, text: str) -> Option:
    flag = "--" + name.replace("_", "-")
    return option(flag, text, metavar="TEXT", rich_help_panel=_PANEL)


_COMMON: dict[str, Option] = {
    "home": _common_option("home", "Folder of the embedded database."),
    "database_url": _common_option(
        "database_url", "Address of a PostgreSQL 16+ with pgvector; embedded by default."
    ),
    "broker": _common_option("broker", "Message broker: memory:// or pulsar://HOST:PORT."),
    "embedder": _common_option("embedder", "Embedding model: local, openai:MODEL or cohere:MODEL."),
    "writer": _common_option("writer", "Model that writes answers: extractive or openai:MODEL."),
    "reranker": _common_option(
        "reranker", "Reranking model: auto, none, or a flashrank model name or folder."
    ),
    "collection": _common_option("collection", "Name of the collection."),
    "as_json": option(
        "--json",
        "Print one JSON document to stdout; all other output goes to stderr.",
        bool,
        default=False,
        rich_help_panel=_PANEL,
    ),
}


def keep_common(context: typer.Context, values: dict[str, Any]) -> None:
    """Move the common options from the arguments of a call into its state."""
    state = state_of(context)
    state.json = values.pop("as_json", False) or state.json
    for name in _COMMON:
        value = values.pop(name, None)
        if value is not None:
            state.given[name] = value


def with_common_options(function: Callable[..., int | None]) -> Callable[..., int | None]:
    """Return the command function with the common options and its option groups spelled out.

    The function's first parameter is the context. It does not receive the common options, and it receives one
    argument for each option group.
    """
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, OptionGroup] = {}
    first, *others = inspect.signature(function).parameters.items()
    parameters = [first[1].replace(annotation=hints[first[0]])]
    for name, parameter in others:
        group = next((one for one in _metadata(hints[name]) if isinstance(one, OptionGroup)), None)
        if group is None:
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(parameter.replace(annotation=hints[name], kind=kind))
        else:
            groups[name] = group
            parameters += [_keyword(key, one) for key, one in group.options.items()]
    parameters += [_keyword(name, one) for name, one in _COMMON.items()]

    @wraps(function)
    def command(context: typer.Context, **values: Any) -> int | None:
        keep_common(context, values)
        for name, group in groups.items():
            values[name] = group.make(**{key: values.pop(key) for key in group.options})
        return function(context, **values)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def _metadata(hint: Any) -> tuple[Any, ...]:
    return getattr(hint, "__metadata__", ())


def _keyword(name: str, one: Option) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=one.default, annotation=one.hint)


_STRINGS = list[str] | None


def _access(acl: list[str] | None, label: list[str] | None, clearance: int) -> Access:
    return Access(frozenset(acl or ()), frozenset(label or ()), clearance)


def _tags(acl: list[str] | None, label: list[str] | None, clearance: int) -> DocumentTags:
    return DocumentTags(tuple(acl or ()), tuple(label or ()), clearance)


ReaderAccess = Annotated[
    Access,
    OptionGroup(
        {
            "acl": option(
                "--acl", "Access tag of the reader; repeatable.", _STRINGS, metavar="TAG"
            ),
            "label": option("--label", "Label of the reader; repeatable.", _STRINGS, metavar="L"),
            "clearance": option("--clearance", "Clearance of the reader, 0 or more.", int, 0),
        },
        _access,
    ),
]
"""Rights to read with; without options, public documents only."""

OwnTags = Annotated[
    DocumentTags,
    OptionGroup(
        {
            "acl": option(
                "--acl", "Readers need one of these tags; repeatable.", _STRINGS, metavar="TAG"
            ),
            "label": option(
                "--label", "Readers need all of these labels; repeatable.", _STRINGS, metavar="L"
            ),
            "clearance": option("--clearance", "Readers need at least this clearance.", int, 0),
        },
        _tags,
    ),
]
"""Tags of the documents that a command stores."""

_SNAPSHOT_OPTIONS = {
    "snapshot": option(
        "--snapshot", "Snapshot of code: id, head sha, branch or tag.", metavar="ID|REF"
    ),
    "set_name": option("--set", "Set of snapshots.", metavar="NAME"),
    "snapshot_source": option(
        "--snapshot-source", "Member of the set: primary or secondary.", metavar="WHICH"
    ),
}


def _required_snapshot(
    snapshot: str | None, set_name: str | None, snapshot_source: str | None
) -> SnapshotChoice:
    return SnapshotChoice(
        snapshot=snapshot or "", set_name=set_name or "", source=snapshot_source or ""
    )


def _chosen_snapshot(**options: str | None) -> SnapshotChoice | None:
    if all(value is None for value in options.values()):
        return None
    return _required_snapshot(**options)


RequiredSnapshot = Annotated[SnapshotChoice, OptionGroup(_SNAPSHOT_OPTIONS, _required_snapshot)]
"""Snapshot of code to read; without options, an error."""

ChosenSnapshot = Annotated[SnapshotChoice | None, OptionGroup(_SNAPSHOT_OPTIONS, _chosen_snapshot)]
"""Snapshot of code to read; without options, None."""

Filter = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="KEY=VALUE",
        help="Condition on metadata; repeatable, all must hold. KEY=A,B matches either value; KEY=LOW..HIGH,"
        " KEY>=LOW or KEY<HIGH a range of numbers or dates; KEY^=PREFIX a prefix, such as that of a path.",
    ),
]

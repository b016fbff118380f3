"""Options shared by commands: those of every command, and groups of options that become one argument."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from inspect import Parameter
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, ParameterInfo

from whence.operations.operation import CLI, Operation, summary
from whence.operations.operation import Parameter as OperationParameter
from whence.operations.operation import parameters as operation_parameters
from whence.schema.access import Access, DocumentTags, TagChange
from whence.schema.code import SnapshotChoice
from whence.schema.errors import BadInput

_PANEL = "Options of every command"


@dataclass
class State:
    """Values of the common options of one call."""

    json: bool = False
    given: dict[str, str] = field(default_factory=dict)
    """Settings given as options, by their name in `whence.toml`."""
    told: bool = False
    """Whether the JSON document is printed while the command goes on."""
    named: frozenset[str] = frozenset()
    """Fields of the operation that were given."""


def state_of(context: typer.Context) -> State:
    """Return the state of this call, shared by the program and its command."""
    root = context.find_root()
    if not isinstance(root.obj, State):
        root.obj = State()
    return root.obj


class ChosenBy(NamedTuple):
    """An option that chooses another operation of a command; its value is what that requires.

    Fields that the command's own operation has are taken from there. Metadata of an `Annotated` type:
    `Annotated[RemoveCollection | None, ChosenBy("--remove")]`.
    """

    option: str


class OptionGroup(NamedTuple):
    """Options that become one argument of a command; the metadata of an `Annotated` type."""

    options: Sequence[Parameter]
    make: Callable[..., Any]


def option(
    name: str,
    text: str,
    kind: Any = str | None,
    default: Any = None,
    *,
    flag: str | None = None,
    **extra: Any,
) -> Parameter:
    """Return an option as a parameter of a command.

    Args:
        name: Name of the parameter.
        text: Help text.
        kind: Type of its value.
        default: Value without the option.
        flag: Name on the command line, with dashes; that of the parameter when None.
        extra: Further arguments of `typer.Option`.
    """
    flag = flag or "--" + name.replace("_", "-")
    hint = Annotated[kind, typer.Option(flag, help=text, **extra)]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)


#: Placeholder and help text of each setting that is an option.
_SETTINGS = {
    "home": ("FOLDER", "Folder of the embedded database."),
    "database_url": ("URL", "Address of a PostgreSQL 16+ with pgvector; embedded by default."),
    "broker": ("URL", "Message broker: memory:// or pulsar://HOST:PORT."),
    "embedder": (
        "MODEL",
        "Embedding model: auto, local, one of `models list`, openai:MODEL, ollama:MODEL or cohere:MODEL.",
    ),
    "writer": ("MODEL", "Model that writes answers: extractive, openai:MODEL or ollama:MODEL."),
    "reranker": (
        "MODEL",
        "Reranking model: auto, none, http:MODEL, or a flashrank model name or folder.",
    ),
    "collection": ("NAME", "Name of the collection."),
}
_COMMON = (
    *(
        option(name, text, metavar=placeholder, rich_help_panel=_PANEL)
        for name, (placeholder, text) in _SETTINGS.items()
    ),
    option(
        "as_json",
        "Print one JSON document to stdout; all other output goes to stderr.",
        bool,
        default=False,
        flag="--json",
        rich_help_panel=_PANEL,
    ),
)


def with_common_options(function: Callable[..., int | None]) -> Callable[..., int | None]:
    """Return the command function with the common options and its option groups spelled out.

    The function's first parameter is the context. It does not receive the common options, and it receives one
    argument for each option group.
    """
    found = _Arguments(function)
    parameters = found.parameters
    parameters += _COMMON
    for one in parameters[1:]:
        _name_value(one)

    @wraps(function)
    def command(context: typer.Context, **values: Any) -> int | None:
        state = state_of(context)
        state.json = values.pop("as_json") or state.json
        given = {name: values.pop(name) for name in _SETTINGS}
        state.given |= {name: value for name, value in given.items() if value is not None}
        for name, group in found.groups.items():
            values[name] = group.make(**{one.name: values.pop(one.name) for one in group.options})
        for name, operation in found.operations.items():
            values[name] = _read_operation(context, operation, values)
        for name, operation in found.chosen.items():
            others = [values[one] for one in found.operations]
            values[name] = _choose_operation(operation, values[name], others)
        try:
            return function(context, **values)
        except KeyboardInterrupt as error:
            # Typer would end the program without a message.
            raise typer.Abort from error

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


class _Arguments:
    """The arguments of a command function, and the parameters that they are made of."""

    def __init__(self, function: Callable[..., int | None]) -> None:
        self.groups: dict[str, OptionGroup] = {}
        self.operations: dict[str, type[Operation[Any]]] = {}
        self.chosen: dict[str, type[Operation[Any]]] = {}
        hints = get_type_hints(function, include_extras=True)
        first, *others = inspect.signature(function).parameters.values()
        self.parameters = [first.replace(annotation=hints[first.name])]
        for one in others:
            self.parameters += self._spell_out(one, hints[one.name])

    def _spell_out(self, argument: Parameter, hint: Any) -> Iterable[Parameter]:
        name = argument.name
        if isinstance(hint, type) and issubclass(hint, Operation):
            self.operations[name] = hint
            return operation_options(hint)
        for one in getattr(hint, "__metadata__", ()):
            if isinstance(one, OptionGroup):
                self.groups[name] = one
                return one.options
            if isinstance(one, ChosenBy):
                operation = self.chosen[name] = get_args(get_args(hint)[0])[0]
                taken = {
                    each for own in self.operations.values() for each in operation_parameters(own)
                }
                return [_choice(name, operation, one.option, taken)]
        return [argument.replace(annotation=hint, kind=Parameter.KEYWORD_ONLY)]


#: Placeholders of values by their type; of any other it is the name of the parameter.
_PLACEHOLDERS = {int: "N", float: "NUMBER", Path: "FILE"}


def _name_value(parameter: Parameter) -> None:
    """Set the placeholder of a parameter's value in help pages, unless it has one."""
    hint, *metadata = get_args(parameter.annotation)
    values = [one for one in get_args(hint) if one is not NoneType]
    kind = values[0] if values else hint
    repeated = get_origin(kind) is list or get_origin(hint) is list
    kind = get_args(kind)[0] if get_origin(kind) is list else kind
    for info in metadata:
        if isinstance(info, ParameterInfo) and info.metavar is None and kind is not bool:
            info.metavar = _PLACEHOLDERS.get(kind, parameter.name.upper())
            if repeated and isinstance(info, ArgumentInfo):
                info.metavar += "..."


def _rights(acl: str, label: str, clearance: str) -> tuple[Parameter, ...]:
    """Return the options of rights with these help texts."""
    return (
        option("acl", acl, list[str] | None, metavar="TAG"),
        option("label", label, list[str] | None, metavar="LABEL"),
        option("clearance", clearance, int, 0),
    )


def _tags(flag: str, given: Sequence[str] | None) -> Sequence[str]:
    if "" in (given or ()):
        raise BadInput(f"{flag} is empty", hint=f"name a tag, or leave {flag} out")
    return given or ()


KeepTraces = Annotated[
    str | None,
    typer.Option(metavar="AGE", help="How long traces are kept, such as 90d; for ever by default."),
]
ReaderAccess = Annotated[
    Access,
    OptionGroup(
        _rights(
            "Access tag of the reader; repeatable.",
            "Label of the reader; repeatable.",
            "Clearance of the reader, 0 or more.",
        ),
        lambda acl, label, clearance: Access(
            frozenset(_tags("--acl", acl)), frozenset(_tags("--label", label)), clearance
        ),
    ),
]
"""Rights to read with; without options, public documents only."""

OwnTags = Annotated[
    DocumentTags,
    OptionGroup(
        _rights(
            "Readers need one of these tags; repeatable.",
            "Readers need all of these labels; repeatable.",
            "Readers need at least this clearance.",
        ),
        lambda acl, label, clearance: DocumentTags(
            tuple(_tags("--acl", acl)), tuple(_tags("--label", label)), clearance
        ),
    ),
]
"""Tags of the documents that a command stores."""

_SNAPSHOT_OPTIONS = (
    option("snapshot", "Snapshot of code: id, head sha, branch or tag.", metavar="ID|REF"),
    option("set_name", "Set of snapshots.", flag="--set", metavar="NAME"),
    option(
        "source",
        "Member of the set: primary or secondary.",
        flag="--snapshot-source",
        metavar="WHICH",
    ),
)


def _required_snapshot(**names: str | None) -> SnapshotChoice:
    return SnapshotChoice(**{key: name or "" for key, name in names.items()})


def _chosen_snapshot(**names: str | None) -> SnapshotChoice | None:
    return None if all(name is None for name in names.values()) else _required_snapshot(**names)


def _tag_change(
    acl: Sequence[str] | None, label: Sequence[str] | None, clearance: int | None, *, public: bool
) -> TagChange:
    if not (acl or label or public) and clearance is None:
        raise BadInput("no new tags are given", hint="use --acl, --label, --clearance or --public")
    none = () if public else None
    return TagChange(
        acl=tuple(acl) if acl else none,
        labels=tuple(label) if label else none,
        clearance=0 if public and clearance is None else clearance,
    )


ChosenSnapshot = Annotated[SnapshotChoice | None, OptionGroup(_SNAPSHOT_OPTIONS, _chosen_snapshot)]
"""Snapshot of code to read; without options, None."""

TraceFile = Annotated[
    Path | None,
    typer.Option(
        "--trace", metavar="FILE", help="File for a JSON trace of what ran: filters, hits, timings."
    ),
]
"""File of the pipeline trace; None for none."""


def operation_options(operation: type[Operation[Any]]) -> list[Parameter]:
    """Return the arguments and options of a command for the fields of an operation."""
    found: list[Parameter] = []
    known = operation_parameters(operation, CLI)
    for one in known.values():
        if (group := _group_of(one)) is not None:
            found += group.options
        elif one.name != "collection":
            found.append(_option_of(one, known))
    return found


def _option_of(one: OperationParameter, known: Mapping[str, OperationParameter]) -> Parameter:
    kind = _kind(one)
    text = f"{one.sentence} {one.offered.cli_text}".strip()
    positional = (one.required or one.offered.argument) and not one.offered.option
    if kind == list[str] and not positional and "epeatable" not in text:
        text += " Repeatable."
    for name, other in known.items():
        text = text.replace(f"`{name}`", other.option)
    text = text.replace("`", "")
    if positional:
        info = typer.Argument(help=text, metavar=one.offered.metavar or None)
        hint: Any = Annotated[kind if one.required else kind | None, info]
        default = Parameter.empty if one.required else None
        return Parameter(one.name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)
    if one.required:
        return option(
            one.name, text, kind, Parameter.empty, flag=one.option, metavar=one.offered.metavar
        )
    value = one.default if isinstance(one.default, str | int | float) else None
    metavar = one.offered.metavar or None
    if value in (None, ""):
        return option(one.name, text, kind | None, flag=one.option, metavar=metavar)
    return option(one.name, text, kind, value, flag=one.option, metavar=metavar)


def _kind(one: OperationParameter) -> Any:
    """Return the type that the command line reads: of an optional value the value's, of a choice `str`."""
    options = [each for each in get_args(one.type) if each is not NoneType]
    kind = options[0] if get_origin(one.type) in (Union, UnionType) else one.type
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (tuple, Sequence, Iterable, dict, Mapping):
        return list[str]
    return str if one.offered.parse is not None or get_origin(kind) is Literal else kind


def _read_operation(
    context: typer.Context, operation: type[Operation[Any]], values: dict[str, Any]
) -> Operation[Any]:
    """Take the fields of an operation out of the values of a call."""
    fields: dict[str, Any] = {}
    known = operation_parameters(operation, CLI)
    for one in known.values():
        if one.name == "collection":
            from whence.surfaces.cli.session import settings_of

            fields["collection"] = settings_of(context).collection
        elif (group := _group_of(one)) is not None:
            made = group.make(**{each.name: values.pop(each.name) for each in group.options})
            if made is None and one.default is not None:
                made = _required_snapshot()
            fields[one.name] = made
        elif (value := values.pop(one.name)) is not None:
            fields[one.name] = value if one.offered.parse is None else one.offered.parse(value)
    named = set()
    for name in fields:
        group = _group_of(known[name])
        options = [name] if group is None else [one.name for one in group.options]
        if any(_is_given(context, one) for one in options):
            named.add(name)
    state_of(context).named = frozenset(named)
    return operation(**fields)


def _choice(
    name: str, operation: type[Operation[Any]], flag: str, taken: Collection[str]
) -> Parameter:
    """Return the option that chooses an operation; its value is what the operation requires."""
    known = operation_parameters(operation, CLI)
    required = [one for one in known.values() if one.required and one.name not in taken]
    text = f"{summary(operation)}."
    if not required:
        return option(name, text, bool, default=False, flag=flag)
    metavar = " ".join(one.offered.metavar or one.name.upper() for one in required)
    kinds = tuple(_kind(one) for one in required)
    kind = kinds[0] if len(kinds) == 1 else tuple[kinds]  # type: ignore[valid-type]
    return option(name, text, kind | None, flag=flag, metavar=metavar)


def _choose_operation(
    operation: type[Operation[Any]], given: Any, others: Sequence[Operation[Any]]
) -> Operation[Any] | None:
    """Return the operation if its option was given; fields that another one has are taken from there."""
    if given in (None, False):
        return None
    known = operation_parameters(operation, CLI)
    shared = {name: getattr(one, name) for one in others for name in known if hasattr(one, name)}
    required = [name for name, one in known.items() if one.required and name not in shared]
    values = given if isinstance(given, tuple) else (given,)
    return operation(**shared, **dict(zip(required, values, strict=False)))


#: Options that make a field of a type.
_GROUPS: dict[type, OptionGroup] = {
    Access: ReaderAccess.__metadata__[0],  # type: ignore[attr-defined]
    DocumentTags: OwnTags.__metadata__[0],  # type: ignore[attr-defined]
    SnapshotChoice: ChosenSnapshot.__metadata__[0],  # type: ignore[attr-defined]
    TagChange: OptionGroup(
        (
            option("acl", "New ACL; repeatable.", list[str] | None, metavar="TAG"),
            option("label", "New label; repeatable.", list[str] | None, metavar="LABEL"),
            option("clearance", "New clearance, 0 or more.", int | None),
            option(
                "public", "No tags, except for those of the other options.", bool, default=False
            ),
        ),
        _tag_change,
    ),
}


def _group_of(parameter: OperationParameter) -> OptionGroup | None:
    """Return the options that make a field, by its type."""
    kinds = (parameter.type, *get_args(parameter.type))
    return next((_GROUPS[kind] for kind in kinds if kind in _GROUPS), None)


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"

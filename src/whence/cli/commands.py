"""The table of commands. A command's module is imported when the command is used.

Importing all modules and building their options takes longer than most commands need to start.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from whence.cli.help_examples import epilog_of, group_of
from whence.cli.options import with_common_options


class _Group(NamedTuple):
    """A group of commands: `module:function` by name."""

    members: Mapping[str, str]
    help: str = ""
    own: str = ""
    """Function of the bare group, and source of its help; empty for none."""


#: Every command in the order of `whence --help`: `module:function`, or a group of such.
COMMANDS: Mapping[str, str | _Group] = {
    "index": "index:index",
    "search": "search:search",
    "collections": "status:collections",
    "erase": "status:erase",
    "ask": "ask:ask",
    "explain": "traces:explain",
    "why-not": "traces:why_not",
    "replay": "traces:replay",
    "bundle": "bundle:bundle",
    "import": "snapshots:import_bundles",
    "expand": "code:expand",
    "fetch": "code:fetch",
    "validate": "validate:validate",
    "run": "run:run",
    "serve": "serve:serve",
    "status": "status:status",
    "doctor": "doctor:doctor",
    "demo": "demo:demo",
    "help": "help_reference:show_page",
    "snapshots": _Group(
        {
            "activate": "snapshots:activate",
            "deactivate": "snapshots:deactivate",
            "purge": "snapshots:purge",
            "remove": "snapshots:remove",
            "set": "snapshots:make_set",
        },
        own="snapshots:snapshots",
    ),
    "models": _Group(
        {"install": "models:install", "status": "models:status"},
        help="Install the local models and check them.",
    ),
    "eval": _Group(
        {
            "beir": "eval_beir:beir",
            "gate": "eval_gate:gate",
            "baseline": "eval_gate:baseline",
            "compare": "eval_gate:compare",
        },
        help="Measure the quality of retrieval.",
    ),
    "dlq": _Group(
        {
            "list": "dead_letters:list_letters",
            "show": "dead_letters:show",
            "replay": "dead_letters:replay",
            "drop": "dead_letters:drop",
        },
        help="Dead letters: messages that could not be processed.",
    ),
}


class _Command(TyperCommand):
    """A command whose usage line shows arguments as `PATHS...` instead of `{paths}...`."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words after the name of the command."""
        pieces = super().collect_usage_pieces(ctx)
        return [piece.replace("{", "").replace("}", "").upper() for piece in pieces]


class LazyGroup(TyperGroup):
    """The program: builds the commands of `COMMANDS` on first use."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands()  # type: ignore[assignment] # a read-only mapping is enough


class _Commands(Mapping[str, Any]):
    """Commands by name, each built on first use."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = _build(name, COMMANDS[name])
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


def _build(name: str, place: str | _Group) -> Any:
    panel, epilog = group_of(name), epilog_of(name)
    app = typer.Typer(add_completion=False)
    if isinstance(place, str):
        function = with_common_options(_function(place))
        app.command(
            name, cls=_Command, help=_help_of(function), rich_help_panel=panel, epilog=epilog
        )(function)
        return get_command(app)
    group = typer.Typer(no_args_is_help=not place.own)
    if place.own:
        own = with_common_options(_function(place.own))
        group.callback(invoke_without_command=True, help=_help_of(own))(own)
    else:
        group.info.help = place.help
    for member, home in place.members.items():
        function = with_common_options(_function(home))
        group.command(member, cls=_Command, help=_help_of(function))(function)
    app.add_typer(group, name=name, rich_help_panel=panel, epilog=epilog)
    return get_group(app).commands[name]


def _help_of(function: Callable[..., Any]) -> str:
    paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(one.split()) for one in paragraphs)


def _function(place: str) -> Callable[..., int | None]:
    module, _, name = place.partition(":")
    function: Callable[..., int | None] = getattr(import_module(f"whence.cli.{module}"), name)
    return function

"""The commands by name: where each one lives. A module is imported when its command is called.

Importing all of them and building their options takes longer than most commands need to start.
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

__all__ = ("COMMANDS", "LazyGroup")


class _Group(NamedTuple):
    """Commands under a common word, as `module:function` by name."""

    members: Mapping[str, str]
    help: str = ""
    own: str = ""
    """What the word alone does, and where the help of the group is from; `help` when empty."""


#: Every command in the order of `whence --help`: `module:function`, or a group of such.
COMMANDS: Mapping[str, str | _Group] = {
    "index": "index:index",
    "search": "search:search",
    "collections": "collections:collections",
    "erase": "erase:erase",
    "ask": "ask:ask",
    "explain": "explain:explain",
    "why-not": "why_not:why_not",
    "replay": "replay:replay",
    "bundle": "bundle:bundle",
    "import": "import_bundles:import_bundles",
    "expand": "expand:expand",
    "fetch": "fetch:fetch",
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
        help="The local models: install and look at them.",
    ),
    "eval": _Group(
        {
            "beir": "evaluate:beir",
            "gate": "evaluate:gate",
            "baseline": "evaluate:baseline",
            "compare": "eval_compare:compare",
        },
        help="How good retrieval is, and if it got worse.",
    ),
    "dlq": _Group(
        {
            "list": "dead_letters:list_letters",
            "show": "dead_letters:show",
            "replay": "dead_letters:replay",
            "drop": "dead_letters:drop",
        },
        help="Messages that were given up.",
    ),
}


class _Command(TyperCommand):
    """A command whose usage line names its arguments as manuals do: `PATHS...`, not `{paths}...`."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Give the words behind the name of the command."""
        pieces = super().collect_usage_pieces(ctx)
        return [piece.replace("{", "").replace("}", "").upper() for piece in pieces]


class LazyGroup(TyperGroup):
    """The program: it has every command of `COMMANDS`, and builds those that are looked at."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands()  # type: ignore[assignment] # nothing is ever added to it


class _Commands(Mapping[str, Any]):
    """Commands by name, each built when it is first asked for."""

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
    """Give the command, or group of commands, that typer makes of what lives in a place."""
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
    """Give a function's words with each paragraph on one line: a terminal breaks it where it ends."""
    paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(one.split()) for one in paragraphs)


def _function(place: str) -> Callable[..., int | None]:
    module, _, name = place.partition(":")
    function: Callable[..., int | None] = getattr(import_module(f"whence.cli.{module}"), name)
    return function

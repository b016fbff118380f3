"""`whence help`: the help page of a command, as text or as a JSON document."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from whence.schema.errors import BadInput
from whence.surfaces.cli.commands import COMMANDS
from whence.surfaces.cli.options import state_of
from whence.surfaces.cli.output import print_json, say


def show_page(
    context: typer.Context,
    command: Annotated[
        list[str] | None, typer.Argument(help="Command; without it, all commands.")
    ] = None,
) -> None:
    """Show the help page of a command."""
    at = _command_context(context, command or [])
    if state_of(context).json:
        print_json(_document(at))
    else:
        say(at.get_help())


def _command_context(context: typer.Context, words: list[str]) -> Any:
    at = context.find_root()
    for word in words:
        group = at.command
        found = group.get_command(at, word) if isinstance(group, TyperGroup) else None
        if found is None:
            known = group.list_commands(at) if isinstance(group, TyperGroup) else []
            near = get_close_matches(word, known, n=1)
            raise BadInput(
                f"there is no command {word!r}",
                hint=f"did you mean {near[0]!r}?" if near else "`whence help` lists all commands",
            )
        at = typer.Context(found, info_name=word, parent=at)
    return at


def _document(at: Any) -> dict[str, Any]:
    """Return the content of a help page; `commands` are the subcommands."""
    command, name = at.command, at.info_name or ""
    below = command.list_commands(at) if isinstance(command, TyperGroup) else []
    return {
        "command": at.command_path,
        "help": command.help or "",
        "usage": " ".join(command.collect_usage_pieces(at)),
        "parameters": [_parameter(one) for one in command.get_params(at)],
        "commands": [
            {"name": one, "help": command.get_command(at, one).get_short_help_str(200)}
            for one in below
        ],
        "examples": list(COMMANDS[name].examples if name in COMMANDS else ()),
    }


def _parameter(one: Any) -> dict[str, Any]:
    return {
        "kind": one.param_type_name,
        "names": [*one.opts, *one.secondary_opts],
        "help": getattr(one, "help", None) or "",
        "type": one.type.name,
        "required": one.required,
        "repeatable": one.multiple or one.nargs == -1,
    }

"""`whence help`: the help page of any command."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated

import typer
from typer.core import TyperGroup

from whence.cli.output import say
from whence.schema.errors import BadInput

__all__ = ("show_page",)


def show_page(
    context: typer.Context,
    command: Annotated[
        list[str] | None, typer.Argument(help="A command; all when left out.")
    ] = None,
) -> None:
    """Show the help page of a command."""
    say(_page(context, command or []))


def _page(context: typer.Context, words: list[str]) -> str:
    """Give the help page of a command by its words, e.g. `eval`, `gate`.

    Raises:
        BadInput: There is no such command.
    """
    at = context.find_root()
    for word in words:
        group = at.command
        found = group.get_command(at, word) if isinstance(group, TyperGroup) else None
        if found is None:
            known = group.list_commands(at) if isinstance(group, TyperGroup) else []
            near = get_close_matches(word, known, n=1)
            raise BadInput(
                f"there is no command {word!r}",
                hint=f"did you mean {near[0]!r}?" if near else "`whence help` lists them",
            )
        at = typer.Context(found, info_name=word, parent=at)
    return at.get_help()

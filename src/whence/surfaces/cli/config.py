"""`whence config`: show the settings with their origins, and write one into `whence.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whence.schema.errors import BadInput
from whence.surfaces.cli.output import console, note, plain_table, print_json
from whence.surfaces.cli.session import as_json, settings_of

if TYPE_CHECKING:
    from whence.flow.settings import Settings
    from whence.surfaces.cli.tables import PlainTable


def show(context: typer.Context) -> int:
    """Show every setting, its value and where it came from; keys are masked."""
    settings = settings_of(context)
    if as_json(context):
        print_json({"settings": [line._asdict() for line in settings.describe()]})
    else:
        console().print(settings_table(settings))
    return 0


def set_value(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the setting, as `config show` prints it.")],
    values: Annotated[
        list[str] | None, typer.Argument(help="Its value; several for a list.", metavar="VALUE...")
    ] = None,
    *,
    here: Annotated[
        bool,
        typer.Option("--here", help="Write whence.toml of the working folder, not of the home."),
    ] = False,
    unset: Annotated[bool, typer.Option("--unset", help="Remove the setting.")] = False,
) -> int:
    """Write a setting into `whence.toml` of the home, or of the working folder.

    Comments and order of the file stay. The value is checked first.
    """
    if unset == bool(values):
        raise BadInput(
            "give a value, or --unset", hint="for example `whence config set collection handbook`"
        )
    from whence.flow.settings import SETTINGS, Settings, check_name
    from whence.flow.settings_files import TOML_NAME, write_value

    check_name(name, "the command")
    (setting,) = (one for one in SETTINGS if one.name == name)
    if name == "home" and not here:
        raise BadInput("whence.toml of the home cannot name another home", hint="use --here")
    given = values or []
    if len(given) > 1 and not setting.is_list:
        raise BadInput(f"{name} takes one value, not {len(given)}")
    Settings({name: ",".join(given)}, {name: "option"})
    folder = Path.cwd() if here else settings_of(context).home
    file = folder / TOML_NAME
    write_value(file, name, None if unset else given if setting.is_list else given[0])
    now = settings_of(context)
    used = next(line for line in now.describe() if line.name == name)
    if as_json(context):
        print_json({"file": str(file), **used._asdict()})
        return 0
    note(f"{name} {'removed from' if unset else 'written to'} {file}")
    if used.origin not in (("whence.toml",) if here else ("home",)) and not unset:
        note(f"{name} from {used.origin} is used in its place: {used.value}")
    return 0


def settings_table(settings: Settings) -> PlainTable:
    """Return every setting with its origin, for a terminal."""
    table = plain_table("setting", "value", "from")
    for line in settings.describe():
        table.add_values(line.name, line.value or "-", line.origin if line.value else "-")
    return table

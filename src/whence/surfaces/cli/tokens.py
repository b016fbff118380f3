"""`whence tokens`: make, list and revoke the tokens of `whence serve`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from whence.surfaces.cli.options import ReaderAccess
from whence.surfaces.cli.output import console, note, print_json, say
from whence.surfaces.cli.session import as_json, settings_of

_File = Annotated[
    str | None,
    typer.Option(
        "--tokens", metavar="FILE", help="The tokens file; tokens.toml in the home by default."
    ),
]
_Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token.")]


def new(
    context: typer.Context,
    name: _Name,
    access: ReaderAccess,
    write: Annotated[
        bool, typer.Option("--write", help="Allow storing and removing documents.")
    ] = False,
    speaks_for_others: Annotated[
        bool,
        typer.Option("--speaks-for-others", help="Let each request name the rights of its reader."),
    ] = False,
    expires: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="Time until it ends, such as 90d; never by default."),
    ] = None,
    tokens: _File = None,
) -> int:
    """Make a token and print it, once.

    The file keeps its digest and its rights. A running server accepts it from the next request on.

    Exit codes: 0 done; 2 the name is taken, or something is malformed.
    """
    from whence.flow.setting_values import parse_duration
    from whence.schema.errors import ConfigError
    from whence.surfaces.http.auth import AccessBody
    from whence.surfaces.http.tokens_file import new_token

    end = None
    if expires is not None:
        time = parse_duration("expires", expires)
        if not time:
            raise ConfigError("a token that ends at once is of no use", hint="leave out --expires")
        end = datetime.now(UTC) + time
    file = _file(context, tokens)
    rights = AccessBody(sorted(access.acl_tags), sorted(access.labels), access.clearance)
    token, entry = new_token(
        file, name, rights, write=write, speaks_for_others=speaks_for_others, expires=end
    )
    if as_json(context):
        print_json({"name": name, "token": token, **entry.fields(), "file": str(file)})
    else:
        say(token)
        note(f"{name} is in {file}; the token is shown only now")
    return 0


def list_tokens(context: typer.Context, tokens: _File = None) -> int:
    """List the tokens and their rights; the tokens themselves are stored nowhere.

    Exit codes: 0 done, also when there are none; 2 the file is malformed.
    """
    from whence.surfaces.http.tokens_file import read_tokens

    file = _file(context, tokens)
    now = datetime.now(UTC)
    rows: list[dict[str, Any]] = [
        {"name": name, **entry.fields(), "expired": entry.is_expired(now)}
        for name, entry in read_tokens(file).items()
    ]
    if as_json(context):
        print_json({"file": str(file), "tokens": rows})
        return 0
    for row in rows:
        console().print(_line(row), markup=False, soft_wrap=True, highlight=False)
    if not rows:
        note(f"there are no tokens in {file}")
    return 0


def revoke(context: typer.Context, name: _Name, tokens: _File = None) -> int:
    """Remove a token; a running server refuses it from the next request on.

    Exit codes: 0 done; 2 the file is malformed; 3 there is no such token.
    """
    from whence.surfaces.http.tokens_file import revoke_token

    file = _file(context, tokens)
    entry = revoke_token(file, name)
    if as_json(context):
        print_json({"name": name, **entry.fields(), "file": str(file)})
    else:
        note(f"{name} is revoked")
    return 0


def _file(context: typer.Context, chosen: str | None) -> Path:
    return settings_of(context, tokens=chosen).tokens


def _line(row: dict[str, Any]) -> str:
    """Return one line for people: the name and what it grants."""
    facts = [f"{key} {', '.join(row[key])}" for key in ("acl", "labels") if row[key]]
    facts += [f"clearance {row['clearance']}"] if row["clearance"] else []
    facts += [word for key, word in _WORDS.items() if row[key]]
    if row["expires"]:
        facts.append(f"{'expired' if row['expired'] else 'expires'} {row['expires']}")
    return f"{row['name']:24s} {'; '.join(facts) or 'public documents'}"


_WORDS = {"write": "may write", "speaks_for_others": "speaks for others"}

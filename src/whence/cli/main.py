"""The program `whence`: its commands, and the one place where errors become words and exit codes.

Exit codes: 0 done; 1 done, and the answer is no; 2 wrong usage or bad input; 3 not found or not visible;
4 a service or model is unavailable; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from difflib import get_close_matches
from typing import Annotated

import typer
from typer.core import TyperGroup

from whence.cli import (
    ask,
    bundle,
    collections,
    compare,
    dead_letters,
    demo,
    doctor,
    erase,
    evaluate,
    expand,
    explain,
    fetch,
    import_bundles,
    index,
    models,
    replay,
    run,
    search,
    serve,
    snapshots,
    status,
    validate,
    why_not,
)
from whence.cli.manual import epilog_of, group_of
from whence.cli.options import with_common_options
from whence.cli.output import fail, say
from whence.schema.errors import BadInput, WhenceError

__all__ = ("app", "main", "run_command")

app = typer.Typer(
    name="whence",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_COMMANDS: tuple[tuple[str, Callable[..., int | None]], ...] = (
    ("index", index.index),
    ("search", search.search),
    ("collections", collections.collections),
    ("erase", erase.erase),
    ("ask", ask.ask),
    ("explain", explain.explain),
    ("why-not", why_not.why_not),
    ("replay", replay.replay),
    ("bundle", bundle.bundle),
    ("import", import_bundles.import_bundles),
    ("expand", expand.expand),
    ("fetch", fetch.fetch),
    ("validate", validate.validate),
    ("run", run.run),
    ("serve", serve.serve),
    ("status", status.status),
    ("doctor", doctor.doctor),
    ("demo", demo.demo),
)
for name, function in _COMMANDS:
    app.command(name, rich_help_panel=group_of(name), epilog=epilog_of(name))(
        with_common_options(function)
    )


def _add_group(name: str, group: typer.Typer) -> None:
    app.add_typer(group, name=name, rich_help_panel=group_of(name), epilog=epilog_of(name))


snapshots_app = typer.Typer()
snapshots_app.callback(invoke_without_command=True)(with_common_options(snapshots.snapshots))
for name, function in (
    ("activate", snapshots.activate),
    ("deactivate", snapshots.deactivate),
    ("purge", snapshots.purge),
    ("remove", snapshots.remove),
    ("set", snapshots.make_set),
):
    snapshots_app.command(name)(with_common_options(function))
_add_group("snapshots", snapshots_app)

models_app = typer.Typer(no_args_is_help=True, help="The local models: install and look at them.")
models_app.command("install")(with_common_options(models.install))
models_app.command("status")(with_common_options(models.status))
_add_group("models", models_app)

eval_app = typer.Typer(no_args_is_help=True, help="How good retrieval is, and if it got worse.")
eval_app.command("beir")(with_common_options(evaluate.beir))
eval_app.command("gate")(with_common_options(evaluate.gate))
eval_app.command("baseline")(with_common_options(evaluate.baseline))
eval_app.command("compare")(with_common_options(compare.compare))
_add_group("eval", eval_app)


dlq_app = typer.Typer(no_args_is_help=True, help="Messages that were given up.")
for name, function in (
    ("list", dead_letters.list_letters),
    ("show", dead_letters.show),
    ("replay", dead_letters.replay),
    ("drop", dead_letters.drop),
):
    dlq_app.command(name)(with_common_options(function))
_add_group("dlq", dlq_app)


@app.command("help", rich_help_panel=group_of("help"), epilog=epilog_of("help"))
def _help(
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


def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Retrieval that shows where every answer came from."""
    if version:
        from importlib.metadata import version as version_of

        say(f"whence {version_of('whence')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        say(context.get_help())
        raise typer.Exit(2)


app.callback(invoke_without_command=True)(with_common_options(_root))


def main() -> None:
    """Run the command line and leave with its exit code."""
    sys.exit(run_command(sys.argv[1:]))


def run_command(arguments: list[str]) -> int:
    """Run one command line and give its exit code; no exception leaves.

    Args:
        arguments: The words after the program's name.
    """
    as_json = "--json" in arguments
    try:
        result = app(arguments, prog_name="whence", standalone_mode=False)
    except typer.Exit as stop:
        return int(stop.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        message = "interrupted; what was committed stays"
        return fail("interrupted", message, "run the same command again", 130, as_json=as_json)
    except BrokenPipeError:
        # Whoever reads us has left; writing the rest of stdout at exit must not complain either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except WhenceError as error:
        return fail(error.code, error.message, error.hint, error.exit_code, as_json=as_json)
    except Exception as error:  # noqa: BLE001 - the last line before the user's screen
        return _fail_otherwise(error, as_json=as_json)
    return result if isinstance(result, int) else 0


def _fail_otherwise(error: Exception, *, as_json: bool) -> int:
    """Tell a wrong command line, several errors at once, or a fault of our own."""
    if isinstance(error, ExceptionGroup):
        first = error.exceptions[0]
        if isinstance(first, WhenceError):
            return fail(first.code, first.message, first.hint, first.exit_code, as_json=as_json)
    # Typer carries its own copy of click, whose errors have no public name.
    message = getattr(error, "format_message", None)
    if message is not None:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "whence"
        return fail("usage", message(), f"see {command} --help", 2, as_json=as_json)
    if os.environ.get("WHENCE_DEBUG"):
        raise error
    words = f"{type(error).__name__}: {error}"
    hint = "this is a fault of Whence; set WHENCE_DEBUG=1 to see where it happened"
    return fail("internal", words, hint, 4, as_json=as_json)


if __name__ == "__main__":
    main()

"""The program `whence`: its commands, and the one place where errors become words and exit codes.

Exit codes: 0 done; 1 done, and the answer is no; 2 wrong usage or bad input; 3 not found or not visible;
4 a service or model is unavailable; 130 interrupted.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import Annotated

import typer

from whence.cli.commands import LazyGroup
from whence.cli.options import state_of, with_common_options
from whence.cli.output import fail, print_json, say
from whence.schema.errors import BadInput, WhenceError

__all__ = ("app", "main", "run_command")

app = typer.Typer(
    name="whence",
    cls=LazyGroup,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

#: Objects made and not freed since garbage was last looked for, when it is looked for again; Python's is 700.
_ALLOCATIONS = 50_000
#: Commands that stay, and compare many vectors at a time.
_SERVING = frozenset({"run", "serve"})


def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Retrieval that shows where every answer came from."""
    if version:
        from importlib.metadata import version as version_of

        number = version_of("whence")
        if state_of(context).json:
            print_json({"version": number})
        else:
            say(f"whence {number}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        if not state_of(context).json:
            say(context.get_help())
        raise BadInput("no command is given", hint="see whence --help")


app.callback(invoke_without_command=True)(with_common_options(_root))


def main() -> None:
    """Run the command line and leave with its exit code."""
    # What a start makes stays: going through it for garbage 140 times was a tenth of a short command.
    gc.set_threshold(_ALLOCATIONS)
    if _SERVING.isdisjoint(sys.argv):
        # Threads for numpy's products are made with its import: a tenth of a short command's processor time.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    code = run_command(sys.argv[1:])
    # The interpreter would look through all of it once more, only to end: an eighth of a short command.
    gc.freeze()
    sys.exit(code)


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
        # Of a group without a command it is empty: the help page was shown instead.
        words = message() or "no command is given"
        return fail("usage", words, f"see {command} --help", 2, as_json=as_json)
    if os.environ.get("WHENCE_DEBUG"):
        raise error
    words = f"{type(error).__name__}: {error}"
    hint = "this is a fault of Whence; set WHENCE_DEBUG=1 to see where it happened"
    return fail("internal", words, hint, 4, as_json=as_json)


if __name__ == "__main__":
    main()

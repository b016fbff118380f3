"""The program `whence`: runs a command, and turns errors into messages and exit codes.

Exit codes: 0 done; 1 done, with a negative result; 2 usage error or bad input; 3 not found or not visible;
4 a service or model is unavailable; 130 interrupted; 141 the reader of stdout has gone.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from whence.flow.settings_files import DOTENV_NAME
from whence.schema.errors import BadInput, ServerFailed, ServerRefused, WhenceError
from whence.schema.version import VERSION
from whence.surfaces.cli.commands import COMMANDS, LazyGroup
from whence.surfaces.cli.options import State, state_of, with_common_options
from whence.surfaces.cli.output import BUG_HINT, INTERRUPTED, fail, print_json, say

app = typer.Typer(
    name="whence",
    cls=LazyGroup,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

#: Allocations between garbage collections; Python's default is 700.
_GC_THRESHOLD = 50_000
_UNAVAILABLE = WhenceError.exit_code
#: Exit code of a program that writes to a closed pipe, as a shell reports it.
_READER_GONE = 141
#: Long-running commands, which multiply large matrices.
_SERVERS = frozenset({"run", "serve"})


def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Retrieval that shows how every answer was produced."""
    if version:
        if state_of(context).json:
            print_json({"version": VERSION})
        else:
            say(f"whence {VERSION}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        if not state_of(context).json:
            say(context.get_help())
        raise BadInput("no command is given", hint="see whence --help")


app.callback(invoke_without_command=True)(with_common_options(_root))


def main() -> None:
    """Run the command line and exit with its code."""
    # Python has no stream for a descriptor that its caller closed.
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    # Objects of the start stay alive; collecting during it took a tenth of a short command.
    gc.set_threshold(_GC_THRESHOLD)
    if _SERVERS.isdisjoint(sys.argv):
        # Starting the threads of numpy takes a tenth of a short command's processor time.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    code = run_command(sys.argv[1:])
    if code == INTERRUPTED:
        # Threads that still read are not waited for.
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(code)
    # Skips the final garbage collection, an eighth of a short command.
    gc.freeze()
    sys.exit(code)


def run_command(arguments: list[str]) -> int:
    """Run one command line and return its exit code; raises nothing."""
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the pipe is gone; flushing stdout at exit must not fail either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _READER_GONE
    return code


def _run(arguments: list[str]) -> int:
    state = State()
    as_json = "--json" in arguments
    try:
        if Path(DOTENV_NAME).exists():
            from whence.flow.settings import export_dotenv

            export_dotenv(Path(DOTENV_NAME))
        result = app(arguments, prog_name="whence", standalone_mode=False, obj=state)
    except typer.Exit as stop:
        return int(stop.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        # Another Ctrl-C ends what is left with the same code.
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
        message = "interrupted; what was committed stays"
        hint = "run the same command again"
        return fail("interrupted", message, hint, INTERRUPTED, as_json=as_json and not state.told)
    except BrokenPipeError:
        raise
    except SystemExit as stop:
        # Click and Rich end with 1 at a closed pipe.
        if isinstance(stop.__context__, BrokenPipeError):
            raise stop.__context__ from None
        raise
    except WhenceError as error:
        return _fail(error, arguments, as_json=as_json and not state.told)
    except Exception as error:  # noqa: BLE001 - errors are printed, never raised
        return _fail_unexpected(error, arguments, as_json=as_json and not state.told)
    return result if isinstance(result, int) else 0


def _fail(error: WhenceError, arguments: Iterable[str], *, as_json: bool) -> int:
    """Print an error; what is missing or does not answer is also logged, unless an error was."""
    code = fail(error.code, error.message, error.hint, error.exit_code, as_json=as_json)
    if error.exit_code == _UNAVAILABLE and not isinstance(error, ServerFailed | ServerRefused):
        import logging

        from whence.flow.telemetry.logfmt import StderrLog

        logs = [one for one in logging.getLogger().handlers if isinstance(one, StderrLog)]
        if logs and not logs[0].has_error:
            command = next((word for word in arguments if word in COMMANDS), "")
            about = {"action": command, "code": error.code, "error": error.message}
            logging.getLogger("whence.cli").error("command failed", extra=about)
    return code


def _fail_unexpected(error: Exception, arguments: Iterable[str], *, as_json: bool) -> int:
    if isinstance(error, ExceptionGroup):
        first = error.exceptions[0]
        if isinstance(first, WhenceError):
            return _fail(first, arguments, as_json=as_json)
    # Typer vendors click without public names for its errors.
    message = getattr(error, "format_message", None)
    if message is not None:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "whence"
        # Empty for a group without a command, whose help page was printed.
        words = message() or "no command is given"
        return fail("usage", words, f"see {command} --help", 2, as_json=as_json)
    if os.environ.get("WHENCE_DEBUG"):
        raise error
    words = f"{type(error).__name__}: {error}"
    return fail("internal", words, BUG_HINT, 4, as_json=as_json)


if __name__ == "__main__":
    main()

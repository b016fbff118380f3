"""How commands speak: JSON or text on stdout, everything else on stderr, bars only on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console
    from rich.table import Table

__all__ = (
    "console",
    "fail",
    "headline",
    "json_text",
    "note",
    "one_line",
    "plain_table",
    "print_json",
    "progress",
    "say",
    "size",
)


#: Width of what has none, in characters.
_UNBOUNDED = 10_000


def say(text: str) -> None:
    """Print a line of the result on stdout."""
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """Print a line beside the result, on stderr; a terminal gets it broken between words."""
    sys.stderr.write((_broken(text) if sys.stderr.isatty() else text) + "\n")


def _broken(text: str) -> str:
    """Break a line where the terminal ends; a word wider than that, as an id or a path, stays whole."""
    import shutil

    from whence.cli.wrapping import Wrapping

    return Wrapping(shutil.get_terminal_size().columns).add(text, end=True)


def print_json(document: Any) -> None:
    """Print one JSON document on stdout; bytes that are no text are escaped."""
    sys.stdout.write(json_text(document))


def json_text(document: Any) -> str:
    """Give the text of a JSON document as `print_json` prints it."""
    wire = msgspec.json.encode(document, order="deterministic")
    return msgspec.json.format(wire, indent=2).decode("utf-8", "replace") + "\n"


def one_line(text: str) -> str:
    """Put a message on one line, without control characters that could disturb a terminal."""
    joined = " ".join(text.split())
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in joined)


#: What to do about an error that does not tell it itself; the doctor knows nothing of what was asked for.
_HINTS = {"bad_input": "correct what the message names, and try again"}
_HINT = "see whence doctor"


def fail(code: str, message: str, hint: str, exit_code: int, *, as_json: bool) -> int:
    """Tell an error the way every command does, and give the exit code back."""
    message, hint = one_line(message) or code, one_line(hint) or _HINTS.get(code, _HINT)
    note(f"error: {message}")
    note(f"hint: {hint}")
    if as_json:
        print_json({"error": {"code": code, "message": message, "hint": hint}})
    return exit_code


def console() -> Console:
    """Give a console for people on stdout; colours only on a terminal and without NO_COLOR.

    Lines end where a terminal does. In a pipe they end where they are meant to: whoever reads on cannot tell a
    broken line from two.
    """
    from rich.console import Console

    unbounded = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(highlight=False, width=_UNBOUNDED if unbounded else None)


def plain_table(*names: str) -> Table:
    """Give a table without lines; what is too long for its column goes on in its next line, nothing is cut.

    Args:
        names: Of the columns. One that begins with `>` is of numbers: they stand on the right, in one line.
    """
    from rich.table import Table

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for name in names:
        if name.startswith(">"):
            table.add_column(name[1:], justify="right", no_wrap=True)
        else:
            table.add_column(name, overflow="fold")
    return table


def headline(out: Console, text: str) -> None:
    """Print a line that parts what follows from what was before; in a pipe it ends with 80 columns."""
    from rich.rule import Rule

    width = None if out.width < _UNBOUNDED else 80
    out.print(Rule(f"[bold]{text}[/]", align="left"), width=width)


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show a bar with rate and remaining time on stderr while the block runs, on a terminal only.

    Yields:
        A function `(done, total)` that moves the bar; `total` None while it is unknown.
    """
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        SpinnerColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        """How many are done in a second, over the last half minute."""

        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.0f}/s" if task.speed else "", style="progress.data.speed")

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        # Fits into 80 columns with all the rest.
        BarColumn(bar_width=26),
        MofNCompleteColumn(),
        Rate(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def size(count: int) -> str:
    """Give a number of bytes for people, in powers of ten."""
    amount, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"

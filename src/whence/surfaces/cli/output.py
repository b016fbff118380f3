"""Output of commands: JSON or text on stdout, everything else on stderr, progress bars only on a terminal."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from whence.text.controls import CONTROLS, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import Console

    from whence.schema.search import Correction
    from whence.surfaces.cli.tables import PlainTable

#: Exit code after Ctrl-C.
INTERRUPTED = 130
#: What to do about an error that nothing was prepared for.
BUG_HINT = "this is a bug in Whence; set WHENCE_DEBUG=1 for the traceback"
#: Columns of output that is not for a terminal.
_UNBOUNDED = 10_000


def say(text: str) -> None:
    """Print a line of the result to stdout; on a terminal without control characters."""
    sys.stdout.write((printable(text) if sys.stdout.isatty() else text) + "\n")


def note(text: str) -> None:
    """Print a line to stderr, wrapped between words on a terminal."""
    text = printable(text)
    if sys.stderr.isatty():
        text = Wrapping(shutil.get_terminal_size().columns).add(text, end=True)
    sys.stderr.write(text + "\n")


def print_json(document: Any) -> None:
    """Print one JSON document to stdout; invalid UTF-8 is replaced."""
    sys.stdout.write(json_text(document))


def print_json_line(document: Any) -> None:
    """Print one JSON document as one line to stdout, at once."""
    wire = msgspec.json.encode(document, order="deterministic").decode("utf-8", "replace")
    sys.stdout.write(escape_controls(wire) + "\n")
    sys.stdout.flush()


def json_text(document: Any) -> str:
    """Return the text of a JSON document as `print_json` prints it."""
    wire = msgspec.json.encode(document, order="deterministic")
    text = msgspec.json.format(wire, indent=2).decode("utf-8", "replace")
    # Those that JSON need not escape stand in strings only.
    return escape_controls(text) + "\n"


def escape_controls(text: str) -> str:
    """Escape control characters as JSON, N-Quads and Turtle do in strings, so that the meaning is equal."""
    return CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def one_line(text: str) -> str:
    """Join a message into one line without control characters, which could disturb a terminal."""
    joined = " ".join(text.split())
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in joined)


#: Hints for errors without one; the doctor does not check arguments.
_HINTS = {"bad_input": "correct the input that the message names and try again"}
_HINT = "see whence doctor"


def fail(code: str, message: str, hint: str, exit_code: int, *, as_json: bool) -> int:
    """Print an error as every command does, and return the exit code."""
    message, hint = one_line(message) or code, one_line(hint) or _HINTS.get(code, _HINT)
    note(f"error: {message}")
    note(f"hint: {hint}")
    if as_json:
        print_json({"error": {"code": code, "message": message, "hint": hint}})
    return exit_code


def console() -> Console:
    """Return a console on stdout that prints no control characters of documents.

    Colours only on a terminal and without NO_COLOR.

    Lines are wrapped only on a terminal: in a pipe, a wrapped line looks like two lines.
    """
    from whence.surfaces.cli.safe_console import SafeConsole

    unbounded = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return SafeConsole(highlight=False, width=_UNBOUNDED if unbounded else None)


def note_corrections(question_used: str, corrections: Sequence[Correction]) -> None:
    """Print the corrected query to stderr, if words were corrected."""
    if corrections:
        words = ", ".join(one.source for one in corrections)
        hint = "quotes or --exact search for the words as they are"
        note(one_line(f"searched for: {question_used} ({words} not found; {hint})"))


def plain_table(*names: str) -> PlainTable:
    """Return a table without borders; long cells are wrapped, never cut.

    Args:
        names: Column headings; `>` before a name aligns the column right and does not wrap it, for numbers.
            A column `snapshot` is not wrapped either, so that its ids can be copied.
    """
    from whence.surfaces.cli.tables import PlainTable

    table = PlainTable()
    for name in names:
        if name.startswith(">"):
            table.add_column(name[1:], justify="right", no_wrap=True)
        elif name == "snapshot":
            table.add_column(name, no_wrap=True, min_width=36)
        else:
            table.add_column(name, overflow="fold")
    return table


def facts_table(facts: Mapping[str, object]) -> PlainTable:
    """Return a table of names and values without headings; facts with an empty value are left out."""
    from whence.surfaces.cli.tables import PlainTable

    table = PlainTable(show_header=False)
    for name, value in facts.items():
        if value != "":
            table.add_values(name, value)
    return table


def counts_text(counts: Mapping[str, int]) -> str:
    """Return counts with their names, the highest first; zeros are left out."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return "; ".join(f"{count:,} {name}" for name, count in ordered if count)


def reasons_text(counts: Mapping[str, int]) -> str:
    """Return reasons with the number of files that have each, the most frequent first.

    >>> reasons_text({"an archive, unpack it first": 1, "not text": 2})
    'not text: 2; an archive, unpack it first: 1'
    """
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return "; ".join(f"{reason}: {count:,}" for reason, count in ordered)


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, e.g. `1 document`, `1,186 documents`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def note_some(prefix: str, lines: Sequence[str], most: int) -> None:
    """Print the first lines to stderr, and how many more `--json` lists."""
    for line in lines[:most]:
        note(f"{prefix}: {one_line(line)}")
    if len(lines) > most:
        note(f"{prefix}: {len(lines) - most:,} more; --json lists all")


def headline(out: Console, text: str) -> None:
    """Print a horizontal rule with a title, 80 columns wide outside of a terminal."""
    from rich.rule import Rule

    width = None if out.width < _UNBOUNDED else 80
    out.print(Rule(f"[bold]{text}[/]", align="left"), width=width)


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show a bar with rate and remaining time on stderr while the block runs, on a terminal only.

    Yields:
        A function `(done, total)` that moves the bar; `total` is None while unknown.
    """
    with progress_bars(label) as (move,):
        move(0, None)
        yield move


@contextmanager
def progress_bars(*labels: str) -> Iterator[list[Callable[[int, int | None], None]]]:
    """Show bars as `progress` does, each from its first move on.

    Yields:
        A function for each label.
    """
    if not sys.stderr.isatty():
        yield [lambda _done, _total: None for _ in labels]
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
        """Items a second, over the last half minute."""

        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.0f}/s" if task.speed else "", style="progress.data.speed")

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        # The whole line fits into 80 columns.
        BarColumn(bar_width=26),
        MofNCompleteColumn(),
        Rate(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:

        def mover(label: str) -> Callable[[int, int | None], None]:
            task = bar.add_task(label, total=None, start=False, visible=False)

            def move(done: int, total: int | None) -> None:
                # The rate counts from the first move on.
                bar.start_task(task)
                bar.update(task, completed=done, total=total, visible=True)

            return move

        yield [mover(label) for label in labels]


def size(count: int) -> str:
    """Format a number of bytes in powers of ten."""
    amount, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"


#: Splits before each white space: a part is a space and the word after it.
_BEFORE_SPACE = re.compile(r"(?=\s)")


class Wrapping:
    """Wraps a stream of text between words.

    Args:
        width: Columns of a line; None for no wrapping.
    """

    def __init__(self, width: int | None) -> None:
        self._width = width
        self._column = 0
        self._unfinished = ""

    def add(self, text: str, *, end: bool) -> str:
        """Return the text to print now: all but the last word, which may continue; at the end all of it.

        A word wider than a line is not wrapped.

        Args:
            text: The next piece.
            end: Whether it is the last piece.
        """
        if self._width is None:
            return text
        *whole, last = _BEFORE_SPACE.split(self._unfinished + text)
        if end:
            whole.append(last)
        self._unfinished = "" if end else last
        return "".join(self._placed(word, self._width) for word in whole)

    def _placed(self, word: str, width: int) -> str:
        from rich.cells import cell_len

        if self._column and self._column + cell_len(word) > width:
            word = "\n" + word.lstrip()
        if word.startswith("\n"):
            self._column = 0
        self._column += cell_len(word)
        return word

"""How commands speak, where no command is needed to hear it."""

from __future__ import annotations

from collections import Counter
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from whence.cli import diff
from whence.cli.output import console, fail, headline, note, plain_table
from whence.engine.comparison import Cause, Comparison, Difference


def test_lines_are_not_wrapped_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines of text are not wrapped in a pipe; a separator line has a fixed width."""
    monkeypatch.delenv("COLUMNS", raising=False)
    out = console()
    out.print("word " * 100)
    headline(out, "now try")
    text, line = capsys.readouterr().out.splitlines()

    assert text.split() == ["word"] * 100
    assert line.startswith("now try ─")
    assert len(line) == 80


@given(
    width=st.integers(40, 120),
    cells=st.lists(st.from_regex(r"[a-z0-9_-]{1,50}", fullmatch=True), min_size=2, max_size=2),
)
def test_tables_truncate_nothing(width: int, cells: list[str]) -> None:
    """However narrow the terminal, long words are complete and numbers stay on one line."""
    written = StringIO()
    table = plain_table("name", ">chunks", "model")
    table.add_row(cells[0], "1234567", cells[1])
    Console(file=written, width=width, color_system=None).print(table)
    lines = written.getvalue().splitlines()

    assert max(map(len, lines)) <= width
    assert any("1234567" in line for line in lines)
    said = "".join(("name", "chunks", "model", "1234567", *cells))
    assert Counter("".join(written.getvalue().split())) == Counter(said)


@pytest.mark.parametrize(
    ("code", "leads_to"), [("bad_input", "the message"), ("unavailable", "doctor")]
)
def test_every_error_has_a_hint(
    capsys: pytest.CaptureFixture[str], code: str, leads_to: str
) -> None:
    """An error without a hint refers bad input to its message and other errors to the doctor."""
    assert fail(code, "it is so", "", 4, as_json=False) == 4
    error, hint = capsys.readouterr().err.splitlines()

    assert error == "error: it is so"
    assert hint.startswith("hint: ")
    assert leads_to in hint


@pytest.mark.parametrize("terminal", [True, False])
def test_notes_are_wrapped_between_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, terminal: bool
) -> None:
    """On a terminal a note is wrapped between words, and ids stay whole; in a pipe it is one line."""
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    text = "hint: " + "word " * 10 + "a" * 32
    note(text)
    lines = capsys.readouterr().err.splitlines()

    assert " ".join(" ".join(lines).split()) == text
    assert (len(lines) > 1) is terminal
    assert lines[-1].split()[-1] == "a" * 32


def test_a_comparison_of_two_orders_begins_where_they_differ(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What both lists begin with is counted, so that the difference is among the lines that are shown."""
    same = [f"passage {number}" for number in range(19)]
    difference = Difference(
        stage="exploration",
        what="order",
        before=[*same, "a", "b"],
        after=[*same, "b", "a"],
        cause=Cause(kind="statistics"),
    )
    diff._print_comparison(Comparison(identical=False, answer_changed=False, differs=(difference,)))
    shown = capsys.readouterr().out.splitlines()

    assert [" ".join(line.split()) for line in shown[-5:]] == [
        "the first 19 are the same",
        "before a",
        "b",
        "now b",
        "a",
    ]

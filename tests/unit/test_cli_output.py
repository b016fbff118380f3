"""How commands speak, where no command is needed to hear it."""

from __future__ import annotations

from collections import Counter
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from whence.cli.output import console, fail, headline, note, plain_table


def test_a_headline_in_a_pipe_has_a_width(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines of text are never broken in a pipe; a line that only parts is not as long as they may be."""
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
def test_nothing_in_a_table_is_cut(width: int, cells: list[str]) -> None:
    """However narrow the terminal, all characters of long words are there and numbers stay in one line."""
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
    """An error without a remedy of its own leads bad input back to its message and the rest to the doctor."""
    assert fail(code, "it is so", "", 4, as_json=False) == 4
    error, hint = capsys.readouterr().err.splitlines()

    assert error == "error: it is so"
    assert hint.startswith("hint: ")
    assert leads_to in hint


@pytest.mark.parametrize("terminal", [True, False])
def test_a_note_is_broken_between_words_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, terminal: bool
) -> None:
    """A terminal's line ends between words and an id stays whole; in a pipe a note is one line."""
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    text = "hint: " + "word " * 10 + "a" * 32
    note(text)
    lines = capsys.readouterr().err.splitlines()

    assert " ".join(" ".join(lines).split()) == text
    assert (len(lines) > 1) is terminal
    assert lines[-1].split()[-1] == "a" * 32

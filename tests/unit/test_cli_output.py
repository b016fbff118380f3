"""How commands speak, where no command is needed to hear it."""

from __future__ import annotations

import pytest

from whence.cli.output import console, fail, headline, note


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

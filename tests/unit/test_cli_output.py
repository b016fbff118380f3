"""How commands speak, where no command is needed to hear it."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections import Counter
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from whence.flow.settings import Settings
from whence.operations.comparison import Cause, Comparison, Difference
from whence.operations.json_documents import search_document
from whence.retrieval.results import SearchReport
from whence.schema.search import Degradation
from whence.surfaces.cli import diff, doctor
from whence.surfaces.cli.main import run_command
from whence.surfaces.cli.output import console, facts_table, fail, headline, note, plain_table
from whence.surfaces.cli.session import start_logging

#: The program in a process of its own.
_PROGRAM = (sys.executable, "-c", "from whence.surfaces.cli.main import main; main()")


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
    table.add_values(cells[0], 1234567, cells[1])
    Console(file=written, width=width, color_system=None).print(table)
    lines = written.getvalue().splitlines()

    assert max(map(len, lines)) <= width
    assert any("1,234,567" in line for line in lines)
    said = "".join(("name", "chunks", "model", "1,234,567", *cells))
    assert Counter("".join(written.getvalue().split())) == Counter(said)
    assert [line.rstrip() for line in lines] == lines


def test_tables_print_values_as_people_read_them() -> None:
    """Truth is yes or no, numbers have separators, nothing is a dash, and brackets of a name stay."""
    table = facts_table({"a": True, "b": False, "c": 1186, "d": None, "e": 0.43754, "f": "[bold]x"})
    written = StringIO()
    Console(file=written, color_system=None).print(table)

    assert written.getvalue().split() == [
        *("a", "yes", "b", "no", "c", "1,186", "d", "-", "e", "0.4375", "f", "[bold]x")
    ]


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


def test_a_comparison_of_two_questions_states_that_they_differ(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The cause is the questions, not settings, and stages have the names that people read."""
    cause = Cause(kind="settings")
    differs = tuple(
        Difference(stage=stage, what=what, before="a", after="b", cause=cause)
        for stage, what in (("question", "question"), ("synthesis", "answer"))
    )
    diff._print_comparison(Comparison(identical=False, answer_changed=True, differs=differs))
    shown = capsys.readouterr().out

    assert [line for line in shown.splitlines() if "cause" in line] == [
        "cause: the questions differ"
    ]
    assert "first difference at stage query processing" in shown
    assert "later stages differ too: generation" in shown


@pytest.mark.parametrize(("terminal", "lines"), [(True, 0), (False, 1)])
def test_a_fault_is_logged_once_by_a_command(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    terminal: bool,
    lines: int,
) -> None:
    """Services that report one fault make one line; none on a terminal, where the message states it."""
    monkeypatch.delenv("WHENCE_LOG", raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    root, own = logging.getLogger(), logging.getLogger("whence")
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    monkeypatch.setattr(own, "level", own.level)
    monkeypatch.setattr(logging.getLogger("whence.waiting"), "handlers", [])
    start_logging()
    for name in ("prompt", "document-rag"):
        own.error("message given up", extra={"error": "no answer", "processor": name})

    assert len(capsys.readouterr().err.splitlines()) == lines


@pytest.mark.parametrize(
    ("stage", "code", "label"),
    [
        ("prompt", "no_language_model", "generation"),
        ("prompt", "concepts_failed", "query processing"),
        ("embedding", "query_not_embedded", "query processing"),
        ("search", "dense_leg_missing", "retrieval"),
        ("text-fetch", "places_unknown", "retrieval"),
        ("rerank", "reranker_failed", "reranking"),
    ],
)
def test_notes_name_stages_as_people_do(stage: str, code: str, label: str) -> None:
    """What was left out of an answer is told by the stage for people; the code stays for programs."""
    fault = Degradation(stage=stage, code=code, reason="it failed")
    (told,) = search_document("x", "hybrid", SearchReport(results=[], degraded=(fault,)))[
        "degraded"
    ]

    assert told == {"stage": stage, "label": label, "code": code, "reason": "it failed"}


def test_an_interrupted_command_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C in any command is an error with a hint and exit 130, also as JSON, and no traceback."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("whence.surfaces.cli.status.run_with_engine", interrupt)
    assert run_command(["collections", "--json"]) == 130
    told = capsys.readouterr()

    assert json.loads(told.out)["error"]["code"] == "interrupted"
    assert told.err.startswith("error: interrupted; what was committed stays\nhint: ")


#: Interrupts itself when the program is imported.
_INTERRUPTED_IMPORT = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, *_):
        if name == "whence.surfaces.cli.main":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupt())
from whence.surfaces.cli.start import main
main()
"""


def test_ctrl_c_while_the_program_is_imported_prints_nothing() -> None:
    """The first moments of a command end with 130, too, and without a traceback."""
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED_IMPORT], capture_output=True, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


async def test_an_unexpected_error_is_the_finding_of_its_check_alone(tmp_path: Path) -> None:
    """The doctor prints the other checks all the same; the remedy tells how to get the traceback."""

    async def broken(*_: object) -> str:
        raise ConnectionResetError("gone\naway")

    found = await doctor._check_service("broker", broken, Settings({"home": str(tmp_path)}))

    assert (found.ok, found.detail) == (False, "ConnectionResetError: gone away")
    assert "WHENCE_DEBUG=1" in found.remedy


@pytest.mark.parametrize(
    "arguments", [["--help"], ["ask", "--help"], ["--version"], ["ask", "--json"]]
)
def test_every_command_ends_alike_at_a_closed_pipe(arguments: list[str]) -> None:
    """When the reader of stdout has gone a command ends with 141, whichever library writes."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [*_PROGRAM, *arguments]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert done.returncode == 141
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_stream_changes_no_exit_code(closed: str) -> None:
    """A caller may close stdout or stderr: there is no traceback, and the code is that of the error."""
    command = ["sh", "-c", f'"$@" {closed}', "sh", *_PROGRAM, "ask", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr

"""What people see: on terminals of two widths, in a pipe, and with colours switched off."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest
from rich.cells import cell_len

#: Sequences that colour, move or clear (ECMA-48, 5.4), and those that name the window or set a link.
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\].*?(?:\x07|\x1b\\)|\x1b[@-_]")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
WIDTHS = (80, 120)
QUESTION = "How many days of annual leave do employees get?"


def on_terminal(
    cli: Any, words: list[str], width: int, *, stream: str = "stdout", **env: str
) -> str:
    """Run a command with one of its streams on a terminal of some width; gives what was written to that.

    How the command ended, and its other stream, are printed: pytest shows them when the test fails.
    """
    environment = cli.environment(TERM="xterm-256color", **env)
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CI"):
        if name not in env:
            environment.pop(name, None)
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    with TemporaryFile() as other:
        outputs = {"stdout": other.fileno(), "stderr": other.fileno()} | {stream: theirs}
        process = cli.loaded.start(
            ["whence", *words],
            environment=environment,
            folder=cli.home,
            streams=[theirs, outputs["stdout"], outputs["stderr"]],
        )
        os.close(theirs)
        written = read_all(ours)
        code = cli.loaded.wait(process, 60)
        other.seek(0)
        print(f"{words} ended with {code}: {other.read().decode()}")
    return written.decode()


def read_all(terminal: int) -> bytes:
    """Read a terminal until its other end is closed, and close it."""
    written = bytearray()
    with open(terminal, "rb", buffering=0) as ours, suppress(OSError):  # Linux's sign of the end
        while part := ours.read(65536):
            written += part
    return bytes(written)


def lines_of(written: str) -> list[str]:
    """Return the lines as they were left standing, without colours."""
    return _CONTROL.sub("", written).replace("\r", "").split("\n")


def letters(text: str) -> str:
    """Return what is not drawing or space."""
    return "".join(char for char in text if char.isalnum())


@pytest.fixture(scope="module")
def answer(cli: Any, handbook: Path) -> str:
    """Return the id of an answer."""
    told = cli("ask", QUESTION, "--json")
    assert told.code == 0, told.err
    answer_id: str = told.json["answer_id"]
    return answer_id


@pytest.fixture
def crowded(tmp_path: Path) -> Path:
    """Return a folder with a document of a long name, and some that are no documents."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / ("a-very-long-name-" * 8 + ".md")).write_text("# Leave\n\nAsk in time.\n")
    (folder / "empty.md").touch()
    (folder / "blob.bin").write_bytes(bytes(range(256)))
    (folder / "packed.tar.gz").write_bytes(b"\x1f\x8b")
    return folder


COMMANDS = (
    "status", "collections", "doctor", "help", "help index", "help search", "help eval gate",
    "search annual~leave~days --threshold 0", "explain ANSWER", "index FOLDER",
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_output_fits_the_terminal(cli: Any, answer: str, crowded: Path, command: str) -> None:
    """At 80 and 120 columns every line fits, and no letter is lost."""
    named = {"ANSWER": answer, "FOLDER": str(crowded)}
    words = [named.get(word, word.replace("~", " ")) for word in command.split()]
    if "index" in words[:1]:
        words += ["--collection", "crowded"]
        cli(*words)
    piped = cli(*words).out
    for width in WIDTHS:
        lines = lines_of(on_terminal(cli, words, width))

        assert max(map(cell_len, lines)) <= width, lines
        # Sorted: cells of a row that are wrapped side by side mix their letters.
        assert sorted(steady("".join(map(letters, lines)))) == sorted(steady(letters(piped)))
        assert "…" not in "".join(lines) or command.startswith(("search", "explain"))


def steady(text: str) -> str:
    """Leave out numbers with their units: times, sizes and free space are never the same twice."""
    return re.sub(r"\d[\d.,]*(?:bytes|[kMG]?B|[kMG]|ms|s)?", "", text)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_bar_shows_count_rate_and_remaining_time(own: Any, tmp_path: Path, width: int) -> None:
    """On a terminal the bar fits its line, shows count, rate and remaining time, and is removed."""
    records = tmp_path / "records.jsonl"
    with records.open("w") as lines:
        for number in range(600):
            lines.write(f'{{"_id": "r{number}", "text": "Some words of record {number}."}}\n')
    written = on_terminal(own, ["index", str(records)], width, stream="stderr")
    frames = [_CONTROL.sub("", frame) for frame in re.split(r"[\r\n]", written)]

    assert max(map(cell_len, frames)) <= width
    assert any(re.search(r"indexing .*\d+/600 +[\d,]+/s +\d:\d\d:\d\d", frame) for frame in frames)
    assert written.rstrip("\r\n").endswith(("\x1b[2K", "\x1b[?25h")) or not frames[-1].strip()


def test_colours_are_off_when_asked(cli: Any, answer: str) -> None:
    """NO_COLOR disables colours on a terminal."""
    words = ["explain", answer]
    codes = _COLOUR.findall(on_terminal(cli, words, 80, NO_COLOR="1"))

    assert _COLOUR.search(on_terminal(cli, words, 80))
    # Bold and faint are no colours (no-color.org), 30 to 49 and 90 to 107 are.
    assert not [code for code in codes if re.search(r"\b(?:[34]\d|9\d|10[0-7])\b", code)]


def test_a_pipe_gets_whole_lines(cli: Any, answer: str) -> None:
    """In a pipe there are no colours, wrapped lines or bars."""
    for words in (["status"], ["doctor"], ["collections"], ["explain", answer]):
        told = cli(*words)

        assert "\x1b" not in told.out + told.err
        assert "\r" not in told.err
    quote = next(line for line in told.out.splitlines() if "27 days of annual leave" in line)
    assert "not counted." in quote


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_shell_completes_commands_and_options(cli: Any) -> None:
    """The completion script for bash is valid and completes commands and options."""
    # The shell is found among those who called, so there must be one.
    whence = Path(sys.executable).with_name("whence")
    script = subprocess.run(
        ["bash", "-c", '"$0" --show-completion; exit $?', whence], capture_output=True, check=True
    ).stdout
    checked = subprocess.run(["bash", "-n"], input=script, check=False)
    asked = {"_WHENCE_COMPLETE": "complete_bash", "COMP_WORDS": "whence ind", "COMP_CWORD": "1"}
    option = {
        "_WHENCE_COMPLETE": "complete_bash",
        "COMP_WORDS": "whence index --pr",
        "COMP_CWORD": "2",
    }

    assert b"_WHENCE_COMPLETE" in script
    assert checked.returncode == 0
    assert cli(env=asked).out.split() == ["index"]
    assert "--prune" in cli(env=option).out.split()

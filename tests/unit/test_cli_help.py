"""Help is complete: every command has a place, an example that parses, and a page."""

from __future__ import annotations

import json
import re
import shlex
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from whence.schema import plugins
from whence.surfaces.cli.commands import COMMANDS, GROUP, Command
from whence.surfaces.cli.main import app, run_command

ROOT: Any = get_command(app)
DOCS = Path(__file__).resolve().parents[2] / "docs" / "how-to"


def test_every_command_has_a_heading_and_examples() -> None:
    """No command is listed without a heading and an example."""
    assert all(one.panel and one.examples for one in COMMANDS.values())


def test_a_built_in_command_is_found_without_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting a built-in command reads no metadata of distributions; a command of a plug-in does."""
    monkeypatch.setattr(plugins, "load_plugin", lambda *_, **__: pytest.fail("read"))
    assert COMMANDS["search"].panel == "Documents"
    with pytest.raises(pytest.fail.Exception):
        COMMANDS["bundle"]


LAST = Command("a:b", "Other", ("whence last",))
SECOND = Command("a:b", "Other", ("whence second",), after="first")
FIRST = Command("a:b", "Other", ("whence first",), after="search")


def test_commands_of_plugins_are_listed_after_those_they_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A command stands after the one it names, of whomever; without it, or when it is unknown, at the end."""
    names = ("last", "first", "second")
    points = [EntryPoint(name, f"{__name__}:{name.upper()}", GROUP) for name in names]

    def entry_points(*, group: str, name: str = "") -> list[EntryPoint]:
        return [point for point in points if name in ("", point.name)]

    monkeypatch.setattr(plugins, "entry_points", entry_points)
    listed = list(COMMANDS)
    at = listed.index("search")
    assert listed[at : at + 3] == ["search", "first", "second"]
    assert listed[-1] == "last"
    assert len(set(listed)) == len(listed) == len(COMMANDS)


def commands_of(page: str) -> list[str]:
    """Return the command lines of a page of the documentation."""
    text = (DOCS / page).read_text().replace("\\\n", " ")
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("whence ")]


EXAMPLES = [line for one in COMMANDS.values() for line in one.examples]


@pytest.mark.parametrize("line", [*EXAMPLES, *commands_of("sign-in.md"), *commands_of("tokens.md")])
def test_examples_are_command_lines(line: str) -> None:
    """Every example is accepted by the parser of the command it shows; nothing is run."""
    program, *words = shlex.split(line.partition(" >")[0])
    assert program == "whence"
    context = ROOT.make_context("whence", words, resilient_parsing=False)
    words = context._protected_args + context.args
    group = ROOT
    while hasattr(group, "resolve_command"):
        name, group, words = group.resolve_command(context, words)
        parsed = group.make_context(name, list(words), parent=context)
        if not hasattr(group, "resolve_command"):
            return
        words = parsed._protected_args + parsed.args
        if not words:
            return
        context = parsed


@pytest.mark.parametrize("words", [(name,) for name in COMMANDS] + [("eval", "gate"), ()])
def test_every_command_has_a_help_page(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """`whence help COMMAND` prints its usage and options on stdout, exit 0."""
    code = run_command(["help", *words])
    out = capsys.readouterr().out

    assert code == 0
    assert "Usage: whence" in out
    assert all(word in out for word in words)


@pytest.mark.parametrize("words", [(), ("search",), ("eval",), ("eval", "gate")])
def test_a_help_page_can_be_json(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """`whence help COMMAND --json` names the command, its parameters and its subcommands, in that order."""
    code = run_command(["help", *words, "--json"])
    page = json.loads(capsys.readouterr().out)

    assert code == 0
    assert page["command"] == " ".join(("whence", *words))
    names = [name for one in page["parameters"] for name in one["names"]]
    assert "--help" in names
    assert ("--mode" in names) == (words == ("search",))
    members = ["beir", "gate", "baseline", "compare", "cases"]
    below = {(): list(ROOT.commands), ("eval",): members}
    assert [one["name"] for one in page["commands"]] == below.get(words, [])
    assert page["examples"] == list(COMMANDS[words[0]].examples if len(words) == 1 else ())


def test_a_wrong_name_suggests_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt command is exit 2 with the nearest name."""
    code = run_command(["help", "serach"])

    assert code == 2
    assert "'search'" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--json"], []])
def test_no_command_is_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The program alone prints its help, or an error as JSON, and is exit 2."""
    code = run_command(words)
    told = capsys.readouterr()

    assert code == 2
    assert told.err.startswith("error: no command is given\nhint: ")
    if words:
        assert json.loads(told.out)["error"]["code"] == "bad_input"
    else:
        assert "Usage: whence" in told.out


@pytest.mark.parametrize("group", ["models", "dlq", "eval"])
def test_a_group_without_a_command_is_wrong_usage(
    group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A group alone prints its help with a message."""
    assert run_command([group]) == 2
    told = capsys.readouterr()
    assert f"Usage: whence {group}" in told.out
    assert told.err == f"error: no command is given\nhint: see whence {group} --help\n"


def test_the_version_can_be_json(capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` applies to the options of the program itself."""
    assert run_command(["--version", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"version"}


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("index",), "whence index [OPTIONS] PATH..."),
        (("search",), "whence search [OPTIONS] QUERY"),
        (("help",), "whence help [OPTIONS] [COMMAND...]"),
        (("snapshots", "activate"), "whence snapshots activate [OPTIONS]"),
    ],
)
def test_usage_names_arguments_in_capitals(
    words: tuple[str, ...], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A usage line has brackets only around optional arguments."""
    run_command(["help", *words])
    out = capsys.readouterr().out

    assert line in out
    assert "{" not in out


@pytest.mark.parametrize("command", COMMANDS)
def test_values_have_names_for_people(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Help names what a value is, such as QUESTION or FOLDER, and not its type."""
    for words in ((command,), *((command, member) for member in COMMANDS[command].members)):
        run_command(["help", *words])
        out = capsys.readouterr().out

        assert not re.search(r"<(str|int|float|path|text)>|\bTEXT\b", out), words


@pytest.mark.parametrize("flag", ["--acl", "--label"])
@pytest.mark.parametrize("words", [("ask", "Who?"), ("index", ".")])
def test_an_empty_tag_is_refused_by_the_name_of_its_option(
    words: tuple[str, ...], flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the option that was given, not a field of a message."""
    assert run_command([*words, flag, ""]) == 2
    assert f"error: {flag} is empty\n" in capsys.readouterr().err

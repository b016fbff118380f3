"""No command prints a control character of a document, of its name or of its metadata."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.test_terminal import on_terminal

from whence.text.controls import CONTROLS

#: All control characters of C0 and C1 that a file name can have, and the marks that turn text around.
EVERY = "".join(
    chr(code)
    for code in (*range(1, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
)
#: Clears the screen, names the window, sets a link, changes colours, turns text around.
SEQUENCES = "\x1b[2J\x1b]0;owned\x07\x1b]8;;http://evil.example\x1b\\\x9b31m\x9d0;owned\x9c\u202e"
QUESTION = "How many euros does the zebra licence cost?"


@pytest.fixture(scope="module")
def hostile(cli: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Index hostile documents twice, with a question between; return options and ids."""
    folder = tmp_path_factory.mktemp("hostile") / f"in{SEQUENCES.replace('/', '')}side"
    folder.mkdir()
    name = f"zebra{EVERY}.md"
    text = f"# Zebra {EVERY}licence\n\nThe zebra{SEQUENCES} licence costs 900 euros{EVERY}.\n"
    (folder / name).write_text(text)
    (folder / f"bad{SEQUENCES.replace('/', '')}.pdf").write_bytes(b"%PDF-1.7 \x1b[2J nothing")
    record = {
        "_id": f"zebra{SEQUENCES}",
        "title": f"Zebra {SEQUENCES}",
        "text": f"A licence{SEQUENCES} of a zebra costs 900 euros.",
        "metadata": {
            f"key{SEQUENCES}": SEQUENCES,
            "source_url": f"https://example.org/{SEQUENCES}",
        },
    }
    (folder / "records.jsonl").write_text(
        json.dumps(record) + "\n" + json.dumps({"_id": SEQUENCES, "text": ""}) + "\n"
    )
    options = ("--collection", "hostile")
    first = cli("index", folder, *options)
    assert_clean(first.out, first.err)
    answers = [cli("ask", QUESTION, *options, "--json").json["answer_id"]]
    (folder / name).write_text(text.replace("900", "901"))
    assert_clean(*[cli("index", folder, *options).err])
    answers.append(cli("ask", QUESTION, *options, "--json").json["answer_id"])
    return (*answers, record["_id"])  # type: ignore[return-value]


def assert_clean(*outputs: str) -> None:
    for output in outputs:
        found = CONTROLS.search(output)
        assert found is None, repr(output[max(0, found.start() - 60) : found.start() + 40])


COMMANDS = (
    "search QUESTION", "search QUESTION --filter nokey=1", "ask QUESTION",
    "ask QUESTION --stream", "explain ANSWER", "explain ANSWER --format nquads", "explain ANSWER --format trig",
    "explain ANSWER --format turtle", "explain ANSWER --format jsonld", "explain ANSWER --format svg",
    "explain ANSWER --format evidence", "show RECORD", "show zebra", "why-not RECORD --answer ANSWER",
    "diff ANSWER OTHER", "replay ANSWER", "changes", "access RECORD",
    "collections", "status", "verify", "erase RECORD --dry-run", "search HOSTILE", "show HOSTILE",
    "explain HOSTILE", "erase HOSTILE", "ask HOSTILE", "index HOSTILE", "access HOSTILE",
)  # fmt: skip
#: Those that print in colours, and one error.
ON_TERMINAL = ("search QUESTION", "ask QUESTION", "explain ANSWER", "show RECORD", "show HOSTILE")


@pytest.mark.parametrize("command", COMMANDS)
def test_no_control_character_is_printed(cli: Any, hostile: tuple[str, ...], command: str) -> None:
    """Neither in a pipe, nor as JSON, nor on a terminal, where only our own colours are."""
    answer, other, record = hostile
    named = {
        "QUESTION": QUESTION,
        "ANSWER": answer,
        "OTHER": other,
        "RECORD": record,
        "HOSTILE": f"zebra {SEQUENCES}",
    }
    words = [named.get(word, word) for word in command.split()]
    if words[0] not in ("status", "collections", "verify", "explain", "diff", "replay"):
        words += ["--collection", "hostile"]
    plain = cli(*words)
    assert "Traceback" not in plain.err
    assert_clean(plain.out, plain.err)
    if "--format" not in words:
        as_json = cli(*words, "--json")
        assert_clean(as_json.out, as_json.err)
    if command in ON_TERMINAL:
        for stream in ("stdout", "stderr"):
            shown = on_terminal(cli, words, 100, stream=stream)
            for sequence in ("\x1b[2J", "\x1b]0;", "\x1b]8;;http://evil", "\x9b", "\x9d", "\u202e"):
                assert sequence not in shown, (stream, shown[:400])


def test_names_that_are_not_utf_8_are_printed(cli: Any, tmp_path: Path) -> None:
    """A name of arbitrary bytes is reported without them."""
    folder = tmp_path / "names"
    folder.mkdir()
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff\x1b[2J.md")).write_text("# A\n\nText.\n")
    result = cli("index", folder, "--collection", "names")

    assert "Traceback" not in result.err
    assert_clean(result.out, result.err)

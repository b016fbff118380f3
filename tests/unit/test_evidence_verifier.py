"""The program that verifies evidence takes any file, and prints no control character of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from whence.operations.evidence_verifier import FORMAT, main

ENTRY = {
    "number": "\x1b[2J\x1b]0;title\x07",
    "kind": "record",
    "answer_id": "a",
    "digest": "d",
    "written_at": "",
    "previous": "",
    "signature": "",
    "hash": "",
}
REST = {
    "answer_id": "a",
    "hidden": [],
    "leaves": [],
    "passages": [],
    "question": "",
    "answer": "",
    "recorded_at": "",
}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"{", "cannot be read: JSONDecodeError"),
        (b"\xff", "cannot be read: UnicodeDecodeError"),
        (b"[" * 100_000, "cannot be read: RecursionError"),
        (b"9" * 5_000, "cannot be read: ValueError"),
        (b"[]", "the file is damaged: TypeError"),
        (
            json.dumps({"format": FORMAT, "entries": [ENTRY], "head": ENTRY, **REST}).encode(),
            "\\x1b[2J",
        ),
        (
            json.dumps(
                {"format": FORMAT, "entries": [], "head": dict(ENTRY, signature="\ud800\x1b")}
            ).encode(),
            "the file is damaged",
        ),
    ],
)
def test_a_bad_file_has_a_reason(
    data: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 1 and a line that says why, without a traceback; what the file says cannot change the terminal."""
    file = tmp_path / "evidence.json"
    file.write_bytes(data)
    assert main(str(file), "12" * 32) == 1
    printed = capsys.readouterr().out
    assert words in printed
    assert printed.replace("\n", "").isprintable()

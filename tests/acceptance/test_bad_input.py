"""Bad input gets the contract's exit code, one error line and one hint line, and changes nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize("question", ["", "   ", "\n\t"])
def test_a_blank_question_is_bad_input(cli: Any, handbook: Path, question: str) -> None:
    """Asking nothing is refused with exit 2."""
    cli("ask", question).assert_error(2)


@pytest.mark.parametrize(
    "words",
    [
        ("ask", " "),
        ("ask", b"\xff"),
        ("ask", "why?", "--doc-limit", "0"),
        ("ask", "why?", "--timeout", "0"),
        ("ask", "why?", "--timeout", "nan"),
        ("search", "ab"),
    ],
    ids=str,
)
def test_what_cannot_be_asked_starts_nothing(fresh: Any, words: tuple[str | bytes, ...]) -> None:
    """Bad input is refused before a home is made for it."""
    result = fresh(*words)

    result.assert_error(2)
    assert "doctor" not in result.err
    assert list(fresh.home.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ("ask", "why?"),
        ("search", "why"),
        ("search", "why", "--json"),
        ("explain", "x"),
        ("why-not", "a.md", "--answer", "x"),
        ("replay", "x"),
        ("erase", "a.md"),
    ],
    ids=str,
)
def test_nothing_is_made_where_nothing_was_stored(fresh: Any, words: tuple[str, ...]) -> None:
    """Whoever mistypes a home is told which one, and finds no database there afterwards."""
    result = fresh(*words)

    result.assert_error(3)
    assert str(fresh.home) in result.err
    assert "--home" in result.err
    assert list(fresh.home.iterdir()) == []


def test_an_answer_that_is_late_tells_who_was_asked(cli: Any, handbook: Path) -> None:
    """The message is for people: no full names of topics."""
    result = cli("ask", "How many days of leave are there?", "--timeout", "0.001")

    result.assert_error(4)
    assert "document-rag" in result.err
    assert "persistent://" not in result.err


@pytest.mark.parametrize("query", ["", "  "])
def test_a_blank_search_is_an_empty_result(cli: Any, handbook: Path, query: str) -> None:
    """Searching for nothing gives an empty result, a helpful message and exit 0."""
    result = cli("search", query, "--json")

    assert result.code == 0
    assert result.json["hits"] == []
    assert "empty" in result.json["message"]


def test_a_question_that_is_not_utf8_is_bad_input(cli: Any, handbook: Path) -> None:
    """Bytes that are no text are refused, not guessed."""
    cli("ask", b"what \xff\xfe is").assert_error(2)
    cli("search", b"what \xff\xfe is").assert_error(2)


def test_a_question_of_ten_thousand_words_is_answered_or_refused(cli: Any, handbook: Path) -> None:
    """A huge question never ends in a traceback or a hang."""
    result = cli("ask", "holiday " * 10_000, "--json")

    assert result.code in (0, 2), result.err
    assert "Traceback" not in result.err


def test_a_question_of_one_word_that_fills_the_line_is_answered(cli: Any, handbook: Path) -> None:
    """The trace of a question of 120 kB fits into the messages that carry it."""
    result = cli("ask", "a" * 120_000, "--no-rerank", "--json")
    trace = cli("explain", result.json["answer_id"], "--json").json

    assert result.code == 0, result.err
    assert trace["complete"]
    assert trace["question"] == "a" * 120_000


@pytest.mark.parametrize("command", ["ask", "search"])
def test_an_unknown_collection_is_not_found(cli: Any, handbook: Path, command: str) -> None:
    """A collection that does not exist gives exit 3 and its name."""
    result = cli(command, "how many holidays", "--collection", "nowhere")

    result.assert_error(3)
    assert "nowhere" in result.err


def test_an_unknown_answer_is_not_found(cli: Any, handbook: Path) -> None:
    """An answer id that was never given out gives exit 3."""
    cli("explain", "no-such-answer").assert_error(3)


@pytest.mark.parametrize(
    "words",
    [
        ("search", "holidays", "--top-k", "0"),
        ("search", "holidays", "--top-k", "-1"),
        ("search", "holidays", "--threshold", "1.5"),
        ("search", "holidays", "--threshold", "nan"),
        ("search", "holidays", "--mode", "psychic"),
        ("search", "holidays", "--clearance", "-1"),
        ("search", "holidays", "--acl", ""),
        ("search", "ab"),
        ("ask", "holidays", "--doc-limit", "0"),
        ("ask", "holidays", "--mode", "psychic"),
        ("explain", "some-id", "--format", "crayon"),
        ("nonsense",),
        ("search",),
        ("search", "holidays", "--nonsense"),
        ("index", "/no/such/folder"),
        ("search", "holidays", "--collection", "Bad Name!"),
        ("search", "holidays", "--broker", "carrier-pigeon://x"),
        ("search", "holidays", "--embedder", "crystal-ball"),
        ("run", "/no/such/flow.yaml"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_two(cli: Any, handbook: Path, words: tuple[str, ...]) -> None:
    """Wrong options and values are named, with exit 2."""
    cli(*words).assert_error(2)


def test_errors_are_json_too(cli: Any, handbook: Path) -> None:
    """With --json the error is one document on stdout."""
    result = cli("search", "holidays", "--top-k", "0", "--json")

    result.assert_error(2)
    assert set(result.json["error"]) == {"code", "message", "hint"}


def test_missing_models_are_named(cli: Any, handbook: Path, tmp_path: Path) -> None:
    """Without weights the command says which, where it looked, and how to get them."""
    result = cli("search", "holidays", "--mode", "dense", env={"WHENCE_MODELS": str(tmp_path)})

    result.assert_error(4)
    assert "whence models install" in result.err
    assert str(tmp_path) in result.err


def test_an_unknown_level_of_logging_is_named(fresh: Any) -> None:
    """A level that logging does not know is bad input, not a fault of ours."""
    result = fresh("search", "holidays", env={"WHENCE_LOG": "loud"})

    result.assert_error(2)
    assert "WHENCE_LOG=loud" in result.err


def test_a_database_that_does_not_answer_is_unavailable(fresh: Any) -> None:
    """A refused database gives exit 4, its address and not its password."""
    url = "postgresql://me:secret@127.0.0.1:1/whence"
    result = fresh("search", "holidays", "--database-url", url)

    result.assert_error(4)
    assert "127.0.0.1" in result.err
    assert "secret" not in result.err


@pytest.mark.parametrize(
    "name",
    [b"not-utf8-\xff", b"too-long-" + b"x" * 300, b"file/below"],
    ids=["no UTF-8", "too long", "below a file"],
)
@pytest.mark.parametrize("command", ["search", "ask", "collections"])
def test_a_home_that_cannot_be_is_refused(fresh: Any, name: bytes, command: str) -> None:
    """A folder that the database or the file system cannot use is bad input, and nothing is made."""
    (fresh.home / "file").touch()
    words = (command,) if command == "collections" else (command, "holidays")
    result = fresh("--home", os.fsencode(fresh.home) + b"/" + name, *words)

    result.assert_error(2)
    assert [path.name for path in fresh.home.iterdir()] == ["file"]


def test_a_home_of_a_newer_version_is_refused(fresh: Any) -> None:
    """Data of a newer version are left alone."""
    (fresh.home / "version").write_text("999\n")
    result = fresh("search", "holidays")

    result.assert_error(2)
    assert "newer" in result.err


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_stores_nothing_by_halves(fresh: Any, tmp_path: Path) -> None:
    """When the disk is full indexing stops with a clear error, and the collection still answers."""
    import subprocess

    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=96m,mode=0755", "tmpfs", small], check=False
    )
    if mounted.returncode:
        pytest.skip("this machine does not allow mounting a small disk")
    try:
        corpus = tmp_path / "corpus.jsonl"
        with corpus.open("w") as lines:
            for number in range(25):
                text = " ".join(f"word{number * 7 + i}" for i in range(150))
                lines.write(f'{{"_id": "d{number}", "text": "{text}"}}\n')
        first = fresh("--home", small / "home", "index", corpus, "--json")
        filler = small / "filler"
        free = shutil.disk_usage(small).free
        filler.write_bytes(b"x" * max(0, free - 16_384))
        again = fresh("--home", small / "home", "index", corpus, "--collection", "other")
        filler.unlink()
        found = fresh(
            "--home", small / "home", "search", "word7 word8", "--threshold", "0", "--json"
        )

        assert first.code == 0, first.err
        again.assert_error(4)
        assert found.code == 0, found.err
        assert found.json["hits"]
    finally:
        subprocess.run(["umount", "-l", small], check=False)

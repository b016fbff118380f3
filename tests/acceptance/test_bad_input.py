"""Bad input gets the contract's exit code, one error line and one hint line, and changes nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize("question", ["", "   ", "\n\t"])
def test_a_blank_question_is_bad_input(cli: Any, handbook: Path, question: str) -> None:
    """A blank question is exit 2."""
    cli("ask", question).assert_error(2)


@pytest.mark.parametrize(
    "words",
    [
        ("ask", " "),
        ("ask", b"\xff"),
        ("ask", "why?", "--doc-limit", "0"),
        ("ask", "why?", "--timeout", "0"),
        ("ask", "why?", "--diversity", "mrr"),
        ("ask", "why?", "--diversity", "mmr", "--diversity-lambda", "1.1"),
        ("ask", "why?", "--timeout", "nan"),
    ],
    ids=str,
)
def test_invalid_questions_create_no_home(fresh: Any, words: tuple[str | bytes, ...]) -> None:
    """Bad input is refused before the home is created."""
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
def test_reading_creates_no_database(fresh: Any, words: tuple[str, ...]) -> None:
    """A command that reads from an empty home names it and creates no database."""
    result = fresh(*words)

    result.assert_error(3)
    assert str(fresh.home) in result.err
    assert "--home" in result.err
    assert list(fresh.home.iterdir()) == []


def test_a_timeout_names_the_service(cli: Any, handbook: Path) -> None:
    """The message contains the short name of the topic."""
    result = cli("ask", "How many days of leave are there?", "--timeout", "0.001")

    result.assert_error(4)
    assert "document-rag" in result.err
    assert "persistent://" not in result.err


@pytest.mark.parametrize("query", ["", "  "])
def test_a_blank_search_is_an_empty_result(cli: Any, handbook: Path, query: str) -> None:
    """A blank query has an empty result, a message and exit 0."""
    result = cli("search", query, "--json")

    assert result.code == 0
    assert result.json["hits"] == []
    assert "empty" in result.json["message"]


def test_a_question_that_is_not_utf8_is_bad_input(cli: Any, handbook: Path) -> None:
    """Invalid UTF-8 is refused."""
    cli("ask", b"what \xff\xfe is").assert_error(2)
    cli("search", b"what \xff\xfe is").assert_error(2)


def test_a_very_long_word_is_answered(cli: Any, handbook: Path) -> None:
    """A question of 120 kB fits into the messages of its trace."""
    result = cli("ask", "a" * 120_000, "--no-rerank", "--json")
    trace = cli("explain", result.json["answer_id"], "--json").json

    assert result.code == 1, result.err
    assert trace["complete"]
    assert trace["question"] == "a" * 120_000


@pytest.mark.parametrize("command", ["ask", "search"])
def test_an_unknown_collection_is_not_found(cli: Any, handbook: Path, command: str) -> None:
    """A missing collection is exit 3, and the message names it."""
    result = cli(command, "how many holidays", "--collection", "nowhere")

    result.assert_error(3)
    assert "nowhere" in result.err


def test_an_unknown_answer_is_not_found(cli: Any, handbook: Path) -> None:
    """An unknown answer id is exit 3."""
    cli("explain", "no-such-answer").assert_error(3)


@pytest.mark.parametrize(
    "words",
    [
        ("search", "holidays", "--threshold", "1.5"),
        ("search", "holidays", "--mode", "psychic"),
        ("search", "holidays", "--clearance", "-1"),
        ("search", "holidays", "--acl", ""),
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
    """Wrong options and values are exit 2."""
    cli(*words).assert_error(2)


def test_errors_are_json_too(cli: Any, handbook: Path) -> None:
    """With --json the error is one document on stdout."""
    result = cli("search", "holidays", "--top-k", "0", "--json")

    result.assert_error(2)
    assert set(result.json["error"]) == {"code", "message", "hint"}


def test_missing_models_are_named(cli: Any, handbook: Path, tmp_path: Path) -> None:
    """A missing model is reported with its folder and the command that installs it."""
    result = cli("search", "holidays", "--mode", "dense", env={"WHENCE_MODELS": str(tmp_path)})

    result.assert_error(4)
    assert "whence models install" in result.err
    assert str(tmp_path) in result.err


def test_an_unknown_level_of_logging_is_named(fresh: Any) -> None:
    """An unknown log level is bad input."""
    result = fresh("search", "holidays", env={"WHENCE_LOG": "loud"})

    result.assert_error(2)
    assert "WHENCE_LOG=loud" in result.err


def test_a_database_that_does_not_answer_is_unavailable(fresh: Any) -> None:
    """An unreachable database is exit 4 with its address, without the password."""
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
def test_an_unusable_home_is_refused(fresh: Any, name: bytes, command: str) -> None:
    """A folder that the database or file system cannot use is bad input, and nothing is created."""
    (fresh.home / "file").touch()
    words = (command,) if command == "collections" else (command, "holidays")
    result = fresh("--home", os.fsencode(fresh.home) + b"/" + name, *words)

    result.assert_error(2)
    assert [path.name for path in fresh.home.iterdir()] == ["file"]


def test_a_home_of_a_newer_version_is_refused(fresh: Any) -> None:
    """Data of a newer version are not opened."""
    (fresh.home / "version").write_text("999\n")
    result = fresh("search", "holidays")

    result.assert_error(2)
    assert "newer" in result.err


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_leaves_no_partial_documents(fresh: Any, tmp_path: Path) -> None:
    """On a full disk indexing fails with exit 4, and the collection can still be searched."""
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

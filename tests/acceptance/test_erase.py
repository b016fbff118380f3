"""Erased is gone: no file of the home holds a word of an erased document, server running or stopped."""

from __future__ import annotations

import asyncio
import re
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg

from whence.store.postgres.server.server import EmbeddedServer

from .conftest import running_server

#: Words of one document: its title, its present and its former text, and what a misspelt one is taken for.
WORDS = (
    "Vexilloquant", "vexilloquant", "47110815", "braxomentil", "Braxomentil", "ostrukelbad", "98234417",
)  # fmt: skip
OTHER = "qwimbeltrap"


def write_documents(folder: Path) -> None:
    """Write 100 documents, two of them to be erased."""
    folder.mkdir()
    for number in range(98):
        text = f"The cabinet {number} of the archive holds the maps of region {number * 7}."
        (folder / f"map{number:02}.md").write_text(f"# Cabinet {number}\n\n{text}\n")
    (folder / "secret.md").write_text(
        "# Vexilloquant\n\nThe ostrukelbad of Braxomentil opens with the number 98234417.\n"
    )
    (folder / "other.md").write_text(f"# Lamps\n\nThe {OTHER} needs a lamp of 60 watts.\n")


def holding(home: Path, *words: str) -> list[str]:
    """Return the files below a folder that hold one of the words, by the command `grep`."""
    patterns = [part for word in words for part in ("-e", word)]
    done = subprocess.run(
        ["grep", "-rlaF", *patterns, str(home)], capture_output=True, text=True, check=False
    )
    assert done.returncode in {0, 1}, done.stderr
    return done.stdout.splitlines()


async def fetch(home: Path, statement: str) -> list[Any]:
    """Run a statement in the database of a home."""
    async with EmbeddedServer(home) as server:
        connection = await asyncpg.connect(server.url())
        rows: list[Any] = await connection.fetch(statement)
        await connection.close()
    return rows


def test_no_byte_of_an_erased_document_is_left(
    new_cli: Callable[[Path], Any], new_home: Callable[[Path], Path], tmp_path: Path
) -> None:
    """Of 100 documents two are erased, with a former version, answers and a corrected word."""
    home, folder = new_home(tmp_path / "home"), tmp_path / "docs"
    run = new_cli(home)
    write_documents(folder)
    with running_server(home):
        assert run("index", folder, "--json").json["documents"]["added"] == 100
        (folder / "secret.md").write_text(
            "# Vexilloquant\n\nThe cellar of Braxomentil opens with the number 47110815.\n"
        )
        assert run("index", folder, "--json").json["documents"]["updated"] == 1
        quoted = run("ask", "What number opens the cellar?", "--json").json
        misspelt = run("ask", "Who has a braxomentl?", "--json").json
        assert "47110815" in quoted["answer"]
        assert [one["to"] for one in misspelt["corrections"]] == ["braxomentil"]
        asyncio.run(fetch(home, "CHECKPOINT"))
        assert len(holding(home, *WORDS)) > 5

        preview = run("erase", "secret.md", "other.md", "--dry-run", "--json").json
        falls = {one["answer_id"] for one in preview["documents"][0]["answers"] if one["falls"]}
        assert quoted["answer_id"] in falls
        assert len(holding(home, *WORDS)) > 5

        done = run("erase", "secret.md", "other.md", "--json")
        assert done.code == 0, done.err
        assert holding(home, *WORDS, OTHER) == []
    assert holding(home, *WORDS, OTHER) == []
    physical = done.json["physical"]
    assert (physical["done"], physical["found"]) == (True, 0)
    assert physical["files_searched"] > 50
    assert physical["strings"] > 10
    rows = asyncio.run(fetch(home, "SELECT body FROM whence.trace"))
    traces = "\n".join(zlib.decompress(row["body"]).decode() for row in rows)
    assert quoted["question"] in traces
    assert not re.search("|".join((*WORDS, OTHER)), traces)
    assert run("verify", "--json").json["ok"] is True
    assert run("search", "cabinet 12", "--json").json["hits"]


def test_an_interrupted_erasure_is_reported_and_continued(own: Any) -> None:
    """While its mark is there, `doctor` names the remedy, and erasing what is gone already ends it."""
    mark = own.home / "erasure-pending"
    mark.touch()
    (fault,) = [one for one in own("doctor", "--json").json["checks"] if one["name"] == "home"]
    done = own("erase", "gone.md", "--json")

    assert fault["ok"] is False
    assert "whence erase" in fault["remedy"]
    assert done.code == 0, done.err
    assert done.json["before"]["documents"] == 0
    assert done.json["physical"]["done"] is True
    assert not mark.exists()
    own("erase", "gone.md").assert_error(3)

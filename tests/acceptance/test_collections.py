"""Removal of a collection through the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

QUESTION = "What colour is the signal lamp of the lighthouse?"
SENTENCE = "The signal lamp of the lighthouse glows vermilion."


def test_a_removed_collection_leaves_nothing_but_tombstones(cli: Any, tmp_path: Path) -> None:
    """It asks before; its answers lose their words, those of others keep theirs; it can be made again."""
    folder = tmp_path / "coast"
    folder.mkdir()
    (folder / "lamp.md").write_text(f"# Lighthouse\n\n{SENTENCE}\n")
    mine, other = ("--collection", "coast-a"), ("--collection", "coast-b")
    for options in (mine, other):
        cli("index", folder, *options)
    answers = [
        cli("ask", QUESTION, *options, "--json").json["answer_id"] for options in (mine, other)
    ]

    refused = cli("collections", "--remove", "coast-a")
    refused.assert_error(2)
    assert "1 document" in refused.err
    assert "1 answer" in refused.err
    assert "vermilion" in cli("ask", QUESTION, *mine).out

    done = cli("collections", "--remove", "coast-a", "--yes", "--json")
    assert done.code == 0
    assert (done.json["documents"], done.json["answers"]) == (1, 2)
    listed = {one["name"] for one in cli("collections", "--json").json["collections"]}
    assert "coast-a" not in listed
    assert "coast-b" in listed
    assert "vermilion" not in cli("explain", answers[0], "--json").out
    assert "vermilion" in cli("explain", answers[1], "--json").out
    assert cli("verify").code == 0
    cli("collections", "--remove", "coast-a", "--yes").assert_error(3)

    again = cli("index", folder, *mine, "--json").json
    assert again["documents"]["added"] == 1
    assert "vermilion" in cli("ask", QUESTION, *mine).out

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


def test_a_renamed_collection_keeps_its_answers(cli: Any, tmp_path: Path) -> None:
    """Search, rights, folders, answers, replays and erasure go on under the new name; again changes nothing."""
    folder = tmp_path / "shore"
    folder.mkdir()
    (folder / "lamp.md").write_text(f"# Lighthouse\n\n{SENTENCE}\n")
    (folder / "keeper.md").write_text("---\nacl: [staff]\n---\n# Keeper\n\nThe keeper is Ruza.\n")
    former, mine = ("--collection", "shore-a"), ("--collection", "shore-b")
    cli("index", folder, *former)
    answer = cli("ask", QUESTION, *former, "--json").json["answer_id"]

    done = cli("collections", "--rename", "shore-a", "shore-b", "--json")
    assert (done.code, done.json["documents"], done.json["traces"]) == (0, 2, 1)
    assert cli("collections", "--rename", "shore-a", "shore-b").code == 0
    listed = {one["name"] for one in cli("collections", "--json").json["collections"]}
    assert {"shore-a", "shore-b"} & listed == {"shore-b"}

    replayed = cli("replay", answer, "--json").json
    assert (replayed["identical"], replayed["differs"]) == (True, [])
    cited = cli("ask", QUESTION, *mine, "--json").json["citations"]
    assert cited[0]["chunk_id"].startswith("urn:chunk:shore-b:")
    assert "vermilion" in cli("explain", answer, "--json").out
    assert cli("why-not", "lamp.md", "--answer", answer).code == 0
    assert cli("verify").code == 0
    hits = cli("search", "keeper Ruza", *mine, "--json").json["hits"]
    assert {one["document_id"] for one in hits} == {"lamp.md"}
    assert cli("index", folder, *mine, "--json").json["documents"]["unchanged"] == 2

    cli("search", "lamp", *former).assert_error(3)
    for names in (("shore-a", "x"), ("shore-none", "shore-c")):
        cli("collections", "--rename", *names).assert_error(3)
    for names in (("shore-b", "Not A Name"), ("shore-b", "shore-b")):
        cli("collections", "--rename", *names).assert_error(2)

    assert cli("erase", "lamp.md", *mine, "--json").json["before"]["traces"] == 2
    assert "vermilion" not in cli("explain", answer, "--json").out


def test_several_collections_are_searched_at_once(cli: Any, tmp_path: Path) -> None:
    """Hits name their collection, in the order of their scores; other commands take one."""
    for name, text in {
        "bay": "The ferry of the bay leaves at nine.",
        "isle": "The ferry of the isle is blue.",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "ferry.md").write_text(f"# Ferry\n\n{text}\n")
        cli("index", tmp_path / name, "--collection", f"many-{name}")
    both = ("--collection", "many-bay,many-isle")
    found = cli("search", "ferry of the isle", *both, "--json").json

    assert {one["collection"] for one in found["hits"]} == {"many-bay", "many-isle"}
    assert found["hits"][0]["collection"] == "many-isle"
    scores = [one["similarity_score"] for one in found["hits"]]
    assert scores == sorted(scores, reverse=True)
    assert [one["rank"] for one in found["hits"]] == [1, 2]
    assert found["calibrations"].keys() == {"many-bay", "many-isle"}
    assert "many-bay: ferry.md" in cli("search", "ferry", *both).out
    cli("search", "ferry", "--collection", "many-bay,many-none").assert_error(3)
    cli("search", "ferry", "--collection", "many-bay,").assert_error(2)
    for command in (
        ("index", tmp_path),
        ("show", "ferry.md"),
    ):
        cli(*command, *both).assert_error(2)

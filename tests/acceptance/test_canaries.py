"""Words of hidden documents occur in no output and in no log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

#: In text, title, id, heading, path and metadata of hidden documents, and nowhere else.
CANARIES = ("quokkatext", "quokkatitle", "quokkaid", "quokkameta", "quokkatag")
PUBLIC = {
    "_id": "cafeteria",
    "title": "Cafeteria",
    "text": "The merger of two kitchens gave the cafeteria a new menu. Lunch is served from noon.",
}
HIDDEN = {
    "_id": "quokkaid-merger",
    "title": "Merger quokkatitle",
    "text": "The merger with quokkatext is signed in June. The price of the merger is secret.",
    "metadata": {"owner": "quokkameta"},
    "acl": ["board-quokkatag"],
}
QUESTION = "When is the merger signed and what is its price?"


@pytest.fixture(scope="module")
def corpus(cli: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Index one public and some hidden documents into a collection; return its name."""
    records = [
        PUBLIC,
        HIDDEN,
        HIDDEN | {"_id": "quokkaid-label", "acl": [], "labels": ["quokkatag"]},
        HIDDEN | {"_id": "quokkaid-level", "acl": [], "clearance": 7},
    ]
    path = tmp_path_factory.mktemp("records") / "corpus.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    result = cli("index", path, "--collection", "canaries", "--json")
    assert result.code == 0, result.err
    assert result.json["documents"]["added"] == 4
    return "canaries"


@pytest.fixture(scope="module")
def board_answer(cli: Any, corpus: str) -> str:
    """Return the id of an answer from hidden documents."""
    rights = ("--acl", "board-quokkatag", "--label", "quokkatag", "--clearance", "9")
    answer = cli("ask", QUESTION, *rights, "--collection", corpus, "--json").json
    assert any("quokkatext" in citation["quote"] for citation in answer["citations"])
    return str(answer["answer_id"])


def without_canaries(result: Any) -> Any:
    """Assert that no canary occurs in the output and log of a command."""
    for canary in CANARIES:
        assert canary not in result.out.casefold(), result.out
        assert canary not in result.err.casefold(), result.err
    assert "Traceback" not in result.err
    return result


@pytest.mark.parametrize("mode", ["hybrid", "dense", "bm25"])
@pytest.mark.parametrize("words", ["merger signed price secret"])
def test_search_reveals_nothing(cli: Any, corpus: str, mode: str, words: str) -> None:
    """Hidden documents match best, but only the public one is found."""
    options = ("--mode", mode, "--threshold", "0", "--top-k", "50", "--collection", corpus)
    result = without_canaries(cli("search", words, *options, "--json", env={"WHENCE_LOG": "debug"}))

    assert {hit["document_id"] for hit in result.json["hits"]} <= {"cafeteria"}


def test_ask_reveals_nothing(cli: Any, corpus: str) -> None:
    """Neither the answer, its trace in any format, why-not nor a replay."""
    debug = {"WHENCE_LOG": "debug"}
    answer = without_canaries(
        cli("ask", QUESTION, "--collection", corpus, "--json", env=debug)
    ).json
    answer_id = answer["answer_id"]

    assert all(stage["candidates_in"] <= 1 for stage in answer["stages"])
    for form in ("tree", "json", "trig", "svg"):
        assert without_canaries(cli("explain", answer_id, "--format", form, env=debug)).code == 0
    assert without_canaries(cli("replay", answer_id, "--collection", corpus, env=debug)).code == 0
    told = cli("why-not", "quokkaid-merger", "--answer", answer_id, "--json").json
    nothing = cli("why-not", "no-such-thing", "--answer", answer_id, "--json").json
    assert told | {"chunk_id": ""} == nothing | {"chunk_id": ""}


@pytest.mark.parametrize("words", [("explain",), ("replay",), ("why-not", "cafeteria", "--answer")])
def test_an_answer_from_hidden_documents_does_not_exist(
    cli: Any, corpus: str, board_answer: str, words: tuple[str, ...]
) -> None:
    """An answer from hidden documents has the error of an unknown id."""
    result = without_canaries(cli(*words, board_answer, "--json", env={"WHENCE_LOG": "debug"}))
    unknown = cli(*words, "f" * len(board_answer), "--json")

    assert result.code == unknown.code == 3
    assert result.out.replace(board_answer, "ID") == unknown.out.replace(
        "f" * len(board_answer), "ID"
    )


def test_a_revoked_right_holds_for_the_next_command(cli: Any, corpus: str, tmp_path: Path) -> None:
    """A document that is no longer public is gone from search and from old answers."""
    name = "revoked"
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps(PUBLIC) + "\n")
    cli("index", path, "--collection", name)
    asked = cli("ask", "When is lunch served?", "--collection", name, "--json").json
    assert asked["citations"]
    path.write_text(json.dumps(PUBLIC | {"acl": ["kitchen"]}) + "\n")
    report = cli("index", path, "--collection", name, "--json").json
    found = cli("search", "lunch served noon", "--threshold", "0", "--collection", name, "--json")

    assert (report["documents"]["updated"], report["embedded"]) == (1, 0)
    assert found.json["hits"] == []
    assert cli("explain", asked["answer_id"]).code == 3
    assert cli("explain", asked["answer_id"], "--acl", "kitchen").code == 0

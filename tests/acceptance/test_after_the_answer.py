"""`why-not`, `replay` and `erase` after an answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from whence.quoting.answerability import FLOOR

QUESTION = "How many days of annual leave do employees get?"


@pytest.fixture(scope="module")
def answer(cli: Any, handbook: Path) -> Any:
    """Return an answer that anybody may read."""
    result = cli("ask", QUESTION, "--json")
    assert result.code == 0, result.err
    return result.json


def test_why_not_names_one_stage_and_one_reason(cli: Any, answer: Any) -> None:
    """A cited passage has the code `cited`; a dropped one has its drop code and ranks."""
    cited = answer["citations"][0]["chunk_id"]
    told = cli("why-not", cited, "--answer", answer["answer_id"], "--json").json
    trace = cli("explain", answer["answer_id"], "--json").json
    candidates = next(s["candidates"] for s in trace["stages"] if s["stage"] == "exploration")
    dropped = next(c for c in candidates if c["reason_code"])

    assert (told["chunk_id"], told["stage"], told["code"]) == (cited, "synthesis", "cited")
    other = cli("why-not", dropped["chunk_id"], "--answer", answer["answer_id"], "--json").json
    assert other["code"] == dropped["reason_code"]
    assert other["reason"]
    assert other["numbers"]["rank"] == dropped["rank"]


def test_a_passage_that_repeats_others_gives_way(cli: Any, handbook: Path) -> None:
    """With `--diversity mmr` a passage gives way to less relevant ones; why-not has the numbers."""
    words = ("--doc-limit", "3", "--diversity", "mmr", "--diversity-lambda", "0.3")
    answer_id = cli("ask", QUESTION, *words, "--json").json["answer_id"]
    stages = {s["stage"]: s for s in cli("explain", answer_id, "--json").json["stages"]}
    dropped = next(
        one for one in stages["exploration"]["candidates"] if one["reason_code"] == "less_diverse"
    )
    told = cli("why-not", dropped["chunk_id"], "--answer", answer_id, "--json").json

    assert stages["question"]["settings"]["rerank_diversity_lambda"] == 0.3
    assert len(stages["focus"]["selected"]) == 3
    assert (told["stage"], told["code"]) == ("focus", "less_diverse")
    assert told["numbers"]["overlap"] > 0
    assert told["numbers"]["diversity_score"] < told["numbers"]["lowest_kept_diversity_score"]
    assert cli("replay", answer_id, "--json").json["identical"] is True


def test_why_not_does_not_reveal_hidden_documents(cli: Any, answer: Any) -> None:
    """A hidden document is unknown like one that does not exist; only visible ids that resemble it are told."""
    hidden = "people/salary-bands.md"
    told = [
        cli("why-not", item, "--answer", answer["answer_id"], "--json")
        for item in (hidden, "people/no-such-thing.md", "people/anual-leave.md")
    ]

    assert {one.code for one in told} == {3}
    assert {one.json["code"] for one in told} == {"unknown"}
    same = [{**one.json, "chunk_id": "", "nearest": [], "error": {}} for one in told]
    assert same[0] == same[1]
    assert hidden not in told[0].json["nearest"]
    assert told[2].json["nearest"][0] == "people/annual-leave.md"
    assert "hint: similar ids: people/annual-leave.md" in told[2].err


def test_why_not_ranks_what_was_not_retrieved(cli: Any, handbook: Path) -> None:
    """One line for people comes first, then rank, scores, the cut and the limit that retrieves it."""
    asked = cli("ask", QUESTION, "--doc-limit", "2", "--fetch-limit", "3", "--json").json
    hits = cli("search", QUESTION, "--top-k", "1000", "--exact", "--json").json["hits"]
    last = hits[-1]["chunk"]["id"]
    told = cli("why-not", last, "--answer", asked["answer_id"], "--json").json
    printed = cli("why-not", last, "--answer", asked["answer_id"]).out.splitlines()

    assert told["code"] == "not_retrieved"
    assert told["numbers"]["rank"] > told["numbers"]["cut_rank"] == 3
    assert told["numbers"]["enters_at_fetch_limit"] > 3
    assert told["missing_words"]
    assert printed[0] == told["reason"]
    assert printed[0].startswith(f"It ranks {told['numbers']['rank']:,} of ")


def test_a_passage_that_was_read_and_not_cited_has_its_best_sentence(cli: Any, answer: Any) -> None:
    """With its support, which compares with the floor and with the score of the answer."""
    trace = cli("explain", answer["answer_id"], "--json").json
    used = next(s["used"] for s in trace["stages"] if s["stage"] == "synthesis")
    cited = {one["chunk_id"] for one in answer["citations"]}
    read = next(one for one in used if one not in cited)
    told = cli("why-not", read, "--answer", answer["answer_id"], "--json").json
    text = cli("show", read, "--json").json["text"]

    assert told["code"] == "used"
    numbers = told["numbers"]
    assert numbers["best_sentence"] in text
    assert 0 <= numbers["support"] < numbers["best_support"] == answer["score"]
    assert numbers["floor"] == FLOOR
    assert f"{numbers['support']:.3f}" in told["reason"]


def test_a_refused_question_states_what_came_nearest(cli: Any, handbook: Path) -> None:
    """`explain` has the passage with the score of the refusal, its best sentence, and the words it lacks."""
    asked = cli("ask", "What is the office dog called?", "--json").json
    nearest = cli("explain", asked["answer_id"], "--json").json["nearest"]
    tree = cli("explain", asked["answer_id"]).out

    assert not asked["found"]
    assert nearest["chunk_id"] == asked["refusal"]["best"]["chunk_id"]
    assert nearest["numbers"]["support"] == pytest.approx(
        asked["refusal"]["best"]["score"], abs=1e-6
    )
    assert nearest["numbers"]["floor"] == asked["refusal"]["floor"]
    assert "dog" in nearest["missing_words"]
    assert f"nearest: {nearest['title']}" in tree
    assert nearest["reason"] in tree


@pytest.mark.parametrize("command", ["explain", "replay", "why-not"])
def test_an_unknown_answer_is_not_found(cli: Any, handbook: Path, command: str) -> None:
    """Exit 3 with the id, one error and one hint."""
    words = ("why-not", "x", "--answer", "nobody") if command == "why-not" else (command, "nobody")
    result = cli(*words, "--json")

    assert result.code == 3
    assert result.json["error"]["code"] == "not_found"
    assert "nobody" in result.err
    assert [line.split(":")[0] for line in result.err.splitlines()] == ["error", "hint"]


def test_replay_is_identical_until_a_document_changes(served: Any, handbook: Path) -> None:
    """Identical on an unchanged collection; after a change exit 1 with the first differing stage."""
    folder = served.home / "docs"
    folder.mkdir()
    (folder / "leave.md").write_text("# Leave\n\nEmployees get 25 days of annual leave a year.\n")
    (folder / "bikes.md").write_text("# Bikes\n\nCompany bikes are free for employees.\n")
    served("index", folder)
    answer_id = served("ask", QUESTION, "--no-rerank", "--json").json["answer_id"]

    same = served("replay", answer_id, "--json")
    (folder / "leave.md").write_text("# Leave\n\nEmployees get 30 days of annual leave a year.\n")
    served("index", folder)
    other = served("replay", answer_id, "--json")

    assert (same.code, same.json) == (
        0,
        {"answer_id": answer_id, "identical": True, "answer_changed": False, "differs": []},
    )
    assert other.code == 1
    assert other.json["identical"] is False
    assert other.json["answer_changed"] is True
    first = other.json["differs"][0]
    assert (first["stage"], first["what"]) == ("exploration", "texts")
    documents = {"added": [], "changed": ["leave.md"], "removed": []}
    assert first["cause"] == {"kind": "documents", "documents": documents}
    assert other.json["differs"][-1]["what"] == "answer"
    assert "25 days" in other.json["differs"][-1]["before"]
    assert "30 days" in other.json["differs"][-1]["after"]


def test_an_erased_document_is_gone_and_leaves_a_tombstone(served: Any, tmp_path: Path) -> None:
    """Search, trace and answer no longer contain its words; the trace stays complete."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "leave.md").write_text("# Leave\n\nThe zebrafinch rule: 25 days of annual leave.\n")
    (folder / "bikes.md").write_text("# Bikes\n\nCompany bikes are free for employees.\n")
    served("index", folder)
    asked = served("ask", "What is the zebrafinch rule?", "--no-rerank", "--json").json
    assert "zebrafinch" in asked["answer"].casefold()

    done = served("erase", "leave.md", "--json")
    found = served("search", "zebrafinch rule", "--threshold", "0", "--json").json
    trace = served("explain", asked["answer_id"], "--json")

    assert done.code == 0, done.err
    before, after = done.json["before"], done.json["after"]
    assert before.pop("postings") > 5
    assert before.pop("links") >= 1
    assert before == {
        "documents": 1,
        "chunks": 1,
        "vectors": 1,
        "versions": 1,
        "traces": 1,
        "traces_with_text": 1,
    }
    assert after.pop("traces") == 1
    assert set(after.values()) == {0}
    assert all(hit["document_id"] != "leave.md" for hit in found["hits"])
    assert trace.code == 0, trace.err
    assert trace.json["complete"] is True
    told = trace.out.replace(asked["question"], "")
    assert "25 days" not in told
    assert "invalidatedAtTime" in told
    assert served("erase", "leave.md").code == 3
    assert served("index", folder, "--json").json["documents"]["added"] == 1


def test_collections_are_listed_with_their_model(cli: Any, handbook: Path) -> None:
    """Name, counts, size, model, precision and the last change of each."""
    found = cli("collections", "--json").json["collections"]
    default = next(one for one in found if one["name"] == "default")

    assert default["documents"] >= 20
    assert default["chunks"] >= default["documents"]
    assert default["model"]["name"] == "all-MiniLM-L6-v2"
    assert default["model"]["precision"] == "w8"
    assert default["changed_at"].endswith("+00:00")
    # A vector alone takes 4 bytes for each of its 384 numbers.
    assert default["bytes"] > default["chunks"] * 4 * 384
    assert "default" in cli("collections").out

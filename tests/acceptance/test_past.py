"""`replay` with causes, `diff`, `changes` and `ask --as-of`, after documents changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

QUESTION = "How many days of annual leave do employees get?"
OTHER = "Who may use the company bikes?"
NONE = {"added": [], "changed": [], "removed": []}


@pytest.fixture(scope="module")
def past(cli: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Ask, add a document, ask again, rewrite the cited one; return ids, answers and what commands print."""
    folder: Path = tmp_path_factory.mktemp("past")
    for name, text in {
        "leave": "Employees get 25 days of annual leave a year.",
        "bikes": "Company bikes are free for all employees of the company.",
        "tea": "Tea is served in the kitchen at four.",
    }.items():
        (folder / f"{name}.md").write_text(f"# {name.title()}\n\n{text}\n")

    def run(*words: Any) -> Any:
        return cli(*words, "--collection", "past", "--json")

    def indexed() -> None:
        assert run("index", folder, "--prune").code == 0

    indexed()
    answers = [run("ask", one).json for one in (QUESTION, OTHER)]
    same = run("replay", answers[0]["answer_id"])
    (folder / "coffee.md").write_text("# Coffee\n\nCoffee costs one coin a cup for employees.\n")
    indexed()
    drifted = [run("replay", one["answer_id"]) for one in answers]
    (folder / "leave.md").write_text("# Leave\n\nEmployees get 30 days of annual leave a year.\n")
    indexed()
    return {"run": run, "answers": answers, "same": same, "drifted": drifted}


def test_a_new_document_is_the_cause_of_every_difference(past: Any) -> None:
    """After one document was added, each difference names it, and the answer is the same."""
    assert past["same"].json["identical"] is True
    for result in past["drifted"]:
        found = result.json
        assert found["identical"] is False
        assert found["answer_changed"] is False
        for one in found["differs"]:
            assert one["cause"]["kind"] in {"statistics", "documents"}, one
            assert one["cause"]["documents"] == NONE | {"added": ["coffee.md"]}
        kinds = {one["cause"]["kind"] for one in found["differs"]}
        assert result.code == (0 if kinds == {"statistics"} else 1)


def test_an_answer_is_given_as_of_then(past: Any) -> None:
    """As of the first answer, text and citations are those of then; diff says what changed since."""
    run, first = past["run"], past["answers"][0]
    now = run("ask", QUESTION).json
    then = run("ask", QUESTION, "--as-of", first["answer_id"]).json
    replayed = run("replay", first["answer_id"], "--as-of-answer")
    compared = run("diff", first["answer_id"], now["answer_id"])

    assert "25 days" in first["answer"]
    assert "30 days" in now["answer"]
    # What is known of a source today is no part of what was said then.
    today = ("changed", "document_date", "indexed_at")
    cited, before = (
        [{k: v for k, v in quote.items() if k not in today} for quote in one["citations"]]
        for one in (then, first)
    )
    assert (then["answer"], cited) == (first["answer"], before)
    assert (replayed.code, replayed.json["identical"]) == (0, True), replayed.out
    assert compared.code == 1
    assert compared.json["answer_changed"] is True
    assert compared.json["differs"][-1]["cause"] == {
        "kind": "documents",
        "documents": NONE | {"changed": ["leave.md"]},
    }
    explained = run("explain", then["answer_id"]).json
    assert explained["stages"][0]["settings"]["as_of"].endswith("+00:00")


def test_changes_are_listed(past: Any) -> None:
    """The log has each document that came or changed, in order; `--since` leaves earlier ones out."""
    found = past["run"]("changes").json
    last = found["changes"][-1]
    later = past["run"]("changes", "--since", last["changed_at"]).json

    assert [(one["kind"], one["document_id"]) for one in found["changes"]] == [
        ("added", "bikes.md"),
        ("added", "leave.md"),
        ("added", "tea.md"),
        ("added", "coffee.md"),
        ("changed", "leave.md"),
    ]
    assert later == {"collection": "past", "changes": [last]}


@pytest.mark.parametrize(
    ("as_of", "code"), [("2001-01-01", 2), ("2999-01-01", 2), ("yesterday", 3)]
)
def test_a_moment_that_cannot_be_read_is_refused(past: Any, as_of: str, code: int) -> None:
    """Before the collection, in the future, or no moment at all: one error and one hint."""
    past["run"]("ask", QUESTION, "--as-of", as_of).assert_error(code)

"""How current the sources of an answer are, and where they contradict each other, through the command line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

QUESTION = "For how many weeks can a visitor borrow a field microscope?"


def _write(path: Path, title: str, weeks: int, *, front: str = "") -> None:
    text = f"A visitor can borrow a field microscope for {weeks} weeks in each season."
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\n{front}\n---\n# {title}\n\n## Loans\n\n{text}\n")


@pytest.fixture
def collection(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Options of a collection of this test's own."""
    return "--collection", f"fresh-{abs(hash(request.node.name)) % 10**10}"


def test_citations_have_dates_and_say_when_their_file_changed(
    cli: Any, tmp_path: Path, collection: tuple[str, str]
) -> None:
    """The date is the document's own; `changed` is found out when the answer is shown, also that of a trace."""
    file = tmp_path / "lab" / "loans.md"
    _write(file, "Loans of the lab", 3, front="date: 2025-02-14")
    cli("index", file.parent, *collection)

    answer = cli("ask", QUESTION, *collection, "--json").json
    (cited,) = answer["citations"]
    assert (cited["document_date"], cited["changed"], cited["root"]) == ("2025-02-14", False, "lab")
    assert cited["indexed_at"][:4] >= "2024"
    assert "2025-02-14" in cli("ask", QUESTION, *collection).out
    assert "changed since" not in cli("ask", QUESTION, *collection).out

    _write(file, "Loans of the lab", 9, front="date: 2026-03-15")
    os.utime(file, (1, 1))
    assert cli("ask", QUESTION, *collection, "--json").json["citations"][0]["changed"] is True
    assert "changed since" in cli("ask", QUESTION, *collection).out
    assert _explained(cli, answer)["changed"] is True
    assert _explained(cli, answer)["document_date"] == "2025-02-14"

    # The document is the new file now, and the answer stands on the former one, whose date is not known.
    cli("index", file.parent, *collection)
    assert cli("ask", QUESTION, *collection, "--json").json["citations"][0]["changed"] is False
    again = _explained(cli, answer)
    assert (again["changed"], again["document_date"], again["indexed_at"]) == (True, None, None)
    assert "changed since" in cli("explain", answer["answer_id"]).out


def _explained(cli: Any, answer: dict[str, Any]) -> dict[str, Any]:
    stages = cli("explain", answer["answer_id"], "--json").json["stages"]
    (cited,) = next(one for one in stages if one["stage"] == "synthesis")["citations"]
    found: dict[str, Any] = cited
    return found


def test_documents_that_say_different_numbers_are_shown(
    cli: Any, tmp_path: Path, collection: tuple[str, str]
) -> None:
    """Both are cited and named with what each says; a document that is marked as outdated is left aside."""
    _write(tmp_path / "lab" / "rules.md", "Rules of the lab", 3)
    _write(tmp_path / "lab" / "welcome.md", "Welcome to the lab", 5)
    cli("index", tmp_path / "lab", *collection)

    answer = cli("ask", QUESTION, *collection, "--json").json
    (conflict,) = answer["conflicts"]
    said = dict(zip(conflict["citations"], conflict["values"], strict=True))
    by_document = {one["document_id"]: said[one["marker"]] for one in answer["citations"]}
    assert by_document == {"rules.md": "3 weeks", "welcome.md": "5 weeks"}
    assert "the documents differ: [1] says" in cli("ask", QUESTION, *collection).out

    _write(tmp_path / "lab" / "welcome.md", "Welcome to the lab", 5, front="status: superseded")
    cli("index", tmp_path / "lab", *collection)
    assert cli("ask", QUESTION, *collection, "--json").json["conflicts"] == []
    assert "the documents differ" not in cli("ask", QUESTION, *collection).out


def test_documents_that_answers_stand_on_are_listed(
    cli: Any, tmp_path: Path, collection: tuple[str, str]
) -> None:
    """By number of answers, then the oldest first; each reader counts the answers that it may see."""
    folder = tmp_path / "lab"
    _write(folder / "rules.md", "Rules of the lab", 3, front="date: 2025-02-14")
    _write(folder / "old.md", "Welcome to the lab", 5, front="date: 2019-02-14")
    (folder / "boats.md").write_text("# Boats\n\nThe red canoe is kept at the northern pier.\n")
    (folder / "keys.md").write_text(
        "---\nacl: [crew]\n---\n# Keys\n\nThe key of the red canoe hangs behind the stove.\n"
    )
    cli("index", folder, *collection)
    for _ in range(2):
        cli("ask", "Where is the red canoe kept?", *collection)
    cli("ask", QUESTION, *collection)
    cli("ask", "Where does the key of the red canoe hang?", "--acl", "crew", *collection)

    listed = cli("stale", *collection, "--json").json["documents"]
    assert [(one["document_id"], one["answers"]) for one in listed] == [
        ("boats.md", 2),
        ("old.md", 1),
        ("rules.md", 1),
    ]
    assert [one["document_date"] for one in listed] == [None, "2019-02-14", "2025-02-14"]
    assert {one["changed"] for one in listed} == {False}
    crew = cli("stale", "--acl", "crew", *collection, "--json").json["documents"]
    assert "keys.md" in {one["document_id"] for one in crew}

    # Hidden since: neither the document nor the answers whose traces name it are counted; here all do.
    text = (folder / "boats.md").read_text()
    (folder / "boats.md").write_text(f"---\nacl: [crew]\n---\n{text}")
    cli("index", folder, *collection)
    assert cli("stale", *collection, "--json").json["documents"] == []
    assert "rules.md" in cli("stale", *collection, "--acl", "crew").out
    assert cli("stale", *collection, "--since", "2999-01-01", "--json").json["documents"] == []
    cli("stale", *collection, "--since", "soon").assert_error(2)

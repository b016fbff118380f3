"""Questions about what people keep: numbered records, several languages, periods, numbers and dates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

#: Of each collection the texts by document, and questions with the document that answers, or none.
COLLECTIONS: Mapping[str, tuple[Mapping[str, str], Mapping[str, str | None]]] = {
    "tasks": (
        {
            f"task-{number}.md": f"# Task {number}\n\nThis task is about the {thing}; it is owned by {name}.\n"
            for number, thing, name in (
                (17, "login page", "Ida"),
                (18, "payment form", "Tom"),
                (19, "search box", "Eva"),
                (20, "user profile", "Ben"),
            )
        },
        {
            "What is task 17 about?": "task-17.md",
            "Who owns task 19?": "task-19.md",
            "What is task 30 about?": None,
        },
    ),
    "german": (
        {
            "belege.md": "Die Belege sind binnen vier Wochen einzureichen.\n",
            "probezeit.md": "Die Probezeit betr\u00e4gt sechs Monate.\n",
            "reisen.md": "Reisen genehmigt die Abteilungsleiterin vor der Buchung.\n",
        },
        {
            "Bis wann muss ich die Quittung einreichen?": "belege.md",
            "Wie lange ist die Probezeit?": "probezeit.md",
            "Wer genehmigt Reisen?": "reisen.md",
            "Wie hoch ist das Gehalt des Hausmeisters?": None,
        },
    ),
    "japanese": (
        {
            "fee.md": "\u9001\u6599\u306f\u4e94\u767e\u5186\u3067\u3059\u3002\n",
            "return.md": "\u8fd4\u54c1\u306f\u4e09\u5341\u65e5\u4ee5\u5185\u306b\u53d7\u3051\u4ed8\u3051\u307e\u3059\u3002\n",
            "open.md": "\u55b6\u696d\u6642\u9593\u306f\u4e5d\u6642\u304b\u3089\u3067\u3059\u3002\n",
        },
        {
            "\u9001\u6599\u306f\u3044\u304f\u3089\u3067\u3059\u304b\uff1f": "fee.md",
            "\u8fd4\u54c1\u306f\u4f55\u65e5\u4ee5\u5185\u3067\u3059\u304b\uff1f": "return.md",
            "\u99d0\u8eca\u5834\u306f\u3042\u308a\u307e\u3059\u304b\uff1f": None,
        },
    ),
    "chinese": (
        {
            "fee.md": "\u8fd0\u8d39\u662f\u5341\u5143\u3002\n",
            "return.md": "\u9000\u8d27\u987b\u5728\u4e09\u5341\u5929\u5185\u63d0\u51fa\u3002\n",
        },
        {"\u8fd0\u8d39\u662f\u591a\u5c11\uff1f": "fee.md"},
    ),
    "filings": (
        {
            "2023.md": "In fiscal 2023 the company acquired Ostrava Kilns.\n",
            "2022.md": "In fiscal 2022 the company sold its tile works.\n",
            "repairs.md": "The pump was repaired on 2026-02-03 by the harbour crew.\n",
        },
        {
            "What did the company acquire in FY2023?": "2023.md",
            "What was repaired on 3 February 2026?": "repairs.md",
        },
    ),
    "versions": (
        {
            "a/setup.md": "---\nversion: 1.9\n---\n# Setup\n\nThe server listens on port 8100.\n",
            "b/setup.md": "---\nversion: 1.10\n---\n# Setup\n\nThe server listens on port 9300.\n",
        },
        {"Which port does the server listen on?": "b/setup.md"},
    ),
    "pages": (
        {
            "lights.md": "# Harbour Lights\n\nHarbour Lights is a television series. Season 6 ran in 2016.\n\n"
            "Anna Berg plays the lead in season 6.\n",
        },
        {"Who plays the lead in season 7?": None},
    ),
}


@pytest.mark.parametrize("name", COLLECTIONS)
def test_questions_are_answered_from_the_right_document_or_refused(
    served: Any, tmp_path: Path, name: str
) -> None:
    """The first citation is from the document that answers; without one: exit 1 and the nearest passages."""
    texts, questions = COLLECTIONS[name]
    for path, text in texts.items():
        place = tmp_path / name / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    assert served("index", tmp_path / name, "--collection", name).code == 0

    for question, document in questions.items():
        result = served("ask", question, "--collection", name, "--json")
        cited = [one["document_id"] for one in result.json["citations"]]
        assert cited[:1] == ([document] if document else []), (question, result.json)
        assert result.code == (0 if document else 1), question
        if document is None:
            assert 1 <= len(result.json["nearest"]) <= 3
            told = served("ask", question, "--collection", name)
            assert "Nearest passages" in told.out
            assert result.json["nearest"][0]["text"].split()[-1] in told.out


@pytest.mark.parametrize("name", ["printer.sh", "printer.yaml", "printer.py", "printer.sql"])
def test_code_is_quoted_as_it_is(served: Any, tmp_path: Path, name: str) -> None:
    """Settings, scripts and source code: line ends are kept, and a line of `#` or `-` is no heading."""
    wait = {"printer.sh": "PRINTER_WAIT=20", "printer.sql": "SET PRINTER_WAIT = 20;"}
    mark = "--" if name.endswith(".sql") else "#"
    code = f"{mark} Seconds to wait for the printer\n{wait.get(name, 'PRINTER_WAIT: int = 20')}"
    (tmp_path / name).write_text(f"{code}\n")
    served("index", tmp_path / name)

    answer = served("ask", "What is PRINTER_WAIT?", "--json").json["answer"]

    assert f"```\n{code}\n```\n[1]" in answer


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("The grant was 1,250,000 kroner.", "1250000"),
        ("Die Donau\u00addampfschifffahrt ruht.", "Donaudampfschifffahrt"),
        ("A zero\u200bwidth space.", "zerowidth"),
        (
            "\u0642\u0627\u0644 \u0627\u0644\u0645\u064f\u062f\u0650\u064a\u0631 \u0646\u0639\u0645",
            "\u0627\u0644\u0645\u062f\u064a\u0631",
        ),
        (
            "\u092a\u0930\u093f\u0923\u093e\u092e \u0915\u0932",
            "\u092a\u0930\u093f\u0923\u093e\u092e",
        ),
    ],
    ids=["grouped number", "soft hyphen", "zero width", "vowel marks", "combining marks"],
)
def test_words_are_found_as_readers_type_them(
    served: Any, tmp_path: Path, text: str, query: str
) -> None:
    """Marks and separators that readers do not type part no words; other texts are not found."""
    other = "\u092a\u0930\u0940\u0915\u094d\u0937\u093e 99 ships zero width"
    lines = [{"_id": "right", "text": text}, {"_id": "other", "text": other}]
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(one) + "\n" for one in lines))
    served("index", corpus)

    hits = served("search", query, "--mode", "bm25", "--json").json["hits"]

    assert [one["document_id"] for one in hits] == ["right"]


def test_a_record_that_lacks_the_word_is_not_lifted(served: Any, tmp_path: Path) -> None:
    """A higher number in a name makes no newer edition: the record that has the word is first, others weak."""
    for number in (4709, 4710, 4711):
        who = "Borealis" if number == 4709 else "another customer"
        text = f"# Invoice {number}\n\nInvoice for {who}. Please pay within 30 days.\n"
        (tmp_path / f"invoice-{number}.md").write_text(text)
    served("index", *sorted(tmp_path.glob("invoice-*.md")))

    hits = served("search", "Borealis", "--json").json["hits"]

    assert hits[0]["document_id"] == "invoice-4709.md"
    assert [one.get("weak", False) for one in hits] == [False, *[True] * (len(hits) - 1)]

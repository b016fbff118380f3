"""The measures of the bench of faithful reading notice what a reader loses, moves, tears apart or shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.fidelity.__main__ import summary
from benchmarks.fidelity.files import Sample
from benchmarks.fidelity.measures import compare, tokens

EXPECTED = {
    "words": "Tea is sold by weight. Kind Price Green 12",
    "tables": [[["Kind", "Price"], ["Green", "12"]]],
    "hidden": ["Tea was free"],
}
FAITHFUL = "Tea is sold by weight.\n\n| Kind | Price |\n|---|---|\n| Green | 12 |"


def shares(text: str) -> dict[str, float]:
    return {name: right / of for name, (right, of) in compare(EXPECTED, text).items()}


def test_a_faithful_text_has_everything() -> None:
    assert shares(FAITHFUL) == {"words": 1, "order": 1, "cells": 1, "hidden": 1}


@pytest.mark.parametrize(
    ("text", "worse"),
    [
        (FAITHFUL.replace("sold by ", ""), {"words", "order"}),
        (FAITHFUL.replace("Tea is sold by weight.\n\n", "") + "\n\nTea is sold by weight.", {"order"}),
        (FAITHFUL.replace("| Green | 12 |", "| Green |\n| 12 |"), {"cells"}),
        (FAITHFUL + " It was free.", {"hidden"}),
    ],
)  # fmt: skip
def test_each_fault_shows_in_its_measures(text: str, worse: set[str]) -> None:
    """Words that are missing, in another place, cells of a row that are apart, and words that are hidden."""
    assert {name for name, share in shares(text).items() if share < 1} == worse


def test_marks_of_markdown_and_hyphens_at_line_ends_are_no_words() -> None:
    assert tokens("**Wo**rds of 10^6 exam-\nples, _2_") == ["words", "of", "106", "examples", "2"]


def test_a_third_of_the_files_is_kept_for_judging() -> None:
    """A file is in the same part on every machine, whatever the version of its package."""
    files = [Sample(f"package/tests/{at}.docx", Path(f"{at}.docx"), None) for at in range(600)]

    share = sum(file.is_for_judging for file in files) / len(files)

    assert 0.25 < share < 0.42
    assert Sample("a/b.md", Path("/x/b.md"), None).is_for_judging == Sample("a/b.md", Path("/y"), None).is_for_judging  # fmt: skip


def test_a_file_without_a_measure_does_not_count_in_it() -> None:
    none: dict[str, tuple[int, int]] = {"words": (1, 2)}
    record = {"name": "a", "format": ".md", "whence": none, "markitdown": none, "docling": none}
    record |= {"whence_error": "", "markitdown_error": "gone", "docling_error": ""}

    found = summary([record])

    assert found["all"]["whence"] == {"words": 0.5, "order": None, "cells": None, "hidden": None, "failed": 0}  # fmt: skip
    assert found[".md"]["markitdown"]["failed"] == 1

"""The reference pages are those of the code as it is."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES: dict[str, str] = runpy.run_path(str(ROOT / "tools" / "reference.py"))["pages"]()


@pytest.mark.parametrize("name", sorted(PAGES))
def test_reference_pages_are_current(name: str) -> None:
    """Each page is what `make docs` writes."""
    assert (ROOT / "docs" / "reference" / name).read_text() == PAGES[name], "run `make docs`"


@pytest.mark.parametrize("name", sorted(PAGES))
def test_everything_has_a_description(name: str) -> None:
    """No option, setting, field, error or metric of a page has an empty description."""
    head: list[str] = []
    for line in PAGES[name].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            head = []
        elif not head:
            head = cells
        elif "Meaning" in head and not line.startswith("|---"):
            assert cells[head.index("Meaning")], line


def test_the_folder_has_no_other_pages() -> None:
    """A page that the tool no longer writes is deleted."""
    assert {path.name for path in (ROOT / "docs" / "reference").iterdir()} == set(PAGES)

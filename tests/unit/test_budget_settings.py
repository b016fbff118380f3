"""A budget out of a file of settings: found by its key, and refused when it is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from whence.flow.budget_settings import budget_from_file
from whence.schema.errors import BadInput


def write(folder: Path, text: str) -> Path:
    path = folder / "settings.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("top: 7\n", "top"),
        ('{"top": 7, "other": "x"}', "top"),
        ("pipeline:\n  fetch:\n    top: 7\n", "pipeline.fetch.top"),
        ("pipeline.top: 7\npipeline:\n  top: 8\n", "pipeline.top"),
    ],
    ids=["yaml", "json", "nested", "dotted-as-it-is"],
)
def test_a_key_leads_to_its_number(tmp_path: Path, text: str, key: str) -> None:
    """YAML and JSON, at the top or along a dotted path; a key as it is goes first."""
    assert budget_from_file(write(tmp_path, text), key) == 7


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("top: 0\n", "integer of 1 or more"),
        ("top: -5\n", "integer of 1 or more"),
        ("top: 1.5\n", "integer of 1 or more"),
        ("top: true\n", "integer of 1 or more"),
        ("top: five\n", "integer of 1 or more"),
        ("top: [5]\n", "integer of 1 or more"),
        ("tops: 5\n", "did you mean 'tops'"),
        ("top:\n", "no key"),
        ("- top\n", "no settings"),
        ("top: [\n", "settings.yaml"),
    ],
)
def test_what_is_no_budget_is_refused(tmp_path: Path, text: str, words: str) -> None:
    """The error names the key or the file, and the nearest key there is."""
    with pytest.raises(BadInput, match=words):
        budget_from_file(write(tmp_path, text), "top")


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """Missing files, folders and other encodings are bad input."""
    (tmp_path / "latin").write_bytes(b"top: \xe9\n")
    for name in ("none.yaml", ".", "latin"):
        with pytest.raises(BadInput):
            budget_from_file(tmp_path / name, "top")

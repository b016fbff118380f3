"""The files that documents were indexed from."""

from __future__ import annotations

from pathlib import Path

from whence.flow.settings import Settings
from whence.operations.source_roots import find_source, record_roots


def test_a_file_is_found_below_its_folder_only(tmp_path: Path) -> None:
    """A collection of a folder and a file has the files of both, and a file has none below it."""
    for name in ("notes/a.md", "readme.md", "other/readme.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("Text.")
    settings = Settings({"home": str(tmp_path / "home")})
    record_roots(settings, "default", [tmp_path / "readme.md", tmp_path / "notes"])

    found = {
        name: find_source(settings, "default", name)
        for name in ("a.md", "readme.md", "sub/a.md", "readme.txt", "")
    }

    assert found == {
        "a.md": tmp_path / "notes" / "a.md",
        "readme.md": tmp_path / "readme.md",
        "sub/a.md": None,
        "readme.txt": None,
        "": None,
    }

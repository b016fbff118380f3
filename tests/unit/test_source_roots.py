"""Roots of a collection: which file is whose, and what changed on disk."""

from __future__ import annotations

import os
from pathlib import Path

from whence.operations.source_roots import is_changed, source_path
from whence.store.protocols import ListedDocument
from whence.store.source_states import SourceRoot


def _write(path: Path, text: str = "Text.") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_file_is_found_below_its_own_root(tmp_path: Path) -> None:
    """Of two roots with files of one path each has its own; uploads and missing roots have none."""
    roots = [
        SourceRoot("a", str(tmp_path / "a")),
        SourceRoot("b", str(tmp_path / "b")),
        SourceRoot("gone", str(tmp_path / "gone")),
        SourceRoot("uploads", ""),
    ]
    for root in ("a", "b"):
        _write(tmp_path / root / "x.md")

    assert source_path(roots, "a", "x.md") == tmp_path / "a" / "x.md"
    assert source_path(roots, "b", "x.md") == tmp_path / "b" / "x.md"
    for root, path in (
        ("a", "y.md"),
        ("gone", "x.md"),
        ("uploads", "x.md"),
        ("", "x.md"),
        ("a", ""),
    ):
        assert source_path(roots, root, path) is None


def test_a_document_is_changed_when_its_bytes_are_others(tmp_path: Path) -> None:
    """A new time alone is no change; what is not on this machine is not known."""
    from whence.ingest.sources import file_digest

    path = _write(tmp_path / "a" / "x.md", "same")
    roots = [SourceRoot("a", str(tmp_path / "a")), SourceRoot("far", "/no/such/folder")]
    stat = path.stat()
    known = {
        "size": stat.st_size,
        "modified": stat.st_mtime_ns,
        "file_digest": file_digest(b"same"),
    }

    def changed(root: str = "a", **others: object) -> bool | None:
        fields = {"document_id": "x.md", "root": root, "path": "x.md"} | known | others
        return is_changed(roots, ListedDocument(**fields))  # type: ignore[arg-type]

    assert changed() is False
    os.utime(path, ns=(1, 1))
    assert changed() is False
    path.write_text("diff")
    os.utime(path, ns=(1, 1))
    assert changed() is True
    path.write_text("longer")
    assert changed() is True
    path.unlink()
    assert changed() is True
    assert changed("far") is None
    assert changed("") is None
    assert changed(size=-1) is None

"""Roots of a collection: which file is whose, and what changed on disk."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path
from typing import Literal

import pytest

from whence.operations.source_roots import ListRoots, is_changed, source_path
from whence.store.memory.store import MemoryStore
from whence.store.protocols import ListedDocument
from whence.store.source_states import SourceRoot
from whence.surfaces.python.engine import Engine
from whence.testing.stub_models import HashEmbedder


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


@pytest.mark.parametrize(
    "name", ["Prüfbericht.txt", "Büro/über/Prüfung.md", "plain.txt", "café.md"]
)
@pytest.mark.parametrize("on_disk", ["NFC", "NFD"])
async def test_a_file_is_found_whatever_the_unicode_form_of_its_names(
    tmp_path: Path, name: str, on_disk: Literal["NFC", "NFD"]
) -> None:
    """A Mac writes names in another form than most others; such a file has not changed, until it does."""
    folder = tmp_path / unicodedata.normalize(on_disk, "Größe")
    file = folder / unicodedata.normalize(on_disk, name)
    file.parent.mkdir(parents=True)
    file.write_text("The wheel has nine spokes.\n")
    async with Engine(store=MemoryStore(), embedder=HashEmbedder()) as engine:
        await engine.index([folder])
        (listed,) = await engine.documents()
        assert listed.changed is False
        roots = await engine.run(ListRoots())
        found = source_path(roots, listed.root, listed.path)
        assert found is not None
        assert found.samefile(file)
        file.write_text("The wheel has ten spokes.\n")
        (listed,) = await engine.documents()
        assert listed.changed is True
        file.unlink()
        (listed,) = await engine.documents()
        assert listed.changed is True

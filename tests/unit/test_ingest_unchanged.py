"""Files that did not change are not read again; what may have changed is."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.support.documents import make_docx

from whence.ingest import documents
from whence.ingest.catalogue import Catalogue, SourcePlace
from whence.ingest.chunking import Chunker
from whence.ingest.documents import KnownSources, load_documents
from whence.ingest.load_results import LoadedDocument, Unchanged
from whence.store.source_states import StoredSource


def _words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


class _Runs:
    """Runs over a folder, each of which knows what the one before it noted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stored: dict[str, str] = {}
        self.files: dict[str, StoredSource] = {}
        self.read: list[str] = []

    def run(self, *, reread: bool = False, tokenizer: str = "m") -> dict[str, str]:
        """Return what became of each file."""
        self.read.clear()
        place = SourcePlace(str(self.folder), str(self.folder), "root")
        catalogue = Catalogue(
            {"root": str(self.folder)}, self.files.values(), {str(self.folder): place}
        )
        known = KnownSources(
            lookup=lambda _: lambda: self.stored, tokenizer=tokenizer, reads_all=reread
        )
        return dict(self._states(catalogue, known))

    def _states(self, catalogue: Catalogue, known: KnownSources) -> Iterator[tuple[str, str]]:
        for one in load_documents(
            [self.folder], chunker=Chunker(_words), known=known, catalogue=catalogue
        ):
            assert isinstance(one, (LoadedDocument, Unchanged))
            source = one.source
            assert source is not None
            if isinstance(one, LoadedDocument):
                self.stored[one.draft.document_id] = one.draft.source_digest
            self.files[source.file] = StoredSource(
                source.document_id,
                "root",
                source.file,
                is_document=False,
                read_as=(source.size, source.modified, source.digest),
            )
            yield source.file, type(one).__name__


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Runs:
    found = _Runs(tmp_path)
    read_bytes = documents.read_bytes

    def noted(path: str, limit: int) -> bytes:
        found.read.append(Path(path).name)
        return read_bytes(path, limit)

    monkeypatch.setattr(documents, "read_bytes", noted)
    (tmp_path / "a.md").write_text("Words of one file.")
    (tmp_path / "b.docx").write_bytes(make_docx(("", "Words of another.")))
    return found


@pytest.fixture
def settled(runs: _Runs, monkeypatch: pytest.MonkeyPatch) -> _Runs:
    """After a first run, long after the files were written."""
    monkeypatch.setattr(documents, "_SAME_TIME_NS", 0)
    assert set(runs.run().values()) == {"LoadedDocument"}
    return runs


def test_a_file_with_the_size_and_time_of_the_last_run_is_not_read(settled: _Runs) -> None:
    """It is unchanged, and what is noted of it stays; a wish reads all files, and finds the same."""
    noted = dict(settled.files)

    assert set(settled.run().values()) == {"Unchanged"}
    assert settled.read == []
    assert set(settled.run(reread=True).values()) == {"Unchanged"}
    assert sorted(settled.read) == ["a.md", "b.docx"]
    assert settled.files == noted


def test_a_file_that_was_written_again_is_read(settled: _Runs) -> None:
    """Also with its former size and time of content; what stays as it is beside it is not read."""
    path = settled.folder / "a.md"
    before = path.stat()
    path.write_text("Texts of one file.")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns

    assert settled.run() == {"a.md": "LoadedDocument", "b.docx": "Unchanged"}
    assert settled.read == ["a.md"]


def test_a_file_in_the_place_of_another_is_read(settled: _Runs) -> None:
    """It may have the size and time of content of the one before it."""
    path, other = settled.folder / "a.md", settled.folder.parent / "other.md"
    other.write_text("Texts of one file.")
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    other.replace(path)

    assert settled.run()["a.md"] == "LoadedDocument"


def test_a_file_is_read_when_its_document_is_gone_or_was_read_in_another_way(
    settled: _Runs,
) -> None:
    """Size and time say nothing of what is stored."""
    del settled.stored["a.md"]

    assert settled.run() == {"a.md": "LoadedDocument", "b.docx": "Unchanged"}
    assert set(settled.run(tokenizer="other").values()) == {"LoadedDocument"}


def test_a_file_that_changed_just_before_it_was_read_is_read_again(runs: _Runs) -> None:
    """A second change at once may leave its size and, on a coarse clock, its time as they are."""
    runs.run()
    assert {one.read_as[1] for one in runs.files.values() if one.read_as} == {0}

    runs.run()
    assert sorted(runs.read) == ["a.md", "b.docx"]

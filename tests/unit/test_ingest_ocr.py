"""Pictures and scanned pages are read by tesseract where it is installed, and named where it is not."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from tests.support.documents import make_pdf
from tests.support.scans import picture_of, png, scanned_pdf

from whence.ingest import ocr
from whence.ingest.chunking import Chunker
from whence.ingest.documents import KnownSources, load_documents
from whence.ingest.limited_process import Limits
from whence.ingest.load_results import LoadedDocument, LoadFailure, LoadResult, Skipped
from whence.ingest.reader import DocumentReader

needs_tesseract = pytest.mark.skipif(
    shutil.which(ocr.PROGRAM) is None, reason="tesseract is not installed"
)
_BLANK = np.full((100, 100), 200, np.uint8)
_HEAD = "level\tpage\tblock\tpar\tline\tword\tleft\ttop\twidth\theight\tconf\ttext"


def read(folder: Path, limits: Limits | None = None) -> dict[str, LoadResult]:
    """Read the files of a folder in a process with limits, by name."""
    chunker = Chunker(lambda texts: [len(text.split()) for text in texts])
    with closing(DocumentReader(limits or Limits())) as reader:
        found = list(load_documents([folder], chunker=chunker, reader=reader))
    return {
        one.draft.document_id if isinstance(one, LoadedDocument) else Path(one.path).name: one
        for one in found
    }  # type: ignore[union-attr]


def program(folder: Path, monkeypatch: pytest.MonkeyPatch, *rows: str, before: str = "") -> None:
    """Put a program in place of tesseract, which finds the same words in every picture."""
    folder.mkdir(exist_ok=True)
    table = "\\n".join([_HEAD, *rows]).replace("\t", "\\t")
    path = folder / ocr.PROGRAM
    path.write_text(f"#!/bin/sh\n{before}\n/bin/cat > /dev/null\nprintf '{table}\\n'\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def row(
    text: str, *, confidence: int = 96, line: int = 1, paragraph: int = 1, left: int = 10
) -> str:
    """Return a row of tesseract's table."""
    top = 60 * paragraph + 20 * line
    values = (5, 1, 1, paragraph, line, 1, left, top, 8 * len(text), 14, confidence, text)
    return "\t".join(map(str, values))


@needs_tesseract
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_scans_and_pictures_are_read(tmp_path: Path) -> None:
    """In the order of the pages, each with its number, beside pages that have letters."""
    lines = ["The kettle is in the larder.", "Tea costs nine pounds and twelve pence."]
    picture = picture_of(make_pdf([[(12.0, 700.0 - 16 * at, one) for at, one in enumerate(lines)]]))
    (tmp_path / "mixed.pdf").write_bytes(scanned_pdf([picture, "The gate opens at seven."]))
    (tmp_path / "photo.png").write_bytes(png(picture))
    noise = np.random.default_rng(1).integers(0, 255, (300, 300), np.uint8)
    (tmp_path / "noise.png").write_bytes(png(noise))
    found = read(tmp_path, Limits(ocr="eng"))

    mixed, photo = found["mixed.pdf"], found["photo.png"]
    assert isinstance(mixed, LoadedDocument)
    assert isinstance(photo, LoadedDocument)
    for one in (mixed, photo):
        assert "The kettle is in the larder. Tea costs nine pounds and twelve pence." in one.text
    gate = mixed.text.index("The gate opens at seven.")
    assert [(one.page, one.char_start >= gate) for one in mixed.draft.places] == [
        (1, False),
        (2, True),
    ]
    assert mixed.draft.left_out.get("pages without text", 0) == 0
    noisy = found["noise.png"]
    assert isinstance(noisy, Skipped)
    assert noisy.reason == "contains no text"


def test_each_page_has_the_time_of_a_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A document of many scans takes longer than one may."""
    program(tmp_path / "bin", monkeypatch, row("Words."), before="sleep 1")
    folder = tmp_path / "share"
    folder.mkdir()
    (folder / "long.pdf").write_bytes(scanned_pdf([_BLANK] * 4))
    found = read(folder, Limits(seconds=3.0))

    assert isinstance(found["long.pdf"], LoadedDocument)
    assert {one.page for one in found["long.pdf"].draft.places} == {1, 2, 3, 4}


def test_words_that_are_hardly_legible_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Single ones, and paragraphs that have few others; a word divided at the end of a line is one word."""
    rows = [
        *(row("Clear"), row("smudge", confidence=10, left=90), row("kett-", left=170)),
        row("les.", line=2),
        *(row("||,", confidence=50, paragraph=2), row("Ht", confidence=55, paragraph=2, left=90)),
    ]
    program(tmp_path / "bin", monkeypatch, *rows)
    folder = tmp_path / "share"
    folder.mkdir()
    (folder / "a.png").write_bytes(png(_BLANK))
    found = read(folder)["a.png"]

    assert isinstance(found, LoadedDocument)
    assert found.text == "Clear kettles."


@pytest.mark.parametrize("is_off", [True, False])
def test_without_ocr_a_file_is_named_and_not_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_off: bool
) -> None:
    """Where it is off, and where it is not installed; pages with text are read, and the others counted."""
    if not is_off:
        monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "scan.pdf").write_bytes(scanned_pdf([_BLANK, _BLANK]))
    (tmp_path / "mixed.pdf").write_bytes(scanned_pdf([_BLANK, "The gate opens at seven."]))
    (tmp_path / "a.png").write_bytes(png(_BLANK))
    found = read(tmp_path, Limits(ocr="off" if is_off else "auto"))

    scan, mixed, picture = found["scan.pdf"], found["mixed.pdf"], found["a.png"]
    assert isinstance(scan, LoadFailure)
    assert "2 pages without text" in scan.reason
    assert isinstance(mixed, LoadedDocument)
    assert mixed.draft.left_out["pages without text"] == 1
    assert isinstance(picture, Skipped)
    assert "OCR" in picture.reason


def test_a_language_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The document fails and does not count as empty; a damaged picture has no text."""
    ocr.installed_languages.cache_clear()
    listed = "[ $1 = --list-langs ] && printf 'List:\\neng\\n' && exit 0"
    program(tmp_path / "bin", monkeypatch, before=f"{listed}; exit 1")
    folder = tmp_path / "share"
    folder.mkdir()
    (folder / "a.png").write_bytes(png(_BLANK))
    found = read(folder, Limits(ocr="eng+zzz"))["a.png"]
    damaged = read(folder, Limits(ocr="eng"))["a.png"]

    assert isinstance(found, LoadFailure)
    assert "zzz" in found.reason
    assert isinstance(damaged, Skipped)
    assert damaged.reason == "contains no text"


def test_a_pdf_is_read_again_where_ocr_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bytes are the same and its text is another; other files stay unchanged."""
    (tmp_path / "share").mkdir()
    (tmp_path / "share" / "a.pdf").write_bytes(scanned_pdf([_BLANK, "The gate opens."]))
    (tmp_path / "share" / "b.md").write_text("Words.")
    monkeypatch.setenv("PATH", str(tmp_path))
    stored: dict[str, str] = {}

    def kinds() -> list[str]:
        known = KnownSources(lookup=lambda _: lambda: stored)
        chunker = Chunker(lambda texts: [len(text.split()) for text in texts])
        with closing(DocumentReader(Limits())) as reader:
            found = list(
                load_documents([tmp_path / "share"], chunker=chunker, reader=reader, known=known)
            )
        for one in found:
            if isinstance(one, LoadedDocument):
                stored[one.draft.document_id] = one.draft.source_digest
        return [type(one).__name__ for one in found]

    assert kinds() == ["LoadedDocument", "LoadedDocument"]
    assert kinds() == ["Unchanged", "Unchanged"]
    program(tmp_path / "bin", monkeypatch, row("Scanned"))
    assert kinds() == ["LoadedDocument", "Unchanged"]

"""Word and PowerPoint files of the formats before 2007, which LibreOffice converts where it is installed."""

from __future__ import annotations

import shutil
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.documents import make_docx

from whence.ingest.chunking import Chunker
from whence.ingest.documents import load_documents
from whence.ingest.limited_process import Limits
from whence.ingest.load_results import LoadedDocument, LoadFailure, LoadResult, Skipped
from whence.ingest.loaders import old_office
from whence.ingest.reader import DocumentReader

#: A compound file that has a stream named `WordDocument`, as far as its bytes are searched.
_DAMAGED = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600) + "WordDocument".encode("utf-16-le")

_TYPES = "urn:oasis:names:tc:opendocument:xmlns"
_SLIDES = f"""<?xml version="1.0"?>
<office:document xmlns:office="{_TYPES}:office:1.0" xmlns:draw="{_TYPES}:drawing:1.0" office:version="1.2"
 xmlns:text="{_TYPES}:text:1.0" xmlns:svg="{_TYPES}:svg-compatible:1.0"
 office:mimetype="application/vnd.oasis.opendocument.presentation"><office:body><office:presentation>
 <draw:page><draw:frame svg:x="1cm" svg:y="1cm" svg:width="9cm" svg:height="3cm"><draw:text-box>
 <text:p>Tea costs nine pounds.</text:p></draw:text-box></draw:frame></draw:page>
</office:presentation></office:body></office:document>
"""

needs_office = pytest.mark.skipif(
    shutil.which(old_office.PROGRAM) is None, reason="LibreOffice (soffice) is not installed"
)


def read(folder: Path) -> dict[str, LoadResult]:
    """Read the files of a folder as a run of indexing does, by path."""
    chunker = Chunker(lambda texts: [len(text.split()) for text in texts])
    with closing(DocumentReader(Limits())) as reader:
        found = list(load_documents([folder], chunker=chunker, reader=reader))
    return {
        one.source.file if isinstance(one, LoadedDocument) and one.source else one.path: one
        for one in found
    }  # type: ignore[union-attr]


def saved_as(path: Path, target: str) -> None:
    """Let LibreOffice save a file in another format beside it."""
    profile = path.parent.parent / "profile"
    subprocess.run(
        [
            old_office.PROGRAM, f"-env:UserInstallation={profile.as_uri()}", "--headless",
            "--convert-to", target, "--outdir", path.parent, path,
        ],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip


@needs_office
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_old_word_and_powerpoint_files_are_read_as_the_new_ones(tmp_path: Path) -> None:
    """Headings, tables and slides are there, and nothing is left behind."""
    folder = tmp_path / "share"
    folder.mkdir()
    word = folder / "leave.docx"
    word.write_bytes(
        make_docx(("Heading1", "Leave"), ("", "Ask in March."), [["Days", "Who"], ["28", "All"]])
    )
    slides = folder / "budget.fodp"
    slides.write_text(_SLIDES)
    saved_as(word, "doc:MS Word 97")
    saved_as(slides, "ppt:MS PowerPoint 97")
    for path in (word, slides):
        path.unlink()
    (folder / "unnamed").write_bytes((folder / "leave.doc").read_bytes())
    found = read(folder)

    leave, budget = found["leave.doc"], found["budget.ppt"]
    assert isinstance(leave, LoadedDocument)
    assert isinstance(budget, LoadedDocument)
    assert "Ask in March." in leave.text
    assert "28" in leave.text
    assert leave.draft.chunks[0].section_path == "Leave"
    assert "Tea costs nine pounds." in budget.text
    assert {place.slide for place in budget.draft.places} == {1}
    assert isinstance(found["unnamed"], LoadedDocument)


@needs_office
@pytest.mark.slow
def test_a_damaged_old_file_fails(tmp_path: Path) -> None:
    """It is named, and others are read."""
    (tmp_path / "damaged.doc").write_bytes(_DAMAGED)
    (tmp_path / "good.md").write_text("Words.")
    found = read(tmp_path)

    (failed,) = [one for one in found.values() if isinstance(one, LoadFailure)]
    assert failed.path.endswith("damaged.doc")
    assert isinstance(found["good.md"], LoadedDocument)


def test_without_the_program_old_files_are_skipped_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of other formats with these suffixes are read all the same."""
    (tmp_path / "old.doc").write_bytes(_DAMAGED)
    (tmp_path / "rich.doc").write_bytes(rb"{\rtf1\ansi Rich words.}")
    (tmp_path / "plain.doc").write_text("Plain words.")
    (tmp_path / "new.doc").write_bytes(make_docx(("", "New words.")))
    (tmp_path / "page.doc").write_text("<html><body><p>Words of a page.</p></body></html>")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = read(tmp_path)

    (skipped,) = [one for one in found.values() if isinstance(one, Skipped)]
    assert skipped.path.endswith("old.doc")
    assert "LibreOffice" in skipped.reason
    texts = {name: one.text for name, one in found.items() if isinstance(one, LoadedDocument)}
    assert texts == {
        "rich.doc": "Rich words.", "plain.doc": "Plain words.", "new.doc": "New words.",
        "page.doc": "Words of a page.",
    }  # fmt: skip


def test_a_conversion_that_takes_too_long_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all programs that it started."""
    program = tmp_path / "slow"
    program.write_text("#!/bin/sh\nsleep 60 &\necho $! > pid\nwait\n")
    program.chmod(0o755)
    monkeypatch.setattr(old_office, "_SECONDS", 0.5)

    with pytest.raises(Exception, match="took more than"):
        old_office._run([str(program)], tmp_path)
    child = Path("/proc") / (tmp_path / "pid").read_text().strip() / "stat"
    # A process that is killed ends when it is given a core.
    for _ in range(500):
        if not child.exists() or child.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.02)
    pytest.fail("the child is still running")

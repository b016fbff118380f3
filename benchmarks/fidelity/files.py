"""Fetch the source packages of document libraries, and choose those of their test files that can be judged.

In: names and versions of packages. Out: a folder that is kept, with the files, and an environment of its own
for each other reader, with the libraries of the formats. Nothing of a package is part of this repository.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FETCH_LIMIT_S = 180
#: Libraries whose source packages have test files, at the versions that were measured.
PACKAGES = (
    "python-docx==1.2.0",
    "python-pptx==1.0.2",
    "pypdf==7.1.1",
    "odfpy==1.4.1",
    "html2text==2025.4.15",
    "pyexcel-xls==0.7.1",
    "pyexcel-ods3==0.6.1",
    "nbformat==5.11.1",
    "markdown==3.11.3",
    "inscriptis==2.7.6",
    "tablib==3.10.0",
)
#: markitdown, and the libraries that read what is expected.
PEERS = (
    "markitdown[docx,pptx,xlsx,xls,pdf]",
    *("python-docx", "python-pptx", "pypdf", "pdfminer.six", "odfpy", "openpyxl", "xlrd"),
    *("beautifulsoup4", "html5lib", "striprtf", "nbformat"),
)
#: docling without the models that its reader of PDFs needs.
DOCLING = (
    "docling-slim[convert-core,format-docx,format-pptx,format-xlsx,format-html,format-markdown,format-opendocument]",
)
#: Formats whose own library reads what is expected.
_BY_LIBRARY = frozenset({".docx", ".pptx", ".pdf", ".odt", ".odp", ".ods", ".xlsx", ".xls", ".eml", ".ipynb"})  # fmt: skip
#: Packages with a text beside their test files: the suffix of a source, that of its text, and the one by
#: which it is read.
_PAIRS = {
    "markdown": (".txt", ".html", ".md"),
    "html2text": (".html", ".md", ".html"),
    "inscriptis": (".html", ".txt", ".html"),
}


@dataclass(frozen=True)
class Sample:
    """A file and what says what it means."""

    name: str
    """Package and path in it, without the version."""
    path: Path
    """A copy with the suffix of the format."""
    expected: Path | None
    """The text that the package has beside it; none where a library reads what is expected."""

    @property
    def format(self) -> str:
        """Its suffix."""
        return self.path.suffix

    @property
    def is_for_judging(self) -> bool:
        """Whether it is one of the third on which nothing is chosen."""
        return hashlib.sha256(self.name.encode()).digest()[0] % 3 == 0


def samples(home: Path) -> Iterator[Sample]:
    """Yield the files of all packages that can be fetched; others are named on the standard error."""
    for package in PACKAGES:
        try:
            folder = _fetch(package, home)
        except (subprocess.SubprocessError, OSError) as error:
            print(f"{package}: not fetched, {error}", file=sys.stderr)
            continue
        yield from _chosen(package.partition("==")[0], folder, home / "files")


def environment(home: Path, packages: tuple[str, ...] = PEERS) -> Path:
    """Return the interpreter of an environment with some packages, made unless it is there."""
    key = hashlib.sha256(repr(packages).encode()).hexdigest()[:12]
    folder = home / f"peers-{key}"
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, *packages], check=True)
        (folder / "complete").touch()
    return folder / "bin" / "python"


def _fetch(package: str, home: Path) -> Path:
    folder = home / "packages" / package
    if folder.is_dir():
        return folder
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    with tempfile.TemporaryDirectory() as place:
        subprocess.run([*pip, package], cwd=place, check=True, timeout=FETCH_LIMIT_S, stderr=subprocess.DEVNULL)  # fmt: skip
        (found,) = Path(place).iterdir()
        unpacked = folder.with_name(folder.name + ".part")
        unpacked.mkdir(parents=True, exist_ok=True)
        if found.suffix == ".zip":
            with zipfile.ZipFile(found) as archive:
                archive.extractall(unpacked)
        else:
            with tarfile.open(found) as archive:
                archive.extractall(unpacked, filter="data")
        unpacked.rename(folder)
    return folder


def _chosen(package: str, folder: Path, copies: Path) -> Iterator[Sample]:
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).parts[1:]
        if not path.is_file() or not inside:
            continue
        name = "/".join((package, *inside))
        if path.suffix.lower() in _BY_LIBRARY:
            yield Sample(name, _copy(path, copies / name), None)
            continue
        source, expected, read_as = _PAIRS.get(package, ("", "", ""))
        beside = path.with_suffix(expected) if source else path
        if path.suffix == source and beside.is_file():
            yield Sample(name, _copy(path, (copies / name).with_suffix(read_as)), beside)


def _copy(path: Path, copy: Path) -> Path:
    if not copy.exists():
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    return copy

"""Fetch documentation sets from package indexes by name and version, and index them with the installed command.

In: `sets.toml`. Out: a folder of documents and a collection for each set, kept between runs. A set whose index
is out of reach is skipped with the reason; a package with another digest is refused.
"""

from __future__ import annotations

import fnmatch
import gzip
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

HERE = Path(__file__).resolve().parent
FETCH_LIMIT_S = 300


class OutOfReach(Exception):
    """A package cannot be fetched here; the text is the reason."""


@dataclass(frozen=True)
class DocumentSet:
    """A documentation set: a package, and which of its files are documents."""

    name: str
    format: str
    index: str
    """`pypi`, `npm` or `debian`."""
    package: str
    version: str
    sha256: str
    root: str
    """Folder in the package that document ids are relative to."""
    files: tuple[str, ...]
    leave_out: tuple[str, ...] = ()


def read_sets() -> list[DocumentSet]:
    """Return the sets of `sets.toml` in their order."""
    document = tomllib.loads((HERE / "sets.toml").read_text(encoding="utf-8"))
    return [
        DocumentSet(
            **{
                key: tuple(value) if isinstance(value, list) else value
                for key, value in one.items()
            }
        )
        for one in document["set"]
    ]


def fetch(wanted: DocumentSet, home: Path) -> Path:
    """Return the folder with the documents of a set, fetched unless it is there.

    Raises:
        OutOfReach: The index does not answer, or does not have this version.
        SystemExit: The package has another digest than `sets.toml` says.
    """
    chosen = repr((wanted.sha256, wanted.root, wanted.files, wanted.leave_out))
    folder = (
        home / "documents" / f"{wanted.name}-{hashlib.sha256(chosen.encode()).hexdigest()[:12]}"
    )
    if folder.is_dir():
        return folder
    with tempfile.TemporaryDirectory() as place:
        package = _download(wanted, Path(place))
        digest = hashlib.sha256(package.read_bytes()).hexdigest()
        if digest != wanted.sha256:
            sys.exit(f"{wanted.package} {wanted.version}: digest is {digest}, not {wanted.sha256}")
        unpacked = Path(place) / "unpacked"
        unpacked.mkdir()
        if package.suffix == ".deb":
            _run(["dpkg-deb", "--extract", str(package), str(unpacked)], unpacked)
        else:
            with tarfile.open(package) as members:
                members.extractall(unpacked, filter="data")
        filled = folder.with_name(folder.name + ".part")
        shutil.rmtree(filled, ignore_errors=True)
        _copy(wanted, unpacked / wanted.root, filled)
        filled.rename(folder)
    return folder


def index(wanted: DocumentSet, documents: Path, home: Path) -> dict[str, Any]:
    """Index a set into the collection of its name with the installed command; gives the command's report.

    Unchanged documents are skipped, so a second run costs a walk with hashes; those that left the set are
    removed.
    """
    options = ["--home", str(home / "whence"), "--collection", wanted.name, "--json"]
    command = [
        sys.executable,
        "-m",
        "whence.surfaces.cli.main",
        "index",
        str(documents),
        "--prune",
        *options,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{wanted.name}: {done.stderr.strip()[-2000:]}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def _download(wanted: DocumentSet, place: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "download", "--quiet"]
    named = {
        "pypi": [*pip, "--no-deps", "--no-binary", ":all:", f"{wanted.package}=={wanted.version}"],
        "npm": ["npm", "pack", "--silent", f"{wanted.package}@{wanted.version}"],
        "debian": ["apt-get", "download", "--quiet", f"{wanted.package}={wanted.version}"],
    }
    _run(named[wanted.index], place)
    found = [path for path in place.iterdir() if path.suffix in {".gz", ".tgz", ".deb", ".zip"}]
    if len(found) != 1:
        raise OutOfReach(f"{wanted.index} gave {len(found)} files for {wanted.package}")
    return found[0]


def _run(command: list[str], folder: Path) -> None:
    if shutil.which(command[0]) is None:
        raise OutOfReach(f"{command[0]} is not installed")
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=FETCH_LIMIT_S
        )
    except subprocess.TimeoutExpired as error:
        raise OutOfReach(f"{command[0]} took longer than {FETCH_LIMIT_S} s") from error
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise OutOfReach(f"{command[0]}: {lines[-1]}")


def _copy(wanted: DocumentSet, root: Path, target: Path) -> None:
    for path in sorted(root.rglob("*")):
        name = PurePosixPath(path.relative_to(root)).as_posix()
        if not path.is_file() or not _any(name, wanted.files) or _any(name, wanted.leave_out):
            continue
        placed = target / name.removesuffix(".gz")
        placed.parent.mkdir(parents=True, exist_ok=True)
        content = path.read_bytes()
        placed.write_bytes(gzip.decompress(content) if name.endswith(".gz") else content)


def _any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

"""The source files of a folder, read and decoded, and those that were left out."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path, PurePosixPath

import msgspec

from whence.bundler.code_graph import Language
from whence.ingest.decoding import decode_text, read_bytes
from whence.ingest.load_results import LoadFailure
from whence.ingest.sources import SourceFile, find_files
from whence.schema.code_ids import validate_local_id
from whence.schema.errors import BadInput

__all__ = ("MAX_FILE_BYTES", "SourceText", "Sources", "read_sources")

#: Larger files are generated or are data; a node must also fit the importer's limit of 16 MiB.
MAX_FILE_BYTES = 2 * 1024 * 1024
_LANGUAGES: dict[str, Language] = {
    ".cs": "csharp",
    ".py": "python",
    ".pyi": "python",
    ".sql": "sql",
}


class SourceText(msgspec.Struct, frozen=True, kw_only=True):
    """One file of source code."""

    path: str
    """Below the folder, parts joined by `/`."""
    language: Language
    text: str
    r"""Decoded; line ends are `\n`."""
    project: str = ""
    """Name of the C# project whose folder holds it; empty for other languages."""


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """All source files of a folder."""

    files: tuple[SourceText, ...]
    """By name within each folder."""
    skipped: tuple[tuple[str, str], ...]
    """Files of these languages that were left out, each with the reason."""
    fingerprint: str
    """SHA-256 over paths and bytes of the files read, hexadecimal."""


def read_sources(root: Path) -> Sources:
    """Read the C#, Python and SQL below a folder.

    Passed over are, besides what `find_files` passes over, virtual environments, what a C# project was built
    to, and stubs (`.pyi`) beside the module they describe. Memory holds all texts.
    """
    return _Reading(root).sources()


class _Reading:
    """One pass over a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: list[SourceText] = []
        self._skipped: list[tuple[str, str]] = []
        self._digest = hashlib.sha256()
        self._is_output = cache(_is_output)
        self._projects: dict[Path, str] = {}

    def sources(self) -> Sources:
        """Read all files."""
        for found in find_files(self._root, _LANGUAGES.keys()):
            if isinstance(found, LoadFailure):
                self._skipped.append((found.path, found.reason))
            elif isinstance(found, SourceFile) and not self._is_passed_over(found):
                self._read(found)
        return Sources(
            files=tuple(self._files),
            skipped=tuple(self._skipped),
            fingerprint=self._digest.hexdigest(),
        )

    def _is_passed_over(self, file: SourceFile) -> bool:
        if file.suffix == ".pyi" and Path(file.path).with_suffix(".py").exists():
            return True
        folders = PurePosixPath(file.document_id).parents
        return any(self._is_output(self._root / each) for each in folders if each.name)

    def _read(self, file: SourceFile) -> None:
        try:
            # Ids are made of paths.
            validate_local_id(file.document_id, "cs")
            data = read_bytes(file.path, MAX_FILE_BYTES)
            text, _ = decode_text(data)
        except BadInput as error:
            self._skipped.append((file.document_id, error.message))
            return
        except OSError as error:
            self._skipped.append((file.document_id, f"cannot be read: {error.strerror}"))
            return
        for part in (file.document_id.encode(), data):
            self._digest.update(len(part).to_bytes(8))
            self._digest.update(part)
        language = _LANGUAGES[file.suffix]
        project = self._project_of(Path(file.path).parent) if language == "csharp" else ""
        self._files.append(
            SourceText(path=file.document_id, language=language, text=text, project=project)
        )

    def _project_of(self, folder: Path) -> str:
        """Return the name of the project whose folder this is in; empty for none."""
        if folder not in self._projects:
            names = sorted(each.stem for each in folder.glob("*.csproj"))
            is_top = folder in (self._root, folder.parent)
            above = "" if names or is_top else self._project_of(folder.parent)
            self._projects[folder] = names[0] if names else above
        return self._projects[folder]


def _is_output(folder: Path) -> bool:
    if folder.name in ("bin", "obj"):
        return any(folder.parent.glob("*.csproj"))
    return (folder / "pyvenv.cfg").exists()

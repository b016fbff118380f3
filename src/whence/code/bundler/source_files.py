"""Read and decode the source files of a folder."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path, PurePosixPath

import msgspec

from whence.code.bundler.code_graph import Language
from whence.ingest.decoding import decode_text, read_bytes
from whence.ingest.load_results import LoadFailure
from whence.ingest.sources import SourceFile, find_files
from whence.schema.code_ids import validate_local_id
from whence.schema.errors import BadInput

#: Larger files are generated or data; a node must also be within the importer's limit of 16 MiB.
MAX_FILE_BYTES = 2 * 1024 * 1024
_LANGUAGES: dict[str, Language] = {
    ".cs": "csharp",
    ".py": "python",
    ".pyi": "python",
    ".sql": "sql",
}


class SourceText(msgspec.Struct, frozen=True, kw_only=True):
    """One source file."""

    path: str
    language: Language
    text: str
    r"""Decoded, with `\n` as line ends."""
    project: str = ""
    """Name of the C# project that contains it; empty for other languages."""


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """All source files of a folder."""

    files: tuple[SourceText, ...]
    """By name within each folder."""
    skipped: tuple[tuple[str, str], ...]
    """Paths of source files that were not read, and the reasons."""
    fingerprint: str
    """SHA-256 over the paths and bytes of the files, in hexadecimal."""


def read_sources(root: Path) -> Sources:
    """Read the C#, Python and SQL below a folder; memory holds all texts.

    Ignored are the files that `find_files` ignores, virtual environments, the build output of C# projects, and
    stubs (`.pyi`) beside their module.
    """
    return _SourceReader(root).sources()


class _SourceReader:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: list[SourceText] = []
        self._skipped: list[tuple[str, str]] = []
        self._digest = hashlib.sha256()
        self._is_generated = cache(_is_generated)
        self._project_of = cache(self._nearest_project)

    def sources(self) -> Sources:
        for found in find_files(self._root, _LANGUAGES.keys()):
            if isinstance(found, LoadFailure):
                self._skipped.append((found.path, found.reason))
            elif isinstance(found, SourceFile) and not self._is_ignored(found):
                self._read(found)
        return Sources(
            files=tuple(self._files),
            skipped=tuple(self._skipped),
            fingerprint=self._digest.hexdigest(),
        )

    def _is_ignored(self, file: SourceFile) -> bool:
        if file.suffix == ".pyi" and Path(file.path).with_suffix(".py").exists():
            return True
        folders = PurePosixPath(file.document_id).parents
        return any(self._is_generated(self._root / each) for each in folders if each.name)

    def _read(self, file: SourceFile) -> None:
        try:
            # Local ids contain the path.
            validate_local_id(file.document_id, "cs")
            data = read_bytes(file.path, MAX_FILE_BYTES)
            text = decode_text(data).text
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

    def _nearest_project(self, folder: Path) -> str:
        """Return the name of the nearest project above a folder; empty if there is none."""
        names = [each.stem for each in folder.glob("*.csproj")]
        is_top = folder in (self._root, folder.parent)
        return min(names) if names else "" if is_top else self._project_of(folder.parent)


def _is_generated(folder: Path) -> bool:
    if folder.name in ("bin", "obj"):
        return any(folder.parent.glob("*.csproj"))
    return (folder / "pyvenv.cfg").exists()

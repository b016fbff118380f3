"""Find the files below the paths that a user gives, in a deterministic order."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import msgspec

from whence.ingest.content_detection import ANY_TEXT, HEAD_BYTES, readable_suffix
from whence.ingest.decoding import read_bytes
from whence.ingest.field_validation import validate_id
from whence.ingest.load_results import LoadFailure, Skipped
from whence.schema.errors import BadInput

#: A shorter ASCII path is always a valid id.
_VALID_ID_LENGTH = 512
#: Largest archive or compound file whose format is found by its content, in bytes.
_MAX_PACKED_BYTES = 128 * 2**20
#: Folders of generated or downloaded files, and what Windows keeps of pictures.
_IGNORED = frozenset({"node_modules", "__pycache__", "Thumbs.db"})
#: Hidden files, and those of documents that are open in an office program.
_IGNORED_BEGINNINGS = (".", "~$")


class SourceFile(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A file to load; its path is a string, because making a `Path` takes longer than reading a small file."""

    path: str
    document_id: str
    """Path relative to the indexed folder, with `/`; of a single file its name."""
    suffix: str
    """In lower case, with the dot; of a file whose suffix no loader has, that of its content."""
    encoding: str = ""
    """Encoding of text that declares none; empty to detect it."""

    @property
    def display_path(self) -> str:
        """Path for display; bytes that are not UTF-8 are escaped."""
        return display_path(self.path)


def validate_paths(paths: Iterable[str | os.PathLike[str]]) -> tuple[Path, ...]:
    """Return the paths after checking that each exists and none is inside another."""
    roots = tuple(Path(path) for path in paths)
    if not roots:
        raise BadInput("no files or folders are given", hint="name at least one")
    for root in roots:
        _check_root(root)
    resolved: dict[Path, Path] = {}
    for root in roots:
        target = root.resolve()
        if target in resolved:
            raise _overlap(root, resolved[target])
        resolved[target] = root
    for target, root in resolved.items():
        outer = next((resolved[parent] for parent in target.parents if parent in resolved), None)
        if outer is not None:
            raise _overlap(root, outer)
    return roots


def find_files(
    root: Path, suffixes: Collection[str]
) -> Iterator[SourceFile | LoadFailure | Skipped]:
    """Yield the files at or below a path, by name within each folder.

    Names that begin with `.` or `~$`, `Thumbs.db`, `node_modules` and `__pycache__` are ignored. Links to
    files are followed; links to folders are skipped, so there are no loops. Memory holds the names of one
    folder per level.

    Args:
        root: A file or a folder.
        suffixes: Those of the files that are read. With `ANY_TEXT` other files are found by their content.
    """
    if root.is_dir():
        yield from _walk(os.fspath(root), "", suffixes)
        return
    name = root.name or root.resolve().name
    path = os.fspath(root)
    found = _skip_special(path) or _source(path, name, suffix_of(name), suffixes)
    if isinstance(found, Skipped):
        # A file that a user names is to be read.
        found = LoadFailure(path=found.path, reason=found.reason, document_id=found.document_id)
    yield found


def _walk(
    folder: str, prefix: str, suffixes: Collection[str]
) -> Iterator[SourceFile | LoadFailure | Skipped]:
    """Walk a folder with `os.scandir`, which knows the type of an entry without a system call."""
    try:
        with os.scandir(folder) as iterator:
            entries = sorted(iterator, key=lambda entry: entry.name)
    except OSError as error:
        reason = f"cannot be listed: {error.strerror}"
        yield LoadFailure(path=display_path(folder), reason=reason)
        return
    for entry in entries:
        name = entry.name
        if name.startswith(_IGNORED_BEGINNINGS) or name in _IGNORED:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path, f"{prefix}{name}/", suffixes)
            continue
        regular = entry.is_file(follow_symlinks=False)
        skipped = None if regular else _skip_special(entry.path)
        yield skipped or _source(entry.path, prefix + name, suffix_of(name), suffixes)


def suffix_of(name: str) -> str:
    """Return the last suffix of a file name in lower case, with the dot; empty if it has none."""
    dot = name.rfind(".")
    return name[dot:].lower() if dot > name.rfind("/") + 1 else ""


def _check_root(root: Path) -> None:
    try:
        mode = root.stat().st_mode
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(
            f"{display_path(root)} cannot be read: {reason}",
            hint="check the path, then run it again",
        ) from error
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise BadInput(f"{display_path(root)} is neither a file nor a folder")


def _skip_special(path: str) -> Skipped | None:
    """Return why a path is skipped if it is not a regular file; it is not opened, since it may be a pipe."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - paths are strings here
    except OSError as error:
        return Skipped(path=display_path(path), reason=f"is a broken link: {error.strerror}")
    if stat.S_ISDIR(mode):
        return Skipped(path=display_path(path), reason="a link to a folder is not followed")
    if not stat.S_ISREG(mode):
        return Skipped(path=display_path(path), reason="not a regular file")
    return None


def _source(
    path: str, document_id: str, suffix: str, suffixes: Collection[str]
) -> SourceFile | LoadFailure | Skipped:
    if suffix == ANY_TEXT or suffix not in suffixes:
        if ANY_TEXT not in suffixes:
            return Skipped(path=display_path(path), reason="unknown file format")
        try:
            suffix = _suffix_by_content(path, suffix, suffixes)
        except (BadInput, OSError) as error:
            # A plug-in that is gone may have stored it.
            reason = (
                error.message
                if isinstance(error, BadInput)
                else f"cannot be read: {error.strerror}"
            )
            return Skipped(path=display_path(path), reason=reason, document_id=document_id)
    if not document_id.isascii() or len(document_id) > _VALID_ID_LENGTH or not document_id.strip():
        try:
            validate_id(document_id, "its path")
        except BadInput as error:
            return LoadFailure(
                path=display_path(path), reason=error.message, document_id=document_id
            )
    return SourceFile(path=path, document_id=document_id, suffix=suffix)


def _suffix_by_content(path: str, suffix: str, suffixes: Collection[str]) -> str:
    with open(path, "rb", buffering=0) as stream:  # noqa: PTH123 - paths are strings here
        head = stream.read(HEAD_BYTES)
    return readable_suffix(suffix, suffixes, head, lambda: read_bytes(path, _MAX_PACKED_BYTES))


def _overlap(inner: Path, outer: Path) -> BadInput:
    return BadInput(
        f"{display_path(inner)} is given twice, also through {display_path(outer)}",
        hint="a file has one id: give either the folder or the files in it",
    )


def display_path(path: str | Path) -> str:
    """Return a path for display; bytes that are not UTF-8 are escaped."""
    return os.fsencode(path).decode(errors="backslashreplace")

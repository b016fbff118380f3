"""Finding the files below the paths a user names, in an order that is always the same."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator
from operator import attrgetter
from pathlib import Path

import msgspec

from whence.ingest.field_validation import checked_id
from whence.ingest.load_results import LoadFailure, Skipped
from whence.schema.errors import BadInput

__all__ = ("SourceFile", "checked_paths", "find_files", "shown_path", "suffix_of")

_NAME_OF = attrgetter("name")
#: A path of ASCII up to here can be an id without a closer look.
_SURE_LENGTH = 512
_ARCHIVES = frozenset(
    {
        ".zip",
        ".tar",
        ".gz",
        ".tgz",
        ".bz2",
        ".tbz",
        ".xz",
        ".txz",
        ".7z",
        ".rar",
        ".zst",
        ".jar",
        ".war",
    }
)
#: Folders of what programs made or fetched.
_PASSED_OVER = frozenset({"node_modules", "__pycache__"})


class SourceFile(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A file to be read.

    Its path is a string: with thousands of small files, making `Path` objects takes longer than reading them.
    The collector of cycles, of which there are none here, is spared a look at each.
    """

    path: str
    document_id: str
    """Path relative to the folder that is indexed, parts joined by `/`; of a single file its name."""
    suffix: str
    """In lower case, with its dot."""

    @property
    def shown(self) -> str:
        """Path for people, printable whatever its bytes are."""
        return shown_path(self.path)


def checked_paths(paths: Iterable[str | os.PathLike[str]]) -> tuple[Path, ...]:
    """Return the paths, after checking that each can be read from and none is inside another.

    Raises:
        BadInput: There are none; one does not exist, or is neither a file nor a folder; or one is
            named twice or lies inside another, so that files would get two ids.
    """
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

    Names that begin with a dot, `node_modules` and `__pycache__` are passed over without a word. Links to files
    are followed; links to folders are not, which leaves no loops, and are skipped like files of unknown kinds.
    Memory holds the names of one folder per level.

    Args:
        root: A file, or a folder.
        suffixes: Known kinds, in lower case with their dot.
    """
    if root.is_dir():
        yield from _below(os.fspath(root), "", suffixes)
        return
    name = root.name or root.resolve().name
    if suffix_of(name) in _ARCHIVES:
        yield LoadFailure(path=shown_path(root), reason="is an archive, unpack it first")
        return
    path = os.fspath(root)
    yield _what_is_no_file(path) or _source(path, name, suffix_of(name), suffixes)


def _below(
    folder: str, prefix: str, suffixes: Collection[str]
) -> Iterator[SourceFile | LoadFailure | Skipped]:
    """Walk a folder; `os.scandir` tells what each entry is without asking the system for each."""
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=_NAME_OF)
    except OSError as error:
        reason = f"cannot be listed: {error.strerror}"
        yield LoadFailure(path=shown_path(folder), reason=reason)
        return
    for entry in entries:
        name = entry.name
        if name[0] == "." or name in _PASSED_OVER:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _below(entry.path, f"{prefix}{name}/", suffixes)
            continue
        regular = entry.is_file(follow_symlinks=False)
        strange = None if regular else _what_is_no_file(entry.path)
        yield strange or _source(entry.path, prefix + name, suffix_of(name), suffixes)


def suffix_of(name: str) -> str:
    """Return the last suffix of a file name in lower case, with its dot; empty when it has none."""
    dot = name.rfind(".")
    return name[dot:].lower() if dot > name.rfind("/") + 1 else ""


def _check_root(root: Path) -> None:
    try:
        mode = root.stat().st_mode
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(
            f"{shown_path(root)} cannot be read: {reason}", hint="check the path, then run it again"
        ) from error
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise BadInput(f"{shown_path(root)} is neither a file nor a folder")


def _what_is_no_file(path: str) -> Skipped | None:
    """Look at what is neither a folder nor surely a file, without opening it: a pipe would never end."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - paths are strings here
    except OSError as error:
        return Skipped(path=shown_path(path), reason=f"leads nowhere: {error.strerror}")
    if stat.S_ISDIR(mode):
        return Skipped(path=shown_path(path), reason="a link to a folder is not followed")
    if not stat.S_ISREG(mode):
        return Skipped(path=shown_path(path), reason="not a regular file")
    return None


def _source(
    path: str, document_id: str, suffix: str, suffixes: Collection[str]
) -> SourceFile | LoadFailure | Skipped:
    if suffix not in suffixes:
        archive = suffix in _ARCHIVES
        reason = "an archive, unpack it first" if archive else "unknown kind of file"
        return Skipped(path=shown_path(path), reason=reason)
    if not document_id.isascii() or len(document_id) > _SURE_LENGTH or not document_id.strip():
        try:
            checked_id(document_id, "its path")
        except BadInput as error:
            # No document can be stored under it, so the failure stands for no other.
            return LoadFailure(path=shown_path(path), reason=error.message, document_id=document_id)
    return SourceFile(path=path, document_id=document_id, suffix=suffix)


def _overlap(inner: Path, outer: Path) -> BadInput:
    return BadInput(
        f"{shown_path(inner)} is given twice, also through {shown_path(outer)}",
        hint="a file has one id: name either the folder or what is in it",
    )


def shown_path(path: str | Path) -> str:
    """Return a path that can be printed; bytes that are no UTF-8 as escapes."""
    return os.fsencode(path).decode(errors="backslashreplace")

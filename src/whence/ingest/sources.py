"""Find the files below the paths that a user gives, in a deterministic order."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from whence.ingest.catalogue import Catalogue, SourcePlace, normal
from whence.ingest.content_detection import ANY_TEXT, HEAD_BYTES, is_by_content, readable_suffix
from whence.ingest.decoding import read_bytes
from whence.ingest.exclusions import Exclusions
from whence.ingest.field_validation import validate_id
from whence.ingest.load_results import LoadFailure, Skipped
from whence.ingest.selection import Selection
from whence.schema.errors import BadInput

#: A shorter ASCII path is always a valid id.
_VALID_ID_LENGTH = 512
#: Largest archive or compound file whose format is found by its content, in bytes.
_MAX_PACKED_BYTES = 128 * 2**20
#: Folders of generated or downloaded files, and a file of previews.
_IGNORED = frozenset({"node_modules", "__pycache__", "Thumbs.db"})


class SourceFile(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A file to load; its path is a string, because making a `Path` takes longer than reading a small file."""

    path: str
    document_id: str
    """Path relative to the root, with `/`, in Unicode's form NFC; of a single file its name."""
    suffix: str
    """In lower case, with the dot; of a file whose suffix no loader has, that of its content."""
    encoding: str = ""
    """Encoding of text that declares none; empty to detect it."""
    root: str = ""
    """Name of the root; empty when there is none."""
    written: str = ""
    """The path relative to the root as it is on disk, when it is not in form NFC."""

    @property
    def display_path(self) -> str:
        """Path for display; bytes that are not UTF-8 are escaped."""
        return display_path(self.path)


Found = SourceFile | LoadFailure | Skipped
"""A file, or why it is not read."""


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
    root: Path,
    suffixes: Collection[str],
    *,
    catalogue: Catalogue | None = None,
    exclude: Sequence[str] | None = None,
    only: Selection | None = None,
) -> Iterator[Found]:
    """Yield the files at or below a path, by name within each folder.

    Names that begin with `.` or `~$`, `Thumbs.db`, `node_modules` and `__pycache__` are ignored. A link is
    followed when it is named itself, or leads to a file of the root that is not found otherwise: who may write
    into a shared folder must not publish other files of the machine. Links to folders are skipped. Memory
    holds the names of one folder per level.

    Args:
        root: A folder or file.
        suffixes: Of the formats that are read. With `ANY_TEXT` other files are found by their content.
        catalogue: Knows the roots of a collection.
        exclude: Patterns of files to leave out; None also ignores the files with patterns that folders have.
        only: What is looked at of a folder; None for all of it.
    """
    catalogue = catalogue or Catalogue()
    place = catalogue.place(os.fspath(root))
    walk = _Walk(place, catalogue, suffixes, only)
    if not root.is_dir():
        yield walk.single(root)
    elif exclude is None:
        yield from walk.folder(place.path, place.prefix, None, "")
    else:
        base = place.base or os.path.realpath(place.path)
        folder = os.path.join(base, place.prefix)  # noqa: PTH118 - paths are strings here
        outer = Exclusions.of_run(base, folder.rstrip("/") or "/", exclude)
        yield from walk.folder(place.path, place.prefix, outer, "")


class _Walk:
    """Walks a folder with `os.scandir`, which knows the type of an entry without a system call."""

    def __init__(
        self,
        place: SourcePlace,
        catalogue: Catalogue,
        suffixes: Collection[str],
        only: Selection | None,
    ) -> None:
        self._only = only
        self._place = place
        self._catalogue = catalogue
        self._suffixes = suffixes
        self._base = place.base or os.path.realpath(place.path)

    def single(self, path: Path) -> Found:
        """Return a file that was named."""
        name = path.name or path.resolve().name
        written = self._place.prefix or name
        where = os.fspath(path)
        return self._skip_special(where, written, is_named=True) or self._source(where, written)

    def folder(
        self, folder: str, prefix: str, exclusions: Exclusions | None, excluded: str
    ) -> Iterator[Found]:
        """Yield the files of a folder.

        Args:
            folder: Its path.
            prefix: Its path relative to the root, with `/` at the end; empty for the root.
            exclusions: What is left out of it; None for nothing.
            excluded: Why all of it is left out; empty when it is not.
        """
        try:
            with os.scandir(folder) as iterator:
                entries = sorted(iterator, key=lambda entry: entry.name)
        except OSError as error:
            reason = f"cannot be listed: {error.strerror}"
            root, file = self._owner(prefix)
            yield LoadFailure(path=display_path(folder), reason=reason, root=root, file=file)
            return
        if exclusions is not None:
            exclusions = exclusions.below(os.path.join(self._base, prefix).rstrip("/") or "/")  # noqa: PTH118
        for entry in entries:
            if is_left_out(entry.name):
                continue
            name, is_folder = prefix + entry.name, entry.is_dir(follow_symlinks=False)
            if self._only and not self._only.leads_to(f"{self._base.rstrip('/')}/{name}"):
                continue
            why = excluded
            if exclusions is not None and not why:
                whole = os.path.join(self._base, name)  # noqa: PTH118 - paths are strings here
                why = exclusions.reason(whole, is_folder=is_folder)
            if is_folder:
                yield from self.folder(entry.path, f"{name}/", exclusions, why)
            elif why:
                yield self._skipped(entry.path, name, why, is_wanted=False)
            elif entry.is_file(follow_symlinks=False):
                yield self._source(entry.path, name)
            else:
                yield self._skip_special(entry.path, name) or self._source(entry.path, name)

    def _owner(self, written: str) -> tuple[str, str]:
        place = self._place
        return self._catalogue.owner(place.root, normal(printable_name(written)), place.base)

    def _skipped(
        self,
        path: str,
        written: str,
        reason: str,
        *,
        may_be_stored: bool = False,
        is_wanted: bool = True,
    ) -> Skipped:
        root, file = self._owner(written)
        return Skipped(
            path=display_path(path),
            reason=reason,
            # A plug-in that is gone may have stored it.
            document_id=file if may_be_stored else None,
            root=root,
            file=file,
            is_wanted=is_wanted,
        )

    def _skip_special(self, path: str, written: str, *, is_named: bool = False) -> Skipped | None:
        """Return why a path is skipped if it is not a file; it is not opened, since it may be a pipe."""
        try:
            mode = os.stat(path).st_mode  # noqa: PTH116 - paths are strings here
        except OSError as error:
            return self._skipped(path, written, f"is a broken link: {error.strerror}")
        if stat.S_ISDIR(mode):
            reason = "a link to a folder is not followed"
            return self._skipped(path, written, reason, is_wanted=False)
        if not stat.S_ISREG(mode):
            return self._skipped(path, written, "not a regular file", is_wanted=False)
        if not os.path.islink(path):  # noqa: PTH114 - paths are strings here
            return None
        target = os.path.realpath(path)
        if target.startswith(f"{self._base.rstrip('/')}/"):
            relative = target[len(self._base.rstrip("/")) + 1 :]
            if not any(map(is_left_out, relative.split("/"))):
                reason = "a link to a file of the same folder"
                return self._skipped(path, written, reason, is_wanted=False)
        elif not is_named:
            return self._skipped(path, written, "link leaves the root, and is not followed")
        return None

    def _source(self, path: str, written: str) -> Found:
        root, document_id = self._owner(written)
        suffix = suffix_of(written)
        if is_by_content(suffix, self._suffixes):
            if ANY_TEXT not in self._suffixes:
                return self._skipped(path, written, "unknown file format")
            try:
                suffix = _suffix_by_content(path, suffix, self._suffixes)
            except BadInput as error:
                return self._skipped(path, written, error.message, may_be_stored=True)
            except OSError as error:
                reason = f"cannot be read: {error.strerror}"
                return self._skipped(path, written, reason, may_be_stored=True)
        if not is_utf8(written):
            reason = "its path is not UTF-8: give the file or its folder another name"
            return LoadFailure(
                path=display_path(path),
                reason=reason,
                document_id=document_id,
                root=root,
                file=document_id,
            )
        is_short = written.isascii() and len(written) <= _VALID_ID_LENGTH
        if not (is_short and written.strip()):
            try:
                validate_id(written, "its path")
            except BadInput as error:
                return LoadFailure(
                    path=display_path(path),
                    reason=error.message,
                    document_id=document_id,
                    root=root,
                    file=document_id,
                )
        as_written = "" if written == document_id else written
        return SourceFile(
            path=path, document_id=document_id, suffix=suffix, root=root, written=as_written
        )


def is_utf8(name: str) -> bool:
    """Return whether the name of a file is UTF-8 on disk."""
    try:
        return name.isascii() or bool(name.encode())
    except UnicodeEncodeError:
        return False


def is_left_out(name: str) -> bool:
    """Return whether a name is that of a file or folder of a program, which nobody indexes."""
    return name[0] == "." or name.startswith("~$") or name in _IGNORED


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


def _suffix_by_content(path: str, suffix: str, suffixes: Collection[str]) -> str:
    with open(path, "rb", buffering=0) as stream:  # noqa: PTH123 - paths are strings here
        head = stream.read(HEAD_BYTES)
    return readable_suffix(suffix, suffixes, head, lambda: read_bytes(path, _MAX_PACKED_BYTES))


def _overlap(inner: Path, outer: Path) -> BadInput:
    return BadInput(
        f"{display_path(inner)} is given twice, also through {display_path(outer)}",
        hint="a file has one id: give either the folder or the files in it",
    )


def file_digest(data: bytes) -> str:
    """Return the digest of a file's bytes by which a change of it is noticed; hexadecimal."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def time_of_change(status: os.stat_result) -> int:
    """Return when a file was changed, or got its name, in nanoseconds since 1970.

    A program may set the time of the content, and a file with an older one may take another's place; both set
    the time of the file's record.
    """
    return max(status.st_mtime_ns, status.st_ctime_ns)


def printable_name(name: str) -> str:
    """Return a name in UTF-8; other bytes are escaped."""
    return name if name.isascii() else display_path(name)


def display_path(path: str | Path) -> str:
    """Return a path for display; bytes that are not UTF-8 are escaped."""
    return os.fsencode(path).decode(errors="backslashreplace")

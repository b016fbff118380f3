"""A bundle's files, in a zip archive or a folder, read as streams and never trusted.

A bundle comes from another machine. Names that would lead out of it, links, encrypted or repeated members,
and sizes beyond the limits are refused before anything is read; damage found while reading is refused too.
"""

from __future__ import annotations

import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Protocol

from whence.ingest.bundles.limits import BundleLimits
from whence.ingest.bundles.locations import Place
from whence.schema.errors import BadInput

__all__ = ("Archive", "MemberStream", "open_archive")

#: What `zipfile` and `zlib` raise on damaged input, as found by fuzzing them.
_DAMAGE = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    struct.error,
    EOFError,
    IndexError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
)
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1
#: What desktops add to folders and archives; no part of any bundle.
_LITTER = ("__MACOSX/", ".DS_Store")


class _Opener(Protocol):
    def __call__(self, member: str) -> IO[bytes]: ...


class MemberStream:
    """The bytes of one member; every fault names it.

    Args:
        stream: Where they come from.
        place: The member.
    """

    def __init__(self, stream: IO[bytes], place: Place) -> None:
        self._stream = stream
        self.place = place

    def read(self, size: int) -> bytes:
        """Return up to `size` more bytes, none at the end.

        Raises:
            BadInput: The archive is damaged here, or cannot be read.
        """
        try:
            return self._stream.read(size)
        except _DAMAGE as error:
            raise _damaged(self.place, error) from error

    def readline(self, size: int) -> bytes:
        """Return up to `size` bytes of the next line with its end.

        Raises:
            BadInput: As for `read`.
        """
        try:
            return self._stream.readline(size)
        except _DAMAGE as error:
            raise _damaged(self.place, error) from error


class Archive:
    """An open bundle: its members by name, and their bytes.

    Args:
        shown: Name of the bundle, for people.
        sizes: Unpacked size of every member by its name, parts joined by `/`.
        opener: Opens a member.
        limits: Bounds on what is read.
    """

    def __init__(
        self, shown: str, sizes: Mapping[str, int], opener: _Opener, limits: BundleLimits
    ) -> None:
        self.shown = shown
        self.sizes = sizes
        self.limits = limits
        self._opener = opener

    def place(self, member: str) -> Place:
        """Return the place that is a member as a whole."""
        return Place(self.shown, member)

    @contextmanager
    def open(self, member: str) -> Iterator[MemberStream]:
        """Open a member for reading.

        Raises:
            BadInput: It is damaged or cannot be read.
        """
        place = self.place(member)
        try:
            stream = self._opener(member)
        except _DAMAGE as error:
            raise _damaged(place, error) from error
        with stream:
            yield MemberStream(stream, place)

    def read(self, member: str) -> bytes:
        """Return all bytes of a small member.

        Raises:
            BadInput: It is damaged, cannot be read, or is larger than one item may be.
        """
        limit = self.limits.max_item_bytes
        with self.open(member) as stream:
            data = stream.read(limit + 1)
        if len(data) > limit:
            raise self.place(member).error(f"is larger than {limit:,} bytes")
        return data


@contextmanager
def open_archive(path: Path, limits: BundleLimits) -> Iterator[Archive]:
    """Open a zip archive or an unpacked folder.

    Cost: one look at each of the n members' directory entries; nothing is unpacked.

    Raises:
        BadInput: There is nothing at the path, it is neither, it is damaged, or a member is unsafe or
            beyond the limits.
    """
    place = Place(path.name or str(path))
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        raise place.error("there is no such file or folder") from error
    if stat.S_ISDIR(mode):
        yield _folder(path, place, limits)
        return
    if not stat.S_ISREG(mode):
        raise place.error("is neither a folder nor a zip archive")
    with _open_zip(path, place) as packed:
        yield _zip(packed, place, limits)


@contextmanager
def _open_zip(path: Path, place: Place) -> Iterator[zipfile.ZipFile]:
    try:
        packed = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        reason = f"is neither a folder nor a whole zip archive ({error})"
        raise place.error(reason, "make or copy the bundle again") from error
    except _DAMAGE as error:
        raise _damaged(place, error) from error
    with packed:
        yield packed


def _zip(packed: zipfile.ZipFile, place: Place, limits: BundleLimits) -> Archive:
    entries: dict[str, zipfile.ZipInfo] = {}
    for info in packed.infolist():
        name = _safe_name(info.filename, place)
        if info.is_dir() or _is_litter(name):
            continue
        member = place.of_member(name)
        _check_entry(info, member, limits)
        if name in entries:
            raise member.error("is in the archive twice")
        entries[name] = info
        if len(entries) > limits.max_members:
            raise place.error(f"holds more than {limits.max_members:,} files")
    sizes = {name: info.file_size for name, info in entries.items()}
    _check_total(sizes, place, limits)
    return Archive(place.bundle, sizes, lambda member: packed.open(entries[member]), limits)


def _check_entry(info: zipfile.ZipInfo, member: Place, limits: BundleLimits) -> None:
    if info.flag_bits & _ENCRYPTED:
        raise member.error("is encrypted", "pack the bundle without a password")
    if info.compress_type not in _METHODS:
        raise member.error("is packed by a method other than deflate", "pack it with deflate")
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        raise member.error("is a link or another special file", "pack the file itself")
    packed_most = info.compress_size * limits.max_ratio
    if info.file_size >= limits.ratio_from_bytes and info.file_size > packed_most:
        raise member.error(
            f"claims {info.file_size:,} bytes from {info.compress_size:,}, an absurd compression ratio"
        )


def _folder(root: Path, place: Place, limits: BundleLimits) -> Archive:
    sizes: dict[str, int] = {}
    for path in _files(root, place):
        name = _safe_name(path.relative_to(root).as_posix(), place)
        member = place.of_member(name)
        if _is_litter(name):
            continue
        sizes[name] = _regular_size(path, member)
        if len(sizes) > limits.max_members:
            raise place.error(f"holds more than {limits.max_members:,} files")
    _check_total(sizes, place, limits)

    def opener(member: str) -> IO[bytes]:
        # Without O_NOFOLLOW a link put in the file's place since the check would be followed.
        handle = os.open(root / member, os.O_RDONLY | os.O_NOFOLLOW)
        return os.fdopen(handle, "rb")

    return Archive(place.bundle, sizes, opener, limits)


def _files(root: Path, place: Place) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise place.error(f"cannot be read: {error.strerror}") from error

    for folder, folders, names in os.walk(root, onerror=refuse):
        folders.sort()
        links = [name for name in folders if Path(folder, name).is_symlink()]
        for name in sorted(names) + links:
            yield Path(folder, name)


def _regular_size(path: Path, member: Place) -> int:
    try:
        status = path.lstat()
    except OSError as error:
        raise _damaged(member, error) from error
    if not stat.S_ISREG(status.st_mode):
        raise member.error("is a link or another special file", "put the file itself there")
    return status.st_size


def _safe_name(name: str, place: Place) -> str:
    r"""Return a member's name with `/` between its parts, refusing one that leads elsewhere.

    Some archivers write `\` between parts, so `..\x` is a way out as well.
    """
    parts = name.replace("\\", "/").removesuffix("/").split("/")
    member = place.of_member(name)
    if any(part in ("", ".", "..") for part in parts) or parts[0][1:2] == ":":
        raise member.error("is an unsafe path", "a member's path is relative and has no '..'")
    with suppress(UnicodeEncodeError):
        name.encode()
        return "/".join(parts)
    raise member.error("is a path that is not UTF-8")


def _is_litter(name: str) -> bool:
    return name.startswith(_LITTER[0]) or name.rsplit("/", 1)[-1] == _LITTER[1]


def _check_total(sizes: Mapping[str, int], place: Place, limits: BundleLimits) -> None:
    total = sum(sizes.values())
    if total > limits.max_total_bytes:
        raise place.error(f"unpacks to {total:,} bytes, more than {limits.max_total_bytes:,}")


def _damaged(place: Place, error: BaseException) -> BadInput:
    reason = str(error) or type(error).__name__
    return place.error(f"is damaged or cannot be read: {reason}", "make or copy the bundle again")

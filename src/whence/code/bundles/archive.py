"""Read the members of a bundle, a zip archive or a folder, as streams.

Bundles are untrusted input. Paths that lead outside, links, encrypted or repeated members, and sizes beyond the
limits are refused before anything is read; damage found while reading is an error as well. Every error names
its location.
"""

from __future__ import annotations

import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import msgspec

from whence.ingest.decoding import refuse_wide_encoding
from whence.schema.errors import BadInput, error_text

_MIB = 1024 * 1024


class Location(msgspec.Struct, frozen=True, gc=False):
    """A bundle, one of its members, a line of the member, and the number of an item in a list."""

    bundle: str
    member: str = ""
    """Path within the bundle; empty for the bundle as a whole."""
    line: int = 0
    """1-based; 0 for the member as a whole."""
    item: int = 0
    """1-based; 0 outside lists."""

    def __str__(self) -> str:
        bundle = _printable(self.bundle)
        member = f"{bundle}: {_printable(self.member)}" if self.member else bundle
        line = f", line {self.line}" if self.line else ""
        item = f", item {self.item}" if self.item else ""
        return member + line + item

    def at_line(self, line: int, item: int = 0) -> Location:
        """Return a line of the same member."""
        return Location(self.bundle, self.member, line, item)

    def in_member(self, member: str) -> Location:
        """Return a member of the same bundle."""
        return Location(self.bundle, member)

    def error(self, reason: str, hint: str = "") -> BadInput:
        """Return an error about this location."""
        return BadInput(f"{self}: {reason}", hint=hint)

    @contextmanager
    def prefix_errors(self) -> Iterator[None]:
        """Prefix the message of any `BadInput` raised in the block with this location."""
        try:
            yield
        except BadInput as error:
            raise self.error(error.message, error.hint) from error

    def decode(self, data: bytes | bytearray) -> str:
        """Decode UTF-8 that begins on this line."""
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            line = max(self.line, 1) + data.count(b"\n", 0, error.start)
            raise self.at_line(line, self.item).error(
                f"is not UTF-8: byte 0x{data[error.start]:02x}", "save the member as UTF-8"
            ) from error


def _printable(text: str) -> str:
    """Escape control characters, so that a name cannot control the terminal."""
    return text if text.isprintable() else repr(text)[1:-1]


class BundleLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits against archives made to exhaust memory or disk; sizes in bytes, unpacked."""

    max_members: int = 200_000
    max_total_bytes: int = 16 * 1024 * _MIB
    max_item_bytes: int = 16 * _MIB
    """One node, list of dependencies, line or SQL body; one of these is in memory at a time."""
    max_ratio: int = 250
    """Unpacked size over packed size of one file. Source code has 3 to 30; the maximum of deflate is 1,032
    (zlib technical notes)."""
    ratio_from_bytes: int = 4 * _MIB
    """The ratio of smaller files is not limited."""


#: Exceptions of `zipfile` and `zlib` on damaged input, found by fuzzing.
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
#: Files that operating systems add to folders and archives.
_SYSTEM_FILES = ("__MACOSX/", ".DS_Store")


class MemberStream:
    """The bytes of one member; every error names it."""

    def __init__(self, stream: IO[bytes], location: Location) -> None:
        self._stream = stream
        self.location = location

    def read(self, size: int) -> bytes:
        """Return up to `size` more bytes, none at the end."""
        try:
            return self._stream.read(size)
        except _DAMAGE as error:
            raise _damaged(self.location, error) from error

    def readline(self, size: int) -> bytes:
        """Return up to `size` bytes of the next line, with its line end."""
        try:
            return self._stream.readline(size)
        except _DAMAGE as error:
            raise _damaged(self.location, error) from error


class Archive(msgspec.Struct, frozen=True):
    """An open bundle: its members by name, and their bytes."""

    name: str
    sizes: Mapping[str, int]
    """Unpacked size of each member in bytes, by its name with `/`."""
    opener: Callable[[str], IO[bytes]]
    limits: BundleLimits

    def location(self, member: str) -> Location:
        """Return the location of a member."""
        return Location(self.name, member)

    @contextmanager
    def open(self, member: str) -> Iterator[MemberStream]:
        """Open a member for reading."""
        location = self.location(member)
        try:
            stream = self.opener(member)
        except _DAMAGE as error:
            raise _damaged(location, error) from error
        with stream:
            yield MemberStream(stream, location)

    def read(self, member: str) -> bytes:
        """Return all bytes of a small member."""
        limit = self.limits.max_item_bytes
        with self.open(member) as stream:
            data = stream.read(limit + 1)
        if len(data) > limit:
            raise self.location(member).error(f"is larger than {limit:,} bytes")
        return data

    def read_text(self, member: str) -> str:
        """Return the text of a small UTF-8 member, without a byte order mark."""
        data, location = self.read(member), self.location(member)
        with location.prefix_errors():
            refuse_wide_encoding(data)
        return location.decode(data).removeprefix("\ufeff")


@contextmanager
def open_archive(path: Path, limits: BundleLimits) -> Iterator[Archive]:
    """Open a zip archive or an unpacked folder.

    Cost: linear in the number of members; nothing is unpacked.
    """
    location = Location(path.name or str(path))
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        raise location.error("the file or folder does not exist") from error
    if stat.S_ISDIR(mode):
        yield _folder(path, location, limits)
        return
    if not stat.S_ISREG(mode):
        raise location.error("is neither a folder nor a zip archive")
    try:
        packed = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        reason = f"is neither a folder nor a whole zip archive ({error})"
        raise location.error(reason, "make or copy the bundle again") from error
    except _DAMAGE as error:
        raise _damaged(location, error) from error
    with packed:
        yield _zip(packed, location, limits)


def _zip(packed: zipfile.ZipFile, location: Location, limits: BundleLimits) -> Archive:
    entries: dict[str, zipfile.ZipInfo] = {}
    for info in packed.infolist():
        name = _safe_name(info.filename, location)
        if info.is_dir() or _is_system_file(name):
            continue
        member = location.in_member(name)
        _check_entry(info, member, limits)
        if name in entries:
            raise member.error("is in the archive twice")
        entries[name] = info
        if len(entries) > limits.max_members:
            raise location.error(f"holds more than {limits.max_members:,} files")
    sizes = {name: info.file_size for name, info in entries.items()}
    _check_total(sizes, location, limits)
    return Archive(location.bundle, sizes, lambda member: packed.open(entries[member]), limits)


def _check_entry(info: zipfile.ZipInfo, member: Location, limits: BundleLimits) -> None:
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


def _folder(root: Path, location: Location, limits: BundleLimits) -> Archive:
    sizes: dict[str, int] = {}
    for path in _files(root, location):
        name = _safe_name(path.relative_to(root).as_posix(), location)
        member = location.in_member(name)
        if _is_system_file(name):
            continue
        try:
            status = path.lstat()
        except OSError as error:
            raise _damaged(member, error) from error
        if not stat.S_ISREG(status.st_mode):
            raise member.error("is a link or another special file", "put the file itself there")
        sizes[name] = status.st_size
        if len(sizes) > limits.max_members:
            raise location.error(f"holds more than {limits.max_members:,} files")
    _check_total(sizes, location, limits)

    def opener(member: str) -> IO[bytes]:
        # O_NOFOLLOW refuses a link that replaced the file after the check.
        handle = os.open(root / member, os.O_RDONLY | os.O_NOFOLLOW)
        return os.fdopen(handle, "rb")

    return Archive(location.bundle, sizes, opener, limits)


def _files(root: Path, location: Location) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise location.error(f"cannot be read: {error.strerror}") from error

    for folder, folders, names in os.walk(root, onerror=refuse):
        folders.sort()
        links = [name for name in folders if Path(folder, name).is_symlink()]
        for name in sorted(names) + links:
            yield Path(folder, name)


def _safe_name(name: str, location: Location) -> str:
    r"""Return a member's name with `/` between its parts, refusing absolute paths and `..`.

    Some archivers write `\` between parts, so `..\x` is refused as well.
    """
    parts = name.replace("\\", "/").removesuffix("/").split("/")
    member = location.in_member(name)
    if any(part in ("", ".", "..") for part in parts) or parts[0][1:2] == ":":
        raise member.error("is an unsafe path", "a member's path is relative and has no '..'")
    with suppress(UnicodeEncodeError):
        name.encode()
        return "/".join(parts)
    raise member.error("has a path that is not UTF-8")


def _is_system_file(name: str) -> bool:
    return name.startswith(_SYSTEM_FILES[0]) or name.rsplit("/", 1)[-1] == _SYSTEM_FILES[1]


def _check_total(sizes: Mapping[str, int], location: Location, limits: BundleLimits) -> None:
    total = sum(sizes.values())
    if total > limits.max_total_bytes:
        raise location.error(f"unpacks to {total:,} bytes, more than {limits.max_total_bytes:,}")


def _damaged(location: Location, error: BaseException) -> BadInput:
    return location.error(
        f"is damaged or cannot be read: {error_text(error)}", "make or copy the bundle again"
    )

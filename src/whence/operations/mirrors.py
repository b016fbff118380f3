"""Mirrors: folders of the home that are kept equal to sources, so that their files are read as all others are.

A mirror has the files of a source, and beside them its entries with their versions. Of a file that changed the
entry is removed first and written last, so what a killed process left is fetched again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import msgspec

from whence.ingest.catalogue import check_root_name
from whence.ingest.reading_process import failure_reason
from whence.ingest.remote_sources import (
    RemoteSource,
    SourceEntry,
    is_address,
    open_source,
    shown_address,
)
from whence.ingest.sources import is_left_out
from whence.operations.output_files import write_text
from whence.operations.results import PathFailure
from whence.schema.errors import BadInput, WhenceError

if TYPE_CHECKING:
    from whence.operations.session import Session

#: Seconds that a process waits for another one that fetches the same source.
_LOCK_S = 3600.0
#: Largest file that is fetched, in bytes: no larger one is read.
_MAX_BYTES = 128 * 2**20
_BLOCK = 2**20


class _Kept(msgspec.Struct, kw_only=True):
    """What is known of a mirror."""

    address: str
    state: str = ""
    entries: dict[str, SourceEntry] = {}


class Mirror(NamedTuple):
    """Where a path or source can be read."""

    path: Path
    failures: Sequence[PathFailure] = ()
    """Files that could not be fetched; a former version of them stays."""


async def mirrored(session: Session, paths: Sequence[str | os.PathLike[str]]) -> list[Mirror]:
    """Return the paths, with an equal folder in place of each address of a source.

    Raises:
        BadInput: There is no such source, or it cannot be read.
        Unavailable: It does not answer.
    """
    found = []
    for path in paths:
        if is_address(path):
            found.append(await _refreshed(session, os.fspath(path)))
        else:
            found.append(Mirror(Path(path)))
    return found


async def mirror_entries(session: Session, path: Path) -> Mapping[str, SourceEntry]:
    """Return what a source says of the files of its mirror; nothing for other folders."""
    folder = path.parent
    if folder.parent != _home(session) or not (folder / "entries.json").is_file():
        return {}
    async with _locked(folder, shared=True):
        return _read(folder, "").entries


async def _refreshed(session: Session, address: str) -> Mirror:
    """Make the mirror of a source equal to it."""
    folder = _home(session) / hashlib.sha256(address.encode()).hexdigest()[:32]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with _locked(folder):
        return await asyncio.to_thread(_refresh, folder, address)


@contextlib.asynccontextmanager
async def _locked(folder: Path, *, shared: bool = False) -> AsyncIterator[None]:
    from whence.store.postgres.server.locks import FileLock

    lock = FileLock(folder / "lock", "another process that reads this source")
    await lock.acquire(_LOCK_S, shared=shared)
    try:
        yield
    finally:
        lock.release()


def _home(session: Session) -> Path:
    return Path(session.settings.home).expanduser().absolute() / "sources"


def _refresh(folder: Path, address: str) -> Mirror:
    source = open_source(address, folder / "own")
    try:
        return _fetch(folder, address, source)
    finally:
        source.close()


def _fetch(folder: Path, address: str, source: RemoteSource) -> Mirror:
    files = folder / check_root_name(source.name)
    files.mkdir(exist_ok=True)
    shown = shown_address(address)
    kept = _read(folder, shown)
    listing = source.list_entries(kept.state)
    wanted = {one.path: one for one in listing.entries if not _is_left_out(one.path)}
    same = {
        path: one
        for path, one in kept.entries.items()
        if path in wanted and wanted[path].version == one.version and (files / path).is_file()
    }
    _remove_others(files, wanted)
    _write(folder, msgspec.structs.replace(kept, entries=same))
    failures, entries = [], {}
    for path, one in wanted.items():
        former = same.get(path)
        if former is not None:
            entries[path] = msgspec.structs.replace(one, metadata=one.metadata or former.metadata)
            continue
        try:
            _check(one)
            with source.open_entry(one) as stream:
                _store(stream, files / path, folder / "new")
            entries[path] = one
        except Exception as error:  # noqa: BLE001 - the failure of this file alone
            reason = error.message if isinstance(error, WhenceError) else failure_reason(error)
            failures.append(PathFailure(path=f"{shown}: {path}", reason=reason))
    _write(
        folder,
        _Kept(address=shown, state=kept.state if failures else listing.state, entries=entries),
    )
    return Mirror(files, failures)


def _is_left_out(path: str) -> bool:
    return any(is_left_out(part) for part in path.split("/") if part not in ("", "..", "."))


def _check(entry: SourceEntry) -> None:
    """Refuse a file that would be written elsewhere, or is larger than any that is read."""
    parts = entry.path.split("/")
    if "\0" in entry.path or PurePosixPath(entry.path).is_absolute() or {"", ".", ".."} & {*parts}:
        raise BadInput("its path is not one below the source")
    if entry.size > _MAX_BYTES:
        raise BadInput(f"is larger than {_MAX_BYTES:,} bytes")


def _store(stream: BinaryIO, path: Path, new: Path) -> None:
    size = 0
    with new.open("wb") as out:
        while block := stream.read(_BLOCK):
            size += len(block)
            if size > _MAX_BYTES:
                raise BadInput(f"is larger than {_MAX_BYTES:,} bytes")
            out.write(block)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.rmtree(path)
    new.replace(path)


def _remove_others(files: Path, wanted: Mapping[str, SourceEntry]) -> None:
    """Remove files that the source has no more, and the folders that are empty then."""
    for folder, _, names in os.walk(files, topdown=False):
        for name in names:
            path = Path(folder, name)
            if path.relative_to(files).as_posix() not in wanted:
                path.unlink()
        if Path(folder) != files:
            with contextlib.suppress(OSError):
                Path(folder).rmdir()


def _read(folder: Path, address: str) -> _Kept:
    try:
        return msgspec.json.decode((folder / "entries.json").read_bytes(), type=_Kept)
    except (OSError, msgspec.DecodeError):
        return _Kept(address=address)


def _write(folder: Path, kept: _Kept) -> None:
    write_text(folder / "entries.json", msgspec.json.encode(kept).decode())

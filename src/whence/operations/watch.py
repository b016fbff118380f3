"""Keep a collection equal to folders: index what changes, and remove what goes, until stopped."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import msgspec

from whence.ingest.remote_sources import is_address, shown_address
from whence.ingest.selection import Selection
from whence.ingest.sources import is_left_out
from whence.operations.index import Index, ReadsFolders
from whence.operations.operation import PYTHON, Offered
from whence.operations.output_files import write_text
from whence.schema.errors import BadInput, Unavailable, WhenceError

if TYPE_CHECKING:
    from whence.operations.results import IndexReport
    from whence.operations.session import Session

#: Milliseconds of silence after which changes are indexed together, and after which they are in any case.
_QUIET_MS, _LONGEST_MS = 200, 1600
#: Milliseconds between two looks at a folder that reports no changes.
_POLL_MS = 2000
#: Seconds between two looks at a source.
_SOURCE_POLL_S = 15.0
#: Seconds until passages that wait for vectors are looked at, and until a failed change is tried again.
_EMBEDDING_PAUSE_S = 1.0
_FIRST_RETRY_S, _LONGEST_RETRY_S = 1.0, 30.0
#: Types of file systems whose changes the kernel does not see when another machine makes them.
_REMOTE = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "vboxsf", "fuse.sshfs", "fuse.rclone", "davfs"}
)


class WatchEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a watch did, or could not do."""

    change: Literal["ready", "read", "removed", "skipped", "failed"]
    """`ready` once, when the collection is equal to the folders for the first time."""
    path: str = ""
    """Relative to its root; that of a folder that cannot be read as it was given."""
    root: str = ""
    document_id: str | None = None
    reason: str = ""
    """Why it was skipped or failed."""
    seconds: float = 0.0
    """From the report of the change until its words could be searched."""


class WatchState(msgspec.Struct, kw_only=True):
    """What `status` shows of a watch."""

    collection: str
    paths: list[str]
    started_at: str
    synced_at: str | None = None
    """When the collection was last equal to the folders; null before the first time."""
    changes: int = 0
    """Documents read or removed since it began."""
    fault: str = ""
    """Why the last changes could not be stored; empty when they were."""
    is_running: bool = False


class Watch(ReadsFolders[None], frozen=True):
    """Keep a collection equal to folders until stopped; see `whence watch`."""

    NAME: ClassVar[str] = "watch"
    audited: ClassVar[bool] = False

    # Two fields of the base have sentences of their own.
    prune: bool = False
    """At the start, remove documents of these paths whose files went before; what goes later always is."""
    dry_run: bool = False
    """Store nothing: report what would be done."""
    polling: Annotated[bool | None, Offered(option="--polling/--no-polling")] = None
    """Look at the folders again and again; by default for folders of other machines."""
    stop: Annotated[asyncio.Event | None, Offered(on=frozenset({PYTHON}), local=True)] = None
    """Ends the watch when it is set."""
    on_event: Annotated[
        Callable[[WatchEvent], None] | None, Offered(on=frozenset({PYTHON}), local=True)
    ] = None
    """Called with each change."""

    async def run(self, session: Session) -> None:
        """Watch until `stop` is set or the call is cancelled.

        Raises:
            BadInput: A path does not exist, or another process watches one of them for this collection.
        """
        from whence.operations.mirrors import mirrored

        folders = [one.path for one in await mirrored(session, self.paths)]
        asked = msgspec.structs.replace(self, paths=folders)
        with _state(session, asked) as state:
            await _Watching(session, asked, state, list(filter(is_address, self.paths))).run()


class _Watching:
    def __init__(
        self, session: Session, asked: Watch, state: _StateFile, sources: Sequence[Any]
    ) -> None:
        self._session = session
        self._asked = asked
        self._sources = sources
        self._state = state
        self._stop = asked.stop or asyncio.Event()
        self._report = asked.on_event or (lambda _: None)
        self._changed: set[str] = set()
        self._woken = asyncio.Event()
        self._since = 0.0

    async def run(self) -> None:
        from whence.operations.pending_vectors import keep_embedding

        # Watched before the first look, so that no change falls between the two.
        tasks = [asyncio.create_task(each) for each in self._watchers()]
        tasks += [asyncio.create_task(self._poll(one)) for one in self._sources]
        try:
            await asyncio.sleep(0)
            report = await self._index(None, prune=self._asked.prune)
            self._tell(report, with_skipped=False)
            self._report(WatchEvent(change="ready"))
            if not self._asked.dry_run:
                tasks.append(asyncio.create_task(keep_embedding(self._session, _EMBEDDING_PAUSE_S)))
            await self._follow()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _watchers(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield what watches the folders, and, of files that were named, their folders alone."""
        paths = [os.path.realpath(path) for path in self._asked.paths]
        folders = [path for path in paths if Path(path).is_dir()]
        files = {path for path in paths if path not in folders}
        if folders:
            yield self._watch(folders, None)
        if files:
            yield self._watch(sorted({str(Path(path).parent) for path in files}), files)

    async def _watch(self, folders: list[str], files: set[str] | None) -> None:
        from watchfiles import awatch

        polling = self._asked.polling
        if polling is None:
            polling = any(map(_is_remote, folders))
        async for changes in awatch(
            *folders,
            watch_filter=lambda _, path: files is None or path in files,
            debounce=_LONGEST_MS,
            step=_QUIET_MS,
            stop_event=self._stop,
            recursive=files is None,
            force_polling=polling,
            poll_delay_ms=_POLL_MS,
            ignore_permission_denied=True,
        ):
            if not self._changed:
                self._since = asyncio.get_running_loop().time()
            self._changed |= {path for _, path in changes if not _is_hidden(path, folders)}
            self._woken.set()

    async def _poll(self, source: str) -> None:
        """Look at a source again and again; what changed is then seen in the folder that mirrors it."""
        from whence.operations.mirrors import mirrored

        while True:
            await asyncio.sleep(_SOURCE_POLL_S)
            try:
                (mirror,) = await mirrored(self._session, [source])
            except WhenceError as error:
                self._state.note(fault=error.message)
                self._report(
                    WatchEvent(change="failed", path=shown_address(source), reason=error.message)
                )
                continue
            for one in mirror.failures:
                self._report(WatchEvent(change="failed", path=one.path, reason=one.reason))

    async def _follow(self) -> None:
        """Index what changed, until stopped; what cannot be stored now is tried again."""
        pause = _FIRST_RETRY_S
        while not self._stop.is_set():
            await _first_of(self._stop, self._woken)
            self._woken.clear()
            changed, self._changed = self._changed, set()
            changed -= self._unreadable(changed)
            if not changed or self._stop.is_set():
                continue
            since = self._since
            try:
                report = await self._index(Selection(changed), prune=True)
            except WhenceError as error:
                self._changed |= changed
                self._state.note(fault=error.message)
                self._report(WatchEvent(change="failed", reason=error.message))
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), pause)
                pause = min(2 * pause, _LONGEST_RETRY_S)
                self._woken.set()
                continue
            pause = _FIRST_RETRY_S
            self._tell(report, seconds=asyncio.get_running_loop().time() - since)

    def _unreadable(self, changed: set[str]) -> set[str]:
        """Return the changes below folders that are not there or empty, as one that is unmounted is."""
        gone: set[str] = set()
        for path in map(os.path.realpath, self._asked.paths):
            below = {one for one in changed if one == path or one.startswith(f"{path}/")}
            if not below or Path(path).is_file() or _holds_something(path):
                continue
            gone |= below
            reason = "the folder is empty, missing or cannot be listed: nothing of it is removed"
            self._state.note(fault=f"{path}: {reason}")
            self._report(WatchEvent(change="failed", path=path, reason=reason))
        return gone

    async def _index(self, only: Selection | None, *, prune: bool) -> IndexReport:
        from whence.operations.indexing import index_paths

        given = {one: getattr(self._asked, one) for one in ReadsFolders.__struct_fields__}
        index = Index(**{**given, "prune": prune}, wait=False)
        return await index_paths(self._session, index, only=only)

    def _tell(
        self, report: IndexReport, *, seconds: float = 0.0, with_skipped: bool = True
    ) -> None:
        """Report what became of files, sorted by path."""
        done = 0
        for one in report.files:
            if one.state == "unchanged" or (one.state == "skipped" and not with_skipped):
                continue
            done += one.state in ("read", "removed")
            event = WatchEvent(
                change=one.state,
                path=one.path,
                root=one.root,
                document_id=one.document_id,
                reason=one.reason,
                seconds=round(seconds, 3),
            )
            self._report(event)
        self._state.note(changes=done)


async def _first_of(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def _holds_something(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return next(iter(entries), None) is not None
    except OSError:
        return False


def _is_hidden(path: str, folders: Sequence[str]) -> bool:
    """Return whether a path is that of a program below the folder that is watched."""
    base = max((one for one in folders if path.startswith(f"{one}/")), key=len, default="")
    return any(map(is_left_out, filter(None, path[len(base) :].split("/"))))


def _is_remote(path: str) -> bool:
    """Return whether a folder is on another machine, by the table of mounts of Linux."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    fields = [line.split() for line in mounts.splitlines()]
    around = [
        (len(mount), kind)
        for _, mount, kind, *_ in fields
        if path == mount or path.startswith(f"{mount.rstrip('/')}/")
    ]
    return max(around, default=(0, ""))[1] in _REMOTE


class _StateFile:
    def __init__(self, path: Path, state: WatchState) -> None:
        self._path = path
        self._state = state
        self._write()

    def note(self, *, changes: int = 0, fault: str = "") -> None:
        """Write what became of the last changes."""
        self._state.changes += changes
        self._state.fault = fault
        if not fault:
            self._state.synced_at = _now()
        self._write()

    def _write(self) -> None:
        # A full disk ends no watch.
        with suppress(BadInput):
            write_text(self._path, msgspec.json.encode(self._state).decode())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@contextmanager
def _state(session: Session, asked: Watch) -> Iterator[_StateFile]:
    """Lock the paths for one watch, and yield the file that says how it goes."""
    from whence.store.postgres.server.locks import FileLock

    folder = _folder(session)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    paths = sorted({os.path.realpath(path) for path in asked.paths})
    key = hashlib.sha256(
        msgspec.json.encode([session.settings.database_url or "", asked.collection])
    )
    locks: list[FileLock] = []
    try:
        for path in paths:
            name = hashlib.sha256(key.digest() + path.encode(errors="surrogateescape"))
            lock = FileLock(folder / f"{name.hexdigest()[:32]}.lock", "a watch")
            if not lock.try_acquire():
                raise BadInput(
                    f"{path} is watched already for collection {asked.collection!r}",
                    hint="stop the other `whence watch` first, or leave it to it",
                )
            locks.append(lock)
        state = WatchState(collection=asked.collection, paths=paths, started_at=_now())
        yield _StateFile(locks[0].path.with_suffix(".json"), state)
    except OSError as error:
        raise Unavailable(f"cannot write {folder}: {error.strerror}") from error
    finally:
        for lock in locks:
            lock.release()


def _folder(session: Session) -> Path:
    return Path(session.settings.home).expanduser() / "watch"


def watch_states(home: Path) -> list[WatchState]:
    """Return what the watches of a home did, by path; those that ended are not running."""
    from whence.store.postgres.server.locks import FileLock

    found: list[WatchState] = []
    for file in sorted((home / "watch").glob("*.json")):
        with suppress(OSError, msgspec.DecodeError):
            state = msgspec.json.decode(file.read_bytes(), type=WatchState)
            lock = FileLock(file.with_suffix(".lock"), "a watch")
            state.is_running = not lock.try_acquire()
            lock.release()
            found.append(state)
    return sorted(found, key=lambda one: (one.collection, one.paths))

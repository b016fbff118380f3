"""Git as a source: the files of one commit, with author and date of the last change of each.

Addresses are those of pip: `git+file:///srv/handbook@main#subdirectory=docs`, or `git:PATH`. A repository of
this machine is read where it lies; another one is cloned into the folder of the source, and fetched from then
on. What did not change since the last listing is neither read nor looked up. Links and submodules are left out.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from urllib.parse import parse_qs, unquote, urlsplit

from whence.ingest.remote_sources import Listing, SourceEntry, shown_address
from whence.schema.errors import BadInput, Unavailable

_SCHEMES = ("file", "http", "https", "ssh")
#: Longest clone or fetch, and any other command, in seconds.
_CLONE_S, _COMMAND_S = 3600.0, 600.0
#: A repository may neither ask for a password nor start other programs.
_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": ":".join(_SCHEMES),
    "LC_ALL": "C",
}
_GIT = ("git", "--no-pager", "-c", "log.showSignature=false", "-c", "core.quotePath=false")
#: Of a commit: hash, author and time, before the names of its files.
_COMMIT = "--format=%x01%H%x02%an%x02%aI%x03"
_FILE_MODES = (b"100644", b"100755")


class GitSource:
    """The files of a commit.

    Args:
        address: See the module.
        folder: Where another machine's repository is cloned to.
    """

    def __init__(self, address: str, folder: Path) -> None:
        parts = urlsplit(address.removeprefix("git+").removeprefix("git:"))
        path, _, ref = parts.path.partition("@")
        options = parse_qs(parts.fragment)
        if parts.scheme not in ("", *_SCHEMES) or not path or set(options) - {"subdirectory"}:
            raise BadInput(
                f"{shown_address(address)} is not the address of a repository",
                hint="for example git+file:///srv/handbook@main#subdirectory=docs",
            )
        self._ref = unquote(ref) or "HEAD"
        if self._ref.startswith("-"):
            raise BadInput(f"{self._ref!r} is not a name of a branch, tag or commit")
        self._below = options.get("subdirectory", [""])[0].strip("/")
        path = unquote(path)
        self.name = (self._below or path).rstrip("/").rpartition("/")[2].removesuffix(".git")
        self._is_local = parts.scheme in ("", "file")
        self._url = path if self._is_local else parts._replace(path=path, fragment="").geturl()
        self._folder = Path(path) if self._is_local else folder / "repository.git"
        self._blobs: subprocess.Popen[bytes] | None = None

    def list_entries(self, state: str) -> Listing:
        """Return the files of the commit that the ref names now."""
        if not self._is_local:
            self._fetch()
        elif not self._folder.is_dir():
            raise BadInput(f"{self._url} is no repository: there is no such folder")
        commit = self._commit()
        files = dict(self._files(commit))
        about = {} if commit == state else self._changes(state, commit)
        entries = [
            SourceEntry(path=path, version=version, size=size, metadata=about.get(path, {}))
            for path, (version, size) in files.items()
        ]
        return Listing(entries=entries, state=commit)

    def open_entry(self, entry: SourceEntry) -> BinaryIO:
        """Return the bytes of a file, from one process that reads all."""
        if self._blobs is None:
            self._blobs = subprocess.Popen(
                [*_GIT, "-C", self._folder, "cat-file", "--batch"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=os.environ | _ENVIRONMENT,
            )
        requests, replies = self._blobs.stdin, self._blobs.stdout
        assert requests is not None
        assert replies is not None
        requests.write(entry.version.encode() + b"\n")
        requests.flush()
        head = replies.readline().split()
        if len(head) != 3:
            raise Unavailable(f"git has no object {entry.version}")
        data = replies.read(int(head[2]))
        replies.read(1)
        return io.BytesIO(data)

    def close(self) -> None:
        """End the process that reads files."""
        if self._blobs is not None:
            self._blobs.kill()
            self._blobs.communicate()

    def _fetch(self) -> None:
        if self._folder.is_dir():
            self._git("fetch", "--prune", "--quiet", "origin", "+refs/*:refs/*", seconds=_CLONE_S)
            return
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        begun = self._folder.with_suffix(".new")
        command = ("clone", "--mirror", "--quiet", "--", self._url, str(begun))
        shutil.rmtree(begun, ignore_errors=True)
        _run((*_GIT, *command), self._url, _CLONE_S)
        begun.rename(self._folder)

    def _commit(self) -> str:
        name = f"{self._ref}^{{commit}}"
        return self._git("rev-parse", "--verify", "--end-of-options", name).decode().strip()

    def _files(self, commit: str) -> Iterator[tuple[str, tuple[str, int]]]:
        """Yield the path below the folder that is wanted, the hash and the size of each file."""
        tree = f"{commit}:{self._below}" if self._below else commit
        for line in self._git("ls-tree", "-r", "-l", "-z", "--full-tree", tree).split(b"\0"):
            about, _, path = line.partition(b"\t")
            if path and about[:6] in _FILE_MODES:
                _, _, version, size = about.split()
                yield _name(path), (version.decode(), int(size))

    def _changes(self, state: str, commit: str) -> dict[str, dict[str, str]]:
        """Return the last change of each file that changed since a commit, the newest first."""
        wanted = f"{state}..{commit}" if self._is_ancestor(state, commit) else commit
        command = ("log", "--no-renames", "--name-only", "-z", _COMMIT, wanted, "--")
        prefix = f"{self._below}/" if self._below else ""
        found: dict[str, dict[str, str]] = {}
        for record in self._git(*command).split(b"\1")[1:]:
            head, _, names = record.partition(b"\3")
            number, author, date = head.decode(errors="replace").split("\2")
            about = {"author": author, "date": date, "commit": number}
            for name in filter(None, names.replace(b"\n", b"").split(b"\0")):
                found.setdefault(_name(name).removeprefix(prefix), about)
        return found

    def _is_ancestor(self, state: str, commit: str) -> bool:
        if not state:
            return False
        command = (*_GIT, "-C", str(self._folder), "merge-base", "--is-ancestor", state, commit)
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    def _git(self, *arguments: str, seconds: float = _COMMAND_S) -> bytes:
        return _run((*_GIT, "-C", str(self._folder), *arguments), self._url, seconds)


def _run(command: tuple[str, ...], url: str, seconds: float) -> bytes:
    what = shown_address(url)
    try:
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=seconds,
            env=os.environ | _ENVIRONMENT,
        )
    except FileNotFoundError as error:
        raise BadInput(
            f"{what} cannot be read: the command git is not installed",
            hint="install git, e.g. `apt-get install git`",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{what}: git took more than {seconds:g} s") from error
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise BadInput(f"{what} cannot be read: git says {lines[-1].replace(url, what)!r}")
    return done.stdout


def _name(path: bytes) -> str:
    return path.decode(errors="backslashreplace")

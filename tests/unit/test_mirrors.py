"""Mirrors: folders that are kept equal to sources, whatever a source says or whenever a process ends."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from whence.ingest.remote_sources import Listing, SourceEntry
from whence.operations import mirrors
from whence.schema.errors import Unavailable


class Shelf:
    """A source in memory."""

    name = "shelf"

    def __init__(self) -> None:
        self.files: dict[str, tuple[str, bytes]] = {}
        self.metadata: dict[str, dict[str, str]] = {}
        self.opened: list[str] = []
        self.states: list[str] = []
        self.broken: set[str] = set()

    def list_entries(self, state: str) -> Listing:
        self.states.append(state)
        entries = [
            SourceEntry(path=path, version=version, metadata=self.metadata.get(path, {}))
            for path, (version, _) in self.files.items()
        ]
        return Listing(entries=entries, state=f"after {len(self.states)}")

    def open_entry(self, entry: SourceEntry) -> BinaryIO:
        self.opened.append(entry.path)
        if entry.path in self.broken:
            raise Unavailable("the shelf is locked")
        return io.BytesIO(self.files[entry.path][1])

    def close(self) -> None:
        pass


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    found = Shelf()
    monkeypatch.setattr(mirrors, "open_source", lambda *_: found)
    return found


@pytest.fixture
def refresh(tmp_path: Path, shelf: Shelf) -> Callable[[], mirrors.Mirror]:
    def run() -> mirrors.Mirror:
        shelf.opened.clear()
        return mirrors._refresh(tmp_path, "shelf:x")

    return run


def texts(mirror: mirrors.Mirror) -> dict[str, str]:
    return {
        path.relative_to(mirror.path).as_posix(): path.read_text()
        for path in sorted(mirror.path.rglob("*"))
        if path.is_file()
    }


def test_what_changed_is_fetched_and_what_went_is_removed(
    shelf: Shelf, refresh: Callable[[], mirrors.Mirror]
) -> None:
    """By version alone; a folder may take the place of a file, and a file that of a folder."""
    shelf.files = {"a.md": ("1", b"one"), "b": ("1", b"two"), "c/d.md": ("1", b"three")}
    assert texts(refresh()) == {"a.md": "one", "b": "two", "c/d.md": "three"}
    assert shelf.opened == ["a.md", "b", "c/d.md"]

    assert len(texts(refresh())) == 3
    assert shelf.opened == []

    shelf.files = {"a.md": ("2", b"new"), "b/x.md": ("1", b"in b"), "c": ("1", b"file")}
    assert texts(refresh()) == {"a.md": "new", "b/x.md": "in b", "c": "file"}
    assert shelf.states == ["", "after 1", "after 2"]


def test_metadata_of_an_unchanged_file_stay(
    shelf: Shelf, refresh: Callable[[], mirrors.Mirror], tmp_path: Path
) -> None:
    """A source says only of what changed who did it."""
    shelf.files, shelf.metadata = {"a.md": ("1", b"one")}, {"a.md": {"author": "Ada"}}
    refresh()
    shelf.metadata = {}
    refresh()

    assert mirrors._read(tmp_path, "").entries["a.md"].metadata == {"author": "Ada"}


def test_a_file_that_cannot_be_fetched_is_named_and_stays(
    shelf: Shelf, refresh: Callable[[], mirrors.Mirror]
) -> None:
    """Others are fetched; it is tried again, from the state of before; and it goes with its source."""
    shelf.files = {"a.md": ("1", b"one"), "b.md": ("1", b"two")}
    refresh()
    shelf.files = {"a.md": ("2", b"new"), "b.md": ("2", b"newer")}
    shelf.broken = {"a.md"}
    mirror = refresh()
    assert [(one.path, one.reason) for one in mirror.failures] == [
        ("shelf:x: a.md", "the shelf is locked")
    ]
    assert texts(mirror) == {"a.md": "one", "b.md": "newer"}

    shelf.broken = set()
    assert texts(refresh()) == {"a.md": "new", "b.md": "newer"}
    assert (shelf.opened, shelf.states[-1]) == (["a.md"], "after 1")

    shelf.broken, shelf.files = {"a.md"}, {"a.md": ("3", b"newest")}
    refresh()
    shelf.files = {"b.md": ("2", b"newer")}
    assert texts(refresh()) == {"b.md": "newer"}


@pytest.mark.parametrize("path", ["../out.md", "/out.md", "a//b.md", "a/../../out.md", "nul\0.md"])
def test_no_file_is_written_elsewhere(
    shelf: Shelf, refresh: Callable[[], mirrors.Mirror], tmp_path: Path, path: str
) -> None:
    """A path that leads out of the source fails, and others are fetched."""
    shelf.files = {path: ("1", b"bad"), "good.md": ("1", b"good")}
    mirror = refresh()

    assert len(mirror.failures) == 1
    assert texts(mirror) == {"good.md": "good"}
    assert not list(tmp_path.parent.rglob("out.md"))


def test_a_file_that_is_too_large_fails(
    shelf: Shelf, refresh: Callable[[], mirrors.Mirror], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the source does not say its size."""
    monkeypatch.setattr(mirrors, "_MAX_BYTES", 10)
    shelf.files = {"big.md": ("1", b"x" * 11), "small.md": ("1", b"x" * 10)}
    mirror = refresh()

    assert ["larger than" in one.reason for one in mirror.failures] == [True]
    assert list(texts(mirror)) == ["small.md"]


def test_what_a_killed_process_wrote_is_fetched_again(
    shelf: Shelf, refresh: Callable[[], mirrors.Mirror], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It wrote a newer version, which the source took back meanwhile."""
    shelf.files = {"a.md": ("1", b"one"), "b.md": ("1", b"two")}
    refresh()
    store = mirrors._store

    def killed(stream: BinaryIO, path: Path, new: Path) -> None:
        if path.name == "b.md":
            raise KeyboardInterrupt
        store(stream, path, new)

    monkeypatch.setattr(mirrors, "_store", killed)
    shelf.files = {"a.md": ("2", b"new"), "b.md": ("2", b"new")}
    with pytest.raises(KeyboardInterrupt):
        refresh()
    monkeypatch.setattr(mirrors, "_store", store)
    shelf.files = {"a.md": ("1", b"one"), "b.md": ("1", b"two")}

    assert texts(refresh()) == {"a.md": "one", "b.md": "two"}

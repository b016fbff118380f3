"""`whence watch` as a person runs it: files change while it runs."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.serving import serving


class Watching:
    """A running watch and what it printed."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.events: list[dict[str, Any]] = []

    def until(self, change: str, path: str = "") -> dict[str, Any]:
        """Read events until one is of this kind and path."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))
            if (self.events[-1]["change"], self.events[-1]["path"]) == (change, path):
                return self.events[-1]
        raise AssertionError(f"ended with {self.process.wait()}: {self.events}")


@pytest.fixture
def start(cli: Any) -> Iterator[Callable[..., Watching]]:
    """Start watches of a collection; they are killed at the end."""
    running: list[subprocess.Popen[bytes]] = []

    def watch(*paths: str | Path, collection: str) -> Watching:
        process = cli.start("watch", *paths, "--collection", collection, "--json")
        running.append(process)
        return Watching(process)

    yield watch
    for process in running:
        process.kill()
        process.communicate()


def stored(cli: Any, collection: str) -> set[str]:
    """Return the ids of the documents that can be searched."""
    done = cli.on(collection)("documents", "--json")
    rows = [] if done.code else done.json["documents"]
    return {one["document_id"] for one in rows if one["state"] in ("read", "waiting")}


def test_changes_renames_and_removals_are_followed(cli: Any, start: Any, tmp_path: Path) -> None:
    """A new file is found, a moved one has its new path, one that goes is removed; SIGTERM ends it with 0."""
    folder = tmp_path / "share"
    folder.mkdir()
    (folder / "gate.md").write_text("The gate opens at seven.\n")
    watch = start(folder, collection="followed")
    watch.until("ready")
    (folder / "sub").mkdir()
    (folder / "sub" / "kettle.txt").write_text("The kettle is in the larder.\n")
    assert watch.until("read", "sub/kettle.txt")["document_id"] == "sub/kettle.txt"
    (folder / "gate.md").rename(folder / "sub" / "door.md")
    watch.until("removed", "gate.md")
    (folder / "sub" / "kettle.txt").unlink()
    watch.until("removed", "sub/kettle.txt")
    (folder / "~$door.md").write_text("a lock")
    (folder / "draft.tmp").write_text("The anvil is heavy.\n")
    (folder / "draft.tmp").rename(folder / "anvil.md")
    watch.until("read", "anvil.md")
    watch.process.send_signal(signal.SIGTERM)
    _, err = watch.process.communicate(timeout=30)
    assert (watch.process.returncode, err) == (0, b"")
    assert stored(cli, "followed") == {"anvil.md", "sub/door.md"}
    found = cli.on("followed")("search", "heavy anvil", "--json").json["hits"]
    assert found[0]["document_id"] == "anvil.md"


def test_a_second_watch_of_a_folder_ends(cli: Any, start: Any, tmp_path: Path) -> None:
    """Two processes do not keep one collection equal to one folder; another collection may be."""
    (tmp_path / "a.md").write_text("One.\n")
    start(tmp_path, collection="first-watch").until("ready")
    second = cli.on("first-watch")("watch", tmp_path)
    second.assert_error(2)
    assert "is watched already" in second.err
    start(tmp_path, collection="second-watch").until("ready")


def test_a_folder_that_is_gone_or_empty_removes_nothing(
    cli: Any, start: Any, tmp_path: Path
) -> None:
    """A folder that is moved away, as one that is unmounted is, keeps its documents, and is followed again."""
    folder = tmp_path / "share"
    folder.mkdir()
    (folder / "a.md").write_text("The gate opens at seven.\n")
    watch = start(folder, collection="mounted-watch")
    watch.until("ready")
    (folder / "a.md").rename(tmp_path / "a.md")
    watch.until("failed", str(folder))
    assert stored(cli, "mounted-watch") == {"a.md"}
    (tmp_path / "a.md").rename(folder / "a.md")
    (folder / "b.md").write_text("The kettle is in the larder.\n")
    watch.until("read", "b.md")
    assert stored(cli, "mounted-watch") == {"a.md", "b.md"}


def test_a_killed_watch_converges_when_it_runs_again(cli: Any, start: Any, tmp_path: Path) -> None:
    """What changed while nothing watched is found at the start; --prune also removes what went."""
    for name in "abc":
        (tmp_path / f"{name}.md").write_text(f"The word of {name} is {name * 5}.\n")
    watch = start(tmp_path, collection="killed-watch")
    watch.until("read", "a.md")
    watch.process.kill()
    watch.process.communicate()
    (tmp_path / "a.md").unlink()
    (tmp_path / "d.md").write_text("The word of d is ddddd.\n")
    again = start(tmp_path, "--prune", collection="killed-watch")
    again.until("ready")
    assert stored(cli, "killed-watch") == {"b.md", "c.md", "d.md"}


def test_a_dry_run_stores_nothing(cli: Any, start: Any, tmp_path: Path) -> None:
    """It tells what would be done."""
    (tmp_path / "a.md").write_text("One.\n")
    start(tmp_path, "--dry-run", collection="dry-watch").until("read", "a.md")
    assert stored(cli, "dry-watch") == set()


def test_a_server_watches_beside_serving(cli: Any, tmp_path: Path) -> None:
    """`serve --watch` answers from a file that came while it ran."""
    (tmp_path / "a.md").write_text("The gate opens at seven.\n")
    with serving(cli, "--watch", tmp_path, collection="beside-watch") as gateway:
        (tmp_path / "b.md").write_text("The kettle is in the larder.\n")
        found: list[str] = []
        for _ in range(200):
            reply = gateway.post("/v1/search", {"query": "kettle larder", "mode": "bm25"})
            found = [one["document_id"] for one in reply.json().get("hits", ())]
            if found[:1] == ["b.md"]:
                break
            time.sleep(0.2)
        assert found[:1] == ["b.md"]

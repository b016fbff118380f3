"""Documents that take too much, through the installed command: they fail alone, and Ctrl-C is heard."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import psutil
from tests.support.document_bombs import BOMBS


def test_a_document_beyond_a_limit_fails_alone(served: Any, tmp_path: Path) -> None:
    """Exit 1, the reason with the name of the setting; neighbours are stored; a bad setting is refused."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.rst").write_bytes(BOMBS["rst-different-sections"].data(4))
    (folder / "b.java").write_bytes(BOMBS["java-less"].data())
    (folder / "c.html").write_text("<h1>Rent</h1><p>Rent is 900 euros.</p>")
    done = served("index", folder, "--json", env={"WHENCE_DOCUMENT_TIMEOUT": "3"})

    assert done.code == 1, done.err
    counts = done.json["documents"]
    assert (counts["added"], counts["failed"]) == (1, 2)
    slow, large = done.json["failures"]
    assert slow["path"] == str(folder / "a.rst")
    assert slow["reason"] == (
        "reading took longer than 3 s (WHENCE_DOCUMENT_TIMEOUT); it was not indexed"
    )
    # On a busy machine the time may be over before the memory is used up.
    assert "(WHENCE_DOCUMENT_" in large["reason"]
    assert "900" in served("search", "rent", "--json").json["hits"][0]["chunk"]["content"]

    refused = served("index", folder, env={"WHENCE_DOCUMENT_MEMORY": "lots"})
    assert (refused.code, refused.err.count("error:")) == (2, 1)
    assert "document_memory must be a size such as 512MB" in refused.err


def test_ctrl_c_is_heard_while_a_document_is_read(
    served: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    """Exit 130 at once, not when the document is done; no process stays, no traceback is printed."""
    (tmp_path / "bomb.rst").write_bytes(BOMBS["rst-different-sections"].data(6))
    environment = served.environment(WHENCE_DOCUMENT_TIMEOUT="600")
    monkeypatch.setattr(served, "environment", lambda **more: environment | more)
    ours = signal.signal(signal.SIGINT, signal.default_int_handler)
    running = served.start("index", tmp_path / "bomb.rst", start_new_session=True)
    signal.signal(signal.SIGINT, ours)
    reading = busy_reader(running.pid)
    os.killpg(running.pid, signal.SIGINT)
    sent = time.monotonic()
    out, err = running.communicate(timeout=100)

    assert running.returncode == 130, err.decode()
    # The document would take minutes.
    assert time.monotonic() - sent < 30
    assert out == b""
    assert b"interrupted after 0 documents" in err
    assert b"Traceback" not in err
    assert not reading.is_running()


def busy_reader(parent: int) -> psutil.Process:
    """Wait for the process that reads documents, until it works on one; return it."""
    for _ in range(600):
        for one in psutil.Process(parent).children():
            cpu = one.cpu_times()
            if "whence.ingest.reading_process" in one.cmdline() and cpu.user > 1:
                return one
        time.sleep(0.1)
    raise AssertionError("nothing is read")

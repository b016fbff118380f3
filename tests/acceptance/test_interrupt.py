"""Ctrl-C during `whence index`: stored documents are complete, and the same command continues."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

RECORDS = 500
#: Requests have 64 texts, messages 128 documents, and two messages are in flight: the fifth request follows a
#: stored message.
FREE_REQUESTS = 4


#: Runs at the start of the command: prints the stack of each task on a signal.
DIAGNOSIS = """
import asyncio, signal, sys

def print_stacks(*_):
    for task in asyncio.all_tasks():
        task.print_stack(file=sys.stderr)

signal.signal(signal.SIGUSR2, print_stacks)
"""


class SlowEmbeddings:
    """An embedding service that answers a few requests and blocks the others until released."""

    def __init__(self) -> None:
        self.requests = 0
        self.stuck = threading.Event()
        self.released = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.requests += 1
                if outer.requests > FREE_REQUESTS:
                    outer.stuck.set()
                    outer.released.wait(60)
                rows = [
                    {"index": place, "embedding": [1.0, *[0.0] * 7]}
                    for place in range(len(json.loads(body)["input"]))
                ]
                data = json.dumps({"data": rows, "model": "slow"}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                # The client may have disconnected.
                with suppress(OSError):
                    self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                """Stay silent."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    @property
    def settings(self) -> dict[str, str]:
        """Environment that selects this service."""
        return {
            "WHENCE_EMBEDDER": "openai:slow",
            "OPENAI_BASE_URL": f"http://127.0.0.1:{self.server.server_port}/v1",
            "OPENAI_API_KEY": "none",
        }


@pytest.fixture
def embeddings() -> Iterator[SlowEmbeddings]:
    """Run the server beside the test."""
    one = SlowEmbeddings()
    thread = threading.Thread(target=one.server.serve_forever)
    thread.start()
    yield one
    one.released.set()
    one.server.shutdown()
    thread.join()
    one.server.server_close()


def test_ctrl_c_keeps_stored_documents(
    own: Any, embeddings: SlowEmbeddings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 130 with an error and a hint; no document is partial, duplicated or embedded twice."""
    (tmp_path / "sitecustomize.py").write_text(DIAGNOSIS)
    environment = own.environment(
        PYTHONFAULTHANDLER="1", PYTHONPATH=str(tmp_path), **embeddings.settings
    )
    monkeypatch.setattr(own, "environment", lambda **more: environment | more)
    records = tmp_path / "records.jsonl"
    records.write_text(
        "".join(f'{{"_id": "r{n}", "text": "Ship {n} sails."}}\n' for n in range(RECORDS))
    )
    # Jobs in the background of a shell ignore the signal, and so would their children.
    ours = signal.signal(signal.SIGINT, signal.default_int_handler)
    running = own.start("index", records, start_new_session=True)
    signal.signal(signal.SIGINT, ours)
    was_stuck = embeddings.stuck.wait(60)
    # A terminal sends the signal to all processes of the group, as is done here.
    os.killpg(running.pid, signal.SIGINT)
    try:
        out, err = running.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        # Tasks and threads then tell where it hung.
        running.send_signal(signal.SIGUSR2)
        with suppress(subprocess.TimeoutExpired):
            running.wait(2)
        running.send_signal(signal.SIGABRT)
        out, err = running.communicate()
    embeddings.released.set()
    before = counts(own)
    again = own("index", records, "--json")

    assert was_stuck
    assert running.returncode == 130, err.decode()
    assert out == b""
    assert b"interrupted after" in err
    assert b"run the same command again" in err
    assert b"Traceback" not in err
    documents, chunks = before
    assert 0 < documents == chunks < RECORDS
    assert again.code == 0, again.err
    told = again.json["documents"]
    assert (told["added"], told["unchanged"]) == (RECORDS - documents, documents)
    assert again.json["embedded"] == RECORDS - documents
    assert counts(own) == (RECORDS, RECORDS)


def counts(cli: Any) -> tuple[int, int]:
    """Return the numbers of documents and chunks that another process sees."""
    (one,) = cli("collections", "--json").json["collections"]
    return one["documents"], one["chunks"]

"""Services that fail or block during a command."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def chat_server(before_answer: Callable[[int], None]) -> Iterator[str]:
    """Run a chat service that calls a function with the number of each request before it answers."""
    calls = iter(range(1, 1_000))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            before_answer(next(calls))
            message = {"role": "assistant", "content": "company bikes [1]"}
            body = json.dumps({"choices": [{"message": message}], "usage": {}}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            # The client may have disconnected.
            with suppress(OSError):
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def bikes(own: Any, tmp_path: Path) -> Any:
    """Give the command on a home with one document."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "bikes.md").write_text("# Bikes\n\nCompany bikes are free for employees.\n")
    assert own("index", folder).code == 0
    return own


@pytest.mark.parametrize("call", [1, 2], ids=["before the search", "before the answer"])
def test_a_database_killed_mid_question(bikes: Any, call: int) -> None:
    """The question ends with an answer or with exit 4, and the next question is answered."""

    def kill(number: int) -> None:
        if number == call:
            pid = int((bikes.home / "postgres" / "postmaster.pid").read_text().split()[0])
            os.kill(pid, signal.SIGKILL)

    with chat_server(kill) as url:
        environment = {
            "WHENCE_WRITER": "openai:some-model",
            "OPENAI_BASE_URL": url,
            "OPENAI_API_KEY": "k",
        }
        result = bikes("ask", "Who may use company bikes?", "--json", env=environment)
    after = bikes("ask", "Who may use company bikes?", "--json")

    assert "Traceback" not in result.err
    assert result.code in {0, 4}
    if result.code == 4:
        assert [line.split(":")[0] for line in result.err.splitlines()] == ["error", "hint"]
        assert result.json["error"]["code"]
    else:
        assert result.json["answer_id"]
    assert after.code == 0, after.err
    assert after.json["citations"]


def test_waiting_for_the_start_lock_is_reported(bikes: Any) -> None:
    """A command that waits for another process reports its id, and continues when the lock is free."""
    with (bikes.home / "start.lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        waiting = bikes.start("collections", "--json")
        assert waiting.stderr is not None
        os.set_blocking(waiting.stderr.fileno(), False)
        told = _read_until(waiting, b"still waiting", 60)
        fcntl.flock(lock, fcntl.LOCK_UN)
    out, _ = waiting.communicate(timeout=60)

    assert f"process {os.getpid()}".encode() in told
    assert waiting.returncode == 0
    assert json.loads(out)["collections"]


def _read_until(process: subprocess.Popen[bytes], words: bytes, patience_s: float) -> bytes:
    """Read stderr until some words have come, or patience is over."""
    assert process.stderr is not None
    told, end = b"", time.monotonic() + patience_s
    while words not in told and time.monotonic() < end:
        told += process.stderr.read() or b""
        time.sleep(0.05)
    return told

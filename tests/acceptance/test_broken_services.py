"""Services that fail or block during a command."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.support.json_server import json_server


def chat_service(before_answer: Callable[[int], None]) -> AbstractContextManager[str]:
    """Run a chat service that calls a function with the number of each request before it answers."""
    calls = iter(range(1, 1_000))

    def respond(_: Any) -> Any:
        before_answer(next(calls))
        message = {"role": "assistant", "content": "company bikes [1]"}
        return {"choices": [{"message": message}], "usage": {}}

    return json_server(respond)


@pytest.fixture
def bikes(own: Any, tmp_path: Path) -> Any:
    """Return the command on a home with one document."""
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

    with chat_service(kill) as url:
        environment = {
            "WHENCE_WRITER": "openai:some-model",
            "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_API_KEY": "k",
        }
        result = bikes("ask", "Who may use company bikes?", "--json", env=environment)
    after = bikes("ask", "Who may use company bikes?", "--json")

    assert "Traceback" not in result.err
    assert result.code in {0, 4}
    if result.code == 4:
        result.assert_error(4)
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

"""Ctrl-C during `whence index`: what is stored stays, and the same command continues."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support.json_server import json_server

RECORDS = 1_500
#: The first finds the dimension, or the first two, when two claims begin at once. The others have 64 texts,
#: claims 128 passages, and two are under way: the eighth request at the latest follows stored vectors.
FREE_REQUESTS = 7


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

    def respond(self, request: Any) -> Any:
        """Return unit vectors."""
        self.requests += 1
        if self.requests > FREE_REQUESTS:
            self.stuck.set()
            self.released.wait(60)
        vector = [1.0, *[0.0] * 7]
        rows = [{"index": n, "embedding": vector} for n in range(len(request["input"]))]
        return {"data": rows, "model": "slow"}


@pytest.fixture
def embeddings(
    monkeypatch: pytest.MonkeyPatch, own: Any, tmp_path: Path
) -> Iterator[SlowEmbeddings]:
    """Run the service, and make the command use it and print stacks on SIGUSR2."""
    (tmp_path / "sitecustomize.py").write_text(DIAGNOSIS)
    service = SlowEmbeddings()
    with json_server(service.respond) as url:
        environment = own.environment(
            PYTHONFAULTHANDLER="1",
            PYTHONPATH=str(tmp_path),
            WHENCE_EMBEDDER="openai:slow",
            WHENCE_EMBEDDER_MAX_TOKENS="256",
            OPENAI_BASE_URL=f"{url}/v1",
            OPENAI_API_KEY="none",
        )
        monkeypatch.setattr(own, "environment", lambda **more: environment | more)
        yield service
        service.released.set()


def test_ctrl_c_keeps_stored_documents(
    own: Any, embeddings: SlowEmbeddings, tmp_path: Path
) -> None:
    """Exit 130 with an error and a hint; documents and vectors that are stored stay, none is made twice."""
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
    assert before[:2] == (RECORDS, RECORDS)
    assert 0 < before[2] < RECORDS
    assert again.code == 0, again.err
    assert again.json["documents"]["unchanged"] == RECORDS
    assert again.json["embedded"] == before[2]
    assert counts(own) == (RECORDS, RECORDS, 0)


def counts(cli: Any) -> tuple[int, int, int]:
    """Return the numbers of documents, chunks and chunks without vector that another process sees."""
    (one,) = cli("collections", "--json").json["collections"]
    return one["documents"], one["chunks"], one["pending"]

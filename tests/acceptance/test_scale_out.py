"""A fleet at the command line: one home, one broker, two processes and a gateway."""

from __future__ import annotations

import asyncio
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.fork_server import ForkServer
from tests.support.pulsar_broker import TestBroker

pytestmark = [
    pytest.mark.pulsar,
    pytest.mark.postgres,
    pytest.mark.models,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

QUESTION = "Who keeps the key of the archive?"
DOCUMENT = "# The archive\n\nThe key of the archive is kept by the porter. It opens at ten.\n"


class Shell:
    """Runs `whence` against one home and one namespace of a broker."""

    def __init__(self, broker: TestBroker, home: Path, loaded: ForkServer) -> None:
        self.loaded = loaded
        self.url = broker.url
        self.broker = broker
        self.environment = os.environ | broker.environment(broker.fresh_namespace())
        self.environment |= {"WHENCE_HOME": str(home), "WHENCE_RERANKER": "none"}
        self.started: list[subprocess.Popen[str]] = []

    def json(self, *words: str, code: int = 0) -> Any:
        """Run a command with `--json`; return its document."""
        done = self.loaded.run(
            ["whence", *words, "--json"],
            environment=self.environment,
            folder=Path.cwd(),
            timeout_s=120,
        )
        assert done.returncode == code, done.stderr
        assert b"Traceback" not in done.stderr
        return json.loads(done.stdout)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a server in the background."""
        command = [sys.executable, "-m", "whence.surfaces.cli.main", *words, "--broker", self.url]
        process = subprocess.Popen(command, env=self.environment, stderr=subprocess.PIPE, text=True)
        self.started.append(process)
        return process

    def ask_without_fleet(self) -> subprocess.Popen[str]:
        """Ask in the background in a namespace without a fleet, which takes until the client gives up."""
        environment = self.environment | self.broker.environment(self.broker.fresh_namespace())
        command = [sys.executable, "-m", "whence.surfaces.cli.main", "ask", QUESTION, "--json"]
        return subprocess.Popen(
            [*command, "--broker", self.url],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    @staticmethod
    def ready(process: subprocess.Popen[str]) -> str:
        """Wait until a server is ready; return the rest of its line."""
        assert process.stderr is not None
        end = time.monotonic() + 120
        while True:
            assert select.select([process.stderr], [], [], end - time.monotonic())[0]
            line = process.stderr.readline()
            assert line, "it ended before it was ready"
            if line.startswith("ready"):
                return line.removeprefix("ready").strip()

    def status(self) -> Any:
        """Return the status once all workers are reported."""
        for _ in range(10):
            status = self.json("status", "--broker", self.url)
            if sum(one["workers"] for one in status["topics"]) >= 8:
                break
        return status

    def send_rubbish(self) -> None:
        """Publish an invalid message to the embedding service."""

        async def publish() -> None:
            transport = self.broker.connect(self.environment["WHENCE_PULSAR_NAMESPACE"])
            await transport.publish("embedding.request", b"rubbish")
            await transport.aclose()

        asyncio.run(publish())

    def dead(self, count: int) -> list[dict[str, Any]]:
        """Wait for a number of dead letters, and return them."""
        for _ in range(20):
            document = self.json("dlq", "list", "embedding.request", "--broker", self.url)
            letters = [one for topic in document["topics"] for one in topic["messages"]]
            if len(letters) == count:
                break
            time.sleep(0.5)
        return letters

    def stop(self) -> list[int]:
        """Stop all processes; return their exit codes."""
        for process in self.started:
            process.terminate()
        return [process.wait(60) for process in self.started]


@pytest.fixture
def shell(pulsar_broker: TestBroker, tmp_path: Path, loaded: ForkServer) -> Iterator[Shell]:
    """Return a shell; its processes are killed afterwards."""
    made = Shell(pulsar_broker, tmp_path / "home", loaded)
    yield made
    for process in made.started:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def without_times(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that must be equal in two answers to one question."""
    stages = [
        {key: value for key, value in stage.items() if key != "duration_ms"}
        for stage in answer["stages"]
    ]
    # Of a client without a database, roots and the state of sources are not known.
    today = {"root", "changed", "document_date", "indexed_at"}
    quotes = [{k: v for k, v in one.items() if k not in today} for one in answer["citations"]]
    gone = {"answer_id", "latency_ms"}
    kept = {key: value for key, value in answer.items() if key not in gone}
    return kept | {"stages": stages, "citations": quotes}


def test_a_fleet_at_the_command_line(shell: Shell, tmp_path: Path) -> None:
    """A fleet in two parts indexes and answers as one process does, reports its state, and drains."""
    paper = tmp_path / "papers" / "archive.md"
    paper.parent.mkdir()
    paper.write_text(DOCUMENT, encoding="utf-8")
    broker = ("--broker", shell.url)
    alone = shell.ask_without_fleet()
    first = shell.start(
        "run", "all-in-one", "--only", "embedding,ingest,search,text-fetcher,prompt"
    )
    second = shell.start("run", "all-in-one", "--only", "document-rag,recorder,search")
    gateway = shell.start("serve", "--port", "0")
    for process in (first, second):
        shell.ready(process)

    indexed = shell.json("index", str(paper.parent), *broker)
    again = shell.json("index", str(paper.parent), *broker)
    there = shell.json("ask", QUESTION, *broker)
    here = shell.json("ask", QUESTION)
    url = shell.ready(gateway)
    served = httpx.post(f"{url}/v1/ask", json={"question": QUESTION}, timeout=60).json()
    hits = shell.json("search", "archive key", *broker)["hits"]
    status = shell.status()
    trace = shell.json("explain", there["answer_id"])
    shell.send_rubbish()
    given_up = shell.dead(1)
    shown = shell.json("dlq", "show", "embedding.request", *broker)
    replayed = shell.json("dlq", "replay", "embedding.request", *broker)
    again_given_up = shell.dead(1)
    dropped = shell.json("dlq", "drop", *broker)
    left = shell.dead(0)
    codes = shell.stop()
    out, _ = alone.communicate(timeout=60)
    early = json.loads(out)

    assert alone.returncode == 4
    assert early["error"]["code"] == "unavailable"
    assert "whence run" in early["error"]["hint"]
    assert (indexed["documents"]["added"], again["documents"]["unchanged"]) == (1, 1)
    assert without_times(there) == without_times(here)
    assert without_times(served) == without_times(here)
    assert "porter" in there["answer"]
    assert [hit["document_id"] for hit in hits] == ["archive.md"]
    assert trace["complete"]
    workers = {one["group"]: one["workers"] for one in status["topics"]}
    assert (workers["search"], workers["embedding"], workers["reranker"]) == (2, 1, 0)
    counts = {"collections": 1, "documents": 1, "chunks": indexed["chunks"]}
    assert counts.items() <= status["store"].items()
    assert given_up[0]["exception"] == "CodecError"
    assert (given_up[0]["attempts"], given_up[0]["group"]) == (1, "embedding")
    assert shown["topics"][0]["messages"][0]["payload"] == "rubbish"
    assert [topic["replayed"] for topic in replayed["topics"]] == [1]
    assert again_given_up[0]["id"] == given_up[0]["id"]
    assert sum(topic["dropped"] for topic in dropped["topics"]) == 1
    assert left == []
    assert codes == [0, 0, 0]

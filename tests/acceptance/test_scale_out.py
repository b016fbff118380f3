"""The commands of a fleet, as a user types them: one home, one broker, two processes."""

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

    def __init__(self, broker: TestBroker, home: Path) -> None:
        self.url = broker.url
        self.broker = broker
        self.environment = os.environ | broker.environment(broker.fresh_namespace())
        self.environment |= {"WHENCE_HOME": str(home), "WHENCE_RERANKER": "none"}
        self.started: list[subprocess.Popen[str]] = []

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "whence.cli.main", *words]

    def json(self, *words: str, code: int = 0) -> Any:
        """Run a command with `--json` and give its document."""
        command = self.command(*words, "--json")
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return json.loads(done.stdout)

    def start(self, *words: str) -> str:
        """Start a server and wait until it is ready; gives what it says then."""
        command = self.command(*words, "--broker", self.url)
        process = subprocess.Popen(command, env=self.environment, stderr=subprocess.PIPE, text=True)
        self.started.append(process)
        assert process.stderr is not None
        end = time.monotonic() + 120
        while True:
            assert select.select([process.stderr], [], [], end - time.monotonic())[0]
            line = process.stderr.readline()
            assert line, "it ended before it was ready"
            if line.startswith("ready"):
                return line.removeprefix("ready").strip()

    def run(self, only: str) -> None:
        """Start a part of the flow."""
        self.start("run", "all-in-one", "--only", only)

    def ask_the_gateway(self, question: str) -> Any:
        """Start a gateway to the fleet and give what it answers."""
        url = self.start("serve", "--port", "0")
        return httpx.post(f"{url}/v1/ask", json={"question": question}, timeout=60).json()

    def status(self) -> Any:
        """Give the status; on a busy machine a worker may be late to say that it is there."""
        for _ in range(10):
            status = self.json("status", "--broker", self.url)
            if sum(one["workers"] for one in status["topics"]) >= 8:
                break
        return status

    def send_rubbish(self) -> None:
        """Publish what is no message to the embedding service."""

        async def publish() -> None:
            transport = self.broker.connect(self.environment["WHENCE_PULSAR_NAMESPACE"])
            await transport.publish("embedding.request", b"rubbish")
            await transport.aclose()

        asyncio.run(publish())

    def dead(self, count: int) -> list[dict[str, Any]]:
        """Wait until so many messages were given up, and give them."""
        for _ in range(20):
            document = self.json("dlq", "list", "embedding.request", "--broker", self.url)
            letters = [one for topic in document["topics"] for one in topic["messages"]]
            if len(letters) == count:
                break
            time.sleep(0.5)
        return letters

    def stop(self) -> list[int]:
        """Ask all processes to drain; gives their exit codes."""
        for process in self.started:
            process.terminate()
        return [process.wait(60) for process in self.started]


@pytest.fixture
def shell(pulsar_broker: TestBroker, tmp_path: Path) -> Iterator[Shell]:
    """Give a shell; whatever it started is gone afterwards."""
    made = Shell(pulsar_broker, tmp_path / "home")
    yield made
    for process in made.started:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def without_times(answer: dict[str, Any]) -> dict[str, Any]:
    """Give what must be equal in two answers to one question."""
    stages = [
        {key: value for key, value in stage.items() if key != "duration_ms"}
        for stage in answer["stages"]
    ]
    gone = {"answer_id", "latency_ms"}
    return {key: value for key, value in answer.items() if key not in gone} | {"stages": stages}


def test_a_fleet_at_the_command_line(shell: Shell, tmp_path: Path) -> None:
    """Started in two parts it indexes and answers as one process does, tells its state, and drains."""
    paper = tmp_path / "papers" / "archive.md"
    paper.parent.mkdir()
    paper.write_text(DOCUMENT, encoding="utf-8")
    broker = ("--broker", shell.url)
    early = shell.json("ask", QUESTION, *broker, code=4)
    shell.run("embedding,ingest,search,text-fetcher,prompt")
    shell.run("document-rag,recorder,search")

    indexed = shell.json("index", str(paper.parent), *broker)
    again = shell.json("index", str(paper.parent), *broker)
    there = shell.json("ask", QUESTION, *broker)
    here = shell.json("ask", QUESTION)
    served = shell.ask_the_gateway(QUESTION)
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

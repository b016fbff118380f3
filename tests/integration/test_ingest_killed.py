"""Indexing that is killed repeatedly: what is stored is kept, and no passage is embedded twice."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(900)]

RECORDS = 2000
KILLS = 10

#: Indexes a file of records with an embedder that logs its texts. It writes the ids of the documents that have
#: vectors before it begins, and kills itself some time after a number of texts.
WORKER = """
import asyncio, json, os, signal, sys, threading
from pathlib import Path
from whence.surfaces.python.engine import Engine
from whence.testing.stub_models import HashEmbedder

home, corpus, log, kill_after, delay = sys.argv[1:]
out = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
kill = lambda: os.kill(os.getpid(), signal.SIGKILL)

class LoggingEmbedder(HashEmbedder):
    asked = 0
    async def embed(self, texts, purpose="query"):
        lines = "".join(text.partition("\\n")[0] + "\\n" for text in texts)
        os.write(out, lines.encode())
        self.asked += len(texts)
        if 0 < int(kill_after) <= self.asked:
            threading.Timer(float(delay), kill).start()
        return await super().embed(texts, purpose)

async def main():
    async with Engine(home=home, embedder=LoggingEmbedder(), only=("embedding", "ingest")) as engine:
        store = await engine._session.store()
        pending = await store.pending_documents("default")
        before = [one for one in await store.document_ids("default") if one not in pending]
        Path(log + ".before").write_text("\\n".join(before))
        report = await engine.index([corpus])
        info = await store.collection("default")
        counts = report.documents
        print(json.dumps({
            "added": counts.added, "updated": counts.updated, "unchanged": counts.unchanged,
            "embedded": report.embedded, "waiting": report.waiting, "documents": info.documents, "chunks": info.chunks,
        }))

asyncio.run(main())
"""


class Runs:
    """Workers on one home and one file of records."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.corpus = folder / "corpus.jsonl"
        self.number = 0
        with self.corpus.open("w") as lines:
            for number in range(RECORDS):
                record = {"_id": f"d{number}", "title": f"d{number}", "text": f"Words of {number}."}
                lines.write(json.dumps(record) + "\n")

    def start(self, kill_after: int = 0, delay: float = 0.0) -> subprocess.Popen[str]:
        """Start a worker; with `kill_after` 0 it is not killed."""
        self.number += 1
        words = (self.folder / "home", self.corpus, self.log(), kill_after, delay)
        return subprocess.Popen(
            [sys.executable, "-c", WORKER, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def log(self, number: int = 0) -> Path:
        """Return the log of a worker, by default of the last one."""
        return self.folder / f"run{number or self.number}.log"

    def embedded(self, number: int = 0) -> list[str]:
        """Return the ids of the documents a worker embedded."""
        return self.log(number).read_text().splitlines()

    def stored_before(self) -> list[str]:
        """Return the ids of the documents that had vectors when the last worker began."""
        return Path(f"{self.log()}.before").read_text().splitlines()


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    (tmp_path / "home").mkdir()
    return Runs(tmp_path)


def finished(worker: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = worker.communicate(timeout=600)
    assert worker.returncode == 0, err
    result: dict[str, Any] = json.loads(out)
    return result


def test_ten_kills_lose_nothing_and_embed_nothing_twice(runs: Runs) -> None:
    """Each run embeds only documents without vectors; at the end each is stored once, with its vector."""
    chance = random.Random(5)
    stored = 0
    for _ in range(KILLS):
        # Any point of a batch: while it is embedded, written, acknowledged, or while the next is read.
        kill_after = chance.randint(1, 2 * RECORDS // KILLS)
        worker = runs.start(kill_after, chance.uniform(0.0, 0.15))
        _, err = worker.communicate(timeout=600)
        before = runs.stored_before()

        assert worker.returncode in (-signal.SIGKILL, 0), err
        assert len(before) == len(set(before)) >= stored
        assert not set(before) & set(runs.embedded())
        assert len(runs.embedded()) == len(set(runs.embedded()))
        stored = len(before)
    last = finished(runs.start())
    before = runs.stored_before()

    assert last["embedded"] == len(runs.embedded()) == RECORDS - len(before)
    assert last["added"] + last["unchanged"] == RECORDS
    assert last["unchanged"] >= len(before)
    assert (last["updated"], last["waiting"]) == (0, 0)
    assert (last["documents"], last["chunks"]) == (RECORDS, RECORDS)
    assert stored > 0
    assert finished(runs.start())["unchanged"] == RECORDS


def test_two_runs_at_once_store_everything_once(runs: Runs) -> None:
    """Concurrent writers of one collection both succeed, and the result equals that of one."""
    both = [runs.start(), runs.start()]
    first, second = (finished(worker) for worker in both)
    again = finished(runs.start())

    for report in (first, second):
        assert report["added"] + report["updated"] + report["unchanged"] == RECORDS
    assert (again["unchanged"], again["embedded"]) == (RECORDS, 0)
    assert (again["documents"], again["chunks"]) == (RECORDS, RECORDS)

"""Words are searchable before vectors, whatever interrupts these; the encoder changes while searches go on."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.json_server import json_server

from whence.surfaces.python.engine import Engine
from whence.testing.stub_models import HashEmbedder

DOCUMENTS, PASSAGES = 40, 8
RIVERS = ("Danube", "Loire", "Oder", "Tagus", "Vistula")


class BlockingEmbeddings:
    """A server of vectors that answers some requests, and the others once it is released."""

    def __init__(self) -> None:
        # Two claims of 128 texts are under way, in requests of 64: of three answers two are of one claim.
        self.free = 3
        self.texts: list[str] = []
        self.stuck = threading.Event()
        self.released = threading.Event()

    def respond(self, request: Any) -> Any:
        """Return unit vectors."""
        texts = request["input"]
        # Probes and queries are short.
        if any(len(one) > 50 for one in texts):
            self.free -= 1
            if self.free < 0:
                self.stuck.set()
                self.released.wait(60)
            self.texts += texts
        rows = [{"index": n, "embedding": [1.0, *[0.0] * 7]} for n in range(len(texts))]
        return {"data": rows, "model": "blocking"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, served: Any) -> Iterator[BlockingEmbeddings]:
    """Run the server, and make the command use it."""
    service = BlockingEmbeddings()
    with json_server(service.respond) as url:
        environment = served.environment(
            WHENCE_EMBEDDER="openai:blocking",
            WHENCE_EMBEDDER_MAX_TOKENS="256",
            OPENAI_BASE_URL=f"{url}/v1",
            OPENAI_API_KEY="none",
        )
        monkeypatch.setattr(served, "environment", lambda **more: environment | more)
        yield service
        service.released.set()


@pytest.fixture
def rivers(tmp_path: Path) -> Path:
    """Write documents of several passages, of which no two are equal."""
    folder = tmp_path / "rivers"
    folder.mkdir()
    for number in range(DOCUMENTS):
        parts = (
            f"## Gauge {number}-{part}\n\n"
            + f"The {RIVERS[part % 5]} stood at {number * 100 + part} centimetres near the lock. "
            * 3
            for part in range(PASSAGES)
        )
        (folder / f"{number}.md").write_text(f"# Report {number}\n\n" + "\n\n".join(parts))
    return folder


def pending(found: Any) -> Any:
    """Return the notes of a search that passages wait for vectors."""
    return [one for one in found.json["degraded"] if one["code"] == "vectors_pending"]


def test_a_kill_leaves_words_and_the_next_index_continues(
    served: Any, server: BlockingEmbeddings, rivers: Path
) -> None:
    """After kill -9 words find everything, the share is stated, and no text is embedded again."""
    process = served.start("index", rivers, "--json")
    assert server.stuck.wait(60)
    found = served("search", "Danube 3905", "--mode", "bm25", "--json")
    assert found.json["hits"][0]["document_id"] == "39.md"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    embedded = len(server.texts)
    server.released.set()

    (note,) = pending(served("search", "Danube gauge", "--json"))
    status = served("status", "--json").json["store"]
    # What was embedded before may not be stored yet.
    assert 0 < status["waiting"] <= status["chunks"]
    done = status["chunks"] - status["waiting"]
    assert note["share"] == int(100 * done / status["chunks"]) / 100

    report = served("index", rivers, "--json").json
    assert report["documents"]["unchanged"] == DOCUMENTS
    assert (report["waiting"], report["embedded"]) == (0, status["waiting"])
    assert pending(served("search", "Danube gauge", "--json")) == []
    # At most what was under way when the process was killed was embedded twice.
    assert len(server.texts) - embedded <= status["waiting"] + 2 * 128
    assert served("index", rivers, "--json").json["embedded"] == 0


def test_index_need_not_wait(served: Any, rivers: Path) -> None:
    """With --no-wait words are there when it returns; a passage is found by words and the share is 0."""
    report = served("index", rivers, "--no-wait", "--json").json
    assert report["embedded"] == 0
    assert report["waiting"] == report["chunks"] > DOCUMENTS
    assert 0 < report["seconds_to_first_search"] <= report["seconds"]

    found = served("search", "Tagus gauge 17-3", "--json")
    assert found.code == 0
    assert [one["share"] for one in pending(found)] == [0.0]
    assert found.json["hits"][0]["document_id"] == "17.md"
    assert "without vectors" in served("status").out


def test_the_share_is_that_of_the_reader(served: Any, rivers: Path, tmp_path: Path) -> None:
    """Hidden passages that wait change nothing for a reader."""
    seen = tmp_path / "seen"
    seen.mkdir()
    (seen / "lake.md").write_text("# Lake\n\nThe lake is 40 metres deep.")
    served("index", seen)
    served("index", rivers, "--acl", "hydrology", "--no-wait")

    assert pending(served("search", "lake", "--json")) == []
    assert pending(served("search", "lake", "--acl", "hydrology", "--json")) != []


async def _index_with_stub(home: Path, folder: Path) -> None:
    async with Engine(home=home, embedder=HashEmbedder()) as engine:
        await engine.index([folder])


def test_a_collection_of_another_encoder(served: Any, handbook: Path, tmp_path: Path) -> None:
    """Words answer and new documents are taken, each note names `reembed`, and that makes it whole again."""
    asyncio.run(_index_with_stub(served.home, handbook))

    found = served("search", "days of leave", "--json")
    assert (found.code, [one["code"] for one in found.json["degraded"]]) == (0, ["encoder_differs"])
    assert "whence reembed" in found.json["degraded"][0]["reason"]
    assert found.json["hits"] != []
    assert "reembed" in served("ask", "How many days of leave do we get?").err
    assert "reembed" in served("search", "leave", "--mode", "dense").assert_error(4).err
    again = served("index", handbook, "--json")
    assert (again.code, again.json["documents"]["updated"]) == (0, 0)
    (tmp_path / "zebra.md").write_text("# Zebra\n\nThe zebra crossing costs 12 euros.")
    report = served("index", tmp_path / "zebra.md", "--json")
    assert (report.code, report.json["waiting"]) == (0, 1)
    assert "reembed" in report.json["waiting_reason"]
    best = served("search", "zebra crossing", "--json").json["hits"][0]
    assert best["document_id"] == "zebra.md"

    assert served("reembed", "--json").json["switched"] is True
    found = served("search", "zebra crossing", "--json").json
    assert found["degraded"] == []
    assert found["hits"][0]["score_breakdown"]["dense_score"] > 0.5


def test_encoders_are_compared_and_exchanged(served: Any, handbook: Path) -> None:
    """The comparison changes nothing, --promote and --back switch, and answers stay explainable."""
    served("index", handbook)
    answer = served("ask", "How many days of leave do we get?", "--json").json
    before = served("search", "days of leave", "--json").json["hits"]

    report = served("reembed", "--embedder", "local:float32", "--compare", "--json").json
    figures = report["comparison"]
    assert (report["switched"], report["waiting"]) == (False, 0)
    assert figures["questions"] > 50
    assert min(figures["used"]["found"], figures["new"]["found"]) > 0.8
    assert served("search", "days of leave", "--json").json["hits"] == before

    assert served("reembed", "--promote", "--json").json["switched"] is True
    promoted = served("search", "days of leave", "--json").json
    assert promoted["degraded"] == []
    assert promoted["hits"] != before
    assert served("explain", answer["answer_id"]).code == 0
    assert served("index", handbook, "--json").json["documents"]["updated"] == 0
    assert served("reembed", "--promote").assert_error(2).err
    assert served("reembed", "--back", "--json").json["switched"] is True
    assert served("search", "days of leave", "--json").json["hits"] == before


def test_a_missing_encoder_costs_no_former_vectors(
    served: Any, handbook: Path, tmp_path: Path
) -> None:
    """An encoder that is not installed changes nothing, also of the vectors that are kept for --back."""
    served("index", handbook)
    assert served("reembed", "--embedder", "local:float32", "--json").json["switched"] is True

    empty = {"WHENCE_MODELS": str(tmp_path)}
    missing = served("reembed", "--embedder", "bge-small-en-v1.5", env=empty).assert_error(4)
    assert "whence models install bge-small-en-v1.5" in missing.err
    assert served("reembed", "--back", "--json").json["switched"] is True
    assert served("search", "days of leave", "--json").json["degraded"] == []


def test_a_killed_reembed_is_continued(
    served: Any, server: BlockingEmbeddings, rivers: Path
) -> None:
    """Searches use the former vectors until all new ones are there; the next call embeds only the rest."""
    served("index", rivers, "--embedder", "local")
    process = served.start("reembed", "--json")
    assert server.stuck.wait(60)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    server.released.set()

    found = served("search", "Danube gauge", "--embedder", "local", "--json").json
    assert found["degraded"] == []
    assert found["calibration"]["encoder"] == "all-MiniLM-L6-v2"
    report = served("reembed", "--json").json
    assert 0 < report["embedded"] < report["passages"]
    assert (report["switched"], report["waiting"]) == (True, 0)

"""Measure what versions cost: the change log and former versions at indexing, and a question as of then.

    python -m benchmarks.bench_versions [--documents 1000] [--chunks 5] [--whole] [--json]

- Indexing: processor time of storing documents, the database included, to the same without log and history.
  New documents are logged; those that replace others are also kept. Embedding is not counted.
- With `--whole` only this: `Engine.index` of Markdown files with the local models, embedding included,
  to the same without log and history; the least of three rounds.
- Size: bytes of the log for each document, and of former versions for each chunk, to those of a stored chunk.
- As of: seconds until a version of all documents can be searched, and of one question on it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.cpu import cpu_s, parent
from whence.schema.access import Access
from whence.schema.embedding import EmbeddingModel
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.postgres import change_log, documents
from whence.store.postgres.server.server import EmbeddedServer
from whence.store.postgres.store import PostgresStore
from whence.store.protocols import EmbeddedDocument
from whence.surfaces.python.engine import Engine
from whence.testing.stub_models import HashEmbedder

#: As many as indexing sends in one message.
BATCH = 128
CODES = 3_000
WORDS = [f"{a}{b}" for a in "bcdfghjklmnpqrstvwxz" for b in ("arn", "ellow", "ine", "ost", "udge")]


def make_documents(
    number: int, chunks: int, edition: int, model: EmbeddingModel
) -> list[EmbeddedDocument]:
    """Return documents of some chunks of 100 words, other ones in each edition."""
    chance = random.Random(edition)
    rng = np.random.default_rng(edition)
    found = []
    for one in range(number):
        texts = [" ".join(chance.choices(WORDS, k=100)) for _ in range(chunks)]
        vectors = rng.normal(size=(chunks, model.dimension)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        draft = DocumentDraft(
            document_id=f"folder/document-{one:05}.md",
            title=f"Document {one}",
            digest=f"{edition:032}{one:032}",
            chunks=tuple(ChunkDraft(content=text) for text in texts),
        )
        codes = tuple(chance.randbytes(CODES) for _ in texts)
        found.append(EmbeddedDocument(draft=draft, vectors=vectors, token_codes=codes))
    return found


@contextlib.contextmanager
def without_versions() -> Any:
    """Write neither log nor history."""

    async def nothing(*_: Any) -> None:
        return None

    with (
        mock.patch.object(change_log, "log_replaced", nothing),
        mock.patch.object(documents, "prune_former", nothing),
    ):
        yield


@contextlib.asynccontextmanager
async def opened(home: Path) -> AsyncIterator[PostgresStore]:
    """Open a store on a home."""
    async with EmbeddedServer(home) as server, await PostgresStore.connect(server) as store:
        yield store


async def store_all(
    store: PostgresStore, name: str, editions: list[list[EmbeddedDocument]]
) -> list[float]:
    """Store editions one after the other; return the processor seconds of each."""
    await store.ensure_collection(name, HashEmbedder().model)
    async with store.pool.connection() as connection:
        postmaster = parent(connection.get_server_pid())
    taken = []
    for edition in editions:
        started = cpu_s(postmaster)
        for start in range(0, len(edition), BATCH):
            await store.replace_documents(name, edition[start : start + BATCH])
        await store.maintenance.wait()
        taken.append(cpu_s(postmaster) - started)
    return taken


async def sizes(store: PostgresStore) -> dict[str, int]:
    """Return the bytes of the log, of former versions and of the whole database."""
    found = await store.overview()
    parts = ("changes", "former_versions", "texts", "vectors", "token_vectors", "words", "links")
    return {part: found.parts.get(part, 0) for part in parts}


async def measure(number: int, chunks: int, folder: Path) -> dict[str, Any]:
    """Return all figures."""
    model = HashEmbedder().model
    editions = [make_documents(number, chunks, edition, model) for edition in range(2)]
    with_log: list[list[float]] = []
    without: list[list[float]] = []
    async with opened(folder / "home") as store:
        for round_ in range(2):
            with without_versions():
                without.append(await store_all(store, f"without-{round_}", editions))
            with_log.append(await store_all(store, f"with-{round_}", editions))
        size = await sizes(store)
        moment = datetime.now(UTC)
        version = await store.collection_version("with-0")
        first = version - (number + BATCH - 1) // BATCH
        started = time.perf_counter()
        await store.store_at("with-0", Access.public(), first, moment)
        load_s = time.perf_counter() - started
        changed = (await store.changes("with-0", Access.public(), after=first - 1))[0].changed_at
    best = [[min(round_[n] for round_ in rounds) for n in (0, 1)] for rounds in (with_log, without)]
    async with Engine(home=folder / "home", embedder=HashEmbedder(), reranker="none") as engine:
        question = "What about " + " ".join(WORDS[:4]) + "?"
        await engine.ask(question, collection="with-0")
        started = time.perf_counter()
        await engine.ask(question, collection="with-0")
        now_s = time.perf_counter() - started
        as_of = (datetime.fromisoformat(changed) + timedelta(microseconds=1)).isoformat()
        started = time.perf_counter()
        await engine.ask(question, collection="with-0", as_of=as_of)
        as_of_s = time.perf_counter() - started
    live = sum(size[part] for part in ("texts", "vectors", "token_vectors", "words", "links"))
    return {
        "passages": number * chunks,
        "storing ms per chunk": round(best[1][1] / (number * chunks) * 1e3, 3),
        "history ms per chunk": round((best[0][1] - best[1][1]) / (number * chunks) * 1e3, 3),
        "indexing new": round(best[0][0] / best[1][0], 3),
        "indexing replaced": round(best[0][1] / best[1][1], 3),
        "log bytes per entry": round(size["changes"] / (4 * number)),
        "former bytes per chunk": round(size["former_versions"] / (2 * number * chunks)),
        "stored bytes per chunk": round(live / (4 * number * chunks)),
        "version read s": round(load_s, 2),
        "question s": round(now_s, 2),
        "question as of s": round(as_of_s, 2),
    }


def write_files(folder: Path, number: int, chunks: int, edition: int) -> None:
    """Write documents of some sections of 100 words, other ones in each edition."""
    chance = random.Random(edition)
    for one in range(number):
        sections = [
            f"## Part {part}\n\n{' '.join(chance.choices(WORDS, k=100))}.\n"
            for part in range(chunks)
        ]
        (folder / f"{one:05}.md").write_text(f"# Document {one}\n\n" + "\n".join(sections))


async def measure_whole(number: int, chunks: int, folder: Path) -> dict[str, Any]:
    """Return the ratios of indexing as a whole."""
    docs = folder / "docs"
    docs.mkdir()
    taken: dict[str, list[list[float]]] = {"with": [], "without": []}
    passages = 0
    async with Engine(home=folder / "home", warm_up="questions") as engine:
        store = await engine._session.store()
        assert isinstance(store, PostgresStore)
        async with store.pool.connection() as connection:
            postmaster = parent(connection.get_server_pid())
        for round_ in range(3):
            for kind in ("with", "without") if round_ % 2 else ("without", "with"):
                taken[kind].append([])
                for edition in range(2):
                    write_files(docs, number, chunks, 10 * round_ + edition)
                    with contextlib.nullcontext() if kind == "with" else without_versions():
                        started = cpu_s(postmaster)
                        report = await engine.index([docs], collection=f"{kind}-{round_}")
                        await store.maintenance.wait()
                        taken[kind][-1].append(cpu_s(postmaster) - started)
                    passages = report.chunks
    best = {kind: [min(one[n] for one in of) for n in (0, 1)] for kind, of in taken.items()}
    return {
        "passages": passages,
        "indexing s per 1,000": round(best["without"][0] / passages * 1e3, 2),
        "whole indexing new": round(best["with"][0] / best["without"][0], 3),
        "whole indexing replaced": round(best["with"][1] / best["without"][1], 3),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--chunks", type=int, default=5)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    measured = measure_whole if options.whole else measure
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(measured(options.documents, options.chunks, Path(folder)))
    if options.json:
        sys.stdout.write(json.dumps(found) + "\n")
        return
    for name, value in found.items():
        sys.stdout.write(f"{name:24} {value}\n")


if __name__ == "__main__":
    main()
